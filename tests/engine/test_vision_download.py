"""`download=True`: from a server of the test's own. Resumed, checked, and never without being asked."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from test_vision_data import idx

from engine.vision import datasets as D
from engine.vision.datasets import download


class Published:
    """Files that a server has, what was asked of it, and how many bytes of an answer it sends before it hangs up."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.cut: int | None = None
        self.url = ""

    def md5(self, name: str) -> str:
        return hashlib.md5(self.files[name]).hexdigest()


@pytest.fixture
def published() -> Iterator[Published]:
    """A server on this machine that answers requests for a part of a file."""
    there = Published()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, wanted = self.path.lstrip("/"), self.headers["Range"]
            there.asked.append((name, wanted))
            if name not in there.files:
                return self.send_error(404)
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            content = there.files[name]
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:][: there.cut])
            return None

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield there
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def mnist(published, monkeypatch):
    """A small MNIST, published; its images."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    for part in ("train", "t10k"):
        published.files[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(idx(images), mtime=0)
        published.files[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(idx(np.arange(5, dtype=np.uint8)), mtime=0)
    monkeypatch.setattr(D.MNIST, "mirrors", [published.url])
    monkeypatch.setattr(D.MNIST, "resources", [(name, published.md5(name)) for name in published.files])
    return images


def test_missing_files_are_downloaded_once_and_only_if_asked(published, mnist, tmp_path):
    with pytest.raises(RuntimeError, match="download=True downloads them"):
        D.MNIST(tmp_path)
    assert published.asked == []
    made = D.MNIST(tmp_path, download=True)
    assert np.array_equal(made.data.numpy(), mnist) and made.targets.tolist() == [0, 1, 2, 3, 4]
    assert sorted(name for name, _ in published.asked) == sorted(published.files)
    assert len(D.MNIST(tmp_path, train=False, download=True)) == len(D.MNIST(tmp_path)) == 5
    assert len(published.asked) == 4 and not list(tmp_path.rglob("*.part"))


def test_the_next_mirror_is_asked(published, mnist, tmp_path, monkeypatch):
    monkeypatch.setattr(D.MNIST, "mirrors", [published.url + "moved/", published.url])
    assert len(D.MNIST(tmp_path, download=True)) == 5
    assert [name for name, _ in published.asked[:2]] == ["moved/train-images-idx3-ubyte.gz", "train-images-idx3-ubyte.gz"]


def test_a_download_that_was_cut_off_is_resumed(published, tmp_path):
    published.files["data.bin"] = bytes(range(256)) * 40
    published.cut = 1000
    with pytest.raises(
        RuntimeError, match=r"data\.bin could not be downloaded\..*\n.*data\.bin: .*(1,000 of 10,240|IncompleteRead|1000 bytes)"
    ):
        download.fetch([published.url + "data.bin"], tmp_path / "data.bin", published.md5("data.bin"))
    assert not (tmp_path / "data.bin").exists() and (tmp_path / "data.bin.part").stat().st_size == 1000
    published.cut = None
    download.fetch([published.url + "data.bin"], tmp_path / "data.bin", published.md5("data.bin"))
    assert (tmp_path / "data.bin").read_bytes() == published.files["data.bin"]
    assert published.asked[-1] == ("data.bin", "bytes=1000-")
    (tmp_path / "data.bin").rename(tmp_path / "data.bin.part")  # stopped after the last byte
    download.fetch([published.url + "data.bin"], tmp_path / "data.bin", published.md5("data.bin"))
    assert (tmp_path / "data.bin").read_bytes() == published.files["data.bin"]


def test_a_file_that_is_not_the_published_one_is_deleted(published, tmp_path):
    published.files["data.bin"] = b"something else"
    with pytest.raises(RuntimeError, match=f"expected a file with MD5 {'0' * 32}, got {published.md5('data.bin')}. It was deleted"):
        download.fetch([published.url + "data.bin"], tmp_path / "data.bin", "0" * 32)
    assert not list(tmp_path.iterdir())


def test_without_a_network_the_error_says_where_the_file_belongs(tmp_path, monkeypatch):
    monkeypatch.setattr(D.MNIST, "mirrors", ["http://127.0.0.1:9/"])  # nothing listens there
    with pytest.raises(
        RuntimeError, match=r"Put it at .*MNIST/raw/train-images-idx3-ubyte\.gz yourself.*\nhttp://127\.0\.0\.1:9/.*refused"
    ):
        D.MNIST(tmp_path, download=True)


def tar_of(**files: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def test_an_archive_is_unpacked_into_its_own_folder_only(published, tmp_path, monkeypatch):
    images = np.arange(2 * 2352, dtype=np.uint8).reshape(1, -1)
    published.files["stl.tar.gz"] = tar_of(**{
        "stl10_binary/train_X.bin": np.resize(images, 3 * 96 * 96).tobytes(), "stl10_binary/train_y.bin": b"\3",
        "stl10_binary/class_names.txt": b"airplane\nbird\ncar\n", "stl10_binary/../../outside.txt": b"x", "/etc/outside.txt": b"x", "outside.txt": b"x",
    })  # fmt: skip
    monkeypatch.setattr(D.STL10, "url", published.url + "stl.tar.gz")
    monkeypatch.setattr(D.STL10, "tgz_md5", published.md5("stl.tar.gz"))
    root = tmp_path / "root"
    assert D.STL10(root, download=True)[0][1] == 2
    assert not list(tmp_path.rglob("outside.txt")) and len(D.STL10(root, download=True)) == 1 and len(published.asked) == 1


def test_emnist_is_unpacked_from_its_archive(published, tmp_path, monkeypatch):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for part in ("train", "test"):
            archive.writestr(f"gzip/emnist-letters-{part}-images-idx3-ubyte.gz", gzip.compress(idx(np.zeros((3, 28, 28), np.uint8))))
            archive.writestr(f"gzip/emnist-letters-{part}-labels-idx1-ubyte.gz", gzip.compress(idx(np.array([1, 2, 3], np.uint8))))
    published.files["gzip.zip"] = made.getvalue()
    monkeypatch.setattr(D.EMNIST, "url", published.url + "gzip.zip")
    monkeypatch.setattr(D.EMNIST, "md5", published.md5("gzip.zip"))
    assert D.EMNIST(tmp_path, "letters", train=False, download=True).targets.tolist() == [1, 2, 3]


def test_svhn_is_one_file_for_each_split(published, tmp_path, monkeypatch):
    from scipy.io import savemat

    made = io.BytesIO()
    savemat(made, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[10], [3]], np.uint8)})
    published.files["test_32x32.mat"] = made.getvalue()
    address = [published.url + "test_32x32.mat", "test_32x32.mat", published.md5("test_32x32.mat")]
    monkeypatch.setitem(D.SVHN.split_list, "test", address)
    assert D.SVHN(tmp_path, "test", download=True).labels.tolist() == [0, 3]
