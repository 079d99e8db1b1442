"""Rounding, and ops on integers only."""

from ..core.op import Elementwise
from .front import Refusing
from .math import UNARY

INTEGERS = (([[12, 0, -8], [7, 9, 5]], [[18, 4, 12], [7, 6, 1]]), {}), (([[12], [9]], [6, 4, 15]), {})


class ceil(Refusing, Elementwise):
    """Smallest integer not less than each element."""
    samples, refuses = UNARY, "bc"
    def forward(xp, input): return xp.ceil(input)
    def d_input(xp, g): return xp.zeros_like(g)


class floor(Refusing, Elementwise):
    """Largest integer not greater than each element."""
    samples, refuses = UNARY, "bc"
    def forward(xp, input): return xp.floor(input)
    def d_input(xp, g): return xp.zeros_like(g)


class round_(Refusing, Elementwise):
    """Round each element to `decimals` digits after the point; halves go to the even digit."""
    name, samples, refuses, inputs = "round", UNARY, "bc", ("input",)
    def forward(xp, input, *, decimals=0): return xp.round(input, decimals)
    def d_input(xp, g): return xp.zeros_like(g)


class trunc(Refusing, Elementwise):
    """Integer part of each element."""
    aliases, samples, refuses = ("fix",), UNARY, "bc"
    def forward(xp, input): return xp.trunc(input)
    def d_input(xp, g): return xp.zeros_like(g)


class frac(Refusing, Elementwise):
    """Fractional part of each element, with its sign."""
    samples, refuses = UNARY, "bic"
    def forward(xp, input): return input - xp.trunc(input)
    def d_input(xp, g): return g


class gcd(Refusing, Elementwise):
    """Greatest common divisor of integers."""
    tensors = True
    refuses, examples = "bfc", INTEGERS
    def forward(xp, input, other): return xp.gcd(input, other)


class lcm(Refusing, Elementwise):
    """Least common multiple of integers."""
    tensors = True
    refuses, examples = "bfc", INTEGERS
    def forward(xp, input, other): return xp.lcm(input, other)
