"""Autocast: its switches for this thread, and the casts of an op's operands.

`cast_lists` says which op is cast to which dtype. Only the general call path checks `on`. While autocast is on in any thread, every op
takes that path; otherwise autocast costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base import dtypes
from ..base.dtypes import F32
from . import quick, tape
from .cast_lists import FLOAT32, LOWER, POLICIES, UNSAFE, WIDEST
from .cast_lists import policy as policy
from .tensor import Tensor

__all__ = [
    "clear_autocast_cache",
    "get_autocast_dtype",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]

# -- the switches of this thread -----------------------------------------------------------------------------------------------

F16, BF16 = dtypes.float16.numpy, dtypes.bfloat16.numpy
DEFAULTS = dict.fromkeys(("cpu", "hpu", "maia", "xla"), BF16) | dict.fromkeys(("cuda", "mps", "xpu", "mtia", "ipu", "privateuseone"), F16)
on = 0  # how many device types have autocast on, summed over all threads


class _Thread(threading.local):
    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, Any] = {}  # device type -> NumPy dtype, where it is not the default
        self.active: dict[str, Any] = {}  # device type -> NumPy dtype, where autocast is on; empty inside a call that has been cast
        self.cache: dict[int, tuple[Tensor, Tensor]] = {}  # id of a parameter -> the parameter and its cast copy
        self.keeps = True
        self.nesting = 0

    def settle(self) -> None:
        self.active = {device: self.dtypes.get(device, DEFAULTS[device]) for device, yes in self.enabled.items() if yes}


_thread = _Thread()
_lock = threading.Lock()


def _device(device_type: str, what: str) -> str:
    if not isinstance(device_type, str):
        raise TypeError(f"{what}(): argument 'device_type' (position 1) must be str, not {type(device_type).__name__}")
    if device_type not in DEFAULTS:
        raise RuntimeError(f"{what}: expected one of {', '.join(DEFAULTS)} as the device type of an autocast, but got {device_type!r}")
    return device_type


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on in this thread for a device type. Raises RuntimeError for an unknown device type."""
    return _thread.enabled.get(_device(device_type, "is_autocast_enabled"), False)


def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
    """Turn autocast on or off in this thread: `set_autocast_enabled(device_type, enabled)`, or `(enabled)` alone for "cuda"."""
    global on
    values = dict(zip(("device_type", "enabled") if len(args) + len(kwargs) > 1 else ("enabled",), args, strict=False), **kwargs)
    if not values or not values.keys() <= {"device_type", "enabled"} or "enabled" not in values:
        raise TypeError("set_autocast_enabled() takes (device_type, enabled) or (enabled)")
    device, enabled = _device(values.get("device_type", "cuda"), "set_autocast_enabled"), values["enabled"]
    if not isinstance(enabled, bool):
        raise TypeError(f"set_autocast_enabled(): argument 'enabled' (position {len(values)}) must be bool, not {type(enabled).__name__}")
    if enabled is not _thread.enabled.get(device, False):
        _thread.enabled[device] = enabled
        with _lock:
            on += 1 if enabled else -1
        (quick.hold if enabled else quick.release)()
    _thread.settle()


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The dtype to which autocast casts the ops that run in lower precision: by default bfloat16 on the CPU and float16 on a GPU."""
    device = _device(device_type, "get_autocast_dtype")
    return dtypes.FROM_NUMPY[_thread.dtypes.get(device, DEFAULTS[device])]


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Set this thread's dtype for the ops that run in lower precision."""
    device = _device(device_type, "set_autocast_dtype")
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type(dtype).__name__}")
    _thread.dtypes[device] = dtype.numpy
    _thread.settle()


def is_autocast_cache_enabled() -> bool:
    """Whether the casts of parameters are cached until the outermost autocast ends."""
    return _thread.keeps


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether the casts of parameters are cached until the outermost autocast ends."""
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    _thread.keeps = enabled


def clear_autocast_cache() -> None:
    """Clear the cached casts of parameters."""
    _thread.cache.clear()


def nest(by: int) -> None:
    """Count an autocast block that begins (1) or ends (-1) in this thread; the end of the outermost clears the cache."""
    _thread.nesting += by
    if not _thread.nesting:
        _thread.cache.clear()


def snapshot() -> tuple:
    """Return this thread's switches, for `as_then`."""
    return dict(_thread.enabled), dict(_thread.dtypes), _thread.keeps


@contextmanager
def as_then(then: tuple) -> Iterator[None]:
    """Restore the switches of a `snapshot` in this thread for the length of the block."""
    now = snapshot()
    _restore(then)
    nest(1)
    try:
        yield
    finally:
        nest(-1)
        _restore(now)


def _restore(switches: tuple) -> None:
    enabled, kinds, keeps = switches
    _thread.dtypes, _thread.keeps = dict(kinds), keeps
    for device in {*enabled, *_thread.enabled}:
        set_autocast_enabled(device, enabled.get(device, False))
    _thread.settle()


# -- the casts -----------------------------------------------------------------------------------------------------------------

_METHODS = {F32: "float", BF16: "bfloat16", F16: "half"}


def asked(lists: dict[str, str], values: Any) -> tuple[str, str] | None:
    """The device type and list by which this thread's autocast casts a call with these operands; None if it does not."""
    for device in _thread.active:
        if device in lists and (len(_thread.active) == 1 or any(x.device.type == device for x in tensors(values))):
            return device, lists[device]
    return None


def run(chosen: tuple[str, str], values: Any, call: Callable) -> Any:
    """Run `call(values)` with the operands in `values` cast as `chosen` says, and with autocast off inside.

    Raises RuntimeError for a function that is unsafe to autocast.
    """
    (device, kind), active = chosen, _thread.active
    operands = [x for x in tensors(values) if _eligible(x, device)]
    if kind == UNSAFE and operands:
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\nMany models use a sigmoid layer right "
            "before the binary cross entropy layer.\nIn this case, combine the two layers using "
            "torch.nn.functional.binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and "
            "BCEWithLogits are\nsafe to autocast."
        )
    want = F32 if kind == FLOAT32 else active[device] if kind == LOWER else None
    if kind == WIDEST and operands:
        found = {x.array.dtype for x in operands}
        want = F32 if len(found) > 1 else found.pop()
    _thread.active = {}
    try:
        return call(values if want is None else _cast(values, want, device, active[device]))
    finally:
        _thread.active = active


def listed(name: str, fn: Callable) -> Callable:
    """Apply autocast to a function that is neither an op nor a composite, by the list that `name` is in."""
    lists = POLICIES.get(name)
    if not on or lists is None:
        return fn

    def call(*args: Any) -> Any:
        chosen = asked(lists, args)
        return fn(*args) if chosen is None else run(chosen, args, lambda given: fn(*given))

    return call


def enabled() -> bool:
    """Whether autocast is on in this thread for any device type."""
    return any(_thread.enabled.values())


def alone(call: Callable, *args: Any, **kwargs: Any) -> Any:
    """Run a call with autocast off, for an in-place write or one with `out=`."""
    active, _thread.active = _thread.active, {}
    try:
        return call(*args, **kwargs)
    finally:
        _thread.active = active


def tensors(values: Any) -> list[Tensor]:
    """List the tensors in nested tuples, lists and dicts."""
    if isinstance(values, Tensor):
        return [values]
    inside = values.values() if isinstance(values, dict) else values if isinstance(values, (tuple, list)) else ()
    return [x for value in inside for x in tensors(value)]


def _eligible(x: Tensor, device: str) -> bool:
    """Whether autocast casts a tensor: not float64, complex or integers, nor a tensor on another device type."""
    return x.array.dtype in _METHODS and x.device.type == device


def _cast(value: Any, want: Any, device: str, lower: Any) -> Any:
    if isinstance(value, Tensor):
        if value.array.dtype == want or not _eligible(value, device):
            return value
        return _kept(value, want) if want == lower and value.array.dtype == F32 else getattr(value, _METHODS[want])()
    if isinstance(value, dict):
        return {name: _cast(x, want, device, lower) for name, x in value.items()}
    if isinstance(value, (tuple, list)) and any(isinstance(x, (Tensor, tuple, list, dict)) for x in value):
        cast = [_cast(x, want, device, lower) for x in value]
        return type(value)(*cast) if hasattr(value, "_fields") else type(value)(cast)
    return value


def _kept(x: Tensor, want: Any) -> Tensor:
    """The cached cast of a parameter, made once per outermost autocast: it follows neither later writes nor a change of dtype."""
    if not (_thread.keeps and _thread.nesting and x.requires_grad and x.is_leaf and tape.mode.grad):
        return getattr(x, _METHODS[want])()
    kept = _thread.cache.get(id(x))
    if kept is None or kept[1].array.dtype != want:
        kept = _thread.cache[id(x)] = x, getattr(x, _METHODS[want])()
    return kept[1]
