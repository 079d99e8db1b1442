"""Convolutions by cuDNN: a graph for each signature, planned once by cuDNN's heuristics, then executed on the arrays' memory.

cuDNN is called through its frontend (`nvidia-cudnn-frontend`, the module `cudnn`). Where it is missing, or does not take the arguments, the
convolution is composed of CuPy's functions (`kernels_conv`). `engine.backends.cudnn` has the switches.
"""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cupy

from ...base.dtypes import F32, LOW
from ...base.layout import blank, contiguous_format, lies_in, memory_format, order, strides_of, suggested
from .. import cudnn as switches
from .. import kernels_conv
from ..kernels_conv import check
from ..reference import laid_out
from ..windows import Windows, place

_TYPES = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BFLOAT16"}
_OPERANDS = {"fprop": ("image", "weight"), "dgrad": ("loss", "filter"), "wgrad": ("loss", "image")}  # cuDNN's names
_MOST_PLANS = 4096  # of a thread; the oldest are dropped
_ALIGNMENT = 16  # bytes; plans are built for memory aligned to it


# -- primitives --------------------------------------------------------------------------------------------------------------


def convolution(x: Any, weight: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None) -> Any:
    """Convolution of x with weight, in channels-last order if one of them is. The bias is added before the result is rounded."""
    if x.ndim + 1 == weight.ndim:
        return convolution(x[None], weight, stride, padding, dilation, groups, bias)[0]
    plan = _plan_for("fprop", x, weight, None, stride, padding, dilation, groups, bias)
    if plan is None:
        return _composed(kernels_conv.convolution, x, weight, stride, padding, dilation, groups, bias)
    return plan(x, weight) if bias is None else plan(x, weight, bias)


def convolution_input(g: Any, weight: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Gradient of `convolution` with respect to x, from g to shape `size`; also the transposed convolution."""
    if g.ndim + 1 == weight.ndim:
        return convolution_input(g[None], weight, (1, *size), stride, padding, dilation, groups)[0]
    plan = _plan_for("dgrad", g, weight, tuple(size), stride, padding, dilation, groups)
    if plan is None:
        return _composed(kernels_conv.convolution_input, g, weight, size, stride, padding, dilation, groups)
    return plan(g, weight)


def convolution_weight(g: Any, x: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Gradient of `convolution` with respect to weight, from g and x to shape `size`."""
    if g.ndim + 1 == len(size):
        return convolution_weight(g[None], x[None], size, stride, padding, dilation, groups)
    plan = _plan_for("wgrad", g, x, tuple(size), stride, padding, dilation, groups)
    if plan is None:
        return _composed(kernels_conv.convolution_weight, g, x, size, stride, padding, dilation, groups)
    return plan(g, x)


def _composed(function: Callable, first: Any, *more: Any) -> Any:
    """Call a function of `kernels_conv`, for half precision in float32."""
    if first.dtype not in LOW:
        return function(first, *more)
    return function(*[a.astype(F32) if getattr(a, "dtype", None) in LOW else a for a in (first, *more)]).astype(first.dtype)


@functools.cache
def _warn(text: str) -> None:
    """Warn, once for each text."""
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class _Thread(threading.local):
    """What a thread uses: cuDNN's handles and plans are not made for two threads at a time."""

    def __init__(self) -> None:
        self.handles: dict[int, Any] = {}  # device -> handle
        self.plans: dict[tuple, Any] = {}  # of convolutions and of attention; None for what is not for cuDNN

    def handle(self, device: int) -> Any:
        if device not in self.handles:
            self.handles[device] = switches.library().create_handle()
        return self.handles[device]


_thread = _Thread()


# -- plans -------------------------------------------------------------------------------------------------------------------


class Signature(NamedTuple):
    """What cuDNN needs to know of a convolution, or of its gradient with respect to its image or its weight."""

    op: str  # "fprop", "dgrad" or "wgrad"
    dtype: Any
    shapes: tuple[tuple, ...]  # of the operands: an image, a weight, or the gradient of a result
    result: tuple
    axes: tuple[int, ...]  # the order of all of them in memory
    windows: Windows
    bias: bool
    avoided: tuple[str, ...]  # numerical notes of cuDNN's plans that are not used


def _plan_for(
    op: str, first: Any, second: Any, size: tuple | None, stride: Any, padding: Any, dilation: Any, groups: int, bias: Any = None
) -> Plan | None:
    """Return the plan for these arguments, from the thread's cache if it has it; None if they are not for cuDNN."""
    if not switches.enabled:
        return None
    device = cupy.cuda.runtime.getDevice()
    stride, padding, dilation = [tuple(v) if v.__class__ is list else v for v in (stride, padding, dilation)]
    windows, arrays = (stride, padding, dilation, groups), (first, second) if bias is None else (first, second, bias)
    key = (op, device, size, windows, avoided(first.dtype), switches.benchmark, *[(a.dtype, a.shape, a.strides) for a in arrays])
    try:
        return _thread.plans[key]
    except KeyError:
        plan = _new(op, arrays, size, windows, device)
    if len(_thread.plans) >= _MOST_PLANS:
        _thread.plans.pop(next(iter(_thread.plans)))
    _thread.plans[key] = plan
    return plan


def avoided(dtype: Any) -> tuple[str, ...]:
    """Return the numerical notes of the plans that must not be used: operands are never rounded to half precision."""
    notes = ["DOWN_CONVERT_INPUTS"]
    if dtype.name == "float32" and not (switches.allow_tf32 if switches.fp32_precision == "none" else switches.fp32_precision == "tf32"):
        notes.append("TENSOR_CORE")
    if switches.deterministic or switches.deterministic_algorithms:
        notes.append("NONDETERMINISTIC")
    return tuple(notes)


def _new(op: str, arrays: Sequence[Any], size: tuple | None, windows: tuple, device: int) -> Plan | None:
    first, second = arrays[:2]
    image, weight = {"fprop": (first.shape, second.shape), "dgrad": (size, second.shape), "wgrad": (second.shape, size)}[op]
    dtype = first.dtype
    if dtype.name not in _TYPES or any(a.dtype != dtype for a in arrays) or not 3 <= len(weight) <= 5 or 0 in (*image, *weight):
        return None
    if op == "fprop":
        check(image, weight, arrays[2] if arrays[2:] else None, windows[3])
    at = place(image[2:], weight[2:], *windows[:3])
    loss = (image[0], weight[0], *at.out)
    shapes, result = {"fprop": ((image, weight), loss), "dgrad": ((loss, weight), image), "wgrad": ((loss, image), weight)}[op]
    if (first.shape, second.shape) != shapes or image[1] != weight[1] * windows[3]:
        return None  # such as a transposed convolution whose output padding makes room for one more window
    cudnn = switches.library()
    if isinstance(cudnn, Exception):
        _warn(f"convolutions are composed of CuPy's functions, which is slower, since cuDNN cannot be used: {cudnn}")
        return None
    format = next((f for f in map(suggested, (first, second)) if f is not contiguous_format), contiguous_format)
    signature = Signature(op, dtype, shapes, result, order(format, len(result)), at, len(arrays) > 2, avoided(dtype))
    try:
        return Plan(built(signature, _thread.handle(device)), _thread.handle(device), signature, format, arrays)
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), "")
        _warn(f"composed of CuPy's functions, since cuDNN does not take it: {op} of {dtype} {shapes}, {at}, {format.name}: {reason}")
        return None


def graph_of(signature: Signature, handle: Any) -> Any:
    """Describe the computation to cuDNN. The uids of its tensors are 1, 2, ... for the operands, the bias and the result.

    A convolution in one dimension is one of images of height 1.
    """
    op, dtype, shapes, result, axes, at, bias, _ = signature
    cudnn, flat = switches.library(), len(result) == 3

    def described(shape: tuple) -> dict[str, list[int]]:
        shape, ranks = ((*shape[:2], 1, shape[2]), (0, 1, 2, 3)) if flat else (shape, axes)
        return {"dim": list(shape), "stride": list(strides_of(shape, ranks))}

    def widened(values: Sequence[int], by: int) -> list[int]:
        return [by] * flat + list(values)

    kind, single = getattr(cudnn.data_type, _TYPES[dtype.name]), cudnn.data_type.FLOAT
    graph = cudnn.pygraph(handle=handle, io_data_type=kind, intermediate_data_type=single, compute_data_type=single)
    operands = [graph.tensor(**described(shape), uid=uid) for uid, shape in enumerate(shapes, 1)]
    out = getattr(graph, f"conv_{op}")(
        **dict(zip(_OPERANDS[op], operands, strict=True)),
        pre_padding=widened([before for before, _ in at.pads], 0),
        post_padding=widened([after for _, after in at.pads], 0),
        stride=widened(at.stride, 1),
        dilation=widened(at.dilation, 1),
    )
    if bias:
        out = graph.bias(input=out, bias=graph.tensor(**described((1, result[1], *[1] * (len(result) - 2))), uid=3))
    own = described(result)
    out.set_output(True).set_data_type(kind).set_dim(own["dim"]).set_stride(own["stride"]).set_uid(3 + bias)
    return graph


def built(signature: Signature, handle: Any) -> Any:
    """Build the graph of a convolution, with its plan."""
    return planned(graph_of(signature, handle), signature.avoided)


def planned(graph: Any, avoided: Sequence[str] = ()) -> Any:
    """Build a graph, and the best of its plans that the device supports and that have none of these numerical notes, by heuristics."""
    cudnn = switches.library()
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.deselect_numeric_notes([getattr(cudnn.numerical_note, note) for note in avoided])
    graph.check_support()
    graph.build_plans()
    return graph


class Plan:
    """A planned graph, called with its operands."""

    def __init__(self, graph: Any, handle: Any, signature: Signature, format: memory_format, arrays: Sequence[Any]) -> None:
        self._graph, self._handle = graph, handle
        self._set_stream, self._stream = switches.library().set_stream, cupy.cuda.get_current_stream
        self._shape, self._dtype = signature.result, signature.dtype
        self._axes = None if format is contiguous_format else signature.axes
        self._formats = [format, format, contiguous_format][: len(arrays)]
        self._laid = [lies_in(array, format) for array, format in zip(arrays, self._formats, strict=True)]
        self._workspace, self._tuned = graph.get_workspace_size(), not switches.benchmark

    def __call__(self, *arrays: Any) -> Any:
        """Execute on the current stream. An operand that is not in the plan's memory format, or not aligned, is copied."""
        shape, axes = self._shape, self._axes
        out = cupy.empty(shape, self._dtype) if axes is None else blank(cupy.empty, shape, self._dtype, axes)
        read = [
            x if laid and not x.data.ptr % _ALIGNMENT else laid_out(x, format)
            for x, laid, format in zip(arrays, self._laid, self._formats, strict=True)
        ]
        pointers = {uid: x.data.ptr for uid, x in enumerate((*read, out), 1)}
        stream = self._stream()
        self._set_stream(self._handle, stream.ptr)
        if not self._tuned and not stream.is_capturing():
            self._tune(pointers)
        self._execute(pointers)
        return out

    def _execute(self, pointers: dict[int, int]) -> None:
        workspace = cupy.cuda.alloc(self._workspace)  # its memory can be reused after the execution, by work on the same stream
        self._graph.execute(pointers, workspace.ptr, handle=self._handle)

    def _tune(self, pointers: dict[int, int]) -> None:
        """Select the fastest plan; of the first 10, or as many as `benchmark_limit` says (0 for all)."""
        self._tuned, left, best = True, switches.benchmark_limit, (math.inf, 0)
        left = 10 if left is None else left or self._graph.get_execution_plan_count()
        for index in range(self._graph.get_execution_plan_count()):
            try:
                self._select(index)
                self._execute(pointers)
            except (switches.library().cudnnGraphNotSupportedError, RuntimeError, ValueError):
                continue  # it has a numerical note that is avoided, is not for this device, or there is no room for its workspace
            best = min(best, (_seconds(lambda: self._execute(pointers)), index))
            left -= 1
            if not left:
                break
        self._select(best[1])

    def _select(self, index: int) -> None:
        self._graph.build_plan_at_index(index)
        self._workspace = self._graph.get_workspace_size()


def _seconds(run: Callable) -> float:
    """Time a call on the device, for which the host waits."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end)
