"""What is raised when a model cannot be written as ONNX."""

from __future__ import annotations


class OnnxExporterError(RuntimeError):
    """A model, or one op of it, that ONNX cannot express. The message names the op, the user's line and the module."""


class UnsupportedOperatorError(OnnxExporterError):
    """An op that has no translation."""
