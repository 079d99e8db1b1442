"""The safetensors format: round trips, the safetensors library as the judge of the format, and hostile files."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import random
import struct
from collections import OrderedDict

import numpy
import pytest
from safetensors import numpy as safetensors_numpy
from safetensors import safe_open

import engine
from engine import Tensor, nn, optim
from engine.base.dtypes import ALL
from engine.serialize import CheckpointError, load_file, save_file
from engine.serialize.safetensors import read, save
from engine.serialize.source import Source
from grouping import grouped


def there_and_back(obj):
    file = io.BytesIO()
    save(obj, file)
    return from_bytes(file.getvalue())


def from_bytes(data: bytes):
    return read(Source(io.BytesIO(data), "the file"))


def written(obj) -> bytes:
    file = io.BytesIO()
    save(obj, file)
    return file.getvalue()


def same(a, b):
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype is b.dtype and tuple(a.shape) == tuple(b.shape) and a.array.tobytes() == b.array.tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


# -- round trips ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3)])
def test_every_dtype(d, shape):
    numbers = numpy.arange(math.prod(shape)).reshape(shape) % 2
    x = Tensor._wrap((numbers + 1j * numbers if d.is_complex else numbers).astype(d.numpy))
    assert same(there_and_back({"x": x})["x"], x)


def test_everything_else():
    shared = engine.tensor([1.0, 2.0])
    obj = {
        "none": None, "yes": True, "n": 3, "big": 1 << 80, "minus": -(1 << 70), "x": 0.1, "inf": math.inf, "-inf": -math.inf,
        "nan": math.nan, "c": 1 + 2j, "text": 'é"\\\n', "bytes": b"\x00\xff", "list": [1, [2.5, shared]], "tuple": (1, (shared,)),
        "empty": {}, "nothing": [], "dtype": engine.bfloat16, "device": engine.device("cpu"), "size": engine.tensor([[1.0]]).shape, 5: "int key",
        1.5: "float key", None: 0, (1, "a"): "tuple key", True: "bool key", "ordered": OrderedDict(b=1, a=2),
    }  # fmt: skip
    assert same(there_and_back(obj), obj)


def test_a_tensor_alone_and_a_list():
    assert same(there_and_back(engine.tensor([1, 2])), engine.tensor([1, 2]))
    assert same(there_and_back([engine.tensor([1]), 2]), [engine.tensor([1]), 2])
    assert there_and_back(7) == 7


def test_views_and_gradients():
    x = engine.tensor(numpy.arange(12.0).reshape(3, 4))
    assert same(there_and_back(x.transpose(0, 1))[1], x[:, 1])
    assert same(there_and_back(x[::2, 1:]), x[::2, 1:])
    p = nn.Parameter(engine.tensor([1.0]))
    assert there_and_back(p).requires_grad and not there_and_back(p.detach()).requires_grad
    assert not there_and_back(p * 2).requires_grad


def test_ties_are_kept():
    x = engine.tensor([1.0, 2.0])
    out = there_and_back({"a": x, "b": {"c": x.detach()}, "other": engine.tensor([1.0, 2.0])})
    assert out["a"] is out["b"]["c"] and out["other"] is not out["a"]


def test_names_that_collide():
    a, b = engine.tensor([1.0]), engine.tensor([2.0])
    obj = {"x.y": a, "x": {"y": b}, "__metadata__": engine.tensor([3.0])}
    assert same(there_and_back(obj), obj)


def test_state_dicts():
    net = network()
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    net(engine.rand(5, 3)).sum().backward()
    optimizer.step()
    saved = there_and_back({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3})
    other = network()
    assert repr(other.load_state_dict(saved["net"])) == "<All keys matched successfully>"
    again = optim.Adam(other.parameters())
    again.load_state_dict(saved["optimizer"])
    x = engine.rand(5, 3)
    for model, opt in ((net, optimizer), (other, again)):
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()
    assert same(dict(net.state_dict()), dict(other.state_dict()))
    assert saved["net"]._metadata == net.state_dict()._metadata


# -- the format -----------------------------------------------------------------------------------------------------------------------


def test_others_can_read_it():
    net = network()
    found = safetensors_numpy.load(written(net.state_dict()))
    assert set(found) == set(net.state_dict())
    for name, tensor in net.state_dict().items():
        numpy.testing.assert_array_equal(found[name], tensor.array)


def test_it_reads_others(tmp_path):
    arrays = {
        "w": numpy.arange(6, dtype="f4").reshape(2, 3),
        "i": numpy.array([1, 2]),
        "b": numpy.array([True, False]),
        "e": numpy.zeros((0, 3)),
    }
    safetensors_numpy.save_file(arrays, tmp_path / "x.safetensors", {"author": "somebody"})
    (tmp_path / "other name").write_bytes((tmp_path / "x.safetensors").read_bytes())
    for found in (
        engine.load(tmp_path / "x.safetensors"),
        engine.load(tmp_path / "x.safetensors", mmap=True),
        engine.load(str(tmp_path / "other name")),
        engine.load(io.BytesIO((tmp_path / "x.safetensors").read_bytes())),
        load_file(tmp_path / "x.safetensors"),
    ):
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            assert found[name].array.dtype == array.dtype
            numpy.testing.assert_array_equal(found[name].array, array)
            found[name].array[...] = 0  # memory of its own, also where the file is mapped


def test_files_of_tensors(tmp_path):
    tensors = {"w": engine.rand(3, 2), "v": engine.arange(6).reshape(2, 3).t(), "h": engine.ones(2, dtype=engine.bfloat16)}
    save_file(tensors, tmp_path / "x.safetensors", {"author": "somebody"})
    found = load_file(tmp_path / "x.safetensors", "cpu")
    assert same({name: found[name] for name in tensors}, tensors)
    with safe_open(tmp_path / "x.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt", "author": "somebody"}
        numpy.testing.assert_array_equal(file.get_tensor("v"), tensors["v"].array)
    with pytest.raises(ValueError, match=r"dict of \[str, Tensor\]"):
        save_file({"x": 1}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="complex128, which 'c' is"):
        save_file({"c": engine.zeros(2, dtype=engine.complex128)}, tmp_path / "x.safetensors")


def test_files(tmp_path):
    path = tmp_path / "model.safetensors"
    engine.save({"x": engine.tensor([1.0])}, path)
    engine.save({"x": engine.tensor([2.0])}, str(path))
    assert engine.load(path)["x"].item() == 2.0
    with pytest.raises(TypeError, match="a Sequential"):
        engine.save({"model": network()}, path)
    assert engine.load(path)["x"].item() == 2.0 and os.listdir(tmp_path) == ["model.safetensors"]
    with pytest.raises(FileNotFoundError):
        engine.load(tmp_path / "none.safetensors")


def test_what_cannot_be_saved():
    with pytest.raises(TypeError, match=r"a\.1 is a object\. A checkpoint holds"):
        save({"a": [1, object()]}, io.BytesIO())
    with pytest.raises(TypeError, match="save its state_dict"):
        save(network(), io.BytesIO())
    with pytest.raises(TypeError, match="key of type object"):
        save({object(): 1}, io.BytesIO())
    loop: list = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        save(loop, io.BytesIO())


# -- files that are refused --------------------------------------------------------------------------------------------------------------


def refused(data: bytes, match: str):
    with pytest.raises(CheckpointError, match=match):
        from_bytes(data)


class Trap:
    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


def test_pickles_and_zips():
    for protocol in range(2, 6):
        refused(pickle.dumps({"x": Trap()}, protocol=protocol), "header would take")
    refused(b"PK\x03\x04" + b"\0" * 100, "header would take")
    assert Trap.sprung is False


def container(header, data=b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def with_tree(tree) -> bytes:
    return container({"__metadata__": {"engine.structure": json.dumps({"version": 1, "tree": tree})}})


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@grouped(
    ("data", "match"),
    [
        (b"", "at least 8 bytes, got 0"),
        (b"\xff" * 8, "header would take"),
        (container(b"{", b""), "damaged header"),
        (container(b"[]"), "not a JSON object"),
        (container(b'{"a": 1, "a": 2}'), "a key stands twice"),
        (container(b'{"a": NaN}'), "NaN is not JSON"),
        (container(b"\xff\xfe"), "damaged header"),
        (container(b"[" * 100000), "damaged header"),
        (container({"x": ENTRY}, b"\0" * 7), "cut off"),
        (container({"x": ENTRY}, b"\0" * 9), "cut off or has more"),
        (container({"x": {**ENTRY, "dtype": "Q4"}}, b"\0" * 8), "dtype 'Q4'"),
        (container({"x": {**ENTRY, "shape": [3]}}, b"\0" * 8), "takes 12"),
        (container({"x": {**ENTRY, "shape": [-2]}}, b"\0" * 8), "damaged shape"),
        (container({"x": {**ENTRY, "shape": [True]}}, b"\0" * 8), "damaged shape"),
        (container({"x": {**ENTRY, "shape": [2.0]}}, b"\0" * 8), "damaged shape"),
        (container({"x": {**ENTRY, "shape": [1 << 62, 1 << 62]}}, b"\0" * 8), "takes"),
        (container({"x": {**ENTRY, "data_offsets": [8, 0]}}, b"\0" * 8), "gives 'x' -8 bytes"),
        (container({"x": {**ENTRY, "data_offsets": [1, 9]}}, b"\0" * 9), "gap or an overlap"),
        (container({"x": ENTRY, "y": ENTRY}, b"\0" * 8), "gap or an overlap"),
        (container({"x": {**ENTRY, "more": 1}}, b"\0" * 8), "damaged entry"),
        (container({"x": 1}), "damaged entry"),
        (container({"x": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}, b"\1\2"), "bytes other than 0 and 1"),
        (container({"__metadata__": {"a": 1}}), "not a map from strings to strings"),
        (container({"__metadata__": {"engine.structure": "{}"}}), "another version"),
        (container({"__metadata__": {"engine.structure": '{"version": 2, "tree": 1}'}}), "another version"),
        (with_tree({"tensor": "x"}), "names a tensor that it does not hold: 'x'"),
        (with_tree({"tensor": ["x"]}), "names a tensor that it does not hold"),
        (with_tree({"eval": "1 + 1"}), "unknown kind 'eval'"),
        (with_tree({"dict": [[1, 2, 3]]}), "damaged dict"),
        (with_tree({"dict": [[1, 2], [1, 3]]}), "stands twice"),
        (with_tree({"dict": [[{"dict": []}, 1]]}), "damaged key"),
        (with_tree({"float": "1"}), "expected inf, -inf or nan"),
        (with_tree({"int": "9" * 5000}), "expected an integer"),
        (with_tree({"dtype": "object"}), "is no dtype"),
        (with_tree({"device": "disk"}), "damaged device"),
        (with_tree({"bytes": "xx"}), "damaged bytes"),
        (with_tree({"complex": [1]}), "damaged complex"),
        (with_tree({"size": [-1]}), "list of sizes"),
        (with_tree({"tuple": 3}), "expected a list"),
        (with_tree({}), "has a structure with"),
        (with_tree({"a": 1, "b": 2}), "has a structure with"),
        (with_tree({"state_dict": [], "metadata": 3}), "damaged metadata"),
    ],
)
def test_damaged_files(data, match):
    refused(data, match)


def test_a_deep_structure():
    deep: object = 1
    for _ in range(100):
        deep = [deep]
    assert same(there_and_back(deep), deep)
    text = b'{"version": 1, "tree": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    refused(container({"__metadata__": {"engine.structure": text.decode()}}), "nested too deeply|damaged structure")


def test_tensors_that_nobody_names():
    header = {"x": ENTRY, "__metadata__": {"engine.structure": json.dumps({"version": 1, "tree": 1})}}
    refused(container(header, b"\0" * 8), "structure does not name: x")


def test_every_truncation():
    whole = written({"w": engine.tensor([1.0, 2.0]), "n": [1, (2.5, "x")]})
    for n in range(len(whole)):
        with pytest.raises(CheckpointError):
            from_bytes(whole[:n])


def test_mutations():
    """Bytes flipped, removed, doubled: a load gives plain data or a CheckpointError, and never anything else."""
    net = network()
    optimizer = optim.Adam(net.parameters())
    net(engine.rand(2, 3)).sum().backward()
    optimizer.step()
    whole = written({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "x": (1, 2.5, None, math.inf)})
    (header,) = struct.unpack("<Q", whole[:8])
    draw = random.Random(0)
    outcomes = {"refused": 0, "loaded": 0}
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(8 + header) if draw.random() < 0.9 else draw.randrange(len(data))
            kind = draw.randrange(3)
            if kind == 0:
                data[at] = draw.randrange(256)
            elif kind == 1:
                del data[at : at + draw.randint(1, 9)]
            else:
                data[at:at] = data[at : at + draw.randint(1, 9)]
        try:
            found = from_bytes(bytes(data))
        except CheckpointError:
            outcomes["refused"] += 1
        else:
            assert isinstance(found, (dict, list, tuple, Tensor, str, int, float, type(None)))
            outcomes["loaded"] += 1
    assert outcomes["refused"] > 300 and outcomes["loaded"] > 0
