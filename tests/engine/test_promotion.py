"""Promotion of dtypes by themselves, whole, against PyTorch's stored answers; complex32, which the engine does not have, is left out."""

from __future__ import annotations

import numpy
import pytest
import tables
from tables import LETTER, LETTERS, NO_KERNEL, REFUSED, SCALARS

import engine
from engine.base import dtypes

EXPECTED = tables.stored("dtypes")


def ones(letter, shape):
    return numpy.ones(shape, LETTERS[letter].numpy)


def result(x, y):
    try:
        return LETTER[dtypes.result((x, y))]
    except RuntimeError:
        return REFUSED


def promoted(a, b):
    try:
        return LETTER[dtypes.promote(LETTERS[a], LETTERS[b])]
    except RuntimeError:
        return REFUSED


ASK = {
    "promote_types": promoted,
    "one_one": lambda a, b: result(ones(a, 1), ones(b, 1)),
    "one_zero": lambda a, b: result(ones(a, 1), ones(b, ())),
    "zero_zero": lambda a, b: result(ones(a, ()), ones(b, ())),
    "one_number": lambda a, n: result(ones(a, 1), SCALARS[n]),
    "zero_number": lambda a, n: result(ones(a, ()), SCALARS[n]),
}


@pytest.mark.parametrize("name", ASK)
def test_table(name):
    others = range(len(SCALARS)) if name.endswith("number") else LETTERS
    wrong, asked = {}, 0
    for a in LETTERS:
        for b, want in zip(others, EXPECTED[name][a], strict=True):
            asked += 1
            found = ASK[name](a, b)
            if want not in (found, NO_KERNEL):
                wrong[a, b] = f"{found}, not {want}"
    assert wrong == {}
    assert asked == len(LETTERS) * len(others)


def test_promotion_is_commutative():
    for a in LETTERS:
        for b in LETTERS:
            assert promoted(a, b) == promoted(b, a)


@pytest.mark.parametrize(
    ("python", "expected"),
    [([1, 2], "int64"), ([1, 2.0], "float32"), ([True], "bool"), ([1j], "complex64"), ([], "float32"), (3.5, "float32")],
)
def test_python_data_becomes(python, expected):
    """Literals from PyTorch: torch.tensor(python).dtype."""
    assert engine.tensor(python).dtype.name == expected


def test_data_that_holds_tensors_and_arrays_promotes():
    """Literals from PyTorch: torch.tensor(data).dtype."""
    half = numpy.float16(1)
    for data, expected in (
        ([engine.tensor(1.0), 2.0], "float32"), ([engine.tensor(1.0), 2], "float32"), ([1, 2j], "complex64"),
        ([numpy.float32(1), 2.0], "float32"), ([numpy.float64(1), 2], "float64"), ([half, 2], "float16"), ([half, 2.0], "float32"),
        ([numpy.int32(1), 2], "int64"), ([numpy.int32(1), True], "int32"), ([numpy.ones(2, "f4"), numpy.ones(2)], "float64"),
        ([numpy.ones(2, "f4"), [1.0, 2.0]], "float32"), ([[], []], "float32"),
    ):  # fmt: skip
        assert engine.tensor(data).dtype.name == expected, data
    for data in (2**63, [2**63, -1], [1, 2**64]):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            engine.tensor(data)
    assert engine.tensor(2**63, dtype=engine.uint64).item() == 2**63
    for data, kind, told in (
        ("a", TypeError, "new\\(\\): invalid data type 'str'"), ([1, "a"], TypeError, "invalid data type 'str'"), (["a"], ValueError, "too many dimensions 'str'"),
        ([None], RuntimeError, "Could not infer dtype of NoneType"), ([object()], RuntimeError, "Could not infer dtype of object"),
    ):  # fmt: skip
        with pytest.raises(kind, match=told):
            engine.tensor(data)


def test_asarray_shares_and_copies_views_too():
    for copy, seen in ((None, 9), (False, 9), (True, 1)):
        base = numpy.arange(4.0)
        engine.asarray(base[1:], copy=copy)[0] = 9
        assert base[1] == seen
    with pytest.raises(ValueError, match="can't alias"):
        engine.asarray(base[1:], dtype=engine.float32, copy=False)


def test_dtypes_have_many_spellings():
    for spelling in (engine.int64, int, numpy.int64, numpy.dtype("int64"), "int64", engine.long):
        assert dtypes.as_dtype(spelling) is engine.int64
    for spelling in (engine.complex128, numpy.complex128, numpy.dtype("complex128")):
        assert dtypes.as_dtype(spelling) is engine.complex128
    for python, expected in ((float, "float64"), (complex, "complex128"), (int, "int64"), (bool, "bool")):
        assert engine.zeros(1, dtype=python).dtype.name == expected  # literals from PyTorch: torch.zeros(1, dtype=python).dtype


def test_numpy_data_keeps_its_dtype():
    for d in (numpy.float64, numpy.int8, numpy.bool_, numpy.complex64, numpy.float16):
        assert engine.tensor(numpy.ones(2, d)).array.dtype == d


def test_default_dtype_decides_for_numbers():
    engine.set_default_dtype(engine.float64)
    try:
        assert engine.tensor(1.5).dtype is engine.float64
        assert (engine.tensor([1]) + 1.5).dtype is engine.float64
        assert engine.exp(engine.tensor([1])).dtype is engine.float64
    finally:
        engine.set_default_dtype(engine.float32)
    assert engine.tensor(1.5).dtype is engine.float32


def test_python_numbers_wrap_as_in_pytorch():
    """Literals from PyTorch: a Python number does not widen an integer tensor, it wraps."""
    assert (engine.tensor([250], dtype=engine.uint8) + 10).tolist() == [4]
    assert (engine.tensor([100], dtype=engine.int8) + 300).tolist() == [-112]
    assert (engine.tensor([1], dtype=engine.uint8) - 2).tolist() == [255]


def test_low_precision_rounds_once():
    """float16 and bfloat16 are computed in float32: literals from PyTorch."""
    x = engine.tensor([2048.0, 1.0, 0.5], dtype=engine.float16)
    assert x.sum().item() == 2050.0  # 2049.5; adding 1 to 2048 in float16 would leave 2048
    y = engine.tensor([1.0, 0.0078125], dtype=engine.bfloat16)
    assert (y + 0.001953125).tolist() == [1.0, 0.009765625]


def test_a_number_of_numpy_is_one_of_python():
    x, index, two = engine.ones(3), engine.tensor([0, 2]), numpy.float64(2)
    F = engine.nn.functional
    results = [
        F.leaky_relu(-x, two), F.huber_loss(x, 4 * x, delta=numpy.int64(1)), x.addcmul(x, x, value=two), x.add(two, alpha=two), F.elu(x, two),
        engine.linalg.vector_norm(x, two), x.std(correction=two), F.normalize(x, p=two, dim=0), x.scatter(0, index, two), F.gelu(x) * two,
        engine.sub(x, x, alpha=two), F.smooth_l1_loss(x, 2 * x, beta=two), F.softplus(x, beta=two), x.nan_to_num(nan=two), x.fill_(two),
    ]  # fmt: skip
    assert {r.dtype for r in results} == {engine.float32}
    assert [results[i].tolist() for i in (0, 1, 2, 3, 8)] == [[-2.0] * 3, 2.5, [3.0] * 3, [5.0] * 3, [2.0, 1.0, 2.0]]
    assert (engine.arange(3) * numpy.int32(2)).dtype is engine.int64 and engine.full((1,), numpy.float64(0.5)).dtype is engine.float32


@pytest.mark.parametrize("value", [0.5, numpy.float64(0.5), numpy.int64(2)], ids=lambda v: type(v).__name__)
def test_a_number_is_written_where_gradients_flow(value):
    for place in ([0, 2], (..., [1]), (..., [True, False, True], 0), [True, False, True], 0):
        leaf = engine.ones(3, 3, 2, requires_grad=True)
        x, plain = leaf * 1, numpy.ones((3, 3, 2), numpy.float32)
        x[place] = plain[place] = value
        assert x.dtype is engine.float32 and x.tolist() == plain.tolist()
        x.sum().backward()
        assert leaf.grad.tolist() == (plain == 1).astype(float).tolist()
