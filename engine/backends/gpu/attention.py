"""Scaled dot-product attention on a GPU: by cuDNN for half precision, else by the kernels of `attention.cu`.

Both save the logarithm of the sum of each row's exponentials, and compute the weights again in the backward pass.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import cupy

from ...base.dtypes import BOOL_NP, F32, LOW
from ...base.layout import blank
from .. import kernels_attention
from ..cuda import attention_enabled
from . import launch, random, sdpa

_DTYPES = (F32, *LOW)
_ROWS, _WIDEST, _THREADS = 64, 256, 256  # as in `attention.cu`; queries with wide heads are 32 at a time
_NONE, _BOOLEAN, _SAME, _SINGLE = range(4)
_NOWHERE = struct.pack("=Qqqq", 0, 0, 0, 0)


def whole_attention(query: Any, key: Any, value: Any, mask: Any = None, grouped: bool = False) -> bool:
    """Whether `attention` takes these arrays, and PyTorch's switches allow it."""
    q, k, v, n = query.shape, key.shape, value.shape, query.ndim
    if not attention_enabled() or query.dtype not in _DTYPES or not n == key.ndim == value.ndim or 0 in (*q, *k, *v):
        return False
    if k[:-1] != v[:-1] or q[:-3] != k[:-3] or q[-1] != k[-1] or max(q[-1], v[-1]) > _WIDEST:
        return False
    if n > 2 and q[-3] != k[-3] and (not grouped or q[-3] % k[-3]):
        return False
    if mask is None:
        return True
    whole = (*q[:-1], k[-2])
    fits = mask.ndim <= n <= 4 and all(a in (1, b) for a, b in zip(mask.shape[::-1], whole[::-1], strict=False))
    return fits and mask.dtype in (BOOL_NP, F32, query.dtype)


def attention_draws(query: Any, key: Any, value: Any, mask: Any, causal: bool, to_mask: bool, source: Any) -> Any:
    """Take a seed and a counter from a generator: beside one another, or with a gap if cuDNN is to draw."""
    arrays = [four(x) for x in (query, key, value)]
    step = 2 if not to_mask and sdpa.takes(arrays, mask if mask is None else mask[(None,) * (4 - mask.ndim)], causal) else 1
    return random.held(source, -(-query.size // query.shape[-1] * key.shape[-2] // 4), step)


def attention_kept(query: Any, key: Any, draws: Any, dropout: float) -> Any:
    """Return the factors of the weights, 0 or 1 / (1 - dropout)."""
    if draws is None:
        return None
    shape = (*query.shape[:-1], key.shape[-2])
    if draws.size > 2:
        kept = sdpa.kept(four(query), four(key), draws, dropout)
    else:
        kept = random.bernoulli(random.Held(draws), functools.reduce(int.__mul__, shape), 1 - dropout)
    return cupy.where(kept.reshape(shape), F32.type(1 / (1 - dropout)), F32.type(0)).astype(query.dtype, copy=False)


def attention(query: Any, key: Any, value: Any, mask: Any, draws: Any, scale: float, causal: bool, dropout: float) -> tuple:
    """Return softmax(query keyᵀ scale + mask) value, and the logarithm of the sum of each row's exponentials, (..., H, L, 1)."""
    if query.dtype not in _DTYPES:
        kept = attention_kept(query, key, draws, dropout)
        return kernels_attention.plainly(cupy, query, key, value, mask, kept, scale, causal)
    arrays = [four(x) for x in (query, key, value)]
    seen, q = mask if mask is None else mask[(None,) * (4 - mask.ndim)], arrays[0]
    out = like(q, arrays[2].shape[-1])
    log_sum = cupy.empty((*q.shape[:-1], 1), F32)
    plan = sdpa.forward(arrays, seen, out, scale, causal, dropout) if _by_cudnn(draws) else None
    if plan is not None:
        plan(*arrays, seen, draws, out=out, log_sum=log_sum)
    else:
        _without_cudnn(draws)
        problem = _problem(arrays, out, (), seen, log_sum, None, None, draws, scale, causal, dropout)
        _launch("attention", arrays, seen, draws, q.shape, problem)
    return out.reshape(*query.shape[:-1], -1), log_sum.reshape(*query.shape[:-1], 1)


def attention_back(
    g: Any, query: Any, key: Any, value: Any, mask: Any, draws: Any, out: Any, logsumexp: Any, scale: float, causal: bool, dropout: float,
    to_mask: bool = False,
) -> list:  # fmt: skip
    """Return the gradients of query, key and value and, with `to_mask`, of the mask at each weight, else None."""
    if query.dtype not in _DTYPES:
        kept = attention_kept(query, key, draws, dropout)
        return kernels_attention.back_plainly(cupy, g, query, key, value, mask, kept, out, logsumexp, scale, causal, to_mask)
    arrays, (g, out) = [four(x) for x in (query, key, value)], (four(g), four(out))
    seen, q, k = mask if mask is None else mask[(None,) * (4 - mask.ndim)], *arrays[:2]
    log_sum = cupy.ascontiguousarray(logsumexp)
    found = [like(x, x.shape[-1]) for x in arrays]
    slope = cupy.empty((*q.shape[:-1], k.shape[-2]), F32) if to_mask else None
    plan = sdpa.backward(arrays, seen, out, g, found, scale, causal, dropout) if _by_cudnn(draws) and not to_mask else None
    if plan is not None:
        written = dict(zip(("d_query", "d_key", "d_value"), found, strict=True))
        plan(*arrays, seen, draws, out=out, grad=g, log_sum=log_sum, **written)
    else:
        _without_cudnn(draws)
        dot = cupy.empty(log_sum.shape, F32)
        problem = _problem(arrays, out, (g, *found), seen, log_sum, dot, slope, draws, scale, causal, dropout)
        for name, shape in (("attention_dot", None), ("attention_query", q.shape), ("attention_key_value", k.shape)):
            _launch(name, arrays, seen, draws, shape, problem)
    found = [d.reshape(x.shape) for d, x in zip(found, (query, key, value), strict=True)]
    return [*found, None if slope is None else slope.reshape(*query.shape[:-1], -1)]


def _by_cudnn(draws: Any) -> bool:
    """Whether cuDNN may compute, as far as the dropout goes."""
    return draws is None or draws.size > 2


def _without_cudnn(draws: Any) -> None:
    """Raise RuntimeError if cuDNN has drawn the dropout, which the kernels here cannot."""
    if draws is not None and draws.size > 2:
        raise RuntimeError("attention: cuDNN began with dropout, but it has no plan for the whole computation")


# -- arrays as the kernels read them -----------------------------------------------------------------------------------------------


def four(x: Any) -> Any:
    """The array as (batch, heads, rows, elements), with the elements of a row beside one another; a view where that can be."""
    x = x.reshape(-1, *x.shape[-3:]) if x.ndim > 4 else x[(None,) * (4 - x.ndim)]
    spread = any(step == 0 and n > 1 for n, step in zip(x.shape, x.strides, strict=True))
    return cupy.ascontiguousarray(x) if spread or x.strides[-1] != x.itemsize and x.shape[-1] > 1 else x


def like(x: Any, width: int) -> Any:
    """An array for as many rows as `x` of four dimensions has, in its order of memory."""
    return blank(cupy.empty, (*x.shape[:-1], width), x.dtype, (*sorted(range(3), key=lambda d: -x.strides[d]), 3))


def _problem(
    arrays: list, out: Any, gradients: tuple, mask: Any, log_sum: Any, dot: Any, slope: Any, draws: Any, scale: float, causal: bool,
    dropout: float,
) -> bytes:  # fmt: skip
    """The struct of this name in `attention.cu`."""
    (batch, heads, rows, depth), (_, group, cols, _), width = arrays[0].shape, arrays[1].shape, out.shape[-1]
    parts = [_heads(x) for x in (*arrays, out, *gradients)] + [_NOWHERE] * (4 - len(gradients))
    steps = (0,) * 4 if mask is None else [0 if n == 1 else s // mask.itemsize for n, s in zip(mask.shape, mask.strides, strict=True)]
    parts.append(struct.pack("=Q4q", 0 if mask is None else mask.data.ptr, *steps))
    parts.append(struct.pack("=4Q", *[0 if x is None else x.data.ptr for x in (log_sum, dot, slope, draws)]))
    parts.append(struct.pack("=2q6ifid", rows, cols, batch, heads, heads // group, depth, width, causal, scale, 0, dropout))
    return b"".join(parts)


def _heads(x: Any) -> bytes:
    return struct.pack("=Q3q", x.data.ptr, *[s // x.itemsize for s in x.strides[:3]])


@functools.cache
def _kernel(name: str, dtype: str, head: int, mask: int, dropout: bool) -> launch.Kernel:
    return launch.Kernel(launch.source("attention.cu", T=launch.TYPES[dtype], HEAD=head, MASK=mask, DROPOUT=int(dropout)), name)


def _launch(name: str, arrays: list, mask: Any, draws: Any, shape: Any, problem: bytes) -> None:
    """Launch a kernel with a block for each tile of these rows; without a shape, with 32 threads for each of the query's rows."""
    query, value = arrays[0], arrays[2]
    head = next(n for n in (32, 64, 128, 256) if n >= max(query.shape[-1], value.shape[-1]))
    kind = _NONE if mask is None else _BOOLEAN if mask.dtype == BOOL_NP else _SAME if mask.dtype == query.dtype else _SINGLE
    if shape is None:
        grid = -(-query.size // query.shape[-1] // (_THREADS // 32))
    else:
        grid = -(-shape[2] // (_ROWS // 2 if head > 128 else _ROWS)) * shape[0] * shape[1]
    _kernel(name, query.dtype.name, head, kind, draws is not None)(grid, _THREADS, problem)
