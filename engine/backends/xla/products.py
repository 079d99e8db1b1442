"""Products and factorizations of traced arrays. A matrix that has no factor gives nan, since nothing can be raised."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax import lax

from .. import factors
from ..products import in_columns
from .namespace import OWN, of_arrays, opened, rule


@rule
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    y = x @ (weight.T if weight.ndim > 1 else weight)
    return y if bias is None else y + bias


@rule
def einsum(equation: str, *operands: Any, optimize: Any = True) -> Any:
    return jnp.einsum(equation, *operands)


class _Library:
    """NumPy's `linalg` or `fft` for traced arrays."""

    def __init__(self, library: Any, **own: Any) -> None:
        self.library = library
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        return opened(getattr(self.library, name))


def _eigh(x: Any, uplo: str = "L") -> tuple:
    return tuple(jnp.linalg.eigh(x, uplo, symmetrize_input=False))


OWN["linalg"], OWN["fft"] = _Library(jnp.linalg, eigh=opened(_eigh)), _Library(jnp.fft)


def columns(fn: Any) -> Any:
    """Register a function of JAX values that gives matrices, in column-major order as on the CPU."""
    OWN[fn.__name__] = in_columns(opened(fn))
    return fn


@columns
def cholesky(x: Any, upper: bool = False) -> Any:
    out = lax.linalg.cholesky(x.conj().mT if upper else x, symmetrize_input=False)
    return out.conj().mT if upper else out


@columns
def cholesky_inverse(x: Any, upper: bool = False) -> Any:
    one = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    half = lax.linalg.triangular_solve(x, one, left_side=True, lower=not upper)
    return half @ half.conj().mT if upper else half.conj().mT @ half


@columns
def eig(x: Any) -> tuple:
    return tuple(jnp.linalg.eig(x))


@columns
def lu_factor(x: Any) -> tuple:
    packed, pivots, order = lax.linalg.lu(x)
    return packed, pivots + 1, jnp.argsort(order, -1)


@columns
def reflections(x: Any) -> tuple:
    turned, tau = jnp.linalg.qr(x, "raw")
    return turned.mT, tau


@of_arrays
def first_zero(packed: Any, refusal: str = "") -> Any:
    return factors.first_zero(packed)


@rule
def permutation(pivots: Any, m: int, dtype: Any) -> Any:
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, m)
    return (numpy.arange(m)[:, None] == order[..., None, :]).astype(dtype)


@rule
def matrix_exp(x: Any) -> Any:
    wide = jnp.promote_types(x.dtype, numpy.float64)
    return jax.scipy.linalg.expm(x.astype(wide), max_squarings=1024).astype(x.dtype) if x.size else x


@rule
def solve_triangle(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    return lax.linalg.triangular_solve(a, b, left_side=left, lower=not upper, unit_diagonal=unitriangular)
