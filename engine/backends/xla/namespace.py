"""The array namespace of traced arrays: the primitives, and NumPy's functions that kernels call, as JAX functions.

A name is looked up among the functions of the other files of this package, by kind; then in the CPU's texts that need only other functions
of the namespace (`_TEXTS`); then in `jax.numpy` and `jax.scipy.special`. What has no form is in `REFUSED`, with the reason.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from ...base.errors import at_user_line
from ..primitives import PRIMITIVES
from .array import REDUCE, Traced, TraceError, into, raw, wrap

OWN: dict[str, Callable] = {}

# Of these the CPU's text is used as it is: it calls only ufuncs and methods of arrays, or `module_of` and functions of that.
_TEXTS = frozenset((
    "adaptive_max", "add_along_axis", "angle", "attention", "attention_back", "clip", "cofactor", "col2im", "conj", "contract",
    "coo_matmul", "cumextreme", "det", "diagonal", "eigh", "flat_gather", "fourier", "fourier_back", "hardtanh", "imag", "inv", "lcm",
    "log_sigmoid", "logaddexp", "logit", "median_of_all", "pinv", "polynomial", "put_diagonal", "put_windows", "qr", "quotients", "ranked",
    "read_through", "relu", "resample", "resample_back", "restride", "search", "sgn", "sign", "sinc", "slogdet", "softplus", "solve_matrix",
    "sorted", "svd", "tap_places", "threshold", "times_i", "whole_attention", "write_through",
))  # fmt: skip

_BESSEL = "JAX has no such Bessel function"
_COUNTED = "the shape of the result depends on the values"
_DRAWN = "its random numbers are drawn by the op itself; use dropout() on the weights"
REFUSED = {  # primitive -> why it has no form
    **dict.fromkeys(("airy_ai", "airy_ai_slope"), "JAX has no Airy function"),
    **dict.fromkeys(("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1"), _BESSEL),
    **dict.fromkeys(("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"), _BESSEL),
    **dict.fromkeys(("bincount", "count_integers", "unique"), _COUNTED),
    "nonzero": _COUNTED + "; use where()",
    "sparse_rows": "sparse gradients are not traced; use sparse=False",
    "cholesky_ex": "JAX does not tell which minor is not positive definite; use linalg.cholesky",
    **dict.fromkeys(("ldl_factor", "ldl_solve"), "JAX has no LDL factorization"),
    **dict.fromkeys(("attention_draws", "attention_kept"), _DRAWN),
    "strided": "memory without a shape is not traced",
}


def rule(fn: Callable) -> Callable:
    """Register a function of JAX values: traced arrays are opened before the call, and its results wrapped."""
    OWN[fn.__name__.rstrip("_")] = opened(fn)
    return fn


def of_arrays(fn: Callable) -> Callable:
    """Register a function of traced arrays themselves, such as one that makes a view."""
    OWN[fn.__name__.rstrip("_")] = fn
    return fn


def opened(fn: Callable) -> Callable:
    """Adapt a function of JAX values to traced arrays."""
    return lambda *args, **kwargs: wrap(fn(*map(raw, args), **{k: raw(v) for k, v in kwargs.items()}))


class Space:
    """The functions, looked up when first called."""

    pi, inf, nan, e, newaxis, euler_gamma = math.pi, math.inf, math.nan, math.e, None, numpy.euler_gamma
    ndarray = Traced

    def run(self, fn: Callable, args: Any, kwargs: Any) -> Any:
        """Run an op's `forward`, or a rule, on this namespace."""
        return fn(self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.__dict__[name] = _writing(name, _found(name))
        return found

    def __repr__(self) -> str:
        return "<namespace of traced arrays>"


def _found(name: str) -> Any:
    own = _own()
    if name in own:
        return own[name]
    if name in _TEXTS:
        return getattr(import_module(f"engine.backends.{PRIMITIVES[name].home}"), name)
    if name in REFUSED:
        raise TraceError(f"compile: {name} has no form for XLA: {REFUSED[name]}{at_user_line()}")
    return of_jax(name)


def of_jax(name: str) -> Any:
    """Return JAX's function of this name, for traced arrays."""
    for library in (jnp, jax.scipy.special):
        if callable(theirs := getattr(library, name, None)):
            return theirs if isinstance(theirs, type) else opened(theirs)
    raise TraceError(f"compile: the array function {name!r} has no form for XLA{at_user_line()}")


@functools.cache
def numpys(name: str) -> Any:
    """Return what NumPy's function of this name does: of a text, which may call it, JAX's."""
    return of_jax(name) if name in _TEXTS else getattr(space, name)


@functools.cache
def _own() -> dict[str, Callable]:
    """Return all functions; their files are imported at the first use."""
    for part in ("shapes", "elements", "reductions", "products", "places", "convolutions", "layers"):
        import_module(f"{__package__}.{part}")
    return OWN


def _writing(name: str, fn: Any) -> Any:
    """Add the argument `out` to a function, and the method `at`, which accumulates into places of an array."""
    if not callable(fn) or isinstance(fn, type):
        return fn

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        return into(out, fn(*args, **kwargs))

    call.__name__ = call.__qualname__ = name
    if name in _AT:
        call.at = lambda out, index, value: out.accumulate(_AT[name], index, value)  # type: ignore[attr-defined]
        call.reduce = lambda x, axis=0, dtype=None, out=None, keepdims=False: getattr(space, REDUCE[name])(x, axis=axis, keepdims=keepdims)  # type: ignore[attr-defined]
    return call


_AT = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}

space = Space()
Traced.library = space  # type: ignore[attr-defined]  what `reference.module_of` returns
