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
    table = numpy.zeros((len(sizes), _COLUMNS + 1), numpy.int64)
    for column, values in enumerate(addresses):
        table[:, column] = values
    table[:, _COLUMNS] = sizes
    return memory.upload(table)


def _sizes(arrays: Sequence[Any]) -> tuple:
    """The numbers of real elements."""
    return tuple([a.size * (2 if a.dtype.kind == "c" else 1) for a in arrays])


def _launched(name: str, lists: Sequence[Sequence[Any]], values: Any) -> None:
    """Launch a kernel for lists of arrays; `values` are its further arguments."""
    first, sizes = lists[0][0].dtype, _sizes(lists[0])
    if any(sizes):
        device = launch.driver.device()
        rows = _rows(device, sizes, *[tuple([a.data.ptr for a in arrays]) for arrays in lists])
        pieces = _pieces(device, sizes)
        _kernel(name, launch.TYPES[_REAL.get(first.name, first.name)])(len(pieces), _BLOCK, rows.data.ptr, pieces.data.ptr, *values)


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


def sgd(
    params: Sequence[Any], grads: Sequence[Any], buffers: Sequence[Any], *, lr: float, momentum: float, dampening: float,
    weight_decay: float, nesterov: bool, maximize: bool, first: bool, found: Any = None,
) -> None:  # fmt: skip
    """Step as `engine.optim.SGD`. At the `first` step the momentum buffers are filled; without momentum, `buffers` is not read.

    `found` is a float32 array; the step is skipped if it is not 0.
    """
    lists = [params, grads, *([buffers] if momentum else [])]
    _launched("sgd", lists, (lr, momentum, dampening, weight_decay, nesterov, maximize, first, _address(found)))


def adam(
    params: Sequence[Any], grads: Sequence[Any], means: Sequence[Any], squares: Sequence[Any], largest: Sequence[Any] = (), *, lr: float,
    betas: tuple[float, float], eps: float, weight_decay: float, decoupled: bool, maximize: bool, step: float, skipped: Any = None,
    found: Any = None,
) -> None:  # fmt: skip
    """Step as `engine.optim.Adam` or, with `decoupled`, AdamW; `largest` is for amsgrad.

    `step` counts from 1. `found` is a float32 array; the step is skipped if it is not 0. `skipped` is an int32 array: the number of the
    steps before this one that were skipped.
    """
    amsgrad = bool(largest)
    lists = [params, grads, means, squares, *([largest] if amsgrad else [])]
    options = (decoupled, amsgrad, maximize, step, _address(skipped), _address(found))
    _launched("adam", lists, (lr, *betas, eps, weight_decay, *options))


def _by_dtype(arrays: Sequence[Any]) -> list[list[Any]]:
    lists: dict[Any, list] = {}
    for array in arrays:
        lists.setdefault(array.dtype, []).append(array)
    return list(lists.values())


def total_norm(arrays: Sequence[Any]) -> Any:
    """Return the Euclidean norm of all elements as a 0-d array, computed in float64."""
    lists = _by_dtype(arrays)
    counts = [sum(-(-size // _PIECE) for size in _sizes(arrays)) for arrays in lists]
    parts, norm, at = cupy.empty((sum(counts),), numpy.float64), cupy.empty((), numpy.float64), 0
    for arrays, count in zip(lists, counts, strict=True):
        _launched("squares", [arrays], (parts.data.ptr + 8 * at,))
        at += count
    _kernel("root", "float")(1, _BLOCK, parts.data.ptr, at, norm.data.ptr)
    kind = numpy.result_type(*[arrays[0].dtype for arrays in lists])
    return norm.astype(_REAL.get(kind.name, kind))


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


def adapt(scale: Any, taken: Any, found: Any, growth: float, backoff: float, interval: int, skipped: Any = None) -> None:
    """Adapt the scale of a `GradScaler` in place after a step, and count the steps taken in a row and those skipped (int32)."""
    addresses = [_address(array) for array in (scale, taken, skipped, found)]
    _kernel("adapt", "float")(1, 32, *addresses, growth, backoff, interval)
