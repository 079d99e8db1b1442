"""`Parameter` and `Buffer`, the tensors that a module owns, and their lazy forms without a shape."""

from __future__ import annotations

from typing import Any

import numpy

from ..backends.coo import Coo
from ..base import dtypes
from ..core import devices, versions
from ..core.from_lists import to_array
from ..core.tensor import Tensor
from ..core.undispatched import disabled_torch_function


class Parameter(Tensor):
    """A tensor that is registered as a parameter when assigned to a module attribute, and trained by optimizers.

    It shares the memory of `data` and requires grad by default.
    """

    __torch_function__ = staticmethod(disabled_torch_function)

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:  # as in PyTorch: a subclass may take other arguments
        if data is not None and not isinstance(data, Tensor):
            raise AttributeError(f"a Parameter is made of a Tensor, but got {type(data).__name__}, which has no 'detach'")
        self = object.__new__(cls)
        self.array = to_array(()) if data is None else data.array
        self.node = None
        if requires_grad:
            self.requires_grad_()
        return self

    def __deepcopy__(self, memo: dict) -> Parameter:
        """Copy only the values, without gradient, hooks or attributes, as PyTorch does."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(Tensor._wrap(self.array.copy()), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


def blank(*shape: int, device: Any = None, dtype: Any = None) -> Parameter:
    """Return an uninitialized parameter of this shape."""
    d = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    array = devices.making(device).empty(shape, d.numpy)
    device = devices.default if device is None else device
    return Parameter(Tensor._wrap(array if device is None else devices.move(array, devices.device(device))))


def forget_grad(param: Tensor, set_to_none: bool) -> None:
    """Reset a gradient to None, or fill it with zeros in place and detach it."""
    grad = param._grad
    if set_to_none or grad is None:
        param._grad = None
        return
    if grad.array.__class__ is Coo:
        grad.zero_()
        return
    grad.node = None
    grad.array[...] = 0
    versions.note_write(grad.array, "zero_grad")


class Buffer(Tensor):
    """A tensor that is registered as a buffer, state that is not trained, when assigned to a module attribute.

    It is saved in the state dict if `persistent`.
    """

    persistent: bool = True
    __torch_function__ = staticmethod(disabled_torch_function)

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        self = object.__new__(cls)
        self.array = data.array if isinstance(data, Tensor) else to_array(() if data is None else data)
        self.node = data.node if isinstance(data, Tensor) else None
        self.persistent = persistent
        return self


class _Uninitialized:
    """Base of lazy tensors: they have a dtype and a device; anything that needs a shape raises an error."""

    _becomes: type
    _wants_grad = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None):
        self._wants_grad = requires_grad
        self._lazy_dtype = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
        self._lazy_device = devices.get_default_device() if device is None else devices.device(device)
        self.node = None

    @property
    def array(self) -> Any:
        raise ValueError(
            f"Attempted to use an uninitialized {self._becomes.__name__.lower()}. It is given its shape by the first call of its lazy "
            "module, or by materialize(shape)."
        )

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            f"Can't access the shape of an uninitialized {self._becomes.__name__.lower()}. It is given one by the first call of its lazy "
            "module, or by materialize(shape)."
        )

    @property
    def data(self) -> Tensor:
        """An empty tensor; writes to it before the shape is known are lost, as in PyTorch."""
        return Tensor._wrap(devices.move(numpy.empty(0, self._lazy_dtype.numpy), self._lazy_device))

    @property
    def dtype(self) -> dtypes.dtype:
        return self._lazy_dtype

    @property
    def device(self) -> devices.device:
        return self._lazy_device

    @property
    def is_meta(self) -> bool:
        return self._lazy_device.type == "meta"

    @property
    def requires_grad(self) -> bool:
        return self._wants_grad

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        self._wants_grad = requires_grad
        return self

    def to(self, device: Any = None, dtype: Any = None) -> Any:
        """Return an uninitialized tensor on this device, with this dtype."""
        return type(self)(self._wants_grad, device or self._lazy_device, dtype or self._lazy_dtype)

    def materialize(self, shape: tuple, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary tensor of this shape, in place, with uninitialized values."""
        array = numpy.empty(tuple(shape), (self._lazy_dtype if dtype is None else dtypes.as_dtype(dtype)).numpy)
        wants_grad = self._wants_grad
        place = self._lazy_device if device is None else devices.device(device)
        for name in ("_wants_grad", "_lazy_dtype", "_lazy_device"):
            self.__dict__.pop(name, None)
        self.__class__ = self._becomes
        self.array = devices.move(array, place)  # type: ignore[misc]
        if wants_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict) -> Any:
        memo[id(self)] = out = self.to()
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self._wants_grad, str(self._lazy_device), self._lazy_dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter without a shape, which the first call of its lazy module sets."""

    _becomes = Parameter


class UninitializedBuffer(_Uninitialized, Buffer):
    """A buffer without a shape, which the first call of its lazy module sets."""

    _becomes = Buffer

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True):
        super().__init__(requires_grad, device, dtype)
        self.persistent = persistent


def is_lazy(x: Any) -> bool:
    """Return whether a tensor has no shape yet."""
    return isinstance(x, _Uninitialized)
