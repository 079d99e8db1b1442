"""Antialiased downsampling: each new pixel is a weighted mean of the old ones under a filter as wide as the reduction."""


import numpy

from ..backends.kernels_pool import for_bytes
from ..base import dtypes
from ..base.errors import Refused
from ..core.from_data import asarray

_FILTERS = {  # half width, and weight by distance; Keys' cubic with a = -1/2, where `interpolate` otherwise uses -3/4
    "bilinear": (1.0, lambda x: numpy.maximum(1 - x, 0)),
    "bicubic": (2.0, lambda x: numpy.where(x < 1, (1.5 * x - 2.5) * x * x + 1, numpy.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0.0))),
}


def weights(length, want, mode, align_corners, factor):
    """Matrix (want, length) that resizes a row of pixels; its rows sum to one.

    The filter of the new pixel i is centered at (i + 1/2) * step, and pixel j is at j + 1/2; a step above one stretches the filter.
    """
    if align_corners: step = (length - 1) / (want - 1) if want > 1 else 0.0
    else: step = 1 / factor if factor else length / want
    half, shape = _FILTERS[mode]
    stretch = max(step, 1.0)
    centre = step * (numpy.arange(want)[:, None] + 0.5)
    first = numpy.maximum((centre - half * stretch + 0.5).astype(int), 0)
    end = numpy.minimum((centre + half * stretch + 0.5).astype(int), length)
    j = numpy.arange(length)
    found = numpy.where((j >= first) & (j < end), shape(numpy.abs(j + 0.5 - centre) / stretch), 0.0)
    total = found.sum(1, keepdims=True)
    return found / numpy.where(total == 0, 1, total)


def antialiased(input, want, mode, align_corners, factors):
    """Resize images (N, C, H, W) to `want` (rows, columns), columns first.

    uint8 is computed in float32, exactly, and rounded after each direction.
    """
    if mode not in _FILTERS or input.ndim != 4: raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
    bytes_ = input.dtype == dtypes.uint8
    if not bytes_ and not input.is_floating_point(): raise Refused(f"interpolate: antialias=True needs floats or uint8, got {input.dtype}", NotImplementedError)
    x = input.float() if bytes_ else input
    rows, columns = (
        asarray((for_bytes if bytes_ else numpy.asarray)(weights(m, w, mode, align_corners, f)), dtype=x.dtype, device=x.device)
        for m, w, f in zip(input.shape[-2:], want, factors or (None, None), strict=True)
    )
    if not bytes_: return rows @ (x @ columns.mT)
    for turn in (lambda x: x @ columns.mT, lambda x: rows @ x): x = (turn(x) + 0.5).floor().clamp(0, 255)
    return x.to(input.dtype)
