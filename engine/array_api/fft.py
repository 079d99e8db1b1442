"""The `fft` extension: discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import engine

from ..base.dtypes import dtype as Dtype
from ..core.tensor import Tensor
from .elementwise import published


def _along(name: str) -> Callable:
    def function(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return getattr(engine.fft, name)(x, n, axis, norm)

    return published(function, name, getattr(engine.fft, name))


def _over(name: str) -> Callable:
    def function(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
        return getattr(engine.fft, name)(x, s, axes, norm)

    return published(function, name, getattr(engine.fft, name))


fft, ifft, rfft, irfft, hfft, ihfft = map(_along, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_over, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return the frequencies of `fft` for `n` samples at spacing `d`."""
    return engine.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return the frequencies of `rfft` for `n` samples at spacing `d`."""
    return engine.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """Shift the zero frequency to the middle."""
    return engine.fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """Undo `fftshift`."""
    return engine.fft.ifftshift(x, axes)
