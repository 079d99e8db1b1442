"""`hub`: weights from the local cache, models from a folder's hubconf.py, and no connection ever."""

from __future__ import annotations

import hashlib
import importlib
import sys

import pytest

import engine
from engine import hub

URL = "https://example.org/models/"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(hub, "_dir", None)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


def test_where_the_cache_is(cache, tmp_path, monkeypatch):
    assert hub.get_dir() == str(tmp_path / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert hub.get_dir() == str(tmp_path / "xdg" / "torch" / "hub")
    hub.set_dir(tmp_path / "mine")
    assert hub.get_dir() == str(tmp_path / "mine")


def test_weights_come_from_the_cache(cache, tmp_path):
    weights = {"weight": engine.randn(2, 3)}
    engine.save(weights, cache / "net.pth")
    found = hub.load_state_dict_from_url(URL + "net.pth?download=1", map_location="cpu", progress=False)
    assert engine.equal(found["weight"], weights["weight"])
    (tmp_path / "other").mkdir()
    engine.save(weights, tmp_path / "other" / "named.pth")
    assert "weight" in hub.load_state_dict_from_url(URL + "net.pth", model_dir=str(tmp_path / "other"), file_name="named.pth")
    found = hub.load_state_dict_from_url((tmp_path / "other" / "named.pth").as_uri(), file_name="copied.pth")
    assert engine.equal(found["weight"], weights["weight"]) and (cache / "copied.pth").is_file()
    with pytest.raises(FileNotFoundError, match=r"nothing is downloaded here\. Put the file that .*absent\.pth gives at .*checkpoints"):
        hub.load_state_dict_from_url(URL + "absent.pth")
    with pytest.raises(RuntimeError, match="nothing is downloaded here"):
        hub.download_url_to_file(URL + "net.pth", str(tmp_path / "x"))


def test_a_files_hash_is_compared_with_its_name(cache):
    engine.save({"a": engine.ones(1)}, cache / "net.pth")
    digest = hashlib.sha256((cache / "net.pth").read_bytes()).hexdigest()
    (cache / "net.pth").rename(cache / f"net-{digest[:8]}.pth")
    assert "a" in hub.load_state_dict_from_url(f"{URL}net-{digest[:8]}.pth", check_hash=True)
    (cache / f"net-{digest[:8]}.pth").rename(cache / "net-00000000.pth")
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "00000000"'):
        hub.load_state_dict_from_url(URL + "net-00000000.pth", check_hash=True)


CONF = '''
dependencies = ["numpy"]
import beside
def small(width=2, *, bias=True):
    """A small net."""
    return ("net", width, bias, beside.word)
def _hidden():
    pass
'''


def test_models_come_from_a_folder(cache, tmp_path):
    folder = tmp_path / "hub" / "me_nets_main"
    folder.mkdir()
    (folder / "hubconf.py").write_text(CONF)
    (folder / "beside.py").write_text("word = 'beside'\n")
    assert hub.load(str(folder), "small", 3, source="local", bias=False) == ("net", 3, False, "beside")
    assert hub.load("me/nets", "small", trust_repo=True) == ("net", 2, True, "beside")
    assert hub.list("me/nets") == ["small"] and hub.help(str(folder), "small", source="local") == "A small net."
    with pytest.raises(RuntimeError, match="Cannot find callable large in hubconf"):
        hub.load("me/nets:main", "large")
    with pytest.raises(FileNotFoundError, match="nothing is downloaded here"):
        hub.load("me/others", "small")
    with pytest.raises(ValueError, match='Unknown source: "web"'):
        hub.load("me/nets", "small", source="web")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_library']\ndef small():\n    pass\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_library"):
        hub.load("me/nets", "small")


def test_a_model_may_import_from_its_folder_while_it_is_made(tmp_path, monkeypatch):
    (tmp_path / "hubconf.py").write_text("def late(n):\n    import parts_of_late\n    return parts_of_late.twice(n)\n")
    (tmp_path / "parts_of_late.py").write_text("def twice(n):\n    return 2 * n\n")
    monkeypatch.delitem(sys.modules, "parts_of_late", raising=False)
    assert engine.hub.load(str(tmp_path), "late", 3, source="local") == 6
    assert str(tmp_path) not in sys.path
    sys.modules.pop("parts_of_late")


def test_bar_of_progress(monkeypatch, capsys):
    """`from torch.hub import tqdm`, with the library and without it."""
    with engine.install_as_torch():
        from torch.hub import tqdm  # type: ignore[attr-defined]
    assert tqdm.__module__.startswith("tqdm") and list(tqdm(range(3), disable=True)) == [0, 1, 2]
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.delitem(sys.modules, "engine.hub")
    monkeypatch.setattr(engine, "hub", hub)  # put back afterwards
    alone = importlib.import_module("engine.hub").tqdm
    with alone(total=8) as bar:
        bar.update(2)
    assert capsys.readouterr().err == "\r25.0%\n"
    with pytest.raises(TypeError, match="install tqdm"):
        list(alone(range(3)))
