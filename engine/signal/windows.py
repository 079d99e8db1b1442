"""Window functions: 1D tensors of M values, symmetric or, with `sym=False`, periodic for Fourier transforms.

For symmetric windows, parameters such as t include both ends of their range; periodic windows omit the last point.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ..base import dtypes
from ..core.create import made
from ..core.tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _made(name: str, M: int, sym: bool, shape: Callable, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """Evaluate `shape(k, n)` at k = 0, ..., M - 1, for a window that spans n steps."""
    d = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if d not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {d}")
    k = numpy.arange(M, dtype=numpy.float64)
    values = numpy.ones(M) if M <= 1 else shape(k, M - 1 if sym else M)
    return made(values.astype(d.numpy), device, requires_grad)


def general_cosine(M: int, *, a: Sequence, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Sum of cosines: a[0] - a[1] cos(t) + a[2] cos(2 t) - ..., for t from 0 to 2 pi."""
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")

    def shape(k: Any, n: int) -> Any:
        return sum((-1) ** i * c * numpy.cos(2 * math.pi * i * k / n) for i, c in enumerate(a))

    return _made("general_cosine", M, sym, shape, dtype, device, requires_grad)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Generalized Hamming window: alpha - (1 - alpha) cos(t), for t from 0 to 2 pi."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def hamming(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Hamming window: 0.54 - 0.46 cos(t), for t from 0 to 2 pi."""
    return general_hamming(M, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def hann(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Hann window: (1 - cos(t)) / 2, for t from 0 to 2 pi."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def blackman(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Blackman window: 0.42 - 0.5 cos(t) + 0.08 cos(2 t), for t from 0 to 2 pi."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Nuttall's minimum four-term window, with side lobes 98 dB below the main lobe."""
    a = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return general_cosine(M, a=a, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Bartlett window: a triangle from 0 to 1 and back."""
    return _made("bartlett", M, sym, lambda k, n: 1 - numpy.abs(2 * k / n - 1), dtype, device, requires_grad)


def cosine(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Cosine window: sin(t) at the midpoints of M equal steps from 0 to pi."""
    return _made("cosine", M, sym, lambda k, n: numpy.sin(math.pi / (n + 1) * (k + 0.5)), dtype, device, requires_grad)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Exponential window: exp(-|k - center| / tau); `center` defaults to the middle, and must be None if `sym`."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def shape(k: Any, n: int) -> Any:
        return numpy.exp(-numpy.abs(k - (n / 2 if center is None else center)) / tau)

    return _made("exponential", M, sym, shape, dtype, device, requires_grad)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Gaussian window: exp(-(d / std)^2 / 2), with d the distance from the middle."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _made("gaussian", M, sym, lambda k, n: numpy.exp(-(((k - n / 2) / std) ** 2) / 2), dtype, device, requires_grad)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Kaiser window: I0(beta sqrt(1 - t^2)) / I0(beta), for t from -1 to 1."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def shape(k: Any, n: int) -> Any:
        return numpy.i0(beta * numpy.sqrt(numpy.maximum(1 - (2 * k / n - 1) ** 2, 0))) / numpy.i0(beta)

    return _made("kaiser", M, sym, shape, dtype, device, requires_grad)


# -- PyTorch's older names: `periodic` is the opposite of `sym` ---------------------------------------------


def _windowed(name: str, make: Callable, length: int, periodic: bool, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """Build a window with `make`; like PyTorch, refuse integer dtypes, and complex ones for more than one value."""
    d = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
    if d.rank < dtypes.FLOAT:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {d}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if d.is_complex and length > 1:
        raise NotImplementedError(f"{name}: not implemented for {d.name}")
    return made(make(length, sym=not periodic, dtype=dtypes.float64).array.astype(d.numpy), device, requires_grad)


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Bartlett window: a triangle from 0 to 1 and back."""
    return _windowed("bartlett_window", bartlett, window_length, periodic, dtype, device, requires_grad)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Blackman window: 0.42 - 0.5 cos(t) + 0.08 cos(2 t), for t from 0 to 2 pi."""
    return _windowed("blackman_window", blackman, window_length, periodic, dtype, device, requires_grad)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Hamming window: alpha - beta cos(t), for t from 0 to 2 pi."""
    make = functools.partial(general_cosine, a=[alpha, beta])
    return _windowed("hamming_window", make, window_length, periodic, dtype, device, requires_grad)


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Hann window: (1 - cos(t)) / 2, for t from 0 to 2 pi."""
    return _windowed("hann_window", hann, window_length, periodic, dtype, device, requires_grad)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """Kaiser window: I0(beta sqrt(1 - t^2)) / I0(beta), for t from -1 to 1."""
    make = functools.partial(kaiser, beta=abs(beta))
    return _windowed("kaiser_window", make, window_length, periodic, dtype, device, requires_grad)
