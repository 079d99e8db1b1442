"""`engine.backends.cuda`: PyTorch's switches of how a GPU computes. They can be set and read; the arrays' code is in `gpu.py`.

CuPy's products are of full float32 precision, and attention is written out in ops, so none of the switches changes a result here.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator


class _Products:
    """Switches of matrix products: `engine.backends.cuda.matmul.allow_tf32 = True`. An unknown one is an AttributeError."""

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
    """Whether CuPy is installed, with which GPUs are used."""
    return importlib.util.find_spec("cupy") is not None


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` said last."""
    return _attention["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` said last."""
    return _attention["mem_efficient"]


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` said last."""
    return _attention["math"]


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` said last."""
    return _attention["cudnn"]


def enable_flash_sdp(enabled: bool) -> None:
    """Note a wish; there is one implementation of attention."""
    _attention["flash"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Note a wish; there is one implementation of attention."""
    _attention["mem_efficient"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Note a wish; there is one implementation of attention."""
    _attention["math"] = bool(enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Note a wish; there is one implementation of attention."""
    _attention["cudnn"] = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Note wishes for the time of a `with` block."""
    before = dict(_attention)
    _attention.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _attention.update(before)


def preferred_linalg_library(backend: str | None = None) -> str:
    """ "default": CuPy chooses between cuSOLVER and cuBLAS itself. RuntimeError for a name that is not PyTorch's."""
    if backend not in (None, "default", "cusolver", "magma"):
        raise RuntimeError(f"Unknown input value. Choose from: default, cusolver, magma; got {backend!r}")
    return "default"
