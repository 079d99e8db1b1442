"""Collating: a list of samples into one batch."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from .. import dtypes
from ..ops.join import stack
from ..tensor import Tensor


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers inside any structure become tensors, sharing memory; everything else stays, but tuples become lists."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (numpy.ndarray, numpy.generic)) and data.dtype.kind not in "USOV":
        return Tensor._wrap(numpy.asarray(data))
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
    except (AttributeError, TypeError):  # a mapping that cannot be changed
        return values


def _like_sequence(first: Sequence, values: list) -> Any:
    if isinstance(first, tuple):
        return type(first)(*values) if hasattr(first, "_fields") else values  # plain tuples become lists, as in PyTorch
    if type(first) is list:
        return values
    try:
        return type(first)(values)  # type: ignore[call-arg]
    except TypeError:  # a sequence, such as a range, that cannot be made from a list
        return values


def default_collate(batch: Sequence) -> Any:
    """Stack samples along a new first dimension, inside tuples, lists, dicts and named tuples too.

    Tensors and arrays are stacked, ints become int64 and floats float64 tensors, strings and bytes stay in a list. TypeError for others.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, (numpy.ndarray, numpy.generic)):
        if first.dtype.kind in "USOV":
            raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {first.dtype}")
        return Tensor._wrap(numpy.stack(batch))
    if isinstance(first, bool):
        return Tensor._wrap(numpy.array(batch, dtypes.BOOL_NP))
    if isinstance(first, float):
        return Tensor._wrap(numpy.array(batch, dtypes.F64))
    if isinstance(first, int):
        return Tensor._wrap(numpy.array(batch, dtypes.I64))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like_mapping(first, {key: default_collate([d[key] for d in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(samples) for samples in zip(*batch, strict=True)]
        return _like_sequence(first, columns)
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}")
