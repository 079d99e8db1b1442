"""Devices, limits of dtypes, old constructors, copies and pickles of tensors, single numbers: what PyTorch 2.13 answers and refuses."""

from __future__ import annotations

import copy
import io
import pickle

import numpy
import pytest

import engine


@pytest.mark.parametrize(
    ("args", "kind", "told"),
    [
        (("cuda:-1",), RuntimeError, "Invalid device string: 'cuda:-1'"),
        (("cuda:",), RuntimeError, "Invalid device string"),
        (("cuda:01",), RuntimeError, "Invalid device string"),
        (("gpu",), RuntimeError, "Expected one of cpu, cuda, "),
        (("",), RuntimeError, "Expected one of cpu, cuda, "),
        (("cuda", -1), RuntimeError, "must not be negative"),
        (("cuda:0", 1), RuntimeError, "index was passed explicitly"),
        ((engine.device("cuda"), 1), TypeError, "argument 'type'"),
        ((None,), TypeError, "must be str, not NoneType"),
        ((1.0,), TypeError, "must be str, not float"),
        (("cpu", "0"), TypeError, "argument 'index'"),
    ],
)
def test_what_is_no_device(args, kind, told):
    with pytest.raises(kind, match=told):
        engine.device(*args)


def test_a_device_is_a_value():
    cpu = engine.zeros(1).device
    for name in ("type", "index"):
        with pytest.raises(AttributeError):
            setattr(cpu, name, "cuda")
    assert engine.zeros(1).device.type == "cpu" and engine.device(engine.device("cuda:1")) == engine.device("cuda", 1)
    assert copy.deepcopy(engine.device("cuda:1")).index == 1 and pickle.loads(pickle.dumps(cpu)) == cpu


def test_limits_by_name():
    assert engine.finfo(type=engine.float16).max == 65504 and engine.iinfo(type=engine.int8).min == -128


def test_old_constructors():
    assert engine.Tensor(data=[1, 2]).tolist() == engine.FloatTensor(data=[1, 2]).tolist() == [1, 2]
    assert engine.Tensor(size=(2, 3)).shape == engine.FloatTensor(size=(2, 3)).shape == (2, 3)
    assert engine.Tensor(numpy.array(3.5)).item() == 3.5 and engine.Tensor(numpy.array(3.5)).shape == ()
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        engine.Tensor(2, -1)
    for make in (engine.Tensor, engine.FloatTensor):
        for wrong in (True, {1: 2}, numpy.float32(3)):
            with pytest.raises(TypeError, match="data must be a sequence"):
                make(wrong)
        for names in ({"requires_grad": True}, {"dtype": engine.int64}):
            with pytest.raises(TypeError, match=next(iter(names))):
                make([1, 2], **names)


def test_a_size_that_was_not_given():
    one = engine.ones(1)
    for make in (engine.zeros, engine.ones, engine.empty, engine.rand, engine.randn, one.new_zeros, one.new_ones, one.new_empty):
        assert make(()).shape == ()
        with pytest.raises(TypeError, match="size is missing"):
            make()


def test_copies_keep_the_order_in_memory_and_not_the_way_to_the_old_memory():
    x = engine.arange(6.0).view(2, 3).t()
    assert copy.deepcopy(x).stride() == x.stride() == (1, 3) and copy.deepcopy(x).tolist() == x.tolist()
    w = copy.deepcopy(engine.ones(2, requires_grad=True).data).requires_grad_()
    y = w * w
    with engine.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_pickles_keep_attributes_and_whether_a_gradient_is_wanted():
    x = engine.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.label = "weights"
    for seen in (pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert seen.label == "weights" and seen.requires_grad and seen.grad is None and seen.tolist() == [1, 1]
    computed = pickle.loads(pickle.dumps(x * 2))
    assert computed.requires_grad and computed.is_leaf and computed.tolist() == [2, 2]
    view = pickle.loads(pickle.dumps(x.data[1:]))
    assert not vars(view) and view.tolist() == [1]


def test_data_is_written_to_a_file_as_a_tensor_and_nothing_else():
    file = io.BytesIO()
    engine.save(engine.ones(2).data, file)
    file.seek(0)
    assert not vars(engine.load(file))


def test_numbers_of_complex_tensors():
    assert float(engine.tensor(2 + 0j)) == int(engine.tensor([2 + 0j])) == 2
    for kind in (float, int):
        with pytest.raises(RuntimeError, match="without overflow"):
            kind(engine.tensor(1 + 2j))
    x = engine.tensor([1 + 2j, 3 + 4j])
    x.real = 5.0
    x.imag = engine.tensor([6.0, 7.0])
    assert x.tolist() == [5 + 6j, 5 + 7j]
    y = engine.ones(2)
    y.real = 3
    assert y.tolist() == [3, 3]


def test_data_of_a_leaf_stays_of_a_kind_that_has_gradients():
    x = engine.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point or complex"):
        x.data = engine.zeros(3, dtype=engine.int64)
    assert x.shape == (2,) and x.dtype is engine.float32


def test_nan_is_no_integer():
    x = engine.zeros(2, dtype=engine.int64)
    for number in (float("nan"), float("inf")):
        with pytest.raises(RuntimeError, match="cannot be converted to type int64 without overflow"):
            x[0] = number
    assert x.tolist() == [0, 0]


def test_none_is_no_operand():
    x = engine.zeros(2)
    for op in (lambda: engine.add(x, None), lambda: x.div(None)):
        with pytest.raises(TypeError, match="must be Tensor, not NoneType"):
            op()
    for op in (lambda: x + None, lambda: None * x, lambda: x @ None, lambda: x < None):  # Python's own words, as in PyTorch
        with pytest.raises(TypeError, match="'NoneType'"):
            op()
    with pytest.raises(TypeError, match="to choose from, got str"):
        engine.where(x == 0, "a", 2)


def test_asarray_and_the_graph():
    x = engine.ones(2, requires_grad=True)
    assert engine.asarray(x) is x and not engine.asarray(x, requires_grad=False).requires_grad
    assert engine.asarray([1.0], requires_grad=True).requires_grad


def test_arrays_of_another_byte_order():
    with pytest.raises(ValueError, match="byte order"):
        engine.from_numpy(numpy.array([1, 2], dtype=">i4"))


def test_names_of_types():
    assert engine.typename(engine.zeros(1)) == "torch.FloatTensor" and engine.typename(3) == "int"
    assert engine.typename(engine.float32) == "torch.dtype"
    assert engine.OutOfMemoryError is engine.cuda.OutOfMemoryError


def test_unravel_index_counts_from_the_end():
    assert [i.tolist() for i in engine.unravel_index(engine.tensor([-5, 3]), (2, 2))] == [[1, 1], [1, 1]]
