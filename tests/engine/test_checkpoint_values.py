"""Checkpoints of storages, types, functions and named results, several in one file, and what sparse tensors may cost."""

from __future__ import annotations

import collections
import io
import math
import pickle
import warnings

import pytest

import engine
from engine import nn
from engine.serialize import CheckpointError, load, save
from engine.serialize.reader import PyTorchFileReader

FORMATS = pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}], ids=["zip", "legacy"])


def there_and_back(obj, weights_only=False, **options):
    file = io.BytesIO()
    save(obj, file, **options)
    file.seek(0)
    return load(file, weights_only=weights_only)


@FORMATS
def test_several_in_one_file_are_read_in_turn(options):
    file = io.BytesIO()
    things = [{"a": engine.ones(2)}, [engine.zeros(300)], 3, {"a": engine.full((2,), 7.0)}]
    ends = []
    for thing in things:
        save(thing, file, **options)
        ends.append(file.tell())
    file.seek(0)
    for thing, end in zip(things, ends, strict=True):
        assert repr(load(file)) == repr(thing) and file.tell() == end
    with pytest.raises(EOFError):
        load(file)
    file.seek(ends[1])
    assert load(file) == 3


def test_a_file_that_cannot_seek_is_read_whole():
    class Stream:
        def __init__(self, data):
            self.data = data

        def read(self):
            return self.data

    file = io.BytesIO()
    save([1], file)
    save([2], file)
    assert load(Stream(file.getvalue())) == [1]


def test_the_reader_of_records_leaves_the_file_as_it_is():
    file = io.BytesIO()
    save([1], file)
    save([2], file)
    before = file.getvalue()
    PyTorchFileReader(file)
    assert file.getvalue() == before


@FORMATS
def test_storages(options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typed = engine.arange(4.0).storage()
    found = there_and_back({"typed": typed, "again": typed, "view": engine.ones(2).untyped_storage()}, weights_only=True, **options)
    assert type(found["typed"]) is engine.TypedStorage and found["typed"].dtype is engine.float32
    assert found["typed"].tolist() == [0, 1, 2, 3] and found["again"] is found["typed"]
    assert type(found["view"]) is engine.UntypedStorage and found["view"].tolist() == [0, 0, 128, 63] * 2
    x = engine.arange(6, dtype=engine.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor, storage = there_and_back([x[2:4], x.storage()], **options)
    storage[2] = 9
    assert tensor.tolist() == [9, 3]
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        save([engine.ones(2), (lambda z: [z, z.untyped_storage()])(engine.ones(3))], io.BytesIO(), **options)
    assert there_and_back(engine.arange(4, dtype=engine.uint8).untyped_storage()[1:3], **options).tolist() == [1, 2]


TYPES = [int, float, str, bool, list, dict, tuple, set, frozenset, bytes, complex, object, slice, range, collections.OrderedDict]
TYPES += [type(None), type(...), type(NotImplemented), engine.Tensor, engine.Size, nn.Parameter, engine.device]


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("kind", TYPES, ids=lambda t: t.__name__)
def test_types_are_values(kind, protocol):
    assert there_and_back({"kind": [kind], "by": {kind: 1}}, pickle_protocol=protocol) == {"kind": [kind], "by": {kind: 1}}


def test_single_values():
    assert there_and_back([..., NotImplemented, None]) == [..., NotImplemented, None]


def test_named_results():
    x = engine.tensor([[1.0, 5.0], [7.0, 2.0]])
    found = there_and_back([engine.max(x, 0), engine.linalg.qr(x)])
    assert type(found[0]) is engine.return_types.max and found[0].values.tolist() == [7, 5] and found[0].indices.tolist() == [1, 0]
    assert type(found[1]) is type(engine.linalg.qr(x))


def test_functions_of_a_program_that_has_a_subclass():
    class Own(engine.Tensor):  # from now on the public functions ask for such tensors
        pass

    file = io.BytesIO()
    engine.save([engine.exp, nn.functional.relu], file)
    assert b"engine" not in file.getvalue()  # by PyTorch's address still
    file.seek(0)
    assert engine.load(file, weights_only=False) == [engine.exp, nn.functional.relu]
    assert Own([1.0]).exp().item() == pytest.approx(math.e, rel=1e-6)


def test_functions():
    functions = [
        engine.exp,
        nn.functional.relu,
        nn.init.xavier_uniform_,
        nn.init.zeros_,
        engine.zeros,
        nn.functional.conv2d,
        engine.linalg.inv,
    ]
    functions += [engine.Tensor.exp, engine.Tensor.norm, engine.Tensor.add_, engine.fft.fft, engine.special.expit, engine.absolute]
    assert there_and_back(functions) == functions
    for text in (
        b"cbuiltins\ngetattr\nctorch._C\nTensorBase\nX\x03\x00\x00\x00exp\x86R.",
        b"cbuiltins\ngetattr\nctorch\nTensor\nX\x04\x00\x00\x00norm\x86R.",
        b"ctorch._C._linalg\nlinalg_inv\n.",
        b"ctorch._C._special\nspecial_expit\n.",
        b"cbuiltins\ngetattr\nctorch._C\n_VariableFunctionsClass\nX\x03\x00\x00\x00exp\x86R.",
        b"ctorch.nn.init\nxavier_uniform_\n.",
    ):
        assert read(text) in functions
    for name in (b"__class__", b"save"):
        with pytest.raises(CheckpointError, match="has no function"):
            read(b"cbuiltins\ngetattr\nctorch._C\n_VariableFunctionsClass\nX" + len(name).to_bytes(4, "little") + name + b"\x86R.")
    for owner in (b"torch\nTensor", b"torch._C\nTensorBase"):
        with pytest.raises(CheckpointError, match="has no method"):
            read(b"cbuiltins\ngetattr\nc" + owner + b"\nX\x09\x00\x00\x00__class__\x86R.")
    with pytest.raises(CheckpointError):
        read(b"ctorch.nn.init\nmath\n.")


def read(text):
    return engine.serialize.files.Machine(b"\x80\x02" + text, engine.serialize.files._trusted()(lambda pid: None)).run()


@pytest.mark.parametrize("kind", [b"builtins\nint", b"builtins\ntype", b"__builtin__\nstr", b"torch\nTensor"])
def test_types_are_not_called(kind):
    with pytest.raises(CheckpointError):
        read(b"c" + kind + b"\nX\x03\x00\x00\x00abc\x85R.")
    with pytest.raises(CheckpointError):
        read(b"c" + kind + b"\nX\x03\x00\x00\x00abc\x85\x81.")


def test_objects_of_plain_types_are_not_made_bare():
    with pytest.raises(CheckpointError):
        read(b"ccopyreg\n_reconstructor\nctorch\nTensor\ncbuiltins\nobject\nN\x87R.")


def test_one_sparse_tensor_cannot_be_checked_again_and_again():
    """A few bytes name a sparse tensor again; each time all its indices would be looked through."""
    size = 20000
    x = engine.sparse_coo_tensor(engine.arange(size)[None], engine.ones(size), (size,))
    assert there_and_back([x, x, x.clone()], weights_only=True)[2].to_dense().equal(engine.ones(size))

    class Again:
        def __init__(self, parts):
            self.parts = parts

        def __reduce__(self):
            return engine.serialize.write._SPARSE, (engine.sparse_coo, self.parts)

    parts = (x._indices(), x._values(), x.size(), False)
    assert len(there_and_back([Again(parts) for _ in range(8)], weights_only=True)) == 8
    with pytest.raises(CheckpointError, match="more elements together than a file of this size holds"):
        there_and_back([Again(parts) for _ in range(3000)], weights_only=True)


def test_errors_are_picklings():
    assert issubclass(CheckpointError, pickle.UnpicklingError)
