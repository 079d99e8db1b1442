"""Gradients on demand: `backward`, `grad`, the grad modes, user-written Functions, gradcheck."""

from ..tape import Handle as RemovableHandle
from . import functional
from .function import Function
from .grad_mode import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .gradcheck import gradcheck, gradgradcheck
from .reverse import backward, grad

__all__ = [
    "Function", "RemovableHandle", "backward", "enable_grad", "functional", "grad", "gradcheck", "gradgradcheck", "inference_mode",
    "is_grad_enabled", "is_inference_mode_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip
