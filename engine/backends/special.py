"""Special functions, from SciPy; it is loaded at the first use."""

from __future__ import annotations

from typing import Any

import numpy

__all__ = ["digamma", "erf", "erfc", "erfinv", "i0", "i1", "lgamma", "polygamma", "xlogy"]


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
