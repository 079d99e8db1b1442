"""Choosing between elements: where, clamp, maximum, minimum and piecewise functions."""

import numpy

from ..base.dtypes import BOOL_NP, FROM_NUMPY, result
from ..base.errors import Refused
from ..core import devices
from ..core.op import Elementwise
from .front import Refusing, front, must_be_tensor, real_gradient
from .math import UNARY, held

THREE = (((2, 3),) * 3, ((2, 3), (3,), (2, 1)))


class where(Elementwise):
    """`input` where the bool tensor `condition` is True, else `other`; the dtypes of the two are promoted."""
    method, inplace, checks = False, False, True
    samples = (([[True, False, True], [False, True, True]], (2, 3), (2, 3)), ([True, False, True], (3,), (2, 1)))
    def forward(xp, condition, input, other): return xp.where(condition, input, other)
    def d_input(xp, g, condition): return xp.where(condition, g, 0)
    def d_other(xp, g, condition): return xp.where(condition, 0, g)

    @classmethod
    def prepare(cls, arrays):
        condition, *values = arrays
        kind = getattr(condition, "dtype", None)
        if kind == "uint8": condition = condition.astype(bool)
        elif kind is not BOOL_NP:
            raise Refused(f"expected condition to be a boolean tensor, but got {'a tensor with dtype ' + FROM_NUMPY[kind].name if kind else type(condition)}")
        xp = devices.common([condition, *values], cls.name)
        wrong = next((x for x in values if not hasattr(x, "dtype") and not isinstance(x, (bool, int, float, complex))), None)
        if wrong is not None: raise Refused(f"expected tensors or numbers to choose from, got {type(wrong).__name__}", TypeError)
        if not any(hasattr(x, "dtype") for x in values):  # for two scalars, nothing else determines the dtype
            values = [result(tuple(values)).numpy.type(x) for x in values]
        return [condition, *super().prepare(values)[0]], xp


@front("where", method=False, out=True)
def _where(condition, input=None, other=None):
    if input is None and other is None:
        must_be_tensor("where", "condition", condition)
        return condition.nonzero(as_tuple=True)
    if input is None or other is None: raise TypeError("where() takes a condition alone, or a condition, input and other")
    return where.call(condition, input, other)


_where.__doc__ = f"{where.__doc__} With the condition alone: the indices where it holds, one tensor for each dimension."


@front("where", function=False)
def _where_method(self, condition, other):
    """The tensor where `condition` is True, else `other`."""
    return where.call(condition, self, other)


class clamp(Refusing, Elementwise):
    """Each element, but at least `min` and at most `max` (scalars, tensors or None); `max` where they cross. nan is kept.

    At a tie the gradient goes to the element. So does the tangent, unless the only bound is a tensor. The tangent at a nan is 0 with scalar
    bounds.
    """
    aliases, refuses, inputs, formula = ("clip",), "c", ("input", "min", "max"), "min(max(input, low), high)"
    samples, domain = THREE, (-1.5, 1.5)
    def forward(xp, input, min=None, max=None): return xp.clip(input, min, max)
    def d_input(xp, g, input, min, max): return xp.where(_inside(input, min, max), g, 0)
    def d_min(xp, g, input, min, max): return xp.where(input < min if max is None else (input < min) & (min < max), g, 0)
    def d_max(xp, g, input, min, max): return xp.where(input > max if min is None else (input > max) | (max < min), g, 0)
    def t_input(xp, t, input, min, max):
        if isinstance(max if min is None else min, (int, float, numpy.generic)): return xp.where(_inside(input, min, max), t, 0)
        if max is None: return xp.where(input > min, t, 0)
        return xp.where(input < max, t, 0) if min is None else xp.where((min > max) | (input < min) | (input > max), 0, t)
    def t_min(xp, t, input, min, max): return xp.where(input > min, 0, t) if max is None else xp.where(min > max, 0, xp.where(input < min, t, 0))
    def t_max(xp, t, input, min, max): return xp.where(input < max, 0, t) if min is None else xp.where((min > max) | (input > max), t, 0)


def _inside(x, low, high):
    if low is None: return x <= high
    return x >= low if high is None else (x >= low) & (x <= high)


class clamp_min(Refusing, Elementwise):
    """Each element, but at least `min`, a scalar or a tensor; at a tie the gradient goes to the element."""
    refuses = "c"

    @classmethod
    def prepare(cls, arrays):
        prepared = super().prepare(arrays)
        held(arrays)
        return prepared

    def forward(xp, input, min): return xp.maximum(input, min)
    def d_input(xp, g, input, min): return xp.where(input >= min, g, 0)
    def d_min(xp, g, input, min): return xp.where(input < min, g, 0)
    def t_min(xp, t, input, min): return xp.where(input >= min, 0, t)


class clamp_max(Refusing, Elementwise):
    """Each element, but at most `max`, a scalar or a tensor; at a tie the gradient goes to the element."""
    refuses = "c"

    @classmethod
    def prepare(cls, arrays):
        prepared = super().prepare(arrays)
        held(arrays)
        return prepared

    def forward(xp, input, max): return xp.minimum(input, max)
    def d_input(xp, g, input, max): return xp.where(input <= max, g, 0)
    def d_max(xp, g, input, max): return xp.where(input > max, g, 0)
    def t_max(xp, t, input, max): return xp.where(input <= max, 0, t)


class maximum(Refusing, Elementwise):
    """Larger of two elements; nan if either is nan. At a tie each gets half of the gradient."""
    tensors = True
    refuses, refusal = "c", (RuntimeError, "not implemented for {}")
    def forward(xp, input, other): return xp.maximum(input, other)
    def d_input(xp, g, input, other): return xp.where(input == other, g / 2, xp.where(input < other, 0, g))
    def d_other(xp, g, input, other): return xp.where(input == other, g / 2, xp.where(other < input, 0, g))
    def t_input(xp, t, input, other): return xp.where(input == other, t / 2, xp.where(input > other, t, 0))
    def t_other(xp, t, input, other): return xp.where(input == other, t / 2, xp.where(input > other, 0, t))


class minimum(Refusing, Elementwise):
    """Smaller of two elements; nan if either is nan. At a tie each gets half of the gradient."""
    tensors = True
    refuses, refusal = "c", (RuntimeError, "not implemented for {}")
    def forward(xp, input, other): return xp.minimum(input, other)
    def d_input(xp, g, input, other): return xp.where(input == other, g / 2, xp.where(input > other, 0, g))
    def d_other(xp, g, input, other): return xp.where(input == other, g / 2, xp.where(other > input, 0, g))
    def t_input(xp, t, input, other): return xp.where(input == other, t / 2, xp.where(input < other, t, 0))
    def t_other(xp, t, input, other): return xp.where(input == other, t / 2, xp.where(input < other, 0, t))


class fmax(Refusing, Elementwise):
    """Larger of two elements, or the other one if one is nan. At a tie `input` gets the gradient."""
    tensors = True
    refuses, refusal = "c", (RuntimeError, "not implemented for {}")
    def forward(xp, input, other): return xp.fmax(input, other)
    def d_input(xp, g, input, other): return xp.where((input >= other) | xp.isnan(other), g, 0)
    def d_other(xp, g, input, other): return xp.where((input >= other) | xp.isnan(other), 0, g)
    def t_input(xp, t, input, other): return xp.where((input > other) | xp.isnan(other), t, 0)
    def t_other(xp, t, input, other): return xp.where((input > other) | xp.isnan(other), 0, t)


class fmin(Refusing, Elementwise):
    """Smaller of two elements, or the other one if one is nan. At a tie `input` gets the gradient."""
    tensors = True
    refuses, refusal = "c", (RuntimeError, "not implemented for {}")
    def forward(xp, input, other): return xp.fmin(input, other)
    def d_input(xp, g, input, other): return xp.where((input <= other) | xp.isnan(other), g, 0)
    def d_other(xp, g, input, other): return xp.where((input <= other) | xp.isnan(other), 0, g)


class copysign(Refusing, Elementwise):
    """Magnitude of `input` with the sign of `other`; the gradient at 0 is 0."""
    types, refuses = "float", "c"
    def forward(xp, input, other): return xp.copysign(input, other)
    def d_input(xp, g, input, out): return g * xp.where(input == 0, 0, out / input)
    def d_other(xp, g): return xp.zeros_like(g)


class heaviside(Refusing, Elementwise):
    """0 where `input` is negative, 1 where it is positive, `values` where it is 0. Not differentiable."""
    tensors = True
    types, refuses, refusal = "same", "c", (RuntimeError, "not implemented for {}")
    def forward(xp, input, values): return xp.where(input == 0, values, xp.astype(input > 0, values.dtype))


class nan_to_num(Elementwise):
    """Replace nan and the infinities by finite values: by default 0 and the largest and lowest values of the dtype."""
    samples, inputs, exact = UNARY, ("input",), True  # the limits are those of the input's own dtype
    def forward(xp, input, nan=None, posinf=None, neginf=None): return xp.nan_to_num(input, nan=nan or 0.0, posinf=posinf, neginf=neginf)
    def d_input(xp, g, input): return g * xp.isfinite(input)


front("nan_to_num", out=True)(real_gradient(nan_to_num.call))
