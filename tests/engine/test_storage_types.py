"""Storages by the names of their types, their sizes, and what is said of a device that is not there. Expected values are PyTorch 2.13's."""

from __future__ import annotations

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
