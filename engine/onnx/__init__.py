"""`engine.onnx`: models written as ONNX, PyTorch's `torch.onnx`. Needs the package onnx (`gradient-workbench[onnx]`)."""

from __future__ import annotations

import enum

from .errors import OnnxExporterError, UnsupportedOperatorError
from .export import ONNXProgram, export

__all__ = ["ONNXProgram", "OnnxExporterError", "TrainingMode", "UnsupportedOperatorError", "export", "is_in_onnx_export"]


class TrainingMode(enum.IntEnum):
    """In which mode a model is exported; the engine exports in EVAL."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


def is_in_onnx_export() -> bool:
    """Whether an export is running in this thread's model call; programs ask it to take a simpler way."""
    from .export import running

    return running()
