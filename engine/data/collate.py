"""Collation: combine a list of samples into one batch."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from ..base import dtypes
from ..base.dtypes import FROM_NUMPY
from ..core.from_data import as_tensor, tensor
from ..core.from_lists import to_array
from ..core.tensor import Tensor
from ..ops.join import stack

empty: Callable = numpy.empty  # allocates batches; in a worker, from shared memory


def default_convert(data: Any) -> Any:
    """Convert NumPy arrays (sharing memory) and scalars in nested structures to tensors; tuples become lists, all else is unchanged."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (numpy.ndarray, numpy.generic)) and data.dtype.kind not in "USO":
        return as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {k: default_convert(v) for k, v in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(d) for d in data])
    return data


def _like_mapping(first: Mapping, values: dict) -> Any:
    if type(first) is dict:
        return values
    try:
        out: Any = copy.copy(first)
        out.update(values)
        return out
    except (AttributeError, TypeError):  # an immutable mapping
        return values


def _like_sequence(first: Sequence, values: list) -> Any:
    if isinstance(first, tuple):
        return type(first)(*values) if hasattr(first, "_fields") else values  # plain tuples become lists, as in PyTorch
    if type(first) is list:
        return values
    try:
        return type(first)(values)  # type: ignore[call-arg]
    except TypeError:  # a sequence, such as a range, whose type does not accept a list
        return values


def collate(batch: Sequence, *, collate_fn_map: dict[Any, Callable] | None = None) -> Any:
    """Combine samples into one batch with the function in `collate_fn_map` for the type of the first sample.

    `collate_fn_map` is `{type: fn(batch, *, collate_fn_map)}`; a key may be a tuple of types, and matches subclasses. Other mappings and
    sequences, including named tuples, are collated element by element. TypeError for other types; RuntimeError for sequences of different
    lengths.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, fn in collate_fn_map.items():
            if isinstance(first, known):
                return fn(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return _like_sequence(first, [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)])
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}")


def _stacked(arrays: list) -> Tensor | None:
    """Stack arrays of one shape and dtype into a tensor; None if they differ or no tensor dtype matches."""
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    known = FROM_NUMPY.get(dtype)
    if known is None or any(a.shape != shape or a.dtype != dtype for a in arrays):
        return None
    out = empty((len(arrays), *shape), known.numpy)
    for i, a in enumerate(arrays):
        out[i] = a
    return Tensor._wrap(out)


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    """Stack tensors along a new first dimension. TypeError if an element is not a tensor."""
    for i, t in enumerate(batch):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(t).__name__}")
    if all(t.node is None and t.array.__class__ is numpy.ndarray for t in batch):
        found = _stacked([t.array for t in batch])
        if found is not None:
            return found
    return stack(list(batch))


def collate_numpy_array_fn(batch: Sequence[numpy.ndarray], *, collate_fn_map: Any = None) -> Any:
    """Stack arrays into a tensor. TypeError for strings and objects."""
    if batch[0].dtype.kind in "USOV":
        raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {batch[0].dtype}")
    found = _stacked(list(batch))
    return collate_tensor_fn([Tensor._wrap(to_array(a)) for a in batch]) if found is None else found


def collate_numpy_scalar_fn(batch: Sequence, *, collate_fn_map: Any = None) -> Tensor:
    """Put NumPy scalars in a 1-d tensor of the dtype that `as_tensor` infers."""
    kind = type(batch[0])
    return as_tensor(numpy.array(batch) if all(type(x) is kind for x in batch) else batch)


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: Any = None) -> Tensor:
    """Put Python floats in a float64 tensor. TypeError if an element is not a number."""
    return Tensor._wrap(numpy.array(array("d", batch)))  # NumPy alone would convert None to nan and "2" to 2.0


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: Any = None) -> Tensor:
    """Put Python ints in an int64 tensor, bools in a bool tensor, and mixed types in one of the dtype that `tensor` infers."""
    kinds = set(map(type, batch))
    if kinds == {bool}:
        return Tensor._wrap(numpy.array(batch, dtypes.BOOL_NP))
    try:
        return Tensor._wrap(numpy.array(batch, dtypes.I64)) if kinds == {int} else tensor(list(batch))
    except OverflowError:
        return tensor(list(batch))


def collate_str_fn(batch: Sequence, *, collate_fn_map: Any = None) -> Sequence:
    """Return strings and bytes unchanged."""
    return batch


default_collate_fn_map: dict[Any, Callable] = {
    Tensor: collate_tensor_fn,
    numpy.ndarray: collate_numpy_array_fn,
    (numpy.bool_, numpy.number, numpy.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Sequence) -> Any:
    """Stack samples along a new first dimension, also inside tuples, lists, dicts and named tuples.

    Tensors and arrays are stacked, ints become an int64 and floats a float64 tensor, strings and bytes stay in a list. TypeError for other
    types.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
