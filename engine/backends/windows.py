"""Sliding windows of convolutions and pools: output sizes, padding, and strided views of all windows at once."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

from ..base.errors import Refused
from .reference import module_of

_LINE = 500  # multiplications that take as long as the overhead of a line's loop


def each(value: Any, n: int, name: str) -> tuple:
    """Expand to `n` integers, one per dimension, from a single value or a sequence of 1 or `n`."""
    if not getattr(value, "ndim", 1) or not hasattr(value, "__iter__"):  # a 0-d tensor is a scalar
        return (int(value),) * n
    values = tuple(int(v) for v in value)
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise Refused(f"expected {name} to be a single integer value or a list of {n} values, but got {name}={list(values)}")
    return values


@dataclasses.dataclass(frozen=True, eq=False)
class Windows:
    """Windows over the last dimensions of an array; each field has one entry per dimension."""

    size: tuple  # input size
    kernel: tuple
    stride: tuple
    pads: tuple  # (before, after)
    dilation: tuple
    out: tuple  # number of windows

    @functools.cached_property
    def padded(self) -> tuple:
        return tuple(n + lo + hi for n, (lo, hi) in zip(self.size, self.pads, strict=True))

    @functools.cached_property
    def inside(self) -> tuple:
        """Index of the input within the padded input."""
        return (..., *[slice(lo, lo + n) for n, (lo, _) in zip(self.size, self.pads, strict=True)])

    @functools.cached_property
    def plain(self) -> bool:
        """Whether each window is one element and each element one window: kernel 1, no padding, same size."""
        return self.out == self.size and all(k == 1 for k in self.kernel) and not any(map(any, self.pads))

    @functools.cached_property
    def bare(self) -> bool:
        """Whether there is no padding."""
        return not any(map(any, self.pads))

    @functools.cached_property
    def disjoint(self) -> bool:
        return all(s >= d * (k - 1) + 1 for s, d, k in zip(self.stride, self.dilation, self.kernel, strict=True))

    @functools.cached_property
    def tiles(self) -> bool:
        """Whether every element of the padded input lies in exactly one window."""
        whole = all(m * k == n for m, k, n in zip(self.out, self.kernel, self.padded, strict=True))
        return whole and self.stride == self.kernel and all(d == 1 for d in self.dilation)

    @functools.cached_property
    def along(self) -> tuple:
        """For each dimension and kernel position, a slice of the padded input that selects that position in every window."""
        sizes = zip(self.kernel, self.dilation, self.stride, self.out, strict=True)
        return tuple([slice(t * d, t * d + s * (n - 1) + 1, s) for t in range(k)] for k, d, s, n in sizes)

    @functools.cached_property
    def taps(self) -> tuple:
        """For each kernel position, an index into the padded input that selects that position in every window."""
        return tuple((..., *places) for places in itertools.product(*self.along))

    def pad(self, x: Any, fill: Any = 0) -> Any:
        """Return the padded input; the input itself if there is no padding."""
        if self.bare:
            return x
        out = module_of(x).full((*x.shape[: -len(self.size)], *self.padded), fill, dtype=x.dtype)
        out[self.inside] = x
        return out

    def view(self, x: Any) -> Any:
        """View every window of a padded input without copying: shape (..., *kernel, *out)."""
        n = len(self.size)
        lead, steps = x.strides[:-n], x.strides[-n:]
        inner = tuple(s * d for s, d in zip(steps, self.dilation, strict=True))
        outer = tuple(s * d for s, d in zip(steps, self.stride, strict=True))
        return module_of(x).lib.stride_tricks.as_strided(x, (*x.shape[:-n], *self.kernel, *self.out), (*lead, *inner, *outer))

    def over(self, outputs: int) -> Windows | Rows:
        """The same windows over flattened images (`Rows`) if their long inner loops save more than the windows between lines cost.

        Those take part in the matrix products for `outputs` channels; without `Rows`, each line of a window is a loop of its own.
        """
        if len(self.size) < 2 or set(self.stride) != {1} or math.prod(self.kernel) == 1 or 0 in self.out:
            return self
        gaps = math.prod(self.padded[1:]) / math.prod(self.out[1:]) - 1
        return self.rows if gaps <= 0.5 and self.out[-1] <= 64 and gaps * outputs * self.out[-1] <= _LINE else self

    @functools.cached_property
    def rows(self) -> Rows:
        return Rows(self)

    @functools.cached_property
    def turned(self) -> Windows | None:
        """Windows over the results, of stride 1, with which the transpose is a convolution too; None if there are none."""
        spans = [d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True)]
        before = [span - lo for span, (lo, _) in zip(spans, self.pads, strict=True)]
        after = [n - m + span - lo for n, m, span, lo in zip(self.size, self.out, spans, before, strict=True)]
        if set(self.stride) != {1} or min(before + after) < 0:
            return None
        return Windows(self.out, self.kernel, self.stride, tuple(zip(before, after, strict=True)), self.dilation, self.size)

    def crop(self, out: Any) -> Any:
        """Remove the extra elements that `Rows` computes between windows; there are none here."""
        return out

    def spread(self, g: Any) -> Any:
        """The transpose of `crop`."""
        return g

    def inner(self, wide: Any) -> Any:
        """Remove the padding of a padded input."""
        return wide if self.bare else wide[self.inside]


class Rows:
    """Windows of stride 1 over padded images, each flattened to one row, so that every tap is a single slice.

    Windows that wrap from the end of one line to the next are computed too, and cropped.
    """

    plain = False

    def __init__(self, at: Windows):
        lines = [math.prod(at.padded[i + 1 :]) for i in range(len(at.padded))]
        self.at, self.kernel, self.places = at, at.kernel, math.prod(at.padded)
        self.steps = tuple(d * line for d, line in zip(at.dilation, lines, strict=True))
        length = at.out[0] * lines[0]
        starts = [sum(t * step for t, step in zip(tap, self.steps, strict=True)) for tap in itertools.product(*map(range, self.kernel))]
        self.out, self.padded = (length,), (max(starts[-1] + length, self.places),)
        self.taps = tuple((..., slice(start, start + length)) for start in starts)
        self.lines, self.kept = (at.out[0], *at.padded[1:]), (..., *[slice(n) for n in at.out])

    def pad(self, x: Any) -> Any:
        wide = module_of(x).zeros((*x.shape[: -len(self.kernel)], *self.padded), x.dtype)
        self.inner(wide)[...] = x
        return wide

    def view(self, x: Any) -> Any:
        item = x.strides[-1]
        strides = (*x.strides[:-1], *[step * item for step in self.steps], item)
        return module_of(x).lib.stride_tricks.as_strided(x, (*x.shape[:-1], *self.kernel, *self.out), strides)

    def crop(self, out: Any) -> Any:
        return out.reshape(*out.shape[:-1], *self.lines)[self.kept]

    def spread(self, g: Any) -> Any:
        wide = module_of(g).zeros((*g.shape[: -len(self.kernel)], *self.out), g.dtype)
        self.crop(wide)[...] = g
        return wide

    def inner(self, wide: Any) -> Any:
        return wide[..., : self.places].reshape(*wide.shape[:-1], *self.at.padded)[self.at.inside]


def remembered(fn: Callable) -> Callable:
    """Memoize a function (the last 512 calls); list arguments become tuples."""
    found = functools.lru_cache(512)(fn)

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        return found(*[tuple(a) if a.__class__ is not tuple and hasattr(a, "__iter__") and not isinstance(a, str) else a for a in args])

    return call


def _positive(values: tuple, rule: str) -> None:
    if any(v <= 0 for v in values):
        raise Refused(rule)


@remembered
def place(size: tuple, kernel: tuple, stride: Any, padding: Any, dilation: Any, out: tuple | None = None) -> Windows:
    """Return a convolution's windows; `padding` may be "same" or "valid", and `out` overrides the output size."""
    n = len(kernel)
    stride, dilation = each(stride, n, "stride"), each(dilation, n, "dilation")
    _positive(stride, "non-positive stride is not supported")
    _positive(dilation, "dilation should be greater than zero")
    spans = tuple(d * (k - 1) for d, k in zip(dilation, kernel, strict=True))
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise Refused(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
        if padding == "same" and any(s != 1 for s in stride):
            raise Refused("padding='same' is not supported for strided convolutions")
        pads = tuple((s // 2, s - s // 2) if padding == "same" else (0, 0) for s in spans)
    else:
        pads = tuple((p, p) for p in each(padding, n, "padding"))
        if any(p < 0 for p, _ in pads):
            raise Refused("negative padding is not supported")
    wide = tuple(s + lo + hi for s, (lo, hi) in zip(size, pads, strict=True))
    if any(w < s + 1 for w, s in zip(wide, spans, strict=True)):
        by = lambda sizes: " x ".join(map(str, sizes))  # noqa: E731
        raise Refused(
            f"Calculated padded input size per channel: ({by(wide)}). Kernel size: ({by(s + 1 for s in spans)}). "
            "Kernel size can't be greater than actual input size"
        )
    if out is None:
        out = tuple((w - s - 1) // step + 1 for w, s, step in zip(wide, spans, stride, strict=True))
    return Windows(tuple(size), tuple(kernel), stride, pads, dilation, tuple(out))


@remembered
def place_pool(size: tuple, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Windows:
    """Return a pool's windows; with `ceil_mode` the last window may extend past the end if it starts inside."""
    n = len(size)
    kernel = each(kernel, n, "kernel_size")
    stride = kernel if stride is None or (hasattr(stride, "__len__") and not len(stride)) else each(stride, n, "stride")
    padding, dilation = each(padding, n, "padding"), each(dilation, n, "dilation")
    _positive(kernel, f"kernel size should be greater than zero, but got {kernel}")
    _positive(stride, f"stride should be greater than zero, but got {stride}")
    _positive(dilation, f"dilation should be greater than zero, but got {dilation}")
    if any(p < 0 for p in padding):
        raise Refused(f"pad must be non-negative, but got pad: {min(padding)}")
    if any(p > (d * (k - 1) + 1) // 2 for p, k, d in zip(padding, kernel, dilation, strict=True)):
        raise Refused(
            f"pad should be at most half of effective kernel size, but got pad={padding}, kernel_size={kernel} and dilation={dilation}"
        )
    pads, out = [], []
    for length, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        span = d * (k - 1) + 1
        room = length + 2 * p - span
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= length + p:
            count -= 1
        out.append(count)
        pads.append((p, max(p, (count - 1) * s + span - length - p) if ceil_mode else p))
    if any(count <= 0 for count in out):
        raise Refused(f"Given input size: {tuple(size)}. Calculated output size: {tuple(out)}. Output size is too small")
    return Windows(tuple(size), kernel, stride, tuple(pads), dilation, tuple(out))
