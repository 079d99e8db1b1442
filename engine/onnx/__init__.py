"""`engine.onnx`: export models to ONNX, as `torch.onnx` does. Needs the package onnx (`gradient-workbench[onnx]`)."""

from __future__ import annotations

import enum

from .errors import OnnxExporterError, UnsupportedOperatorError
from .export import ONNXProgram, export

__all__ = ["ONNXProgram", "OnnxExporterError", "TrainingMode", "UnsupportedOperatorError", "export", "is_in_onnx_export"]


class TrainingMode(enum.IntEnum):
    """The mode in which a model is exported; only EVAL is supported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


def is_in_onnx_export() -> bool:
    """Return whether this thread is inside the model call of an export; programs use it to take a simpler path."""
    from .export import running

    return running()
