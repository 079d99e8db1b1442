"""Elementwise ops at their corners: expected numbers are PyTorch 2.13's (the call stands beside them) or mathematics'."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest

import engine
from engine import Tensor
from engine.core.op import functions
from grouping import grouped

inf, nan = math.inf, math.nan
F = {name.rpartition(".")[2]: fn for name, fn in functions.items() if name.startswith("nn.functional.")}
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # 1 / 0 and log(-1) are among the corners


def t(data, dtype=engine.float64):
    return engine.tensor(data, dtype=dtype)


def grads(f, *inputs):
    """The gradients of sum(f(*inputs)) as lists."""
    leaves = [t(x).requires_grad_() for x in inputs]
    f(*leaves).sum().backward()
    return [x.grad.tolist() for x in leaves]


def same(found, expected):
    found = found.array if isinstance(found, Tensor) else numpy.array(found)
    expected = numpy.array(expected)
    assert found.shape == expected.shape and numpy.allclose(found, expected, rtol=1e-6, atol=1e-12, equal_nan=True), (
        f"{found}, not {expected}"
    )


# -- gradients at corners ------------------------------------------------------------------------------------------------------

CORNERS = [
    # torch.abs, torch.sqrt, torch.pow(x, 0.5) at 0
    ("abs", lambda x: x.abs(), ([0.0, -1.0],), ([0.0, -1.0],)),
    ("sqrt", lambda x: x.sqrt(), ([0.0, 4.0],), ([inf, 0.25],)),
    ("pow half", lambda x: x**0.5, ([0.0],), ([inf],)),
    ("pow 0", lambda x: x**0, ([0.0, 1.0],), ([0.0, 0.0],)),
    # torch.pow(x, y)
    (
        "pow",
        lambda x, y: x**y,
        ([0.0, 0, 0, -2, -2, 2], [0.0, 2, -1, 2, 3, 0]),
        ([0, 0, -inf, -4, 12, 0], [0, 0, -inf, nan, nan, math.log(2)]),
    ),
    ("0 ** y", lambda y: 0.0**y, ([0.0, 1, -1],), ([0.0, 0, -inf],)),
    ("2 ** y", lambda y: 2**y, ([3.0],), ([8 * math.log(2)],)),
    # torch.logaddexp, torch.atan2, torch.hypot, torch.xlogy
    ("logaddexp", engine.logaddexp, ([-inf, inf, 1, -inf], [-inf, inf, 1, 1]), ([nan, nan, 0.5, 0], [nan, nan, 0.5, 1])),
    ("atan2", engine.atan2, ([0.0, 0, 1], [0.0, 1, 0]), ([0, 1, 0], [0, 0, -1])),
    ("hypot", engine.hypot, ([0.0, 3], [0.0, 4]), ([nan, 0.6], [nan, 0.8])),
    ("xlogy", engine.xlogy, ([0.0, 0, 1, 2], [0.0, nan, 0, 3]), ([0, nan, -inf, math.log(3)], [nan, nan, inf, 2 / 3])),
    ("xlog1py", engine.special.xlog1py, ([0.0, 0, 1, 2], [-1.0, nan, -1, 3]), ([0, nan, -inf, math.log(4)], [nan, nan, inf, 0.5])),
    ("copysign", engine.copysign, ([0.0, -1, 2], [1.0, 1, -1]), ([0, -1, -1], [0, 0, 0])),
    ("sinc", engine.sinc, ([0.0, 0.5, 1],), ([0, -4 / math.pi, -1],)),
    ("nan_to_num", engine.nan_to_num, ([nan, inf, 1.0],), ([0, 0, 1],)),
    ("logit", engine.logit, ([0.0, 0.5, 1, 2],), ([inf, 4, inf, nan],)),
    ("logit eps", lambda x: x.logit(eps=0.1), ([0.0, 0.1, 0.5, 0.9, 1, nan],), ([0, 1 / 0.09, 4, 1 / 0.09, 0, nan],)),
    ("remainder", engine.remainder, ([5.0, -5], [3.0, 3]), ([1, 1], [-1, 2])),
    ("fmod", engine.fmod, ([5.0, -5], [3.0, 3]), ([1, 1], [-1, 1])),
    # ties: torch.maximum, torch.fmax, torch.clamp
    ("maximum", engine.maximum, ([1.0, nan, 1, 2], [1.0, 1, nan, 1]), ([0.5, 1, 1, 1], [0.5, 1, 1, 0])),
    ("fmax", engine.fmax, ([1.0, nan, 1, 2, nan], [1.0, 1, nan, 1, nan]), ([1, 0, 1, 1, 1], [0, 1, 0, 0, 0])),
    ("clamp", lambda x: x.clamp(0, 1), ([0.0, 1, -1, nan],), ([1, 1, 0, 0],)),
    (
        "clamp crossed",
        engine.clamp,
        ([0.0, 1, -1, 3, 0.5], [0.0, 0, 0, 0, 2], [1.0, 1, 1, 1, 1]),
        ([1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1]),
    ),
    ("clamp_min", engine.clamp_min, ([1.0, 0], [1.0, 1]), ([1, 0], [0, 1])),
    ("where", lambda x, y: engine.where(engine.tensor([True, False]), x, y), ([1.0, inf], [nan, 2.0]), ([1, 0], [0, 1])),
    ("div floor", lambda x: engine.div(x, 2.0, rounding_mode="floor"), ([3.0],), ([0],)),
    ("round", engine.round, ([0.5],), ([0],)),
    # activations where their pieces meet: torch.nn.functional.*
    ("relu", engine.relu, ([0.0, nan, 1],), ([0, 1, 1],)),
    ("leaky_relu", F["leaky_relu"], ([0.0],), ([0.01],)),
    ("elu", lambda x: F["elu"](x, 2.0), ([0.0],), ([2],)),
    ("celu", lambda x: engine.celu(x, 2.0), ([0.0],), ([1],)),
    ("hardswish", F["hardswish"], ([-3.0, 3, 0, 4],), ([0, 1, 0.5, 1],)),
    ("hardsigmoid", F["hardsigmoid"], ([-3.0, 3, 0],), ([0, 0, 1 / 6],)),
    ("hardtanh", F["hardtanh"], ([-1.0, 1, 0],), ([0, 0, 1],)),
    ("relu6", F["relu6"], ([0.0, 6, 1],), ([0, 0, 1],)),
    ("softshrink", F["softshrink"], ([nan, 0.5, 0.6, -0.5],), ([1, 0, 1, 0],)),
    ("hardshrink", engine.hardshrink, ([nan, 0.5, 0.6, -0.5],), ([1, 0, 1, 0],)),
    ("prelu", engine.prelu, ([0.0, -1], [0.25]), ([0.25, 0.25], [-1])),
    ("logsigmoid", F["logsigmoid"], ([0.0, -100, 100],), ([0.5, 1, 3.720075976020836e-44],)),
    ("softplus", F["softplus"], ([0.0, 20, 21],), ([0.5, 0.9999999979388464, 1],)),
    ("threshold", lambda x: engine.threshold(x, 1, 5), ([1.0, 2],), ([0, 1],)),
    ("glu", F["glu"], ([2.0, 0.0],), ([0.5, 0.5],)),
]


@grouped(("f", "inputs", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CORNERS])
def test_gradient_at_corner(f, inputs, expected):
    for found, wanted in zip(grads(f, *inputs), expected, strict=True):
        same(found, wanted)


def test_second_derivative_of_erf_and_lgamma():
    x = t([0.5]).requires_grad_()
    for f, first, second in (
        (engine.erf, 2 / math.sqrt(math.pi) * math.exp(-0.25), -2 / math.sqrt(math.pi) * math.exp(-0.25)),
        (engine.lgamma, -1.9635100260214235, math.pi**2 / 2),  # psi(1/2) = -gamma - 2 log 2, psi'(1/2) = pi^2 / 2
    ):
        (g,) = engine.autograd.grad(f(x).sum(), [x], create_graph=True)
        (h,) = engine.autograd.grad(g.sum(), [x])
        same(g.detach(), [first])
        same(h, [second])


# -- values and dtypes ---------------------------------------------------------------------------------------------------------


def test_alpha():
    x, y = engine.tensor([1.0, 2.0]), engine.tensor([10.0, 20.0])
    assert engine.add(x, y, alpha=2).tolist() == [21.0, 42.0]
    assert engine.sub(x, y, alpha=0.5).tolist() == [-4.0, -8.0]
    assert engine.rsub(x, 3, alpha=2).tolist() == [1.0, -1.0]
    x.add_(y, alpha=-0.1)
    same(x, [0.0, 0.0])
    assert engine.tensor([True, False]).add(engine.tensor([True, False]), alpha=True).tolist() == [True, False]
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        engine.tensor([1]).add(engine.tensor([1]), alpha=1.5)
    assert grads(lambda x, y: engine.add(x, y, alpha=3), [1.0], [1.0]) == [[1.0], [3.0]]


@grouped(("f", "dtype"), [
    (lambda b, i, f: b + b, engine.bool), (lambda b, i, f: b * i, engine.int64), (lambda b, i, f: i / i, engine.float32),
    (lambda b, i, f: i // i, engine.int64), (lambda b, i, f: i // 2.0, engine.float32), (lambda b, i, f: i**2, engine.int64),
    (lambda b, i, f: b**2, engine.int64), (lambda b, i, f: i**2.0, engine.float32), (lambda b, i, f: i < f, engine.bool),
    (lambda b, i, f: i.exp(), engine.float32), (lambda b, i, f: i.floor(), engine.int64), (lambda b, i, f: i.square(), engine.int64),
    (lambda b, i, f: b.square(), engine.int64), (lambda b, i, f: i.clamp(0.5), engine.float32), (lambda b, i, f: b.clamp(0, 1), engine.int64),
    (lambda b, i, f: engine.where(b, 1, 2.5), engine.float32), (lambda b, i, f: engine.where(b, i, 2.5), engine.float32),
    (lambda b, i, f: engine.where(b, 1, 2), engine.int64), (lambda b, i, f: b & i, engine.int64), (lambda b, i, f: b.logical_and(f), engine.bool),
    (lambda b, i, f: engine.float_power(f, 2), engine.float64), (lambda b, i, f: i.reciprocal(), engine.float32),
    (lambda b, i, f: engine.copysign(i, -1.0), engine.float32), (lambda b, i, f: f.double() + f, engine.float64),
    (lambda b, i, f: i + f.half(), engine.float16), (lambda b, i, f: f.bfloat16() * f.half(), engine.float32),
    (lambda b, i, f: engine.polar(f, f), engine.complex64), (lambda b, i, f: engine.deg2rad(i), engine.float32),
])  # fmt: skip
def test_dtype(f, dtype):
    """As torch gives them for a bool, an int64 and a float32 tensor."""
    assert f(engine.tensor([True, False]), engine.tensor([1, 2]), engine.tensor([1.0, 2.0])).dtype is dtype


VALUES = [
    # torch.div(..., rounding_mode=...), torch.floor_divide, torch.remainder, torch.fmod
    (lambda: engine.div(t([7.0, -7]), 2, rounding_mode="floor"), [3, -4]),
    (lambda: engine.div(t([7.0, -7]), 2, rounding_mode="trunc"), [3, -3]),
    (lambda: engine.div(engine.tensor([7, -7]), 2, rounding_mode="trunc"), [3, -3]),
    (lambda: t([1.0, -1, 0, inf, 5]) // t([0.0, 0, 0, 1, inf]), [inf, -inf, nan, nan, 0]),
    (lambda: engine.tensor([7, -7]) % 3, [1, 2]),
    (lambda: engine.tensor([7, -7]).fmod(3), [1, -1]),
    (lambda: 7 // engine.tensor([2, -2]), [3, -4]),
    # integer powers
    (lambda: engine.tensor([1, -1, 2, 0]) ** engine.tensor([-1, -1, -1, -1]), [1, -1, 0, 0]),
    (lambda: 2 ** engine.tensor([-1, 2]), [0, 4]),
    (lambda: engine.tensor([0]) ** 0, [1]),
    # rounding
    (lambda: t([0.5, 1.5, 2.5, -0.5]).round(), [0, 2, 2, 0]),
    (lambda: t([125.0, 1.2345]).round(decimals=-1), [120, 0]),
    (lambda: t([1.2345]).round(decimals=2), [1.23]),
    (lambda: t([-1.75, 1.75]).frac(), [-0.75, 0.75]),
    # choosing; a nan stays
    (lambda: t([1.0, 2]).clamp(min=nan), [nan, nan]),
    (lambda: engine.relu(t([nan, -1, 2])), [nan, 0, 2]),
    (lambda: F["softshrink"](t([nan, 0.5, 0.6])), [nan, 0, 0.1]),
    (lambda: engine.hardshrink(t([nan, 0.5, 0.6])), [nan, 0, 0.6]),
    (lambda: engine.maximum(t([nan, 1]), t([1.0, nan])), [nan, nan]),
    (lambda: engine.fmax(t([nan, 1]), t([1.0, nan])), [1, 1]),
    (lambda: engine.nan_to_num(t([nan, inf, -inf]), 1.0, 2.0, 3.0), [1, 2, 3]),
    (lambda: engine.heaviside(t([-1.0, 0, 2]), t([0.5])), [0, 0.5, 1]),
    (lambda: engine.lerp(t([1.0, 1.0]), t([0.1, 0.1]), 1.0), [0.1, 0.1]),
    (lambda: engine.addcmul(t([1.0]), t([2.0]), t([3.0]), value=0.5), [4]),
    (lambda: engine.addcdiv(t([1.0]), t([2.0]), t([4.0]), value=3), [2.5]),
    # special functions: tables of erf, gamma, Bessel I
    (lambda: engine.erf(t([0.5, inf])), [0.5204998778130465, 1]),
    (lambda: engine.erfinv(t([0.5, 1, 2])), [0.4769362762044699, inf, nan]),
    (lambda: engine.lgamma(t([5.0, 0.5])), [math.log(24), 0.5723649429247001]),
    (lambda: engine.digamma(t([1.0])), [-0.5772156649015329]),
    (lambda: engine.polygamma(1, t([1.0])), [math.pi**2 / 6]),
    (lambda: t([1.0]).polygamma(2), [-2.4041138063191886]),
    (lambda: engine.i0(t([1.0])), [1.2660658777520084]),
    (lambda: engine.sinc(t([0.0, 0.5])), [1, 2 / math.pi]),
    (lambda: engine.xlogy(t([0.0, 0, 2]), t([0.0, nan, 3])), [0, nan, 2 * math.log(3)]),
    # torch.nn.functional
    (lambda: F["gelu"](t([1.0, -1])), [0.8413447460685429, -0.15865525393145707]),
    (lambda: F["gelu"](t([1.0, -1]), approximate="tanh"), [0.8411919906082768, -0.15880800939172324]),
    (lambda: F["mish"](t([1.0])), [0.8650983882673103]),
    (lambda: engine.selu(t([1.0, -1])), [1.0507009873554805, -1.1113307378125625]),
    (lambda: F["softplus"](t([0.0, 50]), beta=2), [math.log(2) / 2, 50]),
    (lambda: F["softmin"](t([0.0, 0.0]), dim=0), [0.5, 0.5]),
    (lambda: engine.softmax(t([1000.0, 1000.0]), 0), [0.5, 0.5]),
    (lambda: engine.log_softmax(t([0.0, 1000.0]), 0), [-1000, 0]),
    (lambda: engine.softmax(t([-inf, -inf]), 0), [nan, nan]),
    # bits: PyTorch gives 0 for shifts beyond the width, and the sign for those to the right
    (lambda: engine.tensor([12, -8]) & 6, [4, 0]),
    (lambda: engine.tensor([True, False]) ^ engine.tensor([True, True]), [False, True]),
    (lambda: ~engine.tensor([5, -1]), [-6, 0]),
    (lambda: engine.tensor([1, 2]) << engine.tensor([70, 3]), [0, 16]),
    (lambda: engine.tensor([-8, 8]) >> engine.tensor([70, 1]), [-1, 4]),
    (lambda: engine.gcd(engine.tensor([12, 0]), engine.tensor([18, 4])), [6, 4]),
    (lambda: engine.lcm(engine.tensor([4, 0]), engine.tensor([6, 4])), [12, 0]),
    # complex numbers
    (lambda: t([3 + 4j, 0], engine.complex128).sgn(), [0.6 + 0.8j, 0]),
    (lambda: t([3 + 4j, 0], engine.complex128).abs(), [5, 0]),
    (lambda: engine.angle(t([1.0, -1, nan, 0, -0.0])), [0, math.pi, nan, 0, 0]),
    (lambda: engine.angle(t([1j, -2], engine.complex128)), [math.pi / 2, math.pi]),
    (lambda: engine.polar(t([2.0]), t([math.pi / 2])), [2j]),
    (lambda: t([1 + 2j], engine.complex128).conj(), [1 - 2j]),
    (lambda: engine.signbit(t([-0.0, 1])), [True, False]),
    (lambda: engine.sign(t([nan, -2, 0])), [0, -1, 0]),
]  # fmt: skip


@grouped(("f", "expected"), [pytest.param(*case, id=str(i)) for i, case in enumerate(VALUES)])
def test_value(f, expected):
    same(f(), expected)


def test_gradient_of_complex_parts():
    """torch: z = 3 + 4j; the gradient of a real number by z is d/dRe + i d/dIm."""
    for f, expected in (
        (lambda z: z.abs(), 0.6 + 0.8j), (lambda z: z.real, 1), (lambda z: z.imag, 1j), (lambda z: z.angle(), (-4 + 3j) / 25), (lambda z: (z * z.conj()).real, 6 + 8j),
    ):  # fmt: skip
        z = t([3 + 4j], engine.complex128).requires_grad_()
        f(z).sum().backward()
        same(z.grad, [expected])


def test_complex_numbers_have_the_parts_that_they_are_given():
    values = [0.0, -0.0, 1.5, -2.0, math.inf, -math.inf]
    real, imag = (t([pair[i] for pair in itertools.product(values, repeat=2)]).requires_grad_() for i in (0, 1))
    z = engine.complex(real, imag)
    assert [str(x) for x in z.real.tolist()] == [str(x) for x in real.tolist()]  # -0.0 differs from 0.0
    assert [str(x) for x in z.imag.tolist()] == [str(x) for x in imag.tolist()]
    z.backward(z.detach())  # as in PyTorch, the gradient's parts; i times an infinite number has no NaN
    assert real.grad.tolist() == real.tolist() and imag.grad.tolist() == imag.tolist()
    (got,) = engine.autograd.grad(z.imag, z, imag.detach())
    assert got.real.tolist() == [0] * 36 and got.imag.tolist() == imag.tolist()
    assert engine.polar(t([math.inf, 2.0]), t([0.0, -0.0])).real.tolist() == [math.inf, 2]
    assert str(engine.polar(t([2.0]), t([-0.0])).imag.item()) == "-0.0"


# -- comparisons ---------------------------------------------------------------------------------------------------------------


def test_equality_with_other_things():
    x = engine.tensor([1.0, 2.0])
    assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711
    assert (x == 1).tolist() == [True, False] and (x != 1).tolist() == [False, True]
    assert (x < 2).tolist() == [True, False] and (engine.tensor([1]) == 1.0).tolist() == [True]
    assert {x: 1}[x] == 1
    assert not (x == x).requires_grad


def test_equal_and_close():
    x = engine.tensor([1.0, nan])
    assert engine.equal(engine.tensor([1, 2]), engine.tensor([1.0, 2.0])) and not engine.equal(engine.tensor([1, 2]), engine.tensor([1]))
    assert not engine.equal(x, x) and not engine.allclose(x, x) and engine.allclose(x, x, equal_nan=True)
    assert engine.isclose(t([inf, 1.0]), t([inf, 1.0 + 1e-6])).tolist() == [True, True]
    with pytest.raises(RuntimeError, match="one dtype"):
        engine.isclose(engine.tensor([1]), engine.tensor([1.0]))


# -- refusals ------------------------------------------------------------------------------------------------------------------

REFUSALS = [
    (lambda b, i, f: b - b, RuntimeError, "two bool tensors"),
    (lambda b, i, f: b - i, RuntimeError, "with a bool tensor"),
    (lambda b, i, f: 1 - b, RuntimeError, "with a bool tensor"),
    (lambda b, i, f: -b, RuntimeError, "on a bool tensor"),
    (lambda b, i, f: +b, RuntimeError, "on a bool tensor"),
    (lambda b, i, f: i // 0, RuntimeError, "ZeroDivisionError"),
    (lambda b, i, f: i % 0, RuntimeError, "ZeroDivisionError"),
    (lambda b, i, f: i.fmod(0), RuntimeError, "ZeroDivisionError"),
    (lambda b, i, f: engine.div(i, 0, rounding_mode="trunc"), RuntimeError, "ZeroDivisionError"),
    (lambda b, i, f: engine.div(f, f, rounding_mode="x"), RuntimeError, "rounding_mode"),
    (lambda b, i, f: i**-1, RuntimeError, "Integers to negative integer powers are not allowed"),
    (lambda b, i, f: f.clamp(), RuntimeError, "At least one of 'min' or 'max'"),
    (lambda b, i, f: engine.where(f, f, f), RuntimeError, "boolean tensor.*float32"),
    (lambda b, i, f: engine.addcdiv(i, i, i), RuntimeError, "addcdiv"),
    (lambda b, i, f: ~f, TypeError, "only implemented on integer and Boolean"),
    (lambda b, i, f: f & f, NotImplementedError, "float32"),
    (lambda b, i, f: f << 1, NotImplementedError, "float32"),
    (lambda b, i, f: b.ceil(), NotImplementedError, "bool"),
    (lambda b, i, f: i.frac(), NotImplementedError, "int64"),
    (lambda b, i, f: i.round(decimals=1), NotImplementedError, "decimals"),
    (lambda b, i, f: f.imag, RuntimeError, "non-complex"),
    (lambda b, i, f: engine.tensor([1j]) < engine.tensor([1j]), NotImplementedError, "complex64"),
    (lambda b, i, f: engine.tensor([1j]).sign(), NotImplementedError, "use sgn"),
    (lambda b, i, f: engine.relu(b), RuntimeError, "bool"),
    (lambda b, i, f: engine.softmax(i, 0), NotImplementedError, "int64"),
    (lambda b, i, f: engine.softmax(f, 1), IndexError, "Dimension out of range"),
    (lambda b, i, f: F["gelu"](i), NotImplementedError, "int64"),
    (lambda b, i, f: F["gelu"](f, "fast"), RuntimeError, "approximate"),
    (lambda b, i, f: F["glu"](engine.tensor([1.0, 2.0, 3.0])), RuntimeError, "even"),
    (lambda b, i, f: engine.prelu(engine.tensor([[1.0, 2.0, 3.0]]), f), RuntimeError, "parameter numbers = 2 and channel size = 3"),
    (lambda b, i, f: engine.lerp(f, f.double(), 0.5), RuntimeError, "one dtype"),
    (lambda b, i, f: engine.heaviside(f, f.double()), RuntimeError, "one dtype"),
    (lambda b, i, f: f + "a", TypeError, "unsupported operand type"),
    (lambda b, i, f: i.add_(1.5), RuntimeError, "can't be cast"),
    (lambda b, i, f: engine.polygamma(-1, f), RuntimeError, "negative"),
    (lambda b, i, f: engine.diagonal(f), IndexError, "Dimension out of range"),
    (lambda b, i, f: engine.diagonal(engine.ones(2, 2), 0, 1, -1), RuntimeError, "cannot be identical"),
    (lambda b, i, f: f.flip(None), TypeError, "must be tuple of ints, not NoneType"),
    (lambda b, i, f: engine.roll(f, None), TypeError, "must be tuple of ints, not NoneType"),
    (lambda b, i, f: b.median(0), NotImplementedError, "bool"),
    (lambda b, i, f: b.nanmedian(0), NotImplementedError, "bool"),
    (lambda b, i, f: b.kthvalue(1), NotImplementedError, "bool"),
    (lambda b, i, f: b.reshape(1, 2).trace(), NotImplementedError, "bool"),
    (lambda b, i, f: engine.cross(engine.ones(3), engine.ones(3).long(), 0), RuntimeError, "float32 and int64"),
    (lambda b, i, f: (f * 1j).nansum(), RuntimeError, "complex"),
    *(
        (lambda b, i, f, name=name: engine.special.__dict__[name](f * 1j), NotImplementedError, f"{name}: not implemented for complex64")
        for name in ("erf", "erfc", "erfinv", "digamma", "i0", "i1", "logit", "ndtri", "erfcx", "log_ndtr", "entr")
    ),
    (lambda b, i, f: engine.lgamma(f * 1j), NotImplementedError, "complex64"),
    (lambda b, i, f: engine.xlogy(f, 2j), NotImplementedError, "complex64"),
    (lambda b, i, f: engine.atan2(f, f * 1j), NotImplementedError, "complex64"),
    (lambda b, i, f: engine.copysign(f, f * 1j), NotImplementedError, "complex64"),
]


@grouped(("f", "kind", "words"), [pytest.param(*case, id=str(i)) for i, case in enumerate(REFUSALS)])
def test_refusal(f, kind, words):
    with pytest.raises(kind, match=words):
        f(engine.tensor([True, False]), engine.tensor([1, 2]), engine.tensor([1.0, 2.0]))


# -- zeros, infinities, no dimensions ------------------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")
EDGES = [  # a call and PyTorch's answer
    (lambda: engine.tensor([-0.0, -INF, INF, 4.0]) ** -0.5, [-INF, NAN, 0.0, 0.5]),
    (lambda: engine.tensor([-0.0, -INF, 4.0]) ** engine.tensor(-0.5), [INF, 0.0, 0.5]),
    (lambda: engine.tensor([2, 4]) ** -0.5, [2**-0.5, 0.5]),
    (lambda: engine.tensor([0.0, -0.0, INF, -INF, NAN, -1.0]).angle(), [0.0, 0.0, 0.0, numpy.pi, NAN, numpy.pi]),
    (lambda: 1 / engine.tensor([-0.0]).angle(), [INF]),
    (lambda: engine.tensor([[1, 0], [0, 2]]).all(()), [[True, False], [False, True]]),
    (lambda: engine.any(engine.tensor([[1, 0], [0, 2]]), ()), [[True, False], [False, True]]),
    (lambda: engine.tensor([[1, 0]]).any(dim=(), keepdim=True), [[True, False]]),
    (lambda: engine.tensor(2.0).all(()), True),
]


@pytest.mark.parametrize(("f", "expected"), [pytest.param(*case, id=str(i)) for i, case in enumerate(EDGES)])
def test_edge(f, expected):
    numpy.testing.assert_allclose(f().numpy(), numpy.asarray(expected), rtol=1e-6)
    assert f().numpy().shape == numpy.shape(expected)


# -- forms of a call -----------------------------------------------------------------------------------------------------------


def test_where_with_the_condition_alone():
    rows, columns = engine.where(engine.tensor([[True, False], [True, True]]))
    assert rows.tolist() == [0, 1, 1] and columns.tolist() == [0, 0, 1]
    assert engine.tensor([1.0, 2.0]).where(engine.tensor([True, False]), 0).tolist() == [1.0, 0.0]
    assert engine.where(engine.tensor([1, 0], dtype=engine.uint8), 1, 0).tolist() == [1, 0]


def test_in_place_forms():
    x = engine.tensor([3.0, -3.0])
    assert x.div_(2, rounding_mode="floor") is x and x.tolist() == [1.0, -2.0]
    x.clamp_(min=0)
    x.pow_(2)
    x -= 0.5
    assert x.tolist() == [0.5, -0.5]
    y = engine.tensor([-1.0, 2.0])
    assert F["relu"](y, inplace=True) is y and y.tolist() == [0.0, 2.0]
    z = engine.tensor([-1.0, 2.0])
    assert F["leaky_relu"](z, 0.5, True) is z and z.tolist() == [-0.5, 2.0]
    assert F["elu"](engine.tensor([1.0]), inplace=False).tolist() == [1.0]


def test_prelu_by_channel():
    x = engine.tensor([[-1.0, -1.0], [2.0, -2.0]])
    assert engine.prelu(x, engine.tensor([0.1, 0.5])).tolist() == [[numpy.float32(-0.1), -0.5], [2.0, -1.0]]


def test_large_arrays_agree_with_small_ones():
    """Above some sizes other code runs: masks in whole words, blocks, products with ones."""
    x = numpy.random.default_rng(0).normal(size=(70, 1001)).astype("float32")
    x[3, 5], x[4, 6] = nan, inf
    for name in ("relu", "sigmoid"):
        f = getattr(engine, name)
        assert numpy.array_equal(f(engine.tensor(x)).array, numpy.stack([f(engine.tensor(row)).array for row in x]), equal_nan=True), name
    for name in ("gelu", "silu"):
        assert numpy.allclose(
            F[name](engine.tensor(x)).array,
            numpy.stack([F[name](engine.tensor(row)).array for row in x]),
            rtol=1e-6,
            atol=1e-7,
            equal_nan=True,
        ), name
    mask = x > 0
    for a, b in ((x, 0.0), (0, x), (x, x[::-1].copy()), (x, 2.5), (x, x[:1])):
        tensors = [engine.tensor(v) if isinstance(v, numpy.ndarray) else v for v in (a, b)]
        assert numpy.array_equal(engine.where(engine.tensor(mask), *tensors).array, numpy.where(mask, a, b), equal_nan=True)


def test_gelu_in_float32():
    """The own erf against SciPy's in float64: 4 units in the last place of 1."""
    from scipy.special import ndtr

    x = numpy.linspace(-8, 8, 100_001, dtype=numpy.float32)
    exact = x.astype(numpy.float64) * ndtr(x.astype(numpy.float64))
    assert numpy.abs(F["gelu"](engine.tensor(x)).array - exact).max() < 1.5e-6


@pytest.mark.parametrize("dtype", [engine.float32, engine.float64])
def test_a_tensor_of_halves_as_exponent_is_no_square_root(dtype):
    x = t([-inf, -0.0, 4.0, inf, -1.0], dtype)
    for half in (t(0.5, dtype), t([0.5], dtype), t([0.5], dtype).expand(5), t([0.5] * 5, dtype)):
        found = engine.pow(x, half)  # C's pow, as PyTorch's of tensors; a square root gives nan and -0
        assert found.tolist()[:4] == [inf, 0.0, 2.0, inf] and math.copysign(1, found[1].item()) == 1 and found[4].isnan()
    assert engine.pow(-inf, t([0.5, 2.0], dtype)).tolist() == [inf, inf] and engine.pow(t(-inf, dtype), t(0.5, dtype)).item() == inf
    rows = engine.pow(t([[-inf, 9.0], [-2.0, 3.0]], dtype), t([[0.5], [2.0]], dtype))
    assert rows.dtype is dtype and rows.tolist() == [[inf, 3], [4, 9]]
    assert x.sqrt()[0].isnan() and engine.pow(x, 0.5)[0].isnan()  # a number 0.5 is one


def test_log1p_of_small_complex_numbers():
    for size in (1e-20, 1e-9, 1e-3, 0.3):
        z = complex(size, -size)
        exact = complex(math.log1p(2 * size + 2 * size * size) / 2, -math.atan2(size, 1 + size))  # log|1 + z| and the angle
        found = engine.log1p(t([z], engine.complex128)).item()
        assert math.isclose(found.real, exact.real, rel_tol=1e-14) and math.isclose(found.imag, exact.imag, rel_tol=1e-14)
    assert engine.log1p(t(1e-12 + 0j, engine.complex64)).item().real == pytest.approx(1e-12, rel=1e-6)


@pytest.mark.parametrize("dtype", [engine.uint8, engine.int8, engine.int64])
def test_an_integer_tensor_to_a_negative_integer_number_is_refused(dtype):
    x = engine.tensor([1, 2, 3], dtype=dtype)
    for program in (lambda: x**-1, lambda: engine.pow(x, -2), lambda: x.clone().pow_(-1)):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
            program()


@pytest.mark.parametrize("join", [engine.stack, engine.cat, engine.hstack])
def test_numpy_arrays_are_no_tensors(join):
    with pytest.raises(TypeError, match=r"expected Tensor as element 1 in argument 0, but got numpy\.ndarray"):
        join([engine.ones(3), numpy.ones(3)])
    with pytest.raises(TypeError, match="expected Tensor as element 0"):
        join([numpy.ones(3, numpy.float32), numpy.ones(3, numpy.float32)])


def test_the_slope_of_a_slope_beside_a_number():
    x = t([0.5, 2.0]).requires_grad_()
    (slope,) = engine.autograd.grad(engine.special.xlog1py(x, 2).sum(), x, create_graph=True)
    assert numpy.allclose(slope.tolist(), math.log(3)) and engine.autograd.grad((slope * x).sum(), x)[0].tolist() == slope.tolist()
