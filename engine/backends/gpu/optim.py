"""Steps of optimizers, norms and scaling for lists of arrays on the GPU, by the kernels of `optim.cu`: one launch for a list.

The arrays of a list have one dtype. Corresponding arrays of several lists lie alike in memory (see `alike`), in any order of dimensions.
Nothing waits for the device: norms, scales and flags stay there. The table of addresses is kept on the device for the next step.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import cupy
import numpy

from ...base import dtypes
from . import launch, memory

_BLOCK, _PIECE, _COLUMNS = 512, 16384, 5  # as in optim.cu
_REAL = {"complex64": "float32", "complex128": "float64"}
_DTYPES = frozenset(d.numpy for d in dtypes.ALL if d.is_floating_point or d.is_complex)


@functools.cache
def _kernel(name: str, T: str) -> launch.Kernel:
    return launch.Kernel(launch.source("optim.cu", T=T), name)


@functools.lru_cache(maxsize=64)
def _pieces(device: int, sizes: tuple) -> Any:
    """The pieces of arrays of these sizes: pairs of a row and a number."""
    return memory.upload(numpy.array([(row, k) for row, size in enumerate(sizes) for k in range(-(-size // _PIECE))], numpy.int32))


@functools.lru_cache(maxsize=64)
def _rows(device: int, sizes: tuple, *addresses: tuple) -> Any:
    """The table of addresses and sizes; lists with the same addresses as in an earlier call need no copy to the device."""
    table = numpy.zeros((len(sizes), _COLUMNS + 2), numpy.int64)
    for column, values in enumerate(addresses):
        table[:, column] = values
    table[:, -1] = sizes
    return memory.upload(table)


def _sizes(arrays: Sequence[Any]) -> tuple:
    """The numbers of real elements."""
    return tuple([a.size * (2 if a.dtype.kind == "c" else 1) for a in arrays])


def _launched(name: str, lists: Sequence[Sequence[Any]], values: Any, steps: Sequence[Any] = (), found: int = 0) -> None:
    """Launch a kernel for lists of arrays; `values` are its further arguments. Before it, the step counts `steps` are counted up."""
    first, sizes = lists[0][0].dtype, _sizes(lists[0])
    if any(sizes):
        device, columns = launch.driver.device(), [tuple([a.data.ptr for a in arrays]) for arrays in lists]
        if steps:
            columns += [(0,) * len(sizes)] * (_COLUMNS - len(columns)) + [tuple([step.data.ptr for step in steps])]
        rows, pieces, T = _rows(device, sizes, *columns), _pieces(device, sizes), launch.TYPES[_REAL.get(first.name, first.name)]
        memory.keep(rows, pieces)
        if steps:
            _kernel("count", T)(-(-len(sizes) // _BLOCK), _BLOCK, rows.data.ptr, len(sizes), found)
        _kernel(name, T)(len(pieces), _BLOCK, rows.data.ptr, pieces.data.ptr, *values)


def alike(*arrays: Any) -> bool:
    """Whether arrays are on the GPU, have one floating-point or complex dtype and one layout, and each fills its memory without gaps."""
    first = arrays[0]
    dtype, shape = first.dtype, first.shape
    if dtype not in _DTYPES or not all(isinstance(a, cupy.ndarray) and a.dtype == dtype and a.shape == shape for a in arrays):
        return False
    if all(a.flags.c_contiguous for a in arrays):  # the rest takes 10 times as long
        return True
    layouts = [sorted((s, n, d) for d, (s, n) in enumerate(zip(a.strides, shape, strict=True)) if n != 1) for a in arrays]
    step = dtype.itemsize
    for stride, n, _ in layouts[0]:
        if stride != step:
            return False
        step *= n
    return all(layout == layouts[0] for layout in layouts)


def _address(array: Any) -> int:
    return 0 if array is None else array.data.ptr


def _numbers(*values: Any) -> tuple[list[float], Any]:
    """Return hyperparameters for a kernel: as numbers, and as an array on the device if one of them is a 0-d array there, else None."""
    if all(not isinstance(value, cupy.ndarray) for value in values):
        return list(values), None
    there = cupy.empty(len(values), numpy.float64)
    for i, value in enumerate(values):
        there[i] = value
    return [0.0] * len(values), there


def sgd(
    params: Sequence[Any], grads: Sequence[Any], buffers: Sequence[Any], *, lr: Any, momentum: float, dampening: float,
    weight_decay: float, nesterov: bool, maximize: bool, first: bool, found: Any = None,
) -> None:  # fmt: skip
    """Step as `engine.optim.SGD`. At the `first` step the momentum buffers are filled; without momentum, `buffers` is not read.

    `lr` is a number or a 0-d array. `found` is a float32 array; the step is skipped if it is not 0.
    """
    lists, ((lr,), there) = [params, grads, *([buffers] if momentum else [])], _numbers(lr)
    _launched("sgd", lists, (lr, momentum, dampening, weight_decay, nesterov, maximize, first, _address(there), _address(found)))


def adam(
    params: Sequence[Any], grads: Sequence[Any], means: Sequence[Any], squares: Sequence[Any], largest: Sequence[Any] = (), *, lr: Any,
    betas: tuple[Any, Any], eps: float, weight_decay: float, decoupled: bool, maximize: bool, step: float = 0.0, steps: Sequence[Any] = (),
    found: Any = None,
) -> None:  # fmt: skip
    """Step as `engine.optim.Adam` or, with `decoupled`, AdamW; `largest` is for amsgrad.

    `step` counts from 1; or else `steps` are the counts so far, 0-d float32 arrays, and are counted up. `lr` and `betas` are numbers or
    0-d arrays. `found` is a float32 array; the step is skipped, and not counted, if it is not 0.
    """
    amsgrad, (numbers, there) = bool(largest), _numbers(lr, *betas)
    lists = [params, grads, means, squares, *([largest] if amsgrad else [])]
    options = (decoupled, amsgrad, maximize, step, _address(there), _address(found))
    _launched("adam", lists, (*numbers, eps, weight_decay, *options), steps, _address(found))


def _by_dtype(arrays: Sequence[Any]) -> list[list[Any]]:
    lists: dict[Any, list] = {}
    for array in arrays:
        lists.setdefault(array.dtype, []).append(array)
    return list(lists.values())


def total_norm(arrays: Sequence[Any], p: float = 2.0) -> Any:
    """Return the p-norm, p > 0, of all elements as a 0-d array, computed in float64. Complex numbers only have one for p = 2."""
    lists = _by_dtype(arrays)
    counts = [sum(-(-size // _PIECE) for size in _sizes(arrays)) for arrays in lists]
    parts, norm, at = cupy.empty((sum(counts),), numpy.float64), cupy.empty((), numpy.float64), 0
    for arrays, count in zip(lists, counts, strict=True):
        _launched("powers", [arrays], (parts.data.ptr + 8 * at, p))
        at += count
    _kernel("root", "float")(1, _BLOCK, parts.data.ptr, at, norm.data.ptr, p)
    kind = numpy.result_type(*[arrays[0].dtype for arrays in lists])
    return norm.astype(_REAL.get(kind.name, kind))


def limit(arrays: Sequence[Any], most: float) -> None:
    """Limit real elements to [-most, most]."""
    for same in _by_dtype(arrays):
        _launched("limit", [same], (most,))


def clip(arrays: Sequence[Any], max_norm: float, norm: Any) -> None:
    """Multiply by max_norm / (norm + 1e-6) if that is below 1; `norm` is a 0-d array."""
    norm = norm.astype(numpy.float64, copy=False)
    for same in _by_dtype(arrays):
        _launched("clip", [same], (max_norm, norm.data.ptr))


def unscale(arrays: Sequence[Any], scale: Any) -> Any:
    """Divide by `scale`, a float32 array of one element. Return 1 if an element is infinite or nan, else 0, as a 0-d float32 array."""
    found = cupy.zeros((), numpy.float32)
    for same in _by_dtype(arrays):
        _launched("unscale", [same], (scale.data.ptr, found.data.ptr))
    return found


def adapt(scale: Any, taken: Any, found: Any, growth: float, backoff: float, interval: int) -> None:
    """Adapt the scale of a `GradScaler` in place after a step, and count the steps taken in a row (int32)."""
    addresses = [_address(array) for array in (scale, taken, found)]
    _kernel("adapt", "float")(1, 32, *addresses, growth, backoff, interval)
