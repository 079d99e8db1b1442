"""`autocast`, inside which each op runs in the dtype that suits it, and decorators that make custom autograd functions follow it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy

from ..base import dtypes
from ..core import casting, devices
from ..core.tensor import Tensor

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_LOWER = (dtypes.bfloat16, dtypes.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast exists for a device type."""
    return device_type in casting.DEFAULTS


class autocast:
    """Context manager and decorator: products and convolutions run in `dtype`, ops that need float32's range or precision in float32.

    `device_type` is "cpu" (bfloat16 by default) or "cuda" (float16); PyTorch's other device types are accepted but have no tensors here.
    Parameters and the dtypes of their gradients are unchanged. It applies to the current thread only, and `enabled=False` turns autocast
    off inside. With `cache_enabled`, each parameter is cast once until the outermost autocast ends.
    "cuda" without a GPU, and a `dtype` other than bfloat16 and float16, disable autocast with a warning. Raises RuntimeError for an unknown
    device type.
    """

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = casting.get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = casting.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = enabled and self._supported()
        self._before: list[tuple] = []  # one entry per active block: a decorated function may call itself

    def _supported(self) -> bool:
        name = self.device.upper()
        if self.device == "cuda" and not devices.cuda_available():
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=3)
            return False
        if self.fast_dtype not in _LOWER:
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {', '.join(map(str, _LOWER))} currently.",
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        self._before.append(
            (casting.is_autocast_cache_enabled(), casting.is_autocast_enabled(self.device), casting.get_autocast_dtype(self.device))
        )
        casting.set_autocast_dtype(self.device, self.fast_dtype)
        casting.set_autocast_enabled(self.device, bool(self._enabled))
        casting.set_autocast_cache_enabled(bool(self._cache_enabled))
        casting.nest(1)
        return self

    def __exit__(self, *exc: object) -> bool:
        keeps, enabled, dtype = self._before.pop()
        casting.nest(-1)
        casting.set_autocast_enabled(self.device, enabled)
        casting.set_autocast_dtype(self.device, dtype)
        casting.set_autocast_cache_enabled(keeps)
        return False

    def __call__(self, func: Callable) -> Callable:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as a context manager? "
                "For example:\n    with torch.autocast(device_type=...):\n        output = model(input)"
            )

        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return call


# -- user-written functions ---------------------------------------------------------------------------------------------------


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: Any = None) -> Callable:
    """Decorate `forward` of an `autograd.Function`, so that `custom_bwd` for the same device type runs `backward` under the same autocast.

    With `cast_inputs` (a dtype) and autocast on, floating-point inputs are cast to that dtype and autocast is off inside `forward`.
    """
    _require_name(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def call(*args: Any, **kwargs: Any) -> Any:
        ctx, on = args[0], casting.is_autocast_enabled(device_type)
        ctx._dtype, ctx._fwd_used_autocast = casting.get_autocast_dtype(device_type), on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args[1:], device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return call


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """Decorate `backward` of an `autograd.Function` whose `forward` is decorated with `custom_fwd`."""
    _require_name(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def call(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=args[0]._dtype, enabled=args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return call


def _require_name(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Cast the floating-point tensors on the device, except float64, inside nested mappings and iterables."""
    if isinstance(value, Tensor):
        yes = value.is_floating_point() and value.device.type == device_type and value.dtype is not dtypes.float64
        return value.to(dtype) if yes else value
    if isinstance(value, (str, bytes, numpy.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, Iterable):
        cast = (_cast(v, device_type, dtype) for v in value)
        return type(value)(cast) if isinstance(value, (list, tuple)) else cast  # type: ignore[call-arg]
    return value
