"""More special functions, from SciPy: Bessel functions, the normal distribution, incomplete gamma functions, zeta."""

import math

from ..core.op import Elementwise, functions
from . import activation, reduce, rounding, special, statistics, trig  # noqa: F401  registered under further names below
from .front import Refusing
from .math import UNARY
from .special import NoComplex

_REFUSED = "There is no formula of the slope in the first parameter; the engine refuses it, as PyTorch does."
_WHOLE = (([[2, 3, 4], [3, 2, 5]], (2, 3)), ([2, 4, 3], (2, 3)))  # the first parameter is integer: it has no gradient


class Special(NoComplex, Elementwise):
    home, method, inplace, types, samples = "special", False, False, "float", UNARY


class Bessel(Special):
    exempt = {"specials": "PyTorch has no gradient of it; tests/parity/test_op_db.py compares the values."}


class i0e(Special):
    """The Bessel function i0 times exp(-|x|)."""
    domain = (-2, 2)
    def forward(xp, input): return xp.i0e(input)
    def d_input(xp, g, input, out): return g * (xp.i1e(input) - xp.sign(input) * out)


class i1e(Special):
    """The Bessel function i1 times exp(-|x|)."""
    domain = (-2, 2)
    def forward(xp, input): return xp.i1e(input)
    def d_input(xp, g, input, out):
        off = xp.abs(input) > 0
        safe = xp.where(off, input, 1)
        return g * xp.where(off, xp.i0e(safe) - out * (xp.sign(safe) + 1 / safe), 0.5)


class bessel_j0(Bessel):
    """Bessel function of the first kind, order 0."""
    domain = (-5, 5)
    def forward(xp, input): return xp.bessel_j0(input)
    def d_input(xp, g, input): return -g * xp.bessel_j1(input)


class bessel_j1(Bessel):
    """Bessel function of the first kind, order 1."""
    domain = (-5, 5)
    def forward(xp, input): return xp.bessel_j1(input)
    def d_input(xp, g, input, out): return g * xp.where(input == 0, 0.5, xp.bessel_j0(input) - out / xp.where(input == 0, 1, input))


class bessel_y0(Bessel):
    """Bessel function of the second kind, order 0: -inf at 0, nan below."""
    def forward(xp, input): return xp.bessel_y0(input)
    def d_input(xp, g, input): return -g * xp.bessel_y1(input)


class bessel_y1(Bessel):
    """Bessel function of the second kind, order 1: -inf at 0, nan below."""
    def forward(xp, input): return xp.bessel_y1(input)
    def d_input(xp, g, input, out): return g * (xp.bessel_y0(input) - out / input)


class modified_bessel_k0(Bessel):
    """Modified Bessel function of the second kind, order 0: inf at 0, nan below."""
    def forward(xp, input): return xp.modified_bessel_k0(input)
    def d_input(xp, g, input): return -g * xp.modified_bessel_k1(input)


class modified_bessel_k1(Bessel):
    """Modified Bessel function of the second kind, order 1: inf at 0, nan below."""
    def forward(xp, input): return xp.modified_bessel_k1(input)
    def d_input(xp, g, input, out): return -g * (xp.modified_bessel_k0(input) + out / input)


class scaled_modified_bessel_k0(Bessel):
    """modified_bessel_k0 times exp(x)."""
    def forward(xp, input): return xp.scaled_modified_bessel_k0(input)
    def d_input(xp, g, input, out): return g * (out - xp.scaled_modified_bessel_k1(input))


class scaled_modified_bessel_k1(Bessel):
    """modified_bessel_k1 times exp(x)."""
    def forward(xp, input): return xp.scaled_modified_bessel_k1(input)
    def d_input(xp, g, input, out): return g * (out - xp.scaled_modified_bessel_k0(input) - out / input)


class spherical_bessel_j0(Bessel):
    """sin(x) / x, and 1 at 0."""
    domain = (0.5, 5)
    def forward(xp, input): return xp.where(input == 0, 1, xp.where(xp.isinf(input), 0, xp.sin(input) / xp.where(input == 0, 1, input)))
    def d_input(xp, g, input, out): return g * xp.where(input == 0, 0, (xp.cos(input) - out) / xp.where(input == 0, 1, input))


# -- the normal distribution -----------------------------------------------------------------------------------------------------


class ndtr(Special):
    """Normal distribution function: the probability that a standard normal variable is below x."""
    domain = (-3, 3)
    def forward(xp, input): return xp.ndtr(input)
    def d_input(xp, g, input): return g * xp.exp(-0.5 * input * input) / math.sqrt(2 * math.pi)


class log_ndtr(Special):
    """Logarithm of the normal distribution function, accurate also far below 0."""
    domain = (-3, 3)
    def forward(xp, input): return xp.log_ndtr(input)
    def d_input(xp, g, input):
        low = xp.clip(input, None, 0)
        high = input - low  # erfcx of its negative would overflow
        return g * (math.sqrt(2 / math.pi) * xp.exp(-high * high / 2)) / (xp.erfcx(-low * math.sqrt(0.5)) * xp.erfc(-high * math.sqrt(0.5)))


class ndtri(Special):
    """Inverse of the normal distribution function: infinite at 0 and 1, nan outside."""
    domain = (0.1, 0.9)
    def forward(xp, input): return xp.ndtri(input)
    def d_input(xp, g, out): return g * math.sqrt(2 * math.pi) * xp.exp(0.5 * out * out)


class erfcx(Special):
    """erfc(x) times exp(x^2)."""
    domain = (-1, 2)
    def forward(xp, input): return xp.erfcx(input)
    def d_input(xp, g, input, out): return g * (2 * input * out - 2 / math.sqrt(math.pi))


# -- entropy, zeta, gamma ----------------------------------------------------------------------------------------------------------


class entr(Special):
    """-x log(x): 0 at 0, -inf for negative x."""
    def forward(xp, input): return xp.entr(input)
    def d_input(xp, g, input): return g * (-xp.log(input) - 1)


class xlog1py(Special):
    """`input * log(1 + other)`, and 0 where `input` is 0 unless `other` is nan."""
    samples = Elementwise.samples
    def forward(xp, input, other): return xp.xlog1py(input, other)
    def d_input(xp, g, input, other): return xp.where((input == 0) & (other <= -1), 0, xp.xlog1py(g, other))  # g * log1p(other), or a scalar
    def d_other(xp, g, input, other): return g * (input / (other + 1))


class zeta(Special):
    """Hurwitz zeta function: the sum of 1 / (k + other)^input over k = 0, 1, ..."""
    samples = _WHOLE
    exempt = {"specials": _REFUSED, "promotion": "PyTorch's zeta takes no bool beside a number; the rest is as for xlog1py."}
    def forward(xp, input, other): return xp.zeta(input, other)
    def d_input(xp, g, input): raise NotImplementedError("the derivative for 'zeta: self' is not implemented")
    def d_other(xp, g, input, other): return -g * input * xp.zeta(input + 1, other)


class Incomplete(Refusing, Elementwise):
    """Base of the regularized incomplete gamma functions; as in PyTorch, the first parameter has no gradient."""
    tensors = True
    types, refuses, inplace, samples, exempt = "promote", "bic", True, _WHOLE, {"specials": _REFUSED}


class igamma(Incomplete):
    """Regularized lower incomplete gamma function: the distribution function, at `other`, of a gamma variable with parameter `input`."""
    def forward(xp, input, other): return xp.igamma(input, other)
    def d_input(xp, g, input): raise NotImplementedError("the derivative for 'igamma: input' is not implemented")
    def d_other(xp, g, input, other): return g * _density(xp, input, other)


class igammac(Incomplete):
    """Regularized upper incomplete gamma function, 1 - igamma, accurate where it is small."""
    def forward(xp, input, other): return xp.igammac(input, other)
    def d_input(xp, g, input): raise NotImplementedError("the derivative for 'igammac: input' is not implemented")
    def d_other(xp, g, input, other): return -g * _density(xp, input, other)


def _density(xp, a, x):
    """Density of the gamma distribution."""
    return xp.exp((a - 1) * xp.log(x) - x - xp.lgamma(a))


# -- aliases -----------------------------------------------------------------------------------------------------------------------


for _name, _of in {"modified_bessel_i0": "i0", "modified_bessel_i1": "special.i1", "gammainc": "igamma", "gammaincc": "igammac", "multigammaln": "mvlgamma"}.items():
    functions[f"special.{_name}"] = functions[_of]
for _name in ("exp2", "expm1", "log1p", "round", "sinc", "logsumexp"):
    functions[f"special.{_name}"] = functions[_name]
