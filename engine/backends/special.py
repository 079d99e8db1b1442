"""Special functions, from SciPy; it is loaded at the first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

SCIPY = {  # our name -> SciPy's and CuPy's, where nothing else is different
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1", "digamma": "digamma", "entr": "entr", "erf": "erf",
    "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "i0": "i0", "i0e": "i0e", "i1": "i1", "i1e": "i1e", "igamma": "gammainc",
    "igammac": "gammaincc", "log_ndtr": "log_ndtr", "modified_bessel_k0": "k0", "modified_bessel_k1": "k1", "ndtr": "ndtr",
    "ndtri": "ndtri", "scaled_modified_bessel_k0": "k0e", "scaled_modified_bessel_k1": "k1e", "xlog1py": "xlog1py", "xlogy": "xlogy",
    "zeta": "zeta",
}  # fmt: skip
__all__ = ["lgamma", "polygamma", *SCIPY]  # pyright: ignore[reportUnsupportedDunderAll]


def forwarded(name: str, library: Any, special: Callable[[], Any]) -> Callable:
    """A function of SciPy's or CuPy's `special()`; numbers among its arguments, and its result, get the dtype of the first array."""

    def call(*xs: Any) -> Any:
        d = next(x.dtype for x in xs if hasattr(x, "dtype"))
        return library.asarray(getattr(special(), SCIPY[name])(*[library.asarray(x, d) for x in xs])).astype(d, copy=False)

    call.__name__ = call.__qualname__ = name
    return call


def _scipy() -> Any:
    from scipy import special

    return special


globals().update({name: forwarded(name, numpy, _scipy) for name in SCIPY})


def lgamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and the negative integers."""
    return numpy.where(numpy.isneginf(x), numpy.inf, _scipy().gammaln(x)).astype(x.dtype, copy=False)


def polygamma(x: Any, n: int) -> Any:
    """The n-th derivative of digamma."""
    return _scipy().digamma(x) if n == 0 else _scipy().polygamma(n, x).astype(x.dtype)
