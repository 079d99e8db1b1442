"""Orthogonal polynomials and their derivatives, computed by their recurrences, and the Airy function."""

from __future__ import annotations

from typing import Any

import numpy

from .reference import _through_host, module_of

__all__ = ["airy_ai", "airy_ai_slope", "polynomial"]

# family -> (a, b) of its first polynomial a x + b, and k -> (a, b, c) of p[k+1] = (a x + b) p[k] - c p[k-1] for k >= 1; p[0] = 1.
# Source: NIST Digital Library of Mathematical Functions, 18.9.
_CHEBYSHEV, _SHIFTED = (lambda k: (2.0, 0.0, 1.0)), (lambda k: (4.0, -2.0, 1.0))
_FAMILIES: dict[str, tuple] = {
    "chebyshev_t": ((1.0, 0.0), _CHEBYSHEV),
    "chebyshev_u": ((2.0, 0.0), _CHEBYSHEV),
    "chebyshev_v": ((2.0, -1.0), _CHEBYSHEV),
    "chebyshev_w": ((2.0, 1.0), _CHEBYSHEV),
    "shifted_chebyshev_t": ((2.0, -1.0), _SHIFTED),
    "shifted_chebyshev_u": ((4.0, -2.0), _SHIFTED),
    "shifted_chebyshev_v": ((4.0, -3.0), _SHIFTED),
    "shifted_chebyshev_w": ((4.0, -1.0), _SHIFTED),
    "hermite_h": ((2.0, 0.0), lambda k: (2.0, 0.0, 2.0 * k)),
    "hermite_he": ((1.0, 0.0), lambda k: (1.0, 0.0, float(k))),
    "laguerre_l": ((-1.0, 1.0), lambda k: (-1.0 / (k + 1), (2.0 * k + 1) / (k + 1), k / (k + 1.0))),
    "legendre_p": ((1.0, 0.0), lambda k: ((2.0 * k + 1) / (k + 1), 0.0, k / (k + 1.0))),
}


def polynomial(x: Any, n: Any, family: str, order: int = 0) -> Any:
    """Evaluate the `order`-th derivative of the family's polynomial of degree `n`, rounded towards 0; 0 for negative degrees."""
    lib, kind = module_of(x if hasattr(x, "ndim") else n), next(a.dtype for a in (x, n) if hasattr(a, "dtype"))
    x, degree = lib.broadcast_arrays(lib.asarray(x, kind), lib.trunc(lib.asarray(n, numpy.float64)))
    out = lib.zeros(x.shape, kind)
    if not x.size:
        return out
    n = n if hasattr(n, "dtype") else numpy.asarray(n)
    most = module_of(n).where(module_of(n).isfinite(n), n, -1).max()
    (a0, b0), step = _FAMILIES[family]
    # values at the previous and the current degree, for each order of derivative up to `order`
    before, now = [lib.zeros_like(x)] * (order + 1), [lib.ones_like(x), *[lib.zeros_like(x)] * order]
    for k in range(int(most) + 1):
        out = lib.where(degree == k, now[order], out)
        a, b, c = (a0, b0, 0.0) if k == 0 else step(k)
        line, after = x * kind.type(a) + kind.type(b), []
        for m in range(order + 1):
            value = line * now[m] - (kind.type(c) * before[m] if k else 0)
            after.append(value + kind.type(a * m) * now[m - 1] if m else value)
        before, now = now, after
        if k % 64 == 63 and isinstance(now[0], (numpy.ndarray, numpy.generic)) and numpy.isnan(now[0]).all():  # so are all later ones
            out = numpy.where(degree > k, kind.type(numpy.nan), out)
            break
    return out.astype(kind, copy=False)


def _airy(x: Any, which: int) -> Any:
    from scipy import special

    return numpy.asarray(special.airy(x)[which]).astype(x.dtype, copy=False)


@_through_host
def airy_ai(x: Any) -> Any:
    """The Airy function Ai, the solution of y'' = x y that vanishes at infinity."""
    return _airy(x, 0)


@_through_host
def airy_ai_slope(x: Any) -> Any:
    """The derivative of the Airy function Ai."""
    return _airy(x, 1)
