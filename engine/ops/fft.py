"""Discrete Fourier transforms of real and complex signals, their inverses, frequencies, and short-time transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..base import dtypes
from ..base.errors import Refused, warn
from ..core.from_data import tensor
from ..core.op import RULES_ONLY, Linear, composite, functions
from ..core.out import into
from ..core.tensor import Tensor
from .pad import pad
from .shape import flip, put_windows, roll, wrap_dim


class Transform(Linear):
    """Base of the transforms. Their matrix is symmetric, so that each is its own transpose."""

    home, exempt, types, checks = "", RULES_ONLY, "float", True
    examples = ((([1 + 2j, 0.5j, -1.0, 2.0],), {"dims": (0,)}), (([[1 + 2j, 0.5j], [-1.0, 2.0], [3 - 1j, 1.0]],), {"dims": (0, 1), "scale": 0.5}))
    inputs = ("input",)

    @classmethod
    def prepare(cls, arrays):
        (a,), xp = super().prepare(arrays)
        name = dtypes.FROM_NUMPY[a.dtype].name
        if name in ("float16", "bfloat16"): raise Refused(f"Unsupported dtype {name}: transforms in half precision are not available")
        return [a if a.dtype.kind == "c" else xp.astype(a, "complex64" if a.dtype.itemsize == 4 else "complex128")], xp


class fourier(Transform):
    """Sums of x[k] exp(-2 pi i j k / n) over k along `dims`, times `scale`."""

    def forward(xp, input, dims, scale=1.0): return xp.fourier(input, dims, scale)
    def d_input(xp, g, dims, scale): return xp.fourier(g, dims, scale)


class fourier_back(Transform):
    """Sums of x[k] exp(2 pi i j k / n) over k along `dims`, times `scale`: unscaled, n times the inverse of `fourier`."""

    def forward(xp, input, dims, scale=1.0): return xp.fourier_back(input, dims, scale)
    def d_input(xp, g, dims, scale): return xp.fourier_back(g, dims, scale)


# -- shared by the public functions ------------------------------------------------------------------------------------------------


def _scale(norm: str | None, n: int, back: bool) -> float:
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f"Invalid normalization mode: {norm!r}")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") != back else 1.0


def _sized(x: Tensor, n: int | None, d: int) -> Tensor:
    """Crop or zero-pad to `n` elements along a dimension."""
    have = x.shape[d]
    if n is None or n == have:
        return x
    return pad(x, (0,) * (2 * (x.ndim - 1 - d)) + (0, n - have))


def _positive(n: int) -> None:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def _axes(x: Tensor, s: Any, dim: Any) -> tuple[tuple, tuple]:
    """Return the sizes (None: unchanged) and dimensions that `s` and `dim` stand for."""
    s = (s,) if isinstance(s, int) else s
    if dim is None:
        dims = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
        if s is not None and len(s) > x.ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions.")
    else:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        if x.ndim == 0 and dims:
            raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
        dims = tuple(wrap_dim(d, x.ndim) for d in dims)
    if len(set(dims)) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    if s is not None and len(s) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    return tuple(None if n == -1 else n for n in s) if s is not None else (None,) * len(dims), dims


def _prepared(x: Tensor, s: tuple, dims: tuple) -> Tensor:
    for n, d in zip(s, dims, strict=True):
        _positive(x.shape[d] if n is None else n)
        x = _sized(x, n, d)
    return x


def _whole(x: Tensor, s: Any, dim: Any, norm: str | None, back: bool, name: str) -> Tensor:
    s, dims = _axes(x, s, dim)
    if not dims:
        _scale(norm, 1, back)
        return x.to((dtypes.default if x.dtype.rank < dtypes.FLOAT else x.dtype).to_complex(), copy=True)
    x = _prepared(x, s, dims)
    scale = _scale(norm, math.prod(x.shape[d] for d in dims), back)
    return (fourier_back if back else fourier)(x, dims, scale)


def _half(x: Tensor, s: Any, dim: Any, norm: str | None, back: bool, name: str) -> Tensor:
    """Half of the transform of a real signal; the other half is its conjugate."""
    if x.is_complex():
        raise RuntimeError(f"{name} expects a real input tensor, but got {x.dtype.name}")
    s, dims = _axes(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    out = _whole(x, s, dims, norm, back, name)
    return out[(slice(None),) * dims[-1] + (slice(0, out.shape[dims[-1]] // 2 + 1),)].clone()


def _from_half(x: Tensor, s: Any, dim: Any, norm: str | None, back: bool, name: str) -> Tensor:
    """Real signal of a half transform; the imaginary parts of the first element and, for even lengths, of the last are ignored."""
    s, dims = _axes(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = dims[-1]
    n = 2 * (x.shape[last] - 1) if s[-1] is None else s[-1]
    _positive(n)
    x = _prepared(x, (*s[:-1], n // 2 + 1), dims)
    if dims[:-1]:
        x = (fourier_back if back else fourier)(x, dims[:-1], _scale(norm, math.prod(x.shape[d] for d in dims[:-1]), back))
    lead = (slice(None),) * last
    first, inner, end = x[(*lead, slice(0, 1))], x[(*lead, slice(1, (n + 1) // 2))], x[(*lead, slice(n // 2, n // 2 + 1))]
    first, end = (part.real.to(x.dtype) for part in (first, end))
    parts = [first, inner, *([end] if n % 2 == 0 else []), flip(inner, last).conj()]
    whole = functions["cat"](parts, last)
    return (fourier_back if back else fourier)(whole, (last,), _scale(norm, n, back)).real.clone()


_KINDS = {
    "fft": (_whole, False, "The discrete Fourier transform"), "ifft": (_whole, True, "The inverse discrete Fourier transform"),
    "rfft": (_half, False, "The half of the transform of a real signal that is not conjugate to the other"),
    "irfft": (_from_half, True, "The real signal whose half transform, as of `rfft`, is given"),
    "hfft": (_from_half, False, "The real transform of a signal whose first half is given, the other being conjugate to it"),
    "ihfft": (_half, True, "The first half of the signal, conjugate to the other, whose real transform is given"),
}  # fmt: skip


def _family(end: str, dims: str, default: Any) -> None:
    for kind, (fn, back, doc) in _KINDS.items():
        name = f"{kind}{end}"
        transform = (_over_several if end else _over_one)(name, fn, back, default)
        transform.__name__ = transform.__qualname__ = name
        transform.__doc__ = f"{doc} along {dims}; `norm` (\"backward\", \"ortho\" or \"forward\") says which way is divided by the length."
        transform.__annotations__ = {"input": "Tensor"}
        composite(transform, home="fft")


def _over_one(name: str, fn: Any, back: bool, default: Any) -> Any:
    def call(input: Tensor, n: int | None = None, dim: int = default, norm: str | None = None) -> Tensor:
        if n is not None:
            _positive(n)  # only in the sizes of several dimensions, -1 keeps a size
        return fn(input, None if n is None else (n,), dim, norm, back, name)

    return call


def _over_several(name: str, fn: Any, back: bool, default: Any) -> Any:
    return lambda input, s=None, dim=default, norm=None: fn(input, s, dim, norm, back, name)


_family("", "a dimension", -1)
_family("2", "two dimensions", (-2, -1))
_family("n", "dimensions", None)


# -- frequencies -------------------------------------------------------------------------------------------------------------------


def _frequencies(name: str, n: int, d: float, places: numpy.ndarray, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """Return `places` divided by the total length of the samples; infinite for samples that are 0 apart."""
    dtype = dtypes.default if dtype is None else dtype
    if dtype.rank < dtypes.FLOAT:
        raise RuntimeError(f"{name} requires a floating point or complex dtype, but got {dtype.name}")
    if n < 0:
        raise RuntimeError(f"{name}: Trying to create tensor with negative dimension {n}: [{n}]")
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return tensor(places / numpy.float64(n * d), dtype=dtype, device=device, requires_grad=requires_grad)


@composite(home="fft")
def fftfreq(n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Frequencies of the elements of `fft`, for samples `d` apart."""
    if out is not None:
        return into(fftfreq, (n, d), {"out": out, "dtype": out.dtype if dtype is None else dtype})
    half = (n + 1) // 2
    places = numpy.concatenate([numpy.arange(half), numpy.arange(half - n, 0)])
    return _frequencies("fftfreq", n, d, places, dtype, device, requires_grad)


@composite(home="fft")
def rfftfreq(n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Frequencies of the elements of `rfft`, for samples `d` apart."""
    if out is not None:
        return into(rfftfreq, (n, d), {"out": out, "dtype": out.dtype if dtype is None else dtype})
    return _frequencies("rfftfreq", n, d, numpy.arange(n // 2 + 1), dtype, device, requires_grad)


def _shifted(x: Tensor, dim: Any, shift: Any) -> Tensor:
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if not dims:
        raise RuntimeError("`shifts` required")
    return roll(x, tuple(shift(x.shape[d]) for d in dims), dims)


@composite(home="fft")
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Move the frequency 0 to the middle."""
    return _shifted(input, dim, lambda n: n // 2)


@composite(home="fft")
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Move the frequency 0 to the beginning: the inverse of `fftshift`."""
    return _shifted(input, dim, lambda n: (n + 1) // 2)


# -- short-time transforms ----------------------------------------------------------------------------------------------------------


def _window(window: Tensor | None, win_length: int, n_fft: int, beside: Tensor) -> Tensor:
    window = beside.new_ones(win_length).real if window is None else window
    left = (n_fft - win_length) // 2
    return pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window


@composite(method=True)
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None, center: bool = True,
    pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """Short-time Fourier transform of signals (L) or (B, L), in overlapping frames: (..., frequencies, frames), complex.

    Frames of `n_fft` samples are `hop_length` apart (by default a quarter) and multiplied by `window`. With `center` the signal is padded
    so that frame t is centered at t * hop_length. Without it, `align_to_window` pads the signal so that a window shorter than the frame
    begins at t * hop_length.
    """
    if center and align_to_window is None:  # PyTorch pads before it checks the other arguments
        x = pad(input.reshape((*[1] * (3 - input.ndim), *input.shape)), (n_fft // 2, n_fft // 2), pad_mode)
    if return_complex is None and not input.is_complex() and not (window is not None and window.is_complex()):
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in a future PyTorch release.")
    hop, length = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if input.dtype.rank < dtypes.FLOAT:
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, but got {input.dtype.name}")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {input.ndim}D")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={length}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if window is not None and tuple(window.shape) != (length,):
        raise RuntimeError(f"stft: expected a 1D window tensor of size equal to win_length={length}, but got window with size {list(window.shape)}")
    x = x.reshape((*input.shape[:-1], -1)) if center else input
    if not center and align_to_window:
        left = (n_fft - length) // 2
        x = pad(x, (left, n_fft - length - left))
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {x.shape[-1]}, but got n_fft={n_fft}")
    pieces = Tensor.unfold(x, -1, n_fft, hop) * _window(window, length, n_fft, x)
    norm = "ortho" if normalized else None
    one = (not pieces.is_complex()) if onesided is None else onesided
    found = (functions["fft.rfft"] if one else functions["fft.fft"])(pieces, None, -1, norm).mT
    return functions["view_as_real"](found) if return_complex is False else found


@composite(method=True)
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None, center: bool = True,
    normalized: bool = False, onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """Inverse of `stft`: the signal with the nearest transform to the given one, (..., frequencies, frames)."""
    if not input.is_complex():
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    if input.ndim < 2:
        raise IndexError(f"istft: expected a tensor with 2 or 3 dimensions, but got one with {input.ndim}")
    if input.ndim > 3 or 0 in input.shape:
        raise RuntimeError(f"istft: expected a tensor with 2 or 3 dimensions and at least one element, but got one of shape {list(input.shape)}")
    hop, win = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if not 0 < win <= n_fft:
        raise RuntimeError(f"istft: expected 0 < win_length <= n_fft, but got win_length={win}")
    if not 0 < hop <= win:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop}")
    if window is not None and tuple(window.shape) != (win,):
        raise RuntimeError(f"istft: expected a 1D window tensor of size equal to win_length={win}, but got window with size {list(window.shape)}")
    if window is not None and window.is_complex() and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    one = (not return_complex and input.shape[-2] != n_fft) if onesided is None else onesided
    if input.shape[-2] != (n_fft // 2 + 1 if one else n_fft):
        raise RuntimeError(f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft, but got {input.shape[-2]}")
    frames, norm = input.mT, "ortho" if normalized else None
    if return_complex:
        if one:
            raise RuntimeError("istft: cannot have onesided output if window or input is complex")
        pieces = functions["fft.ifft"](frames, None, -1, norm)
    else:  # half of the frequencies suffice
        pieces = functions["fft.irfft"](frames[..., : n_fft // 2 + 1], n_fft, -1, norm)
    w = _window(window, win, n_fft, pieces)
    pieces = pieces * w
    count, whole = pieces.shape[-2], n_fft + hop * (pieces.shape[-2] - 1)
    total = put_windows(pieces, (*pieces.shape[:-2], whole), -1, n_fft, hop)
    weight = put_windows((w * w).expand(count, n_fft), (whole,), -1, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = whole - n_fft // 2 if center and length is None else whole if length is None else min(start + length, whole)
    weight = weight[start:end]
    if not weight.numel():
        raise RuntimeError(f"istft: expected at least one sample to be left, but got length={length} and frames that give {whole} samples")
    if weight.abs().min().item() < 1e-11:
        raise RuntimeError("istft: window overlap add min: 1")
    out = total[..., start:end] / weight
    if length is None or out.shape[-1] >= length:
        return out
    warn("The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail.")
    return pad(out, (0, length - out.shape[-1]))
