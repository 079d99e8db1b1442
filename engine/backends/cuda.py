"""`engine.backends.cuda`: PyTorch's switches for GPU computation. They can be set and read; the GPU code itself is in `gpu/`.

Two change what runs: `matmul.allow_tf32` lets float32 products on a GPU use TF32, and attention is composed of ops, as with "math", if its
other three kinds are off. Sums are never of reduced precision.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import warnings
from collections.abc import Iterator
from typing import Any


class _Products:
    """Switches for matrix products: `engine.backends.cuda.matmul.allow_tf32 = True`. Setting an unknown one raises AttributeError."""

    __slots__ = (
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
        "allow_fp16_reduced_precision_reduction",
        "allow_tf32",
        "fp32_precision",
    )

    def __init__(self) -> None:
        self.allow_tf32 = self.allow_fp16_accumulation = False
        self.allow_fp16_reduced_precision_reduction = self.allow_bf16_reduced_precision_reduction = True
        self.fp32_precision = "none"


matmul = _Products()
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether CuPy, through which GPUs are used, is installed."""
    return importlib.util.find_spec("cupy") is not None


def flash_sdp_enabled() -> bool:
    """The value last set by `enable_flash_sdp`."""
    return _attention["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """The value last set by `enable_mem_efficient_sdp`."""
    return _attention["mem_efficient"]


def math_sdp_enabled() -> bool:
    """The value last set by `enable_math_sdp`."""
    return _attention["math"]


def cudnn_sdp_enabled() -> bool:
    """The value last set by `enable_cudnn_sdp`."""
    return _attention["cudnn"]


def attention_enabled() -> bool:
    """Whether attention may run as one kernel: which one it is follows from its arguments, not from these switches."""
    return _attention["flash"] or _attention["mem_efficient"] or _attention["cudnn"]


def enable_flash_sdp(enabled: bool) -> None:
    """Set whether attention may be of this kind; see `attention_enabled`."""
    _attention["flash"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Set whether attention may be of this kind; see `attention_enabled`."""
    _attention["mem_efficient"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Set whether attention may be of this kind; see `attention_enabled`."""
    _attention["math"] = bool(enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Set whether attention may be of this kind; see `attention_enabled`."""
    _attention["cudnn"] = bool(enabled)


def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> contextlib.AbstractContextManager[None]:
    """Set which kinds of attention are allowed within a `with` block. Deprecated: use `nn.attention.sdpa_kernel`."""
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please see "
        "`torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
        stacklevel=2,
    )
    return allowed_attention(enable_flash, enable_math, enable_mem_efficient, enable_cudnn)


@contextlib.contextmanager
def allowed_attention(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Set which kinds of attention are allowed within a `with` block."""
    before = dict(_attention)
    _attention.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _attention.update(before)


def preferred_linalg_library(backend: str | None = None) -> str:
    """Return "default": CuPy chooses between cuSOLVER and cuBLAS itself. RuntimeError for a name that PyTorch does not have."""
    if backend not in (None, "default", "cusolver", "magma"):
        raise RuntimeError(f"Unknown input value. Choose from: default, cusolver, magma; got {backend!r}")
    return "default"


def preferred_blas_library(backend: str | None = None) -> str:
    """Return "cublas". Raises RuntimeError for a name that PyTorch does not have."""
    if backend not in (None, "default", "cublas", "cublaslt", "hipblaslt", "ck"):
        raise RuntimeError(f"Unknown input value. Choose from: default, cublas, cublaslt, hipblaslt, ck; got {backend!r}")
    return "cublas"


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Record a setting without effect: sums are in float32."""
    _reductions["math"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """The value last set by `allow_fp16_bf16_reduction_math_sdp`."""
    return _reductions["math"]


_reductions = {"math": False}


def is_flash_attention_available() -> bool:
    """Return whether the library flash-attention is used: False, the kernels are cuDNN's and own ones."""
    return False


class _PlanCache:
    """CuPy's cache of plans for Fourier transforms on a GPU, by default the current one. Its `max_size` can be set."""

    __slots__ = ("_device",)

    def __init__(self, device: int | None = None) -> None:
        self._device = device

    def __getitem__(self, device: int) -> _PlanCache:
        return _PlanCache(device)

    def _cache(self) -> Any:
        runtime = importlib.import_module(f"{__package__}.gpu.runtime")  # which imports this file

        return runtime.plan_cache(self._device)

    @property
    def size(self) -> int:
        """The number of plans in the cache."""
        return int(self._cache().get_curr_size())

    @property
    def max_size(self) -> int:
        """The number of plans that the cache can hold."""
        return int(self._cache().get_size())

    @max_size.setter
    def max_size(self, size: int) -> None:
        self._cache().set_size(size)

    def clear(self) -> None:
        """Remove all plans."""
        self._cache().clear()


cufft_plan_cache = _PlanCache()
