"""Arithmetic and transcendental ops, element by element."""

from ..op import Elementwise

_UNARY = (((2, 3),), ((),))


class add(Elementwise):
    """Sum of two tensors, `other` scaled by `alpha` first."""
    operator, aliases = "add", ()
    def forward(xp, input, other): return input + other
    def d_input(xp, g): return g
    def d_other(xp, g): return g


class sub(Elementwise):
    """Difference of two tensors."""
    operator, aliases = "sub", ("subtract",)
    def forward(xp, input, other): return input - other
    def d_input(xp, g): return g
    def d_other(xp, g): return -g


class mul(Elementwise):
    """Product of two tensors, element by element."""
    operator, aliases = "mul", ("multiply",)
    def forward(xp, input, other): return input * other
    def d_input(xp, g, other): return g * other
    def d_other(xp, g, input): return g * input


class neg(Elementwise):
    """Minus each element."""
    operator, aliases, samples = "neg", ("negative",), _UNARY
    def forward(xp, input): return -input
    def d_input(xp, g): return -g


class exp(Elementwise):
    """e to the power of each element."""
    types, samples = "float", _UNARY
    def forward(xp, input): return xp.exp(input)
    def d_input(xp, g, out): return g * out


class tanh(Elementwise):
    """Hyperbolic tangent of each element."""
    types, samples = "float", _UNARY
    def forward(xp, input): return xp.tanh(input)
    def d_input(xp, g, out): return g * (1 - out * out)
