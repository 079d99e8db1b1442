"""Elementwise functions of traced arrays."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax import lax

from ..special import SCIPY
from .namespace import OWN, REFUSED, opened, rule


@rule
def where(condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(condition, x, y)


@rule
def sigmoid(x: Any) -> Any:
    return jax.nn.sigmoid(x)


@rule
def silu(x: Any) -> Any:
    return x * jax.nn.sigmoid(x)


@rule
def gelu_slope(x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return 0.5 * (1 + lax.erf(x * math.sqrt(0.5))) + x * jnp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    k = math.sqrt(2 / math.pi)
    t = jnp.tanh(k * x * (1 + 0.044715 * x * x))
    return 0.5 * (1 + t) + (0.5 * k) * x * (1 - t * t) * (1 + 0.134145 * x * x)


@rule
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return jnp.where(mask, jnp.asarray(value).astype(x.dtype), x)


@rule
def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    return jnp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


# -- arithmetic: an integer divided by zero, which is refused where it is known, gives what the processor gives -----------------------


@rule
def power(x: Any, y: Any) -> Any:
    if getattr(x, "dtype", None) == numpy.bool_:
        return jnp.logical_or(x, jnp.logical_not(y))
    if y.__class__ is float and y in (0.5, -0.5) and x.dtype.kind == "f":  # square roots of -0 and -inf differ from their powers
        return jnp.sqrt(x) if y > 0 else 1 / jnp.sqrt(x)
    if hasattr(y, "dtype") and y.dtype.kind == "i" and jnp.result_type(x).kind in "iu":  # the reciprocal, rounded to an integer
        unit = jnp.where(jnp.equal(x, 1), 1, jnp.where(jnp.equal(x, -1), 1 - 2 * (y & 1), 0))
        return jnp.where(y < 0, unit.astype(y.dtype), jnp.asarray(x) ** jnp.maximum(y, 0))
    return x**y


def _alike(*xs: Any) -> list:
    """Return arrays of one dtype and shape."""
    dtype = jnp.result_type(*xs)
    return jnp.broadcast_arrays(*[jnp.asarray(x).astype(dtype) for x in xs])


@rule
def trunc_divide(x: Any, y: Any) -> Any:
    return lax.div(*_alike(x, y)) if jnp.result_type(x, y).kind in "iu" else jnp.trunc(x / y)


@rule
def gcd(x: Any, y: Any) -> Any:
    return jnp.gcd(x, y)


@rule
def from_parts(real: Any, imag: Any) -> Any:
    return lax.complex(*_alike(real, imag))


@rule
def lerp(x: Any, end: Any, weight: Any) -> Any:
    return jnp.where(abs(weight) < 0.5, x + weight * (end - x), end - (end - x) * (1 - weight))


@rule
def round_(x: Any, decimals: int = 0) -> Any:
    return x if x.dtype.kind in "iu" else jnp.round(x, decimals)


@rule
def gelu(x: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


# -- special functions -----------------------------------------------------------------------------------------------------------


@rule
def lgamma(x: Any) -> Any:
    return jnp.where(jnp.isneginf(x), jnp.inf, jax.scipy.special.gammaln(x))


@rule
def polygamma(x: Any, n: int) -> Any:
    if n == 0:
        return jax.scipy.special.digamma(x)
    found = jax.scipy.special.polygamma(n, x)
    return jnp.where(jnp.isneginf(x), jnp.nan, found) if n == 1 else found


def _special(theirs: Any) -> Any:
    def call(*xs: Any) -> Any:
        dtype = next(x.dtype for x in xs if hasattr(x, "dtype"))
        return theirs(*[jnp.asarray(x).astype(dtype) for x in xs])

    return opened(call)


OWN.update({name: _special(getattr(jax.scipy.special, theirs)) for name, theirs in SCIPY.items() if name not in REFUSED})
