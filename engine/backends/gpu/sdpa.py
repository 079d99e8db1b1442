"""Scaled dot-product attention by cuDNN, for float16 and bfloat16: a graph for each signature, planned once, as convolutions are in `dnn`.

Arrays have four dimensions: batch, heads, rows and elements. What a mask hides gets a score of -1e30, and not -inf, so that a row that sees
nothing has no nan. Then its result is set to zero, and the logarithm of its sum to inf, by which its weights are 0 in the backward pass.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cupy

from ...base.dtypes import BOOL_NP, F32, LOW, float16
from ...base.layout import strides_of
from .. import cudnn as switches
from ..cuda import cudnn_sdp_enabled
from . import dnn

_HIDDEN = -1e30
_NAMES = ("query", "key", "value", "mask", "seed", "counter", "out", "grad", "log_sum", "d_query", "d_key", "d_value", "kept")
_UIDS = {name: uid for uid, name in enumerate(_NAMES, 1)}


class Signature(NamedTuple):
    """What cuDNN needs to know. A layout is a pair of shape and strides, in elements."""

    op: str  # "forward", "backward", or "kept" for the factors of the dropout
    dtype: Any
    layouts: tuple[Any, ...]  # of query, key, value, mask, out, and for "backward" of grad and of the gradients
    scale: float
    causal: bool
    dropout: float
    deterministic: bool


def forward(arrays: list, mask: Any, out: Any, scale: float, causal: bool, dropout: float) -> Plan | None:
    """Return the plan for these arrays; None if they are not for cuDNN."""
    return _plan("forward", arrays, mask, [_layout(out)], scale, causal, dropout)


def backward(arrays: list, mask: Any, out: Any, g: Any, found: list, scale: float, causal: bool, dropout: float) -> Plan | None:
    """Return the plan for these arrays and their gradients; None if they are not for cuDNN."""
    return _plan("backward", arrays, mask, [_layout(x) for x in (out, g, *found)], scale, causal, dropout)


def takes(arrays: list, mask: Any, causal: bool) -> bool:
    """Whether cuDNN computes the result for these arrays with dropout, its gradient, and what was dropped."""
    if not (switches.enabled and cudnn_sdp_enabled()):
        return False
    query, key, value = arrays
    shape = (*query.shape[:-1], value.shape[-1])
    out, own = (shape, strides_of(shape, (0, 1, 2, 3))), [_layout(x) for x in arrays]
    asked = (("forward", arrays, mask, [out]), ("backward", arrays, mask, [out, out, *own]), ("kept", _blank(query, key), None, []))
    return all(_plan(*one, 1.0, causal and one[0] != "kept", 0.5) is not None for one in asked)


def kept(query: Any, key: Any, draws: Any, dropout: float) -> Any:
    """Return which weights the dropout keeps: what cuDNN draws depends on the shapes alone."""
    arrays = _blank(query, key)
    plan = _plan("kept", arrays, None, [], 1.0, False, dropout)
    if plan is None:
        raise RuntimeError(f"attention: cuDNN does not draw its dropout again, for query {query.shape} and key {key.shape}")
    found, log_sum = (cupy.empty((*query.shape[:-1], n), F32) for n in (key.shape[2], 1))
    plan(*arrays, None, draws, out=cupy.empty_like(arrays[0]), log_sum=log_sum, kept=found)
    return cupy.not_equal(found, 0)


def _blank(query: Any, key: Any) -> list:
    return [cupy.zeros((*x.shape[:-1], 8), float16.numpy) for x in (query, key, key)]


def _plan(op: str, arrays: list, mask: Any, more: list, scale: float, causal: bool, dropout: float) -> Plan | None:
    dtype = arrays[0].dtype
    allowed = dropout or switches.enabled and cudnn_sdp_enabled()  # what has begun with cuDNN's dropout ends with it
    if dtype not in LOW or not allowed or any(x.shape[-1] % 8 for x in arrays):
        return None
    layouts = (*map(_layout, arrays), None if mask is None else _of_bias(arrays, mask), *more)
    strict = op == "backward" and (switches.deterministic or switches.deterministic_algorithms)
    return _planned(Signature(op, dtype, layouts, scale, causal, dropout, strict), cupy.cuda.runtime.getDevice())


def _layout(x: Any) -> tuple[tuple, tuple]:
    return x.shape, tuple([s // x.itemsize for s in x.strides])


def _of_bias(arrays: list, mask: Any) -> tuple[tuple, tuple]:
    """The layout of the mask as cuDNN takes it: float32, for all queries and keys, for one or all heads and batches."""
    shape = (*mask.shape[:2], arrays[0].shape[2], arrays[1].shape[2])
    return shape, strides_of(shape, (0, 1, 2, 3))


def _planned(signature: Signature, device: int) -> Plan | None:
    """Return the plan for a signature, from the thread's cache if it has it."""
    key = (signature, device)
    try:
        return dnn._thread.plans[key]
    except KeyError:
        pass
    if len(dnn._thread.plans) >= dnn._MOST_PLANS:
        dnn._thread.plans.pop(next(iter(dnn._thread.plans)))
    dnn._thread.plans[key] = plan = _new(signature, device)
    return plan


def _new(signature: Signature, device: int) -> Plan | None:
    cudnn = switches.library()
    if isinstance(cudnn, Exception):
        dnn._warn(f"attention runs on a kernel without tensor cores, which is slower, since cuDNN cannot be used: {cudnn}")
        return None
    handle = dnn._thread.handle(device)
    try:
        return Plan(built(signature, handle), handle, signature)
    except (cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), "")
        layouts = ", ".join(str(one and one[0]) for one in signature.layouts)
        dnn._warn(f"attention runs on a kernel without tensor cores, since cuDNN does not take it: {signature.op} of {layouts}: {reason}")
        return None


def graph_of(signature: Signature, handle: Any) -> Any:
    """Describe the computation to cuDNN. The uids of its tensors are those of `_UIDS`."""
    op, dtype, layouts, scale, causal, dropout, strict = signature
    cudnn = switches.library()
    kind, single = getattr(cudnn.data_type, dnn._TYPES[dtype.name]), cudnn.data_type.FLOAT
    graph = cudnn.pygraph(handle=handle, io_data_type=kind, intermediate_data_type=single, compute_data_type=single)

    def tensor(name: str, layout: Any, dtype: Any = kind) -> Any:
        return graph.tensor(dim=list(layout[0]), stride=list(layout[1]), data_type=dtype, uid=_UIDS[name])

    def written(result: Any, name: str, layout: Any, dtype: Any = kind) -> None:
        result.set_output(True).set_data_type(dtype).set_dim(list(layout[0])).set_stride(list(layout[1])).set_uid(_UIDS[name])

    query, key, value, mask, *more = layouts
    rows, one = (*query[0][:3], 1), ((1, 1, 1, 1), (1, 1, 1, 1))
    sums = rows, (rows[1] * rows[2], rows[2], 1, 1)
    given: dict[str, Any] = {n: tensor(name, layout) for n, name, layout in zip("qkv", _NAMES, layouts, strict=False)}
    given["attn_scale"] = scale
    if mask is not None:
        given["bias"] = tensor("mask", mask, single)
    if causal:
        given |= {"diagonal_alignment": cudnn.diagonal_alignment.TOP_LEFT, "diagonal_band_right_bound": 0}
    if dropout:
        given["dropout"] = (dropout, *[tensor(name, one, cudnn.data_type.INT64) for name in ("seed", "counter")])
    if op == "backward":
        out, grad, *found = more
        beside = {"o": tensor("out", out), "dO": tensor("grad", grad), "stats": tensor("log_sum", sums, single)}
        results = graph.sdpa_backward(**given, **beside, use_deterministic_algorithm=strict)
        for name, result, layout in zip(("d_query", "d_key", "d_value"), results, found, strict=True):
            written(result, name, layout)
        return graph
    if op == "kept":
        whole = (*rows[:3], key[0][2])
        dump = whole, (rows[1] * rows[2] * whole[3], rows[2] * whole[3], whole[3], 1)
        given["rng_dump"] = tensor("kept", dump, single)
        more = [query]
    out, stats = graph.sdpa(**given, generate_stats=True)
    written(out, "out", more[0])
    written(stats, "log_sum", sums, single)
    return graph


def built(signature: Signature, handle: Any) -> Any:
    """Build the graph of an attention, with its plan."""
    return dnn.planned(graph_of(signature, handle))


class Plan:
    """A planned graph, called with the arrays that it reads and, by name, those that it writes or that only a backward pass reads."""

    def __init__(self, graph: Any, handle: Any, signature: Signature) -> None:
        self._graph, self._handle, self._layouts = graph, handle, signature.layouts
        self._set_stream, self._stream = switches.library().set_stream, cupy.cuda.get_current_stream
        self._workspace = graph.get_workspace_size()

    def __call__(self, query: Any, key: Any, value: Any, mask: Any, draws: Any, **more: Any) -> None:
        """Execute on the current stream."""
        arrays = {"query": query, "key": key, "value": value, **more}
        if mask is not None:
            arrays["mask"] = _bias(mask, self._layouts[3][0])
        arrays = {name: x.copy("K") if x.data.ptr % dnn._ALIGNMENT else x for name, x in arrays.items()}  # those that are read
        pointers = {_UIDS[name]: x.data.ptr for name, x in arrays.items()}
        if draws is not None:
            pointers |= {_UIDS["seed"]: draws.data.ptr, _UIDS["counter"]: draws.data.ptr + dnn._ALIGNMENT}
        self._set_stream(self._handle, self._stream().ptr)
        workspace = cupy.cuda.alloc(self._workspace)  # its memory can be reused after the execution, by work on the same stream
        self._graph.execute(pointers, workspace.ptr, handle=self._handle)
        if mask is not None and "grad" not in more:
            _hide(mask, more["out"], more["log_sum"])


def _bias(mask: Any, shape: tuple) -> Any:
    hidden = F32.type(_HIDDEN)
    bias = cupy.where(mask, F32.type(0), hidden) if mask.dtype == BOOL_NP else cupy.maximum(mask.astype(F32, copy=False), hidden)
    return cupy.ascontiguousarray(cupy.broadcast_to(bias, shape))


def _hide(mask: Any, out: Any, log_sum: Any) -> None:
    """Set the rows that see nothing to what they are."""
    seen = cupy.any(mask if mask.dtype == BOOL_NP else cupy.not_equal(mask, -math.inf), axis=-1, keepdims=True)
    out *= seen
    log_sum[...] = cupy.where(seen, log_sum, F32.type(math.inf))
