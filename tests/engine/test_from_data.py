"""Tensors from what a program has: NumPy's subclasses, and parts of larger arrays."""

from __future__ import annotations

import io

import numpy
import pytest

import engine

MASKED = numpy.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
MATRIX = numpy.ndarray.view(numpy.array([[1.0, 2.0], [3.0, 4.0]]), numpy.matrix)  # the call of the class warns


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("data", [MASKED, MATRIX, MASKED[1:], numpy.ones(3).view(type("Own", (numpy.ndarray,), {}))])
@pytest.mark.parametrize(
    "make",
    [
        engine.tensor,
        engine.as_tensor,
        engine.asarray,
        engine.from_numpy,
        engine.from_dlpack,
        engine.DoubleTensor,
        lambda x: engine.tensor(x, dtype=engine.float32),
        lambda x: engine.as_tensor(x, dtype=engine.float32),
        lambda x: engine.ones(2).new_tensor(x),
        lambda x: engine.nn.Parameter(engine.tensor(x)),
        lambda x: engine.ones(x.shape).copy_(engine.tensor(x)),
    ],
)
def test_no_subclass_of_numpy_gets_in(make, data):
    made = make(data)
    assert type(made.array) is numpy.ndarray and made.tolist() == numpy.asarray(data).tolist()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_does_not_multiply_as_one():
    x = engine.tensor(MATRIX)
    assert (x * x).tolist() == [[1, 4], [9, 16]] and x.sum(0).shape == (2,)  # matrix would give [[7, 10], [15, 22]] and (1, 2)
    assert engine.tensor(MASKED).sum().item() == 6  # the masked array's own sum is 4


def test_the_result_is_contiguous():
    assert engine.tensor(numpy.ones((2, 3)).T).stride() == (2, 1)


@pytest.mark.parametrize(
    ("part", "offset", "stride", "nbytes"),
    [  # as torch.from_numpy of the same arrays says
        (lambda big: big[:3], 0, (1,), 24),
        (lambda big: big[2:20:3], 0, (3,), 128),
        (lambda big: big.reshape(100, 1000)[2:4, 5:9], 0, (1000, 1), 8032),
        (lambda big: big.reshape(100, 1000)[2:4, 5:9].T, 0, (1, 1000), 8032),
        (lambda big: numpy.broadcast_to(big[:3], (4, 3)), 0, (0, 1), 24),
        (lambda big: big[5:6].reshape(()), 0, (), 8),
        (lambda big: big, 0, (1,), 800000),
    ],
)
def test_a_part_of_an_array_is_a_storage_of_its_own(part, offset, stride, nbytes):
    big = numpy.arange(100000.0)
    x = engine.from_numpy(part(big))
    assert (x.storage_offset(), x.stride(), x.untyped_storage().nbytes()) == (offset, stride, nbytes)
    assert x.tolist() == part(big).tolist()
    file = io.BytesIO()
    engine.save(x, file)
    assert len(file.getvalue()) < nbytes + 2000
    assert engine.load(io.BytesIO(file.getvalue())).equal(x)


def test_a_part_of_an_array_shares_its_memory():
    big = numpy.zeros((4, 5))
    x = engine.from_numpy(big[1:3, ::2])
    x.add_(1)
    big[1, 0] = 7
    assert x.tolist() == [[7, 1, 1], [1, 1, 1]] and big.sum() == 12
    del big
    assert x.sum().item() == 12


def test_strides_between_elements_are_refused():
    with pytest.raises(ValueError, match="strides not a multiple of the element byte size"):
        engine.from_numpy(numpy.zeros(3, [("a", "f4"), ("b", "f8")])["b"])


def test_new_takes_arrays():
    assert engine.ones(2).new(numpy.array([1.0, 2.0, 3.0])).tolist() == [1, 2, 3]


@pytest.mark.parametrize("compute", [lambda x, t: t + x, lambda x, t: x + t, lambda x, t: numpy.multiply(x, t), lambda x, t: t[x > 1]])
def test_no_subclass_of_numpy_comes_out_of_arithmetic(compute):
    found = compute(MASKED, engine.ones(3))
    assert type(found.array) is numpy.ndarray
