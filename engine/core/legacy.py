"""Types of tensors by dtype and device, as programs from before PyTorch 0.4 name them: `LongTensor([1, 2])`, `cuda.FloatTensor(2, 3)`.

Nothing is an instance of them in Python's sense: `isinstance(x, FloatTensor)` asks for the dtype and device of a plain tensor.
"""

from __future__ import annotations

from typing import Any

import numpy

from ..base import dtypes
from . import create, devices, from_data
from .tensor import Size, Tensor, named_data


class TensorType(type):
    """The class of `FloatTensor` and its like. Calling one makes a plain tensor."""

    dtype: dtypes.dtype
    is_cuda: bool

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.dtype and x.is_cuda == cls.is_cuda

    def __call__(cls, *args: Any, device: Any = None, **named: Any) -> Tensor:
        """From sizes, uninitialised; from a sequence or an array, its numbers; from a tensor of this dtype, the same memory."""
        cls.require()
        args = named_data(args, named)
        place = devices.device(("cpu", "cuda")[cls.is_cuda] if device is None else device)
        if (place.type == "cuda") != cls.is_cuda:
            expected = "cuda" if cls.is_cuda else "cpu"
            raise RuntimeError(f"legacy constructor expects device type: {expected} but device type: {place.type} was passed")
        if not args or all(isinstance(n, (int, numpy.integer)) and not isinstance(n, bool) for n in args):
            return create.empty(*(args or (0,)), dtype=cls.dtype, device=place)
        (data, *more) = args
        if more:
            raise TypeError(f"new(): expected sizes as integers, or one sequence, got {args!r}")
        if isinstance(data, Tensor):
            if data.dtype is not cls.dtype or data.is_cuda != cls.is_cuda:
                raise TypeError(f"expected a tensor of type {cls.__name__} (got {data.type()})")
            return data.detach()
        if isinstance(data, Size):
            return create.empty(data, dtype=cls.dtype, device=place)
        if not hasattr(data, "__len__") or isinstance(data, (dict, set)):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
        return from_data.tensor(list(data) if isinstance(data, range) else data, dtype=cls.dtype, device=place)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"

    def require(cls) -> None:
        """TypeError where there is no GPU and the type is one of a GPU's."""
        if cls.is_cuda and not devices.cuda_available():
            raise TypeError(f"type {cls.__module__}.{cls.__name__} not available. There is no GPU that can be used.")


_NAMES = {
    "FloatTensor": dtypes.float32,
    "DoubleTensor": dtypes.float64,
    "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "ByteTensor": dtypes.uint8,
    "CharTensor": dtypes.int8,
    "ShortTensor": dtypes.int16,
    "IntTensor": dtypes.int32,
    "LongTensor": dtypes.int64,
    "BoolTensor": dtypes.bool_,
}


def _types(module: str, is_cuda: bool) -> dict[str, TensorType]:
    return {
        name: TensorType(name, (), {"dtype": d, "is_cuda": is_cuda, "__module__": module, "__doc__": f"Tensors of {d.name}."})
        for name, d in _NAMES.items()
    }


cpu, cuda = _types("torch", False), _types("torch.cuda", True)


def named(name: str) -> TensorType:
    """The type that "torch.FloatTensor" or "torch.cuda.LongTensor" names. ValueError for anything else."""
    found = {f"{t.__module__}.{n}": t for types in (cpu, cuda) for n, t in types.items()}.get(name)
    if found is None:
        raise ValueError(f"invalid type: {name!r}; expected a name such as 'torch.FloatTensor'")
    return found
