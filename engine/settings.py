"""Process-wide settings of PyTorch: determinism, precision of matrix products, threads, default types; and math constants."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

from .backends import cudnn, providers, threads
from .base import dtypes
from .core import devices
from .core.devices import get_default_device, set_default_device

__all__ = [
    "are_deterministic_algorithms_enabled",
    "e",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "inf",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "nan",
    "newaxis",
    "pi",
    "set_default_device",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_warn_always",
    "show_config",
    "use_deterministic_algorithms",
]

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None

_deterministic = {"mode": False, "warn_only": False}
_products = "highest"
_interop: int | None = None
_warn_always = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Set whether ops must be deterministic. All can be, so none raises, or warns with `warn_only`; cuDNN then uses only plans that are."""
    if not isinstance(mode, bool):
        raise TypeError(f"_set_deterministic_algorithms(): argument 'mode' must be bool, not {type(mode).__name__}")
    _deterministic.update(mode=mode, warn_only=bool(warn_only))
    cudnn.deterministic_algorithms = mode


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was set."""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was set with `warn_only`."""
    return _deterministic["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set `use_deterministic_algorithms` by a level: 0 or "default", 1 or "warn", 2 or "error". Raises RuntimeError for any other."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    names: dict[Any, int] = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if debug_mode not in names:
        raise RuntimeError(f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, 0, 1, 2, but got {debug_mode}")
    level = names[debug_mode]
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """Return the level set by `set_deterministic_debug_mode`: 0 is off, 1 warns, 2 raises."""
    return (1 if _deterministic["warn_only"] else 2) if _deterministic["mode"] else 0


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matrix products to "highest", "high" or "medium". Those on a GPU use TF32 unless it is "highest".

    It is `backends.cuda.matmul.allow_tf32` that this sets. Any other value has no effect but a warning.
    """
    global _products
    if precision not in ("highest", "high", "medium"):
        warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium'; the current call has no effect.", stacklevel=2)
        return
    _products = precision
    importlib.import_module("engine.backends.cuda").matmul.allow_tf32 = precision != "highest"


def get_float32_matmul_precision() -> str:
    """Return the precision set by `set_float32_matmul_precision`."""
    return _products


def set_num_threads(num: int) -> None:
    """Set the number of threads of one op, in NumPy's BLAS and in oneDNN. Raises RuntimeError if it is not a positive int."""
    threads.limit(_positive(num, "set_num_threads"))


def get_num_threads() -> int:
    """Return the number of threads of one op: that set, or of OPENBLAS_NUM_THREADS or OMP_NUM_THREADS, or the number of processors."""
    return threads.count()


def show_config() -> None:
    """Print which library computes what on the CPU, such as convolutions, and on how many threads."""
    print(providers.described(), end="")


def set_num_interop_threads(num: int) -> None:
    """Set the number of ops that may run at once. It is only stored: ops run sequentially here."""
    global _interop
    _interop = _positive(num, "set_num_interop_threads")


def get_num_interop_threads() -> int:
    """Return the number set by `set_num_interop_threads`, or the number of processors."""
    return _interop or threads.processors()


def _positive(num: int, name: str) -> int:
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(num).__name__}")
    if num < 1:
        raise RuntimeError(f"{name} expects a positive integer")
    return num


def set_warn_always(b: bool) -> None:
    """Set whether warnings repeat. It is only stored: Python's warning filters decide here. Raises TypeError if it is not a bool."""
    global _warn_always
    if not isinstance(b, bool):
        raise TypeError(f"setWarnOnlyOnce(): argument 'b' must be bool, not {type(b).__name__}")
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """Return the value set by `set_warn_always`."""
    return _warn_always


def set_flush_denormal(mode: bool) -> bool:
    """Return False: subnormal values are never flushed to zero, as NumPy cannot do it."""
    return False


def set_default_tensor_type(t: Any) -> None:
    """Set the default float dtype and device by a tensor type or its name, such as "torch.cuda.DoubleTensor".

    Raises TypeError if it is not a floating-point tensor type, or if it is a CUDA type and there is no GPU.
    """
    from .core.legacy import named

    chosen = named(t) if isinstance(t, str) else t
    if not isinstance(getattr(chosen, "dtype", None), dtypes.dtype) or not hasattr(chosen, "is_cuda"):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if not chosen.dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    chosen.require()
    dtypes.set_default(chosen.dtype)
    devices.set_default_device("cuda" if chosen.is_cuda else None)
