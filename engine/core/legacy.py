"""PyTorch's constructors from before 0.4: `Tensor(2, 3)`, and types by dtype and device, `LongTensor([1, 2])`, `cuda.FloatTensor(2, 3)`.

These types have no instances: `isinstance(x, FloatTensor)` checks the dtype and device of a plain tensor.
"""

from __future__ import annotations

from typing import Any

import numpy

from ..base import dtypes
from . import create, devices, from_data
from .from_lists import to_array
from .tensor import Size, Tensor, define


def _construct(self: Tensor, *args: Any, device: Any = None, **named: Any) -> None:
    """PyTorch's old constructor: uninitialized from sizes, a copy of a sequence or an array, and the same memory as a given tensor.

    The dtype is the default, or the given tensor's; only `torch.tensor` infers it from the data.
    """
    self.node, d, place = None, dtypes.default, devices.default if device is None else device
    args = named_data(args, named)
    data = args[0] if len(args) == 1 else args
    if isinstance(data, Tensor):
        self.array = data.array
    elif isinstance(data, Size) or len(args) != 1 or isinstance(data, (int, numpy.integer)) and not isinstance(data, bool):
        sizes = data if isinstance(data, Size) else args
        wrong = next((n for n in sizes if not hasattr(n, "__index__")), None)
        if wrong is not None:
            raise TypeError(f"new(): expected sizes as integers, or one sequence, got {type(wrong).__name__}")
        shape = [n.__index__() for n in sizes] or [0]
        if min(shape) < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {shape}")
        array = devices.making(place).empty(shape, d.numpy)
        self.array = array if place is None else devices.move(array, devices.device(place))
    elif isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    elif not hasattr(data, "__len__") or isinstance(data, (dict, set, numpy.generic)):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    else:
        self.array = to_array(list(data) if isinstance(data, range) else data, d, place)


define("_construct", _construct)


def named_data(args: tuple, named: dict[str, Any]) -> tuple:
    """The arguments of an old constructor, given by name or by position. Raises TypeError for other names, such as `dtype`."""
    if len(named) == 1 and not args:
        ((name, value),) = named.items()
        if name in ("data", "size", "other"):
            return (Size(value),) if name == "size" else (value,)
    if named:
        raise TypeError(f"new(): expected sizes, or data alone, got {', '.join(named)}; torch.tensor() takes dtype and requires_grad")
    return args


class TensorType(type):
    """The metaclass of `FloatTensor`, `LongTensor`, ...: calling one makes a plain tensor of its dtype, on its device."""

    dtype: dtypes.dtype
    is_cuda: bool

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.dtype and x.is_cuda == cls.is_cuda

    def __call__(cls, *args: Any, device: Any = None, **named: Any) -> Tensor:
        """Return a tensor: uninitialized from sizes, a copy of a sequence or an array, or the same memory as a tensor of this dtype."""
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
        """Raise TypeError for a CUDA type if there is no GPU."""
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
    """Return the type by its name, such as "torch.FloatTensor" or "torch.cuda.LongTensor". Raises ValueError for any other name."""
    found = {f"{t.__module__}.{n}": t for types in (cpu, cuda) for n, t in types.items()}.get(name)
    if found is None:
        raise ValueError(f"invalid type: {name!r}; expected a name such as 'torch.FloatTensor'")
    return found
