"""Storages by the names of their types, their sizes, and what is said of a device that is not there. Expected values are PyTorch 2.13's."""

from __future__ import annotations

import numpy
import pytest

import engine

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("Float", "float32"), ("Double", "float64"), ("Half", "float16"), ("BFloat16", "bfloat16"), ("Byte", "uint8"), ("Char", "int8"),
        ("Short", "int16"), ("Int", "int32"), ("Long", "int64"), ("Bool", "bool"), ("ComplexFloat", "complex64"),
        ("ComplexDouble", "complex128"),
    ],
)  # fmt: skip
def test_types_of_storages(name, dtype):
    kind = getattr(engine, f"{name}Storage")
    made = kind(3)
    assert len(made) == 3 and made.dtype is getattr(engine, dtype) is kind.dtype and made.tolist() == [0, 0, 0]
    assert isinstance(made, kind) and isinstance(made, engine.TypedStorage) and made.type() == f"torch.{name}Storage"
    assert isinstance(engine.zeros(2, dtype=kind.dtype).storage(), kind)
    other = engine.FloatStorage if name != "Float" else engine.LongStorage
    assert not isinstance(made, other) and not isinstance(engine.zeros(2, dtype=kind.dtype), kind)


def test_from_numbers():
    assert list(engine.FloatStorage([1, 2, 3])) == [1.0, 2.0, 3.0] and engine.FloatStorage().size() == 0
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        engine.LongStorage(1)


def test_a_storage_is_resized():
    made = engine.FloatStorage([1.0, 2.0, 3.0])
    assert made.resize_(2) is made and made.tolist() == [1, 2] and made.nbytes() == 8
    assert made.resize_(5).tolist()[:2] == [1, 2] and len(made) == 5
    made[4] = 7.0
    assert made.tolist()[4] == 7
    x = engine.arange(4.0)
    memory = x.untyped_storage()
    assert memory.resize_(0).nbytes() == 0 and x.shape == (4,)
    assert memory.resize_(16).nbytes() == 16
    memory.fill_(0)
    assert x.tolist() == [0, 0, 0, 0]  # it is the tensor's memory still
    with pytest.raises(RuntimeError, match="cannot grow from 16 to 32 elements here; use the tensor's resize_"):
        memory.resize_(32)
    with pytest.raises(RuntimeError, match="not negative, got -1"):
        memory.resize_(-1)
    copy = memory.clone().resize_(32)
    assert copy.nbytes() == 32 and memory.nbytes() == 16


def test_a_device_that_is_not_there_is_said_without_the_op_that_moves():
    for call in (lambda: engine.ones(1).to("mps"), lambda: engine.ones(1).to("cuda:99"), lambda: engine.ones(1).cuda(99)):
        with pytest.raises(RuntimeError) as refused:
            call()
        assert "to_device" not in str(refused.value) and "input is" not in str(refused.value)


def test_a_file_as_a_storage(tmp_path):
    path = str(tmp_path / "numbers")
    numpy.arange(6, dtype=numpy.float32).tofile(path)
    private = engine.UntypedStorage.from_file(path, False, 24)
    assert private.nbytes() == 24 and private.filename is None and private[4:8].tolist() == [0, 0, 128, 63]
    seen = engine.tensor([]).set_(private, 1, (2, 2))
    seen[0] = 7
    assert seen.tolist() == [[7, 7], [3, 4]] and numpy.fromfile(path, numpy.float32).tolist() == [0, 1, 2, 3, 4, 5]
    assert engine.asarray(private[4:8], dtype=engine.uint8).view(dtype=engine.float32).tolist() == [7]
    shared = engine.UntypedStorage.from_file(path, shared=True, nbytes=24)
    engine.empty(0).set_(shared)[0] = 9
    assert numpy.fromfile(path, numpy.float32)[0] == 9 and shared.filename == path
    assert engine.FloatStorage.from_file(path, False, 6).tolist() == [9, 1, 2, 3, 4, 5]
    assert engine.LongStorage.from_file(path, False, size=3).dtype is engine.int64
    assert engine.from_file(path, size=3, dtype=engine.int32).tolist()[1:] == [1065353216, 1073741824]
    grown = str(tmp_path / "new")
    assert engine.UntypedStorage.from_file(grown, True, 10).nbytes() == 10 and (tmp_path / "new").stat().st_size == 10
    assert engine.UntypedStorage.from_file(str(tmp_path / "absent"), False, 0).nbytes() == 0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda path: engine.UntypedStorage.from_file(path, False, 100), "100"),
        (lambda path: engine.UntypedStorage.from_file(path + "no", False, 10), "unable to open file"),
        (lambda path: engine.from_file(path, size=7), "28"),
        (lambda path: engine.TypedStorage.from_file(path, False, 6), "from_file can only be called on derived classes"),
    ],
)
def test_a_file_that_is_too_short_is_refused(tmp_path, call, told):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(24))
    with pytest.raises(RuntimeError, match=told):
        call(str(path))


def test_a_slice_of_a_storage_is_one_of_its_own_in_the_same_memory():
    """As safetensors cuts a file that it has mapped into tensors, each of which has its storage whole."""
    whole = engine.arange(10, dtype=engine.uint8).untyped_storage()
    part = whole[2:6]
    assert part.nbytes() == 4 and part.data_ptr() == whole.data_ptr() + 2 and part.tolist() == [2, 3, 4, 5]
    assert part[1:3].tolist() == [3, 4] and whole[5:2].nbytes() == whole[2:2].nbytes() == 0 and whole[-3:].nbytes() == 3
    x = engine.tensor([], dtype=engine.uint8).set_(part).view(engine.int16)
    assert x.untyped_storage().nbytes() == 4 and x.storage_offset() == 0
    x[0] = -1
    assert whole.tolist() == [0, 1, 255, 255, 4, 5, 6, 7, 8, 9] and part != whole
    with pytest.raises(RuntimeError, match="slice with a step of 2, but only a step of 1 is supported"):
        whole[::2]
    with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
        engine.arange(4.0)._typed_storage()[1:3]
    with pytest.raises(TypeError, match="can't index a torch.UntypedStorage with str"):
        whole["a"]


def test_operands_that_share_memory_are_read_before_they_are_written():
    memory = numpy.arange(5.0, dtype="float32")
    x, y = engine.from_numpy(memory[1:]), engine.from_numpy(memory[:4])
    x.add_(y)
    assert x.tolist() == [1, 3, 5, 7]
