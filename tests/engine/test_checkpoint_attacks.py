"""Checkpoints of a few bytes that would take forever, or reach a library, if what they hold were printed, iterated or believed."""

from __future__ import annotations

import collections
import enum
import fractions
import io
import struct
import sys
import time
import types
import zipfile

import numpy
import pytest

import engine
from engine.serialize import CheckpointError, load, save


class Colour(enum.Enum):
    RED = 1


def packed(text: bytes) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in (("data.pkl", b"\x80\x02" + text + b"."), ("data/0", bytes(48)), ("data/1", bytes(48))):
            z.writestr(f"archive/{name}", data)
    out.seek(0)
    return out


def text(s: str) -> bytes:
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def number(n: int) -> bytes:
    size = (n.bit_length() + 8) // 8
    return b"\x8a" + bytes([size]) + n.to_bytes(size, "little", signed=True)


def storage(kind: str, n: int, key: str = "0") -> bytes:
    return b"(" + text("storage") + f"ctorch\n{kind}Storage\n".encode() + text(key) + text("cpu") + number(n) + b"tQ"


def tensor(memory: bytes, size: bytes, stride: bytes, more: bytes = b"") -> bytes:
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + memory + b"K\x00" + size + stride + b"\x89ccollections\nOrderedDict\n)R" + more + b"tR"


PAIRS = b")" + b"q\x00h\x00\x86" * 60  # a pair of pairs of pairs ...: 2**60 words when it is printed, hashed or walked through
COO = b"ctorch.serialization\n_get_layout\n" + text("torch.sparse_coo") + b"\x85R"
WIDE = number(1 << 36)
ALWAYS = {
    "a reference": PAIRS + b"Q", "a class of a storage": b"(" + text("storage") + PAIRS + text("0") + text("cpu") + b"K\x0ctQ",
    "a size": tensor(storage("Float", 12), PAIRS, b"K\x01\x85"), "what is called": PAIRS + b")R", "what is made": PAIRS + b")\x81",
    "a factory": b"ccollections\ndefaultdict\n" + PAIRS + b"\x85R", "a device": b"ctorch\ndevice\n" + PAIRS + b"\x85R",
    "a layout": b"ctorch.serialization\n_get_layout\n" + PAIRS + b"\x85R", "an encoding": b"c_codecs\nencode\n" + text("a") + PAIRS + b"\x86R",
    "a function of a tensor": b"ctorch._tensor\n_rebuild_from_type_v2\n(" + PAIRS + b"NNNtR",
    "a layout of a sparse tensor": b"ctorch._utils\n_rebuild_sparse_tensor\n" + PAIRS + b")\x86R",
    "an attribute": b"cbuiltins\ngetattr\n" + PAIRS + PAIRS + b"\x86R",
    "a size of a sparse tensor": b"ctorch._utils\n_rebuild_sparse_tensor\n" + COO + b"("
    + tensor(storage("Long", 6), b"K\x01K\x01\x86", b"K\x00K\x00\x86") + tensor(storage("Float", 12, "1"), b"K\x01\x85", b"K\x00\x85") + PAIRS + b"t\x86R",
    "places of one number": b"ctorch._utils\n_rebuild_sparse_tensor\n" + COO + b"(" + tensor(storage("Long", 6), b"K\x01" + WIDE + b"\x86", b"K\x00K\x00\x86")
    + tensor(storage("Float", 12, "1"), WIDE + b"\x85", b"K\x00\x85") + b"K\x05\x85t\x86R",
}  # fmt: skip
TRUSTED = {
    "a set of a range": b"cbuiltins\nset\ncbuiltins\nrange\n" + WIDE + b"\x85R\x85R",
    "a size of a range": b"ctorch\nSize\ncbuiltins\nrange\n" + WIDE + b"\x85R\x85R",
    "a queue of a range": b"ccollections\ndeque\ncbuiltins\nrange\n" + WIDE + b"\x85R\x85R",
    "a fraction to be computed": b"cfractions\nFraction\n" + text("1e100000000") + b"\x85R",
    "a path of pairs": b"cpathlib\nPosixPath\n" + PAIRS + b"\x85R",
    "a member of pairs": b"ctest_checkpoint_attacks\nColour\n" + PAIRS + b"\x85R",
    "bytes that are a number": b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n" + text("f4") + b"\x85R" + WIDE + b"\x86R",
    "a buffer that is a number": b"cnumpy.core.numeric\n_frombuffer\n(" + WIDE + b"cnumpy\ndtype\n" + text("u1") + b"\x85R" + WIDE + b"\x85" + text("C") + b"tR",
    "a state of a partial": b"cfunctools\npartial\ncengine.nn.linear\nLinear\n\x85R(" + PAIRS + b")}Ntb",
}  # fmt: skip


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("what", ALWAYS | TRUSTED)
def test_refused_at_once(what, weights_only):
    began = time.process_time()
    with pytest.raises(CheckpointError):
        load(packed((ALWAYS | TRUSTED)[what]), weights_only=weights_only)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(("name", "kind", "n"), [("conj", "ComplexFloat", 6), ("neg", "Float", 12)])
def test_one_number_seen_many_times(name, kind, n):
    """Conjugates and negatives are computed of the numbers that there are, not of every place where they are seen."""
    began = time.process_time()
    found = load(packed(tensor(storage(kind, n), WIDE + b"\x85", b"K\x00\x85", b"}" + text(name) + b"\x88s")))
    assert found.shape == (1 << 36,) and found.stride() == (0,) and time.process_time() - began < 2


@pytest.mark.parametrize("folder", ["lib/python3/dist-packages/lib.py", ".local/lib/python3.11/site-packages/lib/__init__.py"])
def test_libraries_wherever_they_are(folder, monkeypatch, tmp_path):
    """A class of a library is none of the program's, also where sysconfig does not name the folder."""
    module = types.ModuleType("a_library")
    exec("class Runner:\n    def __setstate__(self, state): raise AssertionError(state)", module.__dict__)
    module.__file__ = str(tmp_path / folder)
    monkeypatch.setitem(sys.modules, "a_library", module)
    with pytest.raises(CheckpointError, match=r"Unsupported global: GLOBAL a_library\.Runner"):
        load(packed(b"ca_library\nRunner\n)\x81K\x01b"), weights_only=False)


def test_libraries_behind_links(monkeypatch, tmp_path):
    """Folders are compared where they really are."""
    from engine.serialize import trusted

    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert all(place == place.resolve() for place in trusted._LIBRARIES)
    monkeypatch.setattr(trusted, "_LIBRARIES", {(tmp_path / "link").resolve()})
    assert trusted._is_library(tmp_path / "real" / "x.py") and not trusted._is_library(tmp_path / "really" / "x.py")


HONEST = {
    "a queue": collections.deque([1, 2], maxlen=3), "a fraction": fractions.Fraction(-3, 4), "a range": range(2, 5), "no bytes": [b"", bytearray()],
    "ints by default": collections.defaultdict(int, a=1), "texts by default": collections.defaultdict(str, a="b"), "a member": Colour.RED,
}  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("what", HONEST)
def test_honest_ones_come_back(what, protocol):
    file = io.BytesIO()
    save(HONEST[what], file, pickle_protocol=protocol)
    file.seek(0)
    found = load(file, weights_only=False)
    assert found == HONEST[what] and type(found) is type(HONEST[what])


ARRAYS = [
    numpy.zeros((0, 3)), numpy.array(2.5), numpy.asfortranarray(numpy.arange(6).reshape(2, 3)), numpy.array(["2020-01-02"], "M8[ns]"),
    numpy.array([3, 4], "m8[10s]"), numpy.array(["ab", "c"]),
]  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_come_back(array, protocol):
    file = io.BytesIO()
    save([array, array.reshape(-1)[:1].sum() if array.dtype.kind == "f" else array.dtype], file, pickle_protocol=protocol)
    file.seek(0)
    found, second = load(file, weights_only=False)
    numpy.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype and found.flags.writeable and (array.dtype.kind == "f" or second == array.dtype)


@pytest.mark.parametrize(("name", "word"), [("QUInt8Storage", "quantized tensors"), ("float8_e4m3fn", "tensors of float8_e4m3fn")])
def test_what_the_engine_has_no_dtype_for(name, word):
    for weights_only in (True, False):
        with pytest.raises(CheckpointError, match=f"load: {word} are not read"):
            load(packed(f"ctorch\n{name}\n".encode()), weights_only=weights_only)
    assert engine.uint8 is load(packed(b"ctorch\nuint8\n"))
