"""Convolutions on the CPU: by oneDNN where it is installed, takes the arguments and is faster, and otherwise by `kernels_conv`.

`engine.backends.mkldnn` has the switches; docs/cpu.md says what was measured.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy

from ..base.dtypes import F32
from ..base.layout import blank, strides_of
from . import kernels_conv, mkldnn, onednn
from .onednn import BIAS, DIFF_DST, DIFF_SRC, DIFF_WEIGHTS, DST, SRC, WEIGHTS, Library, Plans, Program, Unsupported
from .windows import Windows, place

_LEAST = 1 << 14  # multiplications; with fewer, too little is saved to load the library and to make a plan


_plans = Plans()


# -- primitives --------------------------------------------------------------------------------------------------------------


def convolution(x: Any, weight: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None) -> Any:
    """Convolution (cross-correlation) of x with weight; Refused for mismatched shapes."""
    if x.ndim + 1 == weight.ndim:
        return convolution(x[None], weight, stride, padding, dilation, groups, bias)[0]
    arrays = (x, weight) if bias is None else (x, weight, bias)
    if worth(arrays, weight.shape):
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
    if worth((g, weight), weight.shape):
        at = place(size[2:], weight.shape[2:], stride, padding, dilation, g.shape[2:])
        out = _executed(DIFF_SRC, (g, weight), size, at, groups)
        if out is not None:
            return out
    return kernels_conv.convolution_input(g, weight, size, stride, padding, dilation, groups)


def convolution_weight(g: Any, x: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Gradient of `convolution` with respect to weight, from g (N, O, *out) and x to shape `size`."""
    if g.ndim + 1 == len(size):
        return convolution_weight(g[None], x[None], size, stride, padding, dilation, groups)
    if worth((g, x), size):
        at = place(x.shape[2:], size[2:], stride, padding, dilation, g.shape[2:])
        out = _executed(DIFF_WEIGHTS, (g, x), size, at, groups)
        if out is not None:
            return out
    return kernels_conv.convolution_weight(g, x, size, stride, padding, dilation, groups)


def worth(arrays: tuple, weight: tuple) -> bool:
    """Whether oneDNN may be faster for a batch of images and a weight of this shape: all is float32, there is enough to compute, and the
    library, which is loaded at the first time, can be used.
    """
    many = large(arrays[0], weight, _LEAST)
    return mkldnn.enabled and many and all(a.dtype == F32 for a in arrays) and isinstance(onednn.found(), Library)


def large(x: Any, weight: tuple, least: int) -> bool:
    """Whether a batch of images (not a single one) and a weight of this shape need this many multiplications."""
    return x.ndim == len(weight) and 0 not in x.shape and x.size // x.shape[1] * math.prod(weight) >= least


# -- plans -------------------------------------------------------------------------------------------------------------------

_OPERANDS = {DST: (SRC, WEIGHTS, BIAS), DIFF_SRC: (DIFF_DST, WEIGHTS), DIFF_WEIGHTS: (DIFF_DST, SRC)}


class Signature(NamedTuple):
    """What a plan is made for."""

    kind: int  # oneDNN's number of the result: DST, DIFF_SRC or DIFF_WEIGHTS
    shapes: tuple[tuple, ...]  # of the operands
    lasts: tuple[bool, ...]  # whether their channels are last in memory
    result: tuple
    windows: Windows
    groups: int
    threads: int

    def layouts(self) -> tuple[bool | None, ...]:
        """Return layouts of the images within oneDNN, the fastest first: channels last, or not, or (None) what it finds best."""
        if self.lasts[0] or self.kind == DIFF_WEIGHTS and self.lasts[1]:
            return True, None
        channels = self.weight[1]  # of a group
        if self.groups > 1 and channels == 1:
            return (None,)
        few = channels < 8 if self.kind == DIFF_SRC else channels == 1 and self.kind == DIFF_WEIGHTS
        single = math.prod(self.windows.kernel) == 1 and not (self.kind == DST and max(self.windows.stride) > 1)
        return (False, None) if few or single else (None, False)

    @property
    def weight(self) -> tuple:
        return self.result if self.kind == DIFF_WEIGHTS else self.shapes[1]

    def places(self) -> tuple:
        """Return the strides, dilations and paddings for oneDNN, which wants the padding after an image to end with the last window."""
        at, after = self.windows, []
        for n, m, k, s, d, (before, given) in zip(at.size, at.out, at.kernel, at.stride, at.dilation, at.pads, strict=True):
            least = (m - 1) * s + d * (k - 1) + 1 - n - before
            after.append(given if least <= given < least + s else least)
        return at.stride, tuple(d - 1 for d in at.dilation), tuple(before for before, _ in at.pads), after


def _executed(kind: int, arrays: tuple, result: tuple, windows: Windows, groups: int) -> Any:
    """Execute the plan for these arguments, from the thread's cache if it is there; None if they are not for oneDNN."""
    arrays, lasts = zip(*map(_dense, arrays), strict=True)
    signature = Signature(kind, tuple([a.shape for a in arrays]), lasts, tuple(result), windows, groups, onednn.thread_count())
    plan = _plans.get(signature, _planned, onednn.found())
    return None if plan is None else plan(arrays)


def _dense(x: Any) -> tuple[Any, bool]:
    """Return the array, or a copy, in aligned memory without gaps, and whether its channels are last there."""
    if x.flags.aligned and x.flags.c_contiguous:
        return x, False
    if x.flags.aligned and x.ndim > 2 and x.transpose(_axes(x.ndim, True)).flags.c_contiguous:
        return x, True
    return numpy.array(x, order="C"), False


def _axes(n: int, last: bool) -> tuple[int, ...]:
    """Return the axes of images of n dimensions, outermost in memory first, with the channels last or not."""
    return (0, *range(2, n), 1) if last else tuple(range(n))


def _planned(signature: Signature, library: Any) -> Plan | None:
    """Return a plan in the first of the layouts for which the library is fast."""
    for layout in signature.layouts():
        try:
            return Plan(library, signature, layout)
        except Unsupported:
            continue
        except RuntimeError as error:
            onednn.warn(str(error))
            return None
    return None


class Plan:
    """A convolution, or a gradient of it, that was planned for a signature."""

    def __init__(self, library: Library, signature: Signature, layout: bool | None):
        """Raises Unsupported if oneDNN does not take the arguments, or is slow. `layout` is one of `Signature.layouts`."""
        kind, shapes, lasts, self._shape, _, groups, self._threads = signature
        self._library, n = library, len(self._shape)
        last = kind == DST and n == 4 and lasts[0]  # as PyTorch's results lie
        self._axes = _axes(n, last)
        library.use_threads(self._threads)
        given, taken = {}, {}  # descriptions of the memory: of the arrays, and as the primitive takes them
        for number, shape, channels_last in zip(
            (*_OPERANDS[kind][: len(shapes)], kind), (*shapes, self._shape), (*lasts, last), strict=True
        ):
            strides, wanted = strides_of(shape, _axes(len(shape), channels_last)), None
            if number in (WEIGHTS, DIFF_WEIGHTS):
                if groups > 1:
                    shape, strides = (groups, shape[0] // groups, *shape[1:]), (shape[0] // groups * strides[0], *strides)
            elif number == BIAS:
                wanted = strides
            elif layout is not None:
                wanted = strides_of(shape, _axes(n, layout))
            given[number], taken[number] = library.described(shape, strides), library.described(shape, wanted)
        described = library.convolution(kind, taken, signature.places())
        self.implementation = library.implementation(described)
        # NumPy is faster than loops without vectors, and than a small matrix product for each group
        if "ref" in self.implementation or "gemm" in self.implementation and groups > 1 and signature.weight[1] < 8:
            raise Unsupported(self.implementation)
        self._run = Program(library, described, list(given.items()))

    def __call__(self, arrays: tuple) -> Any:
        self._library.use_threads(self._threads)
        out = blank(numpy.empty, self._shape, F32, self._axes)
        self._run(*arrays, out)
        return out
