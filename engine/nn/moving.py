"""Move a module's tensors to another device or cast them to another dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..autograd import no_grad
from ..base import dtypes
from ..core import devices
from ..core.create import empty_like
from ..core.tensor import Tensor
from .parameter import is_lazy

if TYPE_CHECKING:
    from .module import Module


def replace(module: Module, fn: Callable[[Tensor], Tensor]) -> None:
    """Replace the data of this module's own parameters, gradients and buffers with `fn` of it; submodules are not visited."""
    with no_grad():
        for name, param in module._parameters.items():
            if param is None:
                continue
            if is_lazy(param):
                module._parameters[name] = fn(param)  # type: ignore[assignment]
                continue
            new = fn(param.data)
            if new.is_meta != param.is_meta:  # as in PyTorch, other references keep the old parameter
                grad, param = param._grad, type(param)(new, param.requires_grad)
                module._parameters[name] = param
                param._grad = None if grad is None else fn(grad.detach())
                continue
            param.data = new
            if param._grad is not None:
                param._grad.data = fn(param._grad.data)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = fn(buffer)


def destination(args: tuple, kwargs: dict) -> tuple[devices.device | None, dtypes.dtype | None]:
    """Parse the arguments of `to` into `(device, dtype)`, None where not given."""
    given = {k: v for k, v in kwargs.items() if k not in ("non_blocking", "memory_format", "copy")}
    device, dtype = given.pop("device", None), given.pop("dtype", None)
    tensor = given.pop("tensor", given.pop("other", None))
    if given:
        raise TypeError(f"to() got an unexpected keyword argument {next(iter(given))!r}")
    for arg in args:
        if isinstance(arg, Tensor):
            tensor = arg
        elif isinstance(arg, dtypes.dtype):
            dtype = arg
        elif isinstance(arg, (str, int, devices.device)) and not isinstance(arg, bool):
            device = arg
        elif arg is not None and not isinstance(arg, bool):
            raise TypeError(f"to() expects a device, a dtype or a tensor, got {type(arg).__name__}")
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    return (None if device is None else devices.device(device)), (None if dtype is None else dtypes.as_dtype(dtype))


def moved(t: Tensor, device: devices.device | None, dtype: dtypes.dtype | None) -> Tensor:
    """Return the tensor on this device and in this dtype (None: unchanged), or itself if nothing changes."""
    if is_lazy(t):
        return t.to(device=device, dtype=dtype)
    array = t.array
    if dtype is not None and array.dtype != dtype.numpy:
        array = devices.namespace(array).astype(array, dtype.numpy)
    if device is not None:
        if t.is_meta and device.type != "meta":
            raise NotImplementedError(
                "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when "
                "moving module from meta to a different device."
            )
        array = devices.move(array, device)
    return t if array is t.array else t._like(array)


def unset(t: Tensor, device: Any) -> Tensor:
    """Return an uninitialized tensor like this one on a device."""
    place = devices.device(device)
    return t.to(device=place) if is_lazy(t) else empty_like(t.detach(), device=place)
