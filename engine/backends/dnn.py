"""Convolutions on the CPU: by oneDNN where it is installed, takes the arguments and is faster, and otherwise by `kernels_conv`.

`engine.backends.mkldnn` has the switches; docs/cpu.md says what was measured.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy

from ..base.dtypes import F32
from ..base.layout import blank, strides_of
from . import kernels_conv, mkldnn, onednn
from .onednn import BIAS, DIFF_DST, DIFF_SRC, DIFF_WEIGHTS, DST, SRC, WEIGHTS, Library, Program, Unsupported
from .windows import Windows, place

_LEAST = 1 << 20  # multiplications; with fewer, NumPy is as fast
_MOST = 512  # plans of a thread; the oldest are dropped


class _Thread(threading.local):
    """What a thread has: memory objects are not made for two threads at a time."""

    def __init__(self) -> None:
        self.plans: dict[tuple, Plan | None] = {}
        self.count = 0  # the number of threads that OpenMP was told


_thread = _Thread()


# -- primitives --------------------------------------------------------------------------------------------------------------


def convolution(x: Any, weight: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None) -> Any:
    """Convolution (cross-correlation) of x with weight; Refused for mismatched shapes."""
    if x.ndim + 1 == weight.ndim:
        return convolution(x[None], weight, stride, padding, dilation, groups, bias)[0]
    arrays = (x, weight) if bias is None else (x, weight, bias)
    if _worth(arrays, weight.shape):
        kernels_conv.check(x.shape, weight.shape, bias, groups)
        at = place(x.shape[2:], weight.shape[2:], stride, padding, dilation)
        out = _executed(DST, arrays, (len(x), len(weight), *at.out), at, groups)
        if out is not None:
            return out
    return kernels_conv.convolution(x, weight, stride, padding, dilation, groups, bias)


def convolution_input(g: Any, weight: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Gradient of `convolution` with respect to x, from g (N, O, *out) to shape `size`; also the transposed convolution."""
    if g.ndim + 1 == weight.ndim:
        return convolution_input(g[None], weight, (1, *size), stride, padding, dilation, groups)[0]
    if _worth((g, weight), weight.shape):
        at = place(size[2:], weight.shape[2:], stride, padding, dilation, g.shape[2:])
        out = _executed(DIFF_SRC, (g, weight), size, at, groups)
        if out is not None:
            return out
    return kernels_conv.convolution_input(g, weight, size, stride, padding, dilation, groups)


def convolution_weight(g: Any, x: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Gradient of `convolution` with respect to weight, from g (N, O, *out) and x to shape `size`."""
    if g.ndim + 1 == len(size):
        return convolution_weight(g[None], x[None], size, stride, padding, dilation, groups)
    if _worth((g, x), size):
        at = place(x.shape[2:], size[2:], stride, padding, dilation, g.shape[2:])
        out = _executed(DIFF_WEIGHTS, (g, x), size, at, groups)
        if out is not None:
            return out
    return kernels_conv.convolution_weight(g, x, size, stride, padding, dilation, groups)


def _worth(arrays: tuple, weight: tuple) -> bool:
    """Whether oneDNN may be faster for a batch of images and a weight of this shape: all is float32, and there is enough to compute."""
    x = arrays[0]
    if not mkldnn.enabled or x.ndim != len(weight) or 0 in x.shape or any(a.dtype != F32 for a in arrays):
        return False
    return x.size // x.shape[1] * math.prod(weight) >= _LEAST


# -- plans -------------------------------------------------------------------------------------------------------------------


def _executed(kind: int, arrays: tuple, result: tuple, at: Windows, groups: int) -> Any:
    """Execute the plan for these arguments, from the thread's cache if it is there; None if they are not for oneDNN."""
    count = onednn.thread_count()
    arrays, lasts = zip(*map(_dense, arrays), strict=True)
    key = (kind, count, at, groups, lasts, result, *[a.shape for a in arrays])
    try:
        plan = _thread.plans[key]
    except KeyError:
        library = onednn.found()
        plan = None if isinstance(library, str) else _planned(library, kind, [a.shape for a in arrays], lasts, result, at, groups, count)
        if len(_thread.plans) >= _MOST:
            _thread.plans.pop(next(iter(_thread.plans)))
        _thread.plans[key] = plan
    return None if plan is None else plan(arrays, count)


def _dense(x: Any) -> tuple[Any, bool]:
    """Return the array, or a copy, in aligned memory without gaps; and whether its channels are last there."""
    if x.flags.c_contiguous and x.flags.aligned:
        return x, False
    if x.ndim > 2 and x.transpose(_last(x.ndim)).flags.c_contiguous and x.flags.aligned:
        return x, True
    return numpy.array(x, order="C"), False


def _last(n: int) -> tuple[int, ...]:
    """Return the axes of n dimensions with the channels last."""
    return (0, *range(2, n), 1)


def _planned(library: Library, kind: int, shapes: list, lasts: tuple, result: tuple, at: Windows, groups: int, count: int) -> Plan | None:
    """Return a plan in the first of the layouts for which the library has more than its reference implementation."""
    _use(library, count)
    after = []
    for n, m, k, s, d, (before, given) in zip(at.size, at.out, at.kernel, at.stride, at.dilation, at.pads, strict=True):
        least = (m - 1) * s + d * (k - 1) + 1 - n - before
        after.append(given if least <= given < least + s else least)
    windows = at.stride, tuple(d - 1 for d in at.dilation), tuple(before for before, _ in at.pads), after
    for layout in _layouts(kind, shapes, lasts, result, at, groups):
        try:
            return Plan(library, kind, shapes, lasts, result, windows, groups, layout)
        except Unsupported:
            continue
    return None


_OPERANDS = {DST: (SRC, WEIGHTS, BIAS), DIFF_SRC: (DIFF_DST, WEIGHTS), DIFF_WEIGHTS: (DIFF_DST, SRC)}


class Plan:
    """A convolution, or a gradient of it, for operands of these shapes, with their channels last in memory or not."""

    def __init__(
        self, library: Library, kind: int, shapes: list, lasts: tuple, result: tuple, windows: tuple, groups: int, layout: bool | None
    ):
        """`layout` is that of images in oneDNN: with channels last, or not, or (None) what it finds best."""
        self._library, self._shape, n = library, result, len(result)
        self._axes = _last(n) if kind == DST and n == 4 and lasts[0] else tuple(range(n))  # as PyTorch's results lie
        numbers = (*_OPERANDS[kind][: len(shapes)], kind)
        given, taken = {}, {}
        for number, shape, last in zip(numbers, (*shapes, result), (*lasts, self._axes[-1] == 1 and n > 2), strict=True):
            strides = strides_of(shape, _last(len(shape)) if last else tuple(range(len(shape))))
            if number in (WEIGHTS, DIFF_WEIGHTS):
                if groups > 1:
                    shape, strides = (groups, shape[0] // groups, *shape[1:]), (shape[0] // groups * strides[0], *strides)
                taken["weight"] = library.described(shape)
            elif number != BIAS:
                wanted = None if layout is None else strides_of(shape, _last(n) if layout else tuple(range(n)))
                taken["y" if number in (DST, DIFF_DST) else "x"] = library.described(shape, wanted)
            given[number] = library.described(shape, strides)
        described = library.convolution(kind, taken["x"], taken["weight"], given.get(BIAS), taken["y"], windows)
        if "ref" in (name := library.implementation(described)):
            raise Unsupported(name)
        self.implementation = name
        self._run = Program(library, described, list(given.items()))

    def __call__(self, arrays: tuple, count: int) -> Any:
        _use(self._library, count)
        out = blank(numpy.empty, self._shape, F32, self._axes)
        self._run(*arrays, out)
        return out


def _use(library: Library, count: int) -> None:
    """Set the number of OpenMP's threads, which each thread has for itself."""
    if _thread.count != count:
        library.use_threads(count)
        _thread.count = count


def _layouts(kind: int, shapes: list, lasts: tuple, result: tuple, at: Windows, groups: int) -> tuple[bool | None, ...]:
    """Return the layouts of images in oneDNN to try, the fastest first."""
    images = [last for number, last in zip(_OPERANDS[kind], lasts, strict=False) if number != WEIGHTS and number != BIAS]
    if any(images):
        return True, None
    channels = {DST: shapes[0], DIFF_SRC: result, DIFF_WEIGHTS: shapes[-1]}[kind][1] // groups
    if kind == DIFF_SRC and channels < 8 or kind == DIFF_WEIGHTS and channels == 1:
        return False, None
    if math.prod(at.kernel) == 1 and not (kind == DST and max(at.stride) > 1):
        return False, None
    return None, False
