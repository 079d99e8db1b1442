"""Changing a tensor's dtype or device: `x.to(...)`, `x.float()`, `x.cuda()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import dtypes
from ..base.errors import Refused
from ..base.layout import preserve_format, suggested
from ..core import devices, legacy
from ..core.op import Elementwise, Linear, composite
from ..core.tensor import Tensor, define


class to_dtype(Linear):
    """The same values in another dtype."""
    home, inputs, exact = "", ("input",), True
    examples = ((((2, 3),), {"dtype": dtypes.float64}),)
    exempt = {"promotion": "The dtype of the result is an argument."}
    def forward(xp, input, dtype): return xp.astype(input, dtypes.as_numpy(dtype))
    def d_input(xp, g): return g


class to_device(Linear):
    """The same values in another device's memory."""
    home, inputs, exact = "", ("input",), True
    examples = ((((2, 3),), {"device": "cpu", "source": "cpu"}),)
    exempt = {"promotion": "The dtype stays what it is."}
    def forward(xp, input, device, source, non_blocking=False): return xp.copy(input) if device.split(":")[0] == source else _moved(input, device, source, non_blocking)  # "cpu:0"
    def d_input(xp, g, device, source): return _moved(g, source, device)

    @classmethod
    def explain(cls, error, inputs, attrs):
        # a missing device is not an error of the operands
        return getattr(error, "kind", NotImplementedError if isinstance(error, NotImplementedError) else RuntimeError)(str(error)) if isinstance(error, (RuntimeError, Refused, ValueError)) else super().explain(error, inputs, attrs)


class complex_(Elementwise):
    """Complex numbers from real and imaginary parts, two float tensors of one dtype."""
    types, inplace, samples = "same", False, (((2, 3), (2, 3)),)

    @classmethod
    def prepare(cls, arrays):
        names = [dtypes.FROM_NUMPY[a.dtype].name for a in arrays]
        if not set(names) <= {"float16", "float32", "float64"}:
            raise Refused(f"Expected both inputs to be Half, Float or Double tensors but got {' and '.join(names)}")
        return super().prepare(arrays)

    def forward(xp, real, imag): return xp.from_parts(real, imag)
    def d_real(xp, g): return g
    def d_imag(xp, g): return xp.times_i(g)


def _moved(x: Any, device: Any, source: Any, non_blocking: bool = False) -> Any:
    return to_device(x, device=device, source=source) if isinstance(x, Tensor) else devices.move(x, devices.device(device), non_blocking)


def cast(x: Tensor, dtype: dtypes.dtype) -> Tensor:
    """Cast a tensor: itself if it already has the dtype. Gradients do not pass a cast to integers or bool."""
    if x.array.dtype is dtype.numpy:
        return x
    return to_dtype(x if x.node is None or dtype.rank >= dtypes.FLOAT else x.detach(), dtype)


def move(x: Tensor, device: Any, non_blocking: bool = False) -> Tensor:
    """Move a tensor to a device: itself if it is there. Raises RuntimeError if there is no such device.

    With `non_blocking`, the host does not wait for a copy from pinned memory, or to the CPU, where the result is in pinned memory and
    complete after a synchronization.
    """
    want, here = devices.device(device), x.device
    if want.type == here.type and (want.index in (None, here.index) or x.is_meta):
        return x
    return to_device(x, device=str(want), source=str(here), non_blocking=non_blocking)


@composite(home="Tensor", method=True)
def to(self: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False, memory_format: Any = None) -> Tensor:
    """Convert dtype, device or both, or to those of `other`: `to(dtype)`, `to(device, dtype)`, `to(other)`.

    Returns `self` if nothing changes, unless `copy`.
    """
    for i, arg in enumerate(args):
        if i and isinstance(arg, str): raise TypeError(f"to() received an invalid combination of arguments: {arg!r} is no dtype")
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, (str, devices.device)) or isinstance(arg, int) and not isinstance(arg, bool):
            device = arg
        elif not i and isinstance(arg, (bool, float, complex)):  # as `other`: PyTorch converts a scalar to a tensor
            dtype = {bool: dtypes.bool_, float: dtypes.float64, complex: dtypes.complex128}[type(arg)]
        elif isinstance(arg, bool):
            if i and isinstance(args[i - 1], bool): copy = copy or arg  # to(device, dtype, non_blocking, copy)
            else: non_blocking = arg
        elif arg is not None:
            dtype = arg
    out = self if device is None else move(self, device, non_blocking)
    out = _laid(out if dtype is None else cast(out, dtypes.as_dtype(dtype)), self, memory_format)
    return out.clone() if copy and out is self else out


def _laid(x: Tensor, source: Tensor, memory_format: Any) -> Tensor:
    """Return the tensor in a memory format; None keeps its order, and so does an unconverted `source` that has the format."""
    if memory_format is None or memory_format is preserve_format or x is source and suggested(x.array) is memory_format:
        return x
    return x.contiguous(memory_format=memory_format)


@composite(home="Tensor", method=True)
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of the tensor's type, or with `dtype` the tensor cast to it."""
    if isinstance(dtype, str) and "." in dtype: dtype = legacy.named(dtype)
    if isinstance(dtype, legacy.TensorType):
        dtype.require()
        return to(self, "cuda" if dtype.is_cuda else "cpu", dtype.dtype)
    if dtype is not None:
        return cast(self, dtypes.BY_NAME[dtype] if isinstance(dtype, str) and dtype in dtypes.BY_NAME else dtypes.as_dtype(dtype))
    short = {
        "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int", "int16": "Short",
        "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
        "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    }  # fmt: skip
    place = self.device.type
    return f"torch.{'' if place == 'cpu' else f'{place}.'}{short[self.dtype.name]}Tensor"


@composite(home="Tensor", method=True)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Convert to the dtype and device of another tensor."""
    return to(self, other)


@composite(home="Tensor", method=True)
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """Move to the CPU; itself if it is there."""
    return _laid(move(self, "cpu"), self, memory_format)


@composite(home="Tensor", method=True)
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Move to a GPU. Raises RuntimeError, saying what is missing, if there is no GPU."""
    return _laid(move(self, "cuda" if device is None else device, non_blocking), self, memory_format)


def _casts() -> None:
    names = {
        "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32", "short": "int16",
        "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
    }  # fmt: skip

    def method(name: str, dtype: dtypes.dtype) -> Callable:
        def call(self: Tensor, memory_format: Any = None) -> Tensor:
            return _laid(cast(self, dtype), self, memory_format)

        call.__name__ = call.__qualname__ = name
        call.__doc__ = f"The tensor cast to {dtype!r}; itself when it has that dtype."
        return call

    for name, dtype in names.items():
        define(name, method(name, dtypes.BY_NAME[dtype]))


_casts()
