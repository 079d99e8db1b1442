"""Special functions: error, gamma and Bessel functions, sigmoid, logit and x log y."""

import math

from ..core.op import Elementwise, functions, replacing
from ..core.tensor import Tensor, define
from .front import Refusing, front
from .math import UNARY


class NoComplex(Refusing):
    """Base of functions that PyTorch defines for real numbers only."""
    refuses = "c"


class erf(NoComplex, Elementwise):
    """Error function of each element: 2 / sqrt(pi) times the integral of exp(-t^2) from 0."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.erf(input)
    def d_input(xp, g, input): return g * (2 / math.sqrt(math.pi) * xp.exp(-(input * input)))


class erfc(NoComplex, Elementwise):
    """1 - erf of each element, accurate where it is small."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.erfc(input)
    def d_input(xp, g, input): return g * (-2 / math.sqrt(math.pi) * xp.exp(-(input * input)))


class erfinv(NoComplex, Elementwise):
    """Inverse of erf: infinite at -1 and 1, nan outside."""
    types, samples, domain = "float", UNARY, (-0.9, 0.9)
    def forward(xp, input): return xp.erfinv(input)
    def d_input(xp, g, input): return g * (math.sqrt(math.pi) / 2 * xp.exp(xp.square(xp.erfinv(input))))


class lgamma(NoComplex, Elementwise):
    """Logarithm of the absolute value of the gamma function."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.lgamma(input)
    def d_input(xp, g, input): return g * xp.digamma(input)


class digamma(NoComplex, Elementwise):
    """Derivative of lgamma."""
    exempt = {"specials": "Its slope at -1 is infinite, where PyTorch's rounding gives 6.6e32."}
    types, samples = "float", UNARY
    def forward(xp, input): return xp.digamma(input)
    def d_input(xp, g, input): return g * xp.polygamma(input, 1)


class polygamma(NoComplex, Elementwise):
    """The n-th derivative of digamma."""
    home, types, samples, inputs = "", "float", UNARY, ("input",)
    exempt = dict.fromkeys(("promotion", "zero_size"), "PyTorch takes n before the tensor; tests/engine/test_math.py has the public form.")
    def forward(xp, input, n=1): return xp.polygamma(input, n)
    def d_input(xp, g, input, n): return g * xp.polygamma(input, n + 1)


@front("polygamma", method=False, out=True)
def _polygamma(n, input):
    """The n-th derivative of digamma; n is at least 0."""
    if not hasattr(n, "__index__") or isinstance(n, (bool, Tensor)): raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0: raise RuntimeError(f"polygamma: n must not be negative, got {n}")
    return polygamma(input, n)


@front("polygamma", function=False)
def _polygamma_method(self, n):
    """The n-th derivative of digamma; n is at least 0."""
    return _polygamma(n, self)


define("polygamma_", replacing("polygamma", _polygamma_method))


class i0(NoComplex, Elementwise):
    """Modified Bessel function of the first kind, order 0."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.i0(input)
    def d_input(xp, g, input): return g * xp.i1(input)


class i1(NoComplex, Elementwise):
    """Modified Bessel function of the first kind, order 1."""
    home, method, types, samples = "special", False, "float", UNARY
    def forward(xp, input): return xp.i1(input)
    def d_input(xp, g, input, out):
        off = xp.abs(input) > 0
        safe = xp.where(off, input, 1)
        return g * xp.where(off, xp.i0(safe) - out / safe, 0.5)


class xlogy(NoComplex, Elementwise):
    """`input * log(other)`, and 0 where `input` is 0 unless `other` is nan."""
    types = "float"
    def forward(xp, input, other): return xp.xlogy(input, other)
    def d_input(xp, g, input, other): return xp.where((input == 0) & (other <= 0), 0, xp.xlogy(g, other))
    def d_other(xp, g, input, other): return g * (input / other)


class sigmoid(Elementwise):
    """1 / (1 + exp(-x)) of each element x."""
    types, samples, formula = "float", UNARY, "1 / (1 + exp(-input))"
    def forward(xp, input): return xp.sigmoid(input)
    def d_input(xp, g, out): return g * (out * (1 - out))


class logit(NoComplex, Elementwise):
    """log(x / (1 - x)) of each element x, the inverse of sigmoid; `eps` clamps x to [eps, 1 - eps] first."""
    types, samples, inputs, domain = "float", UNARY, ("input",), (0.1, 0.9)
    def forward(xp, input, eps=None): return xp.logit(input, eps)
    def d_input(xp, g, input, eps):
        eps = -1 if eps is None else eps  # as in PyTorch, a negative eps means none
        return xp.where(_inside(input, max(eps, 0)), g / ((input + 0.0) * (1 - input)), math.nan if eps < 0 else xp.where(input == input, 0, math.nan))


def _inside(x, eps): return (x >= eps) & (x <= 1 - eps)


for _name in ("erf", "erfc", "erfinv", "digamma", "polygamma", "i0", "xlogy", "logit"):
    functions[f"special.{_name}"] = functions[_name]
functions |= {"special.expit": functions["sigmoid"], "special.gammaln": functions["lgamma"], "special.psi": functions["digamma"]}
