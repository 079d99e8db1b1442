"""`engine.backends.cudnn`: PyTorch's cuDNN switches, which can be set and read but have no effect: convolutions are CuPy's products.

CuPy's result for one input is the same in every run on one machine, as `deterministic = True` requires; no algorithm is autotuned.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """Return whether there is a GPU to which these switches would apply."""
    if importlib.util.find_spec("cupy") is None:
        return False
    from .gpu import namespace

    return namespace.device_count() > 0


def version() -> int | None:
    """Return the cuDNN version in use: None, since cuDNN is not used."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Return whether cuDNN would accept this tensor: float16, float32 or float64 on a GPU."""
    return bool(tensor.is_cuda) and tensor.dtype.name in ("float16", "float32", "float64")


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple:
    """Set switches and return their previous values; None leaves one unchanged."""
    before = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision)
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision")
    globals().update({name: value for name, value in zip(names, given, strict=True) if value is not None})
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Set switches within a `with` block."""
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        set_flags(*before)
        globals()["benchmark_limit"] = before[2]
