"""Masked reductions against NumPy's on the elements that count, and against numpy.ma."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine import masked
from engine.autograd import gradcheck

rng = numpy.random.default_rng(2)
X = rng.normal(size=(4, 5))
M = rng.uniform(size=(4, 5)) < 0.6
M[:, :2] = True
MA = numpy.ma.masked_array(X, ~M)


@pytest.mark.parametrize(("name", "wanted"), [
    ("sum", MA.sum), ("prod", MA.prod), ("mean", MA.mean), ("amax", MA.max), ("amin", MA.min), ("var", lambda axis=None: MA.var(axis, ddof=1)),
    ("std", lambda axis=None: MA.std(axis, ddof=1)), ("norm", lambda axis=None: (MA**2).sum(axis) ** 0.5),
    ("logsumexp", lambda axis=None: numpy.log(numpy.ma.exp(MA).sum(axis))),
])  # fmt: skip
@pytest.mark.parametrize("dim", [None, 1, (0, 1), -1])
def test_reductions(name, wanted, dim):
    call = getattr(masked, name)
    found = call(engine.tensor(X), dim=dim, mask=engine.tensor(M))
    expected = numpy.asarray(wanted() if dim is None or isinstance(dim, tuple) else wanted(dim))
    assert tuple(found.shape) == expected.shape
    numpy.testing.assert_allclose(found.array, expected, rtol=1e-12)
    kept = call(engine.tensor(X), dim=dim, keepdim=True, mask=engine.tensor(M))
    assert tuple(kept.shape) == ((1, 1) if dim in (None, (0, 1)) else (4, 1)) and numpy.allclose(kept.array.ravel(), expected.ravel())
    assert gradcheck(lambda x: call(x, dim=dim, mask=engine.tensor(M)), (engine.tensor(X, requires_grad=True),))
    numpy.testing.assert_allclose(
        call(engine.tensor(X), dim=dim).array, call(engine.tensor(X), dim=dim, mask=engine.tensor(M | True)).array
    )


def test_normalisations_leave_out_what_the_mask_does():
    e = numpy.exp(X) * M
    for name, wanted in {"softmax": e, "softmin": numpy.exp(-X) * M}.items():
        found = getattr(masked, name)(engine.tensor(X), 1, mask=engine.tensor(M))
        numpy.testing.assert_allclose(found.array, wanted / wanted.sum(1, keepdims=True), atol=1e-12)
    numpy.testing.assert_allclose(
        masked.log_softmax(engine.tensor(X), 1, mask=engine.tensor(M)).array[M], numpy.log((e / e.sum(1, keepdims=True))[M])
    )
    unit = masked.normalize(engine.tensor(X), 2.0, 1, mask=engine.tensor(M)).array
    numpy.testing.assert_allclose((unit**2).sum(1), 1)
    assert (unit[~M] == 0).all()


def test_places_sums_and_medians():
    assert masked.argmax(engine.tensor(X), 1, mask=engine.tensor(M)).tolist() == MA.argmax(1).tolist()
    assert masked.argmin(engine.tensor(X), mask=engine.tensor(M)).item() == MA.argmin()
    numpy.testing.assert_allclose(masked.cumsum(engine.tensor(X), 1, mask=engine.tensor(M)).array, (X * M).cumsum(1))
    numpy.testing.assert_allclose(masked.cumprod(engine.tensor(X), 1, mask=engine.tensor(M)).array, numpy.where(M, X, 1).cumprod(1))
    lower = [numpy.sort(row[m])[(m.sum() - 1) // 2] for row, m in zip(X, M, strict=True)]
    numpy.testing.assert_allclose(masked.median(engine.tensor(X), 1, mask=engine.tensor(M)).array, lower)
    assert masked.median(engine.tensor([1.0, float("nan")])).item() == 1
    found = masked.median(engine.tensor([3, 1, 2]), mask=engine.tensor([True, False, True]))
    assert found.dtype is engine.int64 and found.item() == 2
    a, b = engine.tensor([1.0, 2.0]), engine.tensor([3.0, 4.0])
    assert masked.logaddexp(a, b, input_mask=engine.tensor([False, True])).tolist()[0] == 3.0


def test_what_nothing_counts_for():
    none = engine.tensor([False, False])
    x = engine.tensor([1.0, 2.0])
    assert masked.sum(x, mask=none).item() == 0 and masked.prod(x, mask=none).item() == 1 and masked.amax(x, mask=none).item() == -numpy.inf
    assert masked.amin(engine.tensor([1, 2]), mask=none).item() == 2**63 - 1 and numpy.isnan(masked.mean(x, mask=none).item())


def test_refusals():
    with pytest.raises(ValueError, match="floating point"):
        masked.mean(engine.tensor([1, 2]))
    with pytest.raises(IndexError, match="out of range"):
        masked.sum(engine.ones(2), 1)
    with pytest.raises(IndexError, match="broadcastable"):
        masked.sum(engine.ones(2), mask=engine.ones(2, 2).bool())
    with pytest.raises(RuntimeError, match="multiple times"):
        masked.sum(engine.ones(2), (0, 0))
