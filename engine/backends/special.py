"""Special functions, from SciPy; it is loaded at the first use."""

from __future__ import annotations

from typing import Any

import numpy

SCIPY = {  # our name -> SciPy's and CuPy's, where nothing else is different
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1", "entr": "entr", "erfcx": "erfcx", "i0e": "i0e",
    "i1e": "i1e", "igamma": "gammainc", "igammac": "gammaincc", "log_ndtr": "log_ndtr", "modified_bessel_k0": "k0",
    "modified_bessel_k1": "k1", "ndtr": "ndtr", "ndtri": "ndtri", "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e", "xlog1py": "xlog1py", "zeta": "zeta",
}  # fmt: skip
__all__ = ["digamma", "erf", "erfc", "erfinv", "i0", "i1", "lgamma", "polygamma", "xlogy", *SCIPY]  # pyright: ignore[reportUnsupportedDunderAll]


def _lazy(name: str) -> Any:
    def call(*xs: Any) -> Any:
        from scipy import special

        d = next(x.dtype for x in xs if hasattr(x, "dtype"))
        return numpy.asarray(getattr(special, name)(*[numpy.asarray(x, d) for x in xs])).astype(d, copy=False)

    call.__name__ = call.__qualname__ = name
    return call


globals().update({name: _lazy(scipy_name) for name, scipy_name in SCIPY.items()})


def erf(x: Any) -> Any:
    from scipy import special

    return special.erf(x)


def erfc(x: Any) -> Any:
    from scipy import special

    return special.erfc(x)


def erfinv(x: Any) -> Any:
    from scipy import special

    return special.erfinv(x)


def lgamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and the negative integers."""
    from scipy import special

    return numpy.where(numpy.isneginf(x), numpy.inf, special.gammaln(x)).astype(x.dtype, copy=False)


def digamma(x: Any) -> Any:
    """The derivative of lgamma: -inf at 0 (inf at -0), nan at the negative integers."""
    from scipy import special

    return special.digamma(x)


def polygamma(x: Any, n: int) -> Any:
    """The n-th derivative of digamma."""
    from scipy import special

    return special.digamma(x) if n == 0 else special.polygamma(n, x).astype(x.dtype)


def i0(x: Any) -> Any:
    from scipy import special

    return special.i0(x)


def i1(x: Any) -> Any:
    from scipy import special

    return special.i1(x)


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0 and y is not nan."""
    from scipy import special

    d = (x if hasattr(x, "dtype") else y).dtype
    return special.xlogy(numpy.asarray(x, d), numpy.asarray(y, d))
