"""Automatic differentiation: `backward` and `grad`, grad modes, custom Functions, forward mode, graph access and gradient checks."""

from typing import TYPE_CHECKING

from ..core.tape import Handle as RemovableHandle
from . import function, grad_mode, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck
from .reverse import backward, grad
from .variable import Variable

if TYPE_CHECKING:
    from . import forward_ad, functional

_LATER = frozenset({"forward_ad", "functional", "profiler"})  # imported on first access
__all__ = [
    "Function", "RemovableHandle", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "function", "functional", "grad",
    "grad_mode", "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip
