"""The device functions of `special.cuh`, run by the emulator, beside the CPU's functions in float64."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import pytest
from emulate import Emulator, Guarded, guarded
from numpy import geomspace, inf, linspace, nan, r_
from scipy import special

from engine.backends import cpu
from engine.backends.gpu import launch
from engine.backends.polynomials import _FAMILIES

C = {"float32": "float", "float64": "double"}
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
FLOOR = {"float32": 1.2e-38, "float64": 1e-290}  # errors of smaller results are absolute; SciPy rounds some of them to 0
UNARY = (
    "airy_ai",
    "airy_ai_slope",
    "digamma",
    "entr",
    "i0e",
    "i1e",
    "log_ndtr",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "ndtr",
    "ndtri",
)
UNARY += ("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sinc")
BINARY = ("igamma", "igammac", "xlog1py", "xlogy", "zeta")
DEGREES = (0, 1, 2, 3, 12)  # of polygamma
IN_DOUBLE = {"airy_ai", "airy_ai_slope", "igamma", "igammac", "polygamma3", "polygamma12"}  # for float too

EXPRESSIONS = {name: f"special::{name}(x[i])" for name in UNARY} | {name: f"special::{name}(x[i], y[i])" for name in BINARY}
EXPRESSIONS |= {f"polygamma{n}": f"special::polygamma(x[i], {n})" for n in DEGREES}
EXPRESSIONS |= {f"{name}{m}": f"special::polynomial<special::{name}, {m}>(x[i], y[i])" for name in _FAMILIES for m in (0, 1, 2)}
EXPRESSIONS |= {"ldexp": "special::ldexp(x[i], (int64_t)y[i])", "exponent": "0; out[i] = special::frexp(x[i], n), out[i] = n"}
EXPRESSIONS |= {"mantissa": "special::frexp(x[i], n)"}


def text_of(library: str) -> str:
    """A kernel `NAME_TYPE` for each function and type."""
    kernel = 'extern "C" __global__ void __launch_bounds__(256) {0}_{1}(const {1}* x, const {1}* y, {1}* out, int64_t size) {{\n'
    kernel += "  const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;\n  int32_t n;\n  if (i < size) {{ out[i] = {2}; }}\n}}\n"
    return library + "".join(kernel.format(name, c, call) for c in C.values() for name, call in EXPRESSIONS.items())


TEXT = text_of(launch.source("special.cuh"))


@pytest.fixture(autouse=True)
def _emulated(monkeypatch):
    monkeypatch.setattr(launch, "driver", Emulator())


def run(text: str, name: str, x: Any, y: Any) -> numpy.ndarray:
    """The results of a kernel for flat arrays of one dtype."""
    arrays, out = [guarded(x), guarded(y)], Guarded(x.shape, x.dtype)
    kernel = launch.Kernel(text, f"{name}_{C[x.dtype.name]}")
    kernel(-(-x.size // 256), 256, *[a.pointer for a in arrays], out.pointer, x.size)
    assert out.intact()
    return out.array


def on_cpu(name: str, x: Any, y: Any) -> numpy.ndarray:
    """The same by the CPU's functions."""
    with numpy.errstate(all="ignore"):
        if name.startswith("polygamma"):
            return cpu.polygamma(x, int(name.removeprefix("polygamma")))
        return getattr(cpu, name)(x, y) if name in BINARY else getattr(cpu, name)(x)


class Case(NamedTuple):
    name: str
    x: Any
    y: Any = 0.0
    scale: Callable | None = None


def error(case: Case, dtype: str, text: str = TEXT) -> float:
    """The largest error relative to the CPU's result in float64, or to the case's scale where that is larger."""
    name, x, y, scale = case
    x, y = (numpy.ascontiguousarray(a, dtype).ravel() for a in numpy.broadcast_arrays(x, y))
    got, wide = run(text, name, x, y), (x.astype("float64"), y.astype("float64"))
    want = on_cpu(name, *wide)
    with numpy.errstate(all="ignore"):
        same = (got == want.astype(dtype)) | (numpy.isnan(got) & numpy.isnan(want))
        size = numpy.maximum(abs(want), FLOOR[dtype] if scale is None else numpy.maximum(scale(*wide), FLOOR[dtype]))
        found = numpy.where(same, 0, abs(got - want) / size)
    return float(numpy.where(numpy.isfinite(found), found, inf).max())  # a nan or inf on one side only is an infinite error


EDGES = r_[0.0, -0.0, 0.5, -0.5, 1, -1, 1.5, -1.5, 2, -2, inf, -inf, nan]
POSITIVE = r_[geomspace(1e-30, 1e30, 1201), linspace(0.01, 30, 3001)]
REAL = r_[POSITIVE, -POSITIVE, EDGES]


def pairs(x: Any, y: Any) -> tuple:
    return tuple(a.ravel() for a in numpy.meshgrid(x, y))


def two_terms(x: Any, _: Any) -> Any:
    """The terms of digamma's reflection, which cancel near its zeros for x < 0."""
    with numpy.errstate(all="ignore"):
        return numpy.where(x < 0, abs(numpy.pi / numpy.tan(numpy.pi * x)) + abs(special.digamma(1 - x)), 0)


def part_sums(s: Any, q: Any) -> Any:
    """The sums of (q + k)^-s over the k on either side of q's sign change, which cancel for odd s."""
    with numpy.errstate(all="ignore"):
        return numpy.where(q < 0, special.zeta(s, q - numpy.floor(q)) + special.zeta(s, -q - numpy.floor(-q)), 0)


def envelope(which: int) -> Callable:
    """sqrt(Ai^2 + Bi^2), or that of the derivatives, for x < 0."""
    return lambda x, _: numpy.where(x < 0, numpy.hypot(*(special.airy(numpy.minimum(x, 0))[i] for i in (which, which + 2))), 0)


# Near the transition, x - a in units of sqrt(a), and far from it. Beyond, SciPy's own error is larger: see `HARD`.
NEAR = pairs(r_[geomspace(0.5, 1e12, 60)], r_[linspace(-4, 4, 60), geomspace(1e-9, 1, 10)])
NEAR = (NEAR[0], abs(NEAR[0] + NEAR[1] * numpy.sqrt(NEAR[0])))
FAR = pairs(geomspace(1, 500, 60), r_[geomspace(0.01, 0.99, 40), geomspace(1.01, 100, 40)])
INCOMPLETE = {
    "near": NEAR,
    "far": (FAR[0], FAR[0] * FAR[1]),
    "small": pairs(r_[geomspace(1e-20, 1, 40), linspace(0.1, 25, 50)], r_[geomspace(1e-20, 30, 60), linspace(0.1, 30, 40)]),
    "edges": pairs(r_[EDGES, 1e-30, 25, 1e30], r_[EDGES, 1e-30, 25, 1e30]),
}
ZETA = pairs(r_[1.0001, linspace(1.01, 5, 40), linspace(2, 40, 39), 100, 1000, nan], r_[geomspace(1e-5, 1e30, 70), linspace(0.1, 20, 100)])
CASES = {
    "airy_ai": Case("airy_ai", r_[linspace(-50, 104, 6001), EDGES], 0.0, envelope(0)),
    "airy_ai_slope": Case("airy_ai_slope", r_[linspace(-50, 104, 6001), EDGES], 0.0, envelope(1)),
    "digamma": Case("digamma", r_[POSITIVE, -linspace(0.001, 40, 4001), EDGES], 0.0, two_terms),
    "digamma at its zero": Case("digamma", 1.4616321449683623 + r_[geomspace(1e-15, 0.4, 200), -geomspace(1e-15, 0.4, 200)]),
    "entr": Case("entr", REAL),
    "i0e": Case("i0e", REAL),
    "i1e": Case("i1e", REAL),
    "log_ndtr": Case("log_ndtr", r_[REAL, linspace(-40, 40, 4001)]),
    "ndtr": Case("ndtr", r_[REAL, linspace(-40, 40, 4001)]),
    "ndtri": Case("ndtri", r_[geomspace(1e-37, 0.5, 1001), linspace(0, 1, 1001), EDGES], 0.0, lambda x, _: 1e-5 * (x > 0.1)),
    "sinc": Case("sinc", r_[linspace(-50, 50, 4001), EDGES], 0.0, lambda x, _: 1 / numpy.maximum(1, numpy.pi * abs(x))),
    "xlog1py": Case("xlog1py", *pairs(r_[EDGES, 1e-3, 7], r_[EDGES, 1e-3, 7])),
    "xlogy": Case("xlogy", *pairs(r_[EDGES, 1e-3, 7], r_[EDGES, 1e-3, 7])),
    "zeta": Case("zeta", *ZETA),
    "zeta for negative q": Case("zeta", *pairs(numpy.arange(2, 12), -linspace(0.03, 40, 777)), part_sums),
    "zeta at the edges": Case("zeta", *pairs(r_[EDGES[:-3], -inf], EDGES)),
}
for name in ("modified_bessel_k0", "modified_bessel_k1"):
    CASES[name] = Case(name, r_[REAL, linspace(1, 700, 3001)])
    CASES[f"scaled_{name}"] = Case(f"scaled_{name}", REAL)
for name in ("igamma", "igammac"):
    CASES |= {f"{name}, {where}": Case(name, *grid) for where, grid in INCOMPLETE.items()}
for n in DEGREES:
    points = r_[geomspace(1e-3, 1e8, 500), linspace(0.1, 30, 1001), EDGES]
    CASES[f"polygamma{n}"] = Case(
        f"polygamma{n}", points, 0.0, two_terms if n == 0 else lambda x, _, s=n + 1: part_sums(s, x) * special.gamma(s)
    )


@pytest.mark.parametrize("dtype", C)
@pytest.mark.parametrize("case", CASES)
def test_function(case, dtype):
    assert error(CASES[case], dtype) <= TOLERANCE[dtype]


# a, x and the function there: integrals of the density by mpmath with 50 digits. SciPy's first value is 96 times too large.
HARD = {
    "igamma": [
        (1e12, 1e12 - 5e6, 2.866396783250203718e-7),
        (1e8, 1e8 - 1e5, 7.369931066896993947e-24),
        (3919.40625, 2152.8125, 3.0713071667403223945e-255),
    ],
    "igammac": [
        (1e12, 1e12 + 5e6, 2.866634658372595864e-7),
        (1e8, 1e8 + 3e5, 1.2044173125193528425e-197),
        (6260.5, 9004.25, 4.1015219777755523752e-206),
    ],
}


@pytest.mark.parametrize("name", HARD)
def test_incomplete_gamma_where_scipy_is_inaccurate(name):
    a, x, want = numpy.array(HARD[name]).T
    numpy.testing.assert_allclose(run(TEXT, name, a.copy(), x.copy()), want, rtol=TOLERANCE["float64"])


@pytest.mark.parametrize("name", ["airy_ai", "airy_ai_slope"])
def test_airy_far_below_zero(name):
    # zeta, the phase, is rounded: the error is 2^-53 zeta of the envelope here, and as much in SciPy
    x = -linspace(50, 1e4, 4001)
    phase = envelope(name == "airy_ai_slope")(x, 0) * 2 / 3 * abs(x) ** 1.5
    assert error(Case(name, x, scale=lambda *_: phase), "float64") < 2.5e-16
    assert error(Case(name, x, scale=envelope(name == "airy_ai_slope")), "float32") < 1e-6


@pytest.mark.parametrize("name", ["airy_ai", "airy_ai_slope"])
def test_airy_far_above_zero(name):
    x = numpy.array([120.0, 1e7, 1e30, 3e38])  # SciPy gives nan for the last ones
    assert not run(TEXT, name, x, x).any()


@pytest.mark.parametrize("dtype", C)
@pytest.mark.parametrize("family", _FAMILIES)
def test_polynomial(family, dtype):
    """The recurrence has the CPU's operations in the CPU's order, so the results are the same to the last bit."""
    x, n = pairs(r_[linspace(-1.5, 1.5, 61), -3, 7, inf, nan], r_[0:20, 40, -0.5, -1, -3, 2.7, inf, -inf, nan])
    x, n = x.astype(dtype), n.astype(dtype)
    for order in (0, 1, 2):
        with numpy.errstate(all="ignore"):
            want = cpu.polynomial(x, n, family, order)
        numpy.testing.assert_array_equal(run(TEXT, f"{family}{order}", x, n), want)


@pytest.mark.parametrize("dtype", C)
def test_mantissas_and_exponents(dtype):
    least = numpy.finfo(dtype).smallest_subnormal
    x = numpy.array([0, -0.0, 1, -1, 0.3, -6, 1e30, 1e-30, least, -3 * least, inf, -inf, nan], dtype)
    for name, want in zip(("mantissa", "exponent"), numpy.frexp(x), strict=True):
        numpy.testing.assert_array_equal(run(TEXT, name, x, x), want)
    x, n = pairs(x, [0, 1, -1, 10, -140, 140, -2000, 2000, 5001, -5001, 2**31 - 1, -(2**31)])
    x, n = x.astype(dtype), n.astype(dtype)
    with numpy.errstate(all="ignore"):
        want = numpy.ldexp(x, numpy.clip(n, -(2**31), 2**31 - 1).astype("int64").clip(-(2**30), 2**30).astype("int32"))
    numpy.testing.assert_array_equal(run(TEXT, "ldexp", x, n), want)


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
def test_compiled(arch):
    """All kernels compile, with their tables and loops in registers, and those for floats have no operation on doubles."""
    kernels = re.findall(r"\.visible \.entry (\w+)\((.*?)\n}", launch.compiled(TEXT, arch).decode(), re.DOTALL)
    assert len(kernels) == 2 * len(EXPRESSIONS)
    assert not [name for name, body in kernels if ".local" in body]
    assert {name.removesuffix("_float") for name, body in kernels if name.endswith("_float") and ".f64" in body} == IN_DOUBLE


def test_a_wrong_coefficient_is_noticed():
    """Each table with its second number changed in the fifth digit."""
    tables = re.compile(r"(constexpr double \w+\[\] = \{\n +[^,]+, )([^,]+),")
    wrong, count = tables.subn(r"\1(\2) * (1 + 1e-4),", launch.source("special.cuh"))
    assert count == 10
    text = text_of(wrong)
    for case in (
        set(CASES) - {"entr", "log_ndtr", "ndtr", "ndtri", "sinc", "xlogy", "xlog1py"} - {case for case in CASES if "edges" in case}
    ):
        assert error(CASES[case], "float64", text) > TOLERANCE["float64"], case
