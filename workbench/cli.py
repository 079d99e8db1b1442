"""The console command `workbench`: `lab` opens JupyterLab on a copy of the lessons, `run` runs a PyTorch program on the engine."""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

FOLDER = "gradient-workbench-lessons"
QUIET = Path(__file__).resolve().parent / "jupyter" / "quiet"  # no news prompt, and no network request for news


class Refusal(Exception):
    """A request that cannot be met; its text is a sentence for the person at the terminal."""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status of the process."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["run"] and argv[1:2] not in ([], ["-h"], ["--help"]):  # all that follows belongs to the program
        from .running import run

        return run(argv[1:])
    split = argv.index("--") if "--" in argv else len(argv)
    options = parser().parse_args(argv[:split])
    try:
        return lab(options, argv[split + 1 :])
    except Refusal as refusal:
        print(f"workbench: {refusal}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The command-line parser."""
    top = argparse.ArgumentParser(prog="workbench", description="See, step and understand the gradients of a notebook.")
    top.add_argument("--version", action="version", version=f"gradient-workbench {metadata.version('gradient-workbench')}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "lab",
        help="copy the lessons into a folder and open JupyterLab on the first one",
        epilog="Arguments after -- are passed to JupyterLab: workbench lab --no-browser -- --ServerApp.base_url=/user/me/",
    )
    one.add_argument("dir", nargs="?", type=Path, metavar="DIR", help=f"the folder (default: this one if it is empty, else ./{FOLDER})")
    one.add_argument("--no-browser", action="store_true", help="start the server only, and print its address")
    one.add_argument("--port", type=port, help="the port to listen on (default: the first free one from 8888)")
    one.add_argument("--ip", help="the address to listen on (default: localhost)")
    two = commands.add_parser(
        "run",
        usage="workbench run SCRIPT.py [ARGUMENTS]\n       workbench run -m MODULE [ARGUMENTS]",
        help="run a program written for PyTorch on the engine: `import torch` gives the engine there",
        epilog="Everything behind SCRIPT.py or MODULE is the program's own.",
    )
    two.add_argument("program", metavar="SCRIPT.py", help="the file, or -m and the name of a module, to run as `python` would run it")
    return top


def port(text: str) -> int:
    """Parse a TCP port number."""
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {text!r}")
    return int(text)


def lab(options: argparse.Namespace, further: list[str]) -> int:
    """Run `workbench lab`; returns when JupyterLab has been shut down."""
    source = lessons_folder()
    first = first_lesson(source)
    folder = (options.dir or default_folder(first)).expanduser().resolve()
    copy_lessons(source, folder)
    arguments = [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url=/lab/tree/{quote(first)}"]
    if options.no_browser:
        arguments.append("--no-browser")
    if options.port is not None:
        arguments += [f"--ServerApp.port={options.port}", "--ServerApp.port_retries=0"]
    if options.ip is not None:
        arguments.append(f"--ServerApp.ip={options.ip}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container root is often the only user there is
        print("workbench: running as root: what a notebook does, root does")
        arguments.append("--allow-root")
    serve(arguments + further)
    return 0


def serve(arguments: list[str]) -> None:
    """Run JupyterLab in this process, so that signals reach it, until it is shut down."""
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, [str(QUIET), os.environ.get("JUPYTER_CONFIG_PATH")]))
    from jupyterlab.labapp import LabApp

    LabApp.launch_instance(arguments)


def default_folder(first: str) -> Path:
    """The current folder if it is empty or has the lessons, else a subfolder for them."""
    here = Path.cwd()
    return here if (here / first).exists() or not any(here.iterdir()) else here / FOLDER


def first_lesson(source: Path) -> str:
    """The name of the notebook to open."""
    notebooks = sorted(path.name for path in source.glob("*.ipynb"))
    if not notebooks:
        raise Refusal(f"there is no lesson in {source}; install gradient-workbench again")
    return notebooks[0]


def copy_lessons(source: Path, folder: Path) -> None:
    """Copy every lesson file that `folder` does not have yet, without the instructor's notes. Existing files are kept."""
    if folder.exists() and not folder.is_dir():
        raise Refusal(f"{folder} is a file; name a folder for the lessons")
    try:
        for file in files(source):
            if file.parent.name == "instructor":
                continue
            target = folder / file.relative_to(source)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            elif not filecmp.cmp(file, target, shallow=False):
                print(f"workbench: kept your {target}; it differs from the lesson as shipped. Rename it to get that one too.")
    except OSError as error:
        raise Refusal(f"the lessons cannot be copied into {folder}: {error}") from error


def lessons_folder() -> Path:
    """The folder of the lessons: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "lessons", package.parent / "notebooks"):
        if folder.is_dir():
            return folder
    raise Refusal("the lessons are missing from this installation; install gradient-workbench again")


def files(folder: Path) -> Iterator[Path]:
    """Every file under `folder` that is not hidden or a cache."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith((".", "__")) for part in path.relative_to(folder).parts):
            yield path


if __name__ == "__main__":
    sys.exit(main())
