"""`engine.backends.cudnn`: PyTorch's switches of cuDNN, which convolutions on a GPU follow.

Without `enabled` they are composed of CuPy's functions. `benchmark` times the first plans for each new signature and keeps the fastest,
`deterministic` excludes those whose results may differ between runs, `allow_tf32` lets float32 be multiplied as TF32.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"
deterministic_algorithms = False  # set by `use_deterministic_algorithms`


@functools.cache
def library() -> Any:
    """Return the module `cudnn` of cuDNN's frontend, or the error if it or cuDNN itself cannot be loaded."""
    try:
        frontend = importlib.import_module("cudnn")
        frontend.backend_version()
    except (ImportError, OSError, RuntimeError) as error:
        return error
    return frontend


def is_available() -> bool:
    """Return whether there is a GPU, and cuDNN can be used on it."""
    return version() is not None


def version() -> int | None:
    """Return cuDNN's version, such as 92800; None if it is not available."""
    if importlib.util.find_spec("cupy") is None:
        return None
    import cupy

    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:  # there is no driver
        return None
    return None if not devices or isinstance(library(), Exception) else int(library().backend_version())


def is_acceptable(tensor: Any) -> bool:
    """Return whether cuDNN takes a tensor: float16, bfloat16 or float32 on a GPU."""
    return bool(enabled and tensor.is_cuda) and tensor.dtype.name in ("float16", "bfloat16", "float32")


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
