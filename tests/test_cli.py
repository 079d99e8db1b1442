"""The console command: which folder it takes, what it copies, and what it hands to JupyterLab."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import serving
from workbench import cli


@pytest.fixture
def lessons(tmp_path, monkeypatch) -> Path:
    """Two lessons and a picture, in place of the real ones."""
    source = tmp_path / "lessons"
    (source / "pictures").mkdir(parents=True)
    (source / "01_digits.ipynb").write_text("one")
    (source / "02_more.ipynb").write_text("two")
    (source / "pictures" / "graph.svg").write_text("<svg/>")
    (source / ".ipynb_checkpoints").mkdir()
    (source / ".ipynb_checkpoints" / "01_digits.ipynb").write_text("old")
    monkeypatch.setattr(cli, "lessons_folder", lambda: source)
    return source


@pytest.fixture
def served(monkeypatch) -> list[list[str]]:
    """What JupyterLab would have been started with."""
    calls: list[list[str]] = []
    monkeypatch.setattr(cli, "serve", calls.append)
    return calls


def test_lessons_are_copied_and_the_first_is_opened(lessons, served, tmp_path):
    folder = tmp_path / "new" / "folder"
    assert cli.main(["lab", str(folder), "--no-browser", "--port", "9001", "--ip", "0.0.0.0", "--", "--ServerApp.base_url=/me/"]) == 0
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        "01_digits.ipynb",
        "02_more.ipynb",
        "pictures/graph.svg",
    ]
    (arguments,) = served
    assert f"--ServerApp.root_dir={folder}" in arguments
    assert "--LabApp.default_url=/lab/tree/01_digits.ipynb" in arguments
    assert "--no-browser" in arguments
    assert "--ServerApp.port=9001" in arguments
    assert "--ServerApp.ip=0.0.0.0" in arguments
    assert arguments[-1] == "--ServerApp.base_url=/me/"


def test_empty_folder_is_taken_again_and_a_full_one_is_left_alone(lessons, served, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    cli.main(["lab"])
    cli.main(["lab"])
    assert (here / "01_digits.ipynb").exists()
    assert not (here / cli.FOLDER).exists()

    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "thesis.tex").write_text("")
    monkeypatch.chdir(busy)
    cli.main(["lab"])
    assert sorted(path.name for path in busy.iterdir()) == sorted(["thesis.tex", cli.FOLDER])
    assert (busy / cli.FOLDER / "01_digits.ipynb").exists()


def test_a_changed_lesson_is_kept_and_named(lessons, served, tmp_path, capsys):
    folder = tmp_path / "mine"
    cli.main(["lab", str(folder)])
    (folder / "01_digits.ipynb").write_text("my own work")
    (folder / "02_more.ipynb").unlink()
    capsys.readouterr()
    assert cli.main(["lab", str(folder)]) == 0
    assert (folder / "01_digits.ipynb").read_text() == "my own work"
    assert (folder / "02_more.ipynb").read_text() == "two"
    said = capsys.readouterr().out
    assert "kept your" in said and "01_digits.ipynb" in said and "02_more" not in said


def test_refusals_are_sentences(lessons, served, tmp_path, capsys, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    assert cli.main(["lab", str(file)]) == 1
    assert capsys.readouterr().err == f"workbench: {file} is a file; name a folder for the lessons\n"
    monkeypatch.setattr(cli, "lessons_folder", lambda: tmp_path / "nothing")
    assert cli.main(["lab", str(tmp_path / "new")]) == 1
    assert "there is no lesson in" in capsys.readouterr().err
    assert served == []


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1"])
def test_port_is_checked(port, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["lab", f"--port={port}"])
    assert end.value.code == 2
    assert "a port is a number from 1 to 65535" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"gradient-workbench {metadata.version('gradient-workbench')}\n"


def test_importing_the_command_is_quick():
    """Neither arrays nor Jupyter are loaded to print a help text."""
    code = "import sys, workbench.cli; print(sorted({'numpy', 'matplotlib', 'jupyterlab', 'IPython'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.slow
def test_real_server_opens_the_first_lesson(tmp_path):
    """The command in an empty folder: the lesson is there, the server answers, and its first page is the lesson."""
    first = cli.first_lesson(cli.lessons_folder())
    server = serving.start([sys.executable, "-m", "workbench.cli", "lab", "--no-browser", "--"], tmp_path)
    try:
        assert (server.root / first).exists()
        address, page = server.open("/")
        assert address == f"{server.url}/lab/tree/{first}"
        config = json.loads(re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page.decode(), re.DOTALL)[1])
        assert "gradient-workbench" in [extension["name"] for extension in config["federated_extensions"]]
        assert "@jupyterlab/apputils-extension:announcements" in config["disabledExtensions"]
    finally:
        server.stop()


def test_cluster_refuses_before_anything_starts(capsys, monkeypatch, tmp_path):
    from engine.distributed import run

    monkeypatch.setattr(run.subprocess, "Popen", None)
    (tmp_path / "x.py").touch()
    for arguments, said in (
        ([], "RANKS, SCRIPT.py"),
        (["2"], "RANKS, SCRIPT.py"),
        (["2", "-m"], "RANKS, SCRIPT.py"),
        (["0", "x.py"], "RANKS is at least 1"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(["cluster", *arguments])
        assert ended.value.code == 2 and said in capsys.readouterr().err
    for arguments, said in (
        (["2", "none.py"], "there is no file 'none.py'"),
        (["a:x", str(tmp_path / "x.py")], "--hosts: expected machines"),
    ):
        assert cli.main(["cluster", *arguments]) == 2 and said in capsys.readouterr().err
