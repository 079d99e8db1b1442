"""Orthogonal polynomials under `special`, and the Airy function, with the gradients that PyTorch lacks."""

from ..core.op import RULES_ONLY, Elementwise, functions
from .bessel import Bessel
from .front import outward


class polynomial(Elementwise):
    """Derivative, of order `order`, of the polynomial of degree `n` of a family at each element; there is no gradient in `n`."""
    exempt = {**RULES_ONLY, "specials": "PyTorch has no gradient of it; tests/parity/test_op_db.py compares the values.",
              "low_precision": "A degree is a whole number: rounded to half precision it can be another one."}
    home, method, inplace, types, inputs, domain = "", False, False, "float", ("input", "n"), (-1.5, 1.5)
    examples = tuple((((2, 3), [[0, 1, 2], [5, 3, 4]]), {"family": f}) for f in ("chebyshev_t", "hermite_he", "laguerre_l", "legendre_p")) + ((((2, 3), [4, 0, 7]), {"family": "shifted_chebyshev_w", "order": 1}),)
    def forward(xp, input, n, family="chebyshev_t", order=0): return xp.polynomial(input, n, family, order)
    def d_input(xp, g, input, n, family, order): return g * xp.polynomial(input, n, family, order + 1)
    def d_n(xp, g, family): raise NotImplementedError(f"the derivative for 'special_{family}: n' is not implemented: a degree is a whole number")


_KINDS = {
    "chebyshev_polynomial_t": ("chebyshev_t", "The Chebyshev polynomial of the first kind"),
    "chebyshev_polynomial_u": ("chebyshev_u", "The Chebyshev polynomial of the second kind"),
    "chebyshev_polynomial_v": ("chebyshev_v", "The Chebyshev polynomial of the third kind"),
    "chebyshev_polynomial_w": ("chebyshev_w", "The Chebyshev polynomial of the fourth kind"),
    "shifted_chebyshev_polynomial_t": ("shifted_chebyshev_t", "The Chebyshev polynomial of the first kind of 2 x - 1"),
    "shifted_chebyshev_polynomial_u": ("shifted_chebyshev_u", "The Chebyshev polynomial of the second kind of 2 x - 1"),
    "shifted_chebyshev_polynomial_v": ("shifted_chebyshev_v", "The Chebyshev polynomial of the third kind of 2 x - 1"),
    "shifted_chebyshev_polynomial_w": ("shifted_chebyshev_w", "The Chebyshev polynomial of the fourth kind of 2 x - 1"),
    "hermite_polynomial_h": ("hermite_h", "The physicist's Hermite polynomial"),
    "hermite_polynomial_he": ("hermite_he", "The probabilist's Hermite polynomial"),
    "laguerre_polynomial_l": ("laguerre_l", "The Laguerre polynomial"),
    "legendre_polynomial_p": ("legendre_p", "The Legendre polynomial"),
}  # fmt: skip


def _published(name, family, words):
    def call(input, n):
        if isinstance(n, complex): raise NotImplementedError(f"{name}: not implemented for complex numbers")
        return polynomial.call(input, n, family=family)

    call.__doc__ = f"{words} of degree `n` (a tensor or a number, rounded towards 0; 0 for negative degrees) of each element."
    call.__name__ = call.__qualname__ = name
    call.__module__ = "engine"
    functions[f"special.{name}"] = outward(call)


for _name, (_family, _words) in _KINDS.items(): _published(_name, _family, _words)


class airy_ai(Bessel):
    """The Airy function Ai of each element: the solution of y'' = x y that vanishes at infinity."""
    domain = (-3, 3)
    def forward(xp, input): return xp.airy_ai(input)
    def d_input(xp, g, input): return g * xp.airy_ai_slope(input)


class airy_ai_slope(Elementwise):
    """The derivative of the Airy function Ai."""
    exempt = {**RULES_ONLY, "specials": "PyTorch has no such function."}
    home, method, inplace, types, samples, domain = "", False, False, "float", (((2, 3),), ((),)), (-3, 3)
    def forward(xp, input): return xp.airy_ai_slope(input)
    def d_input(xp, g, input): return g * input * xp.airy_ai(input)
