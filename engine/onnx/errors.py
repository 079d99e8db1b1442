"""Exceptions of ONNX export."""

from __future__ import annotations


class OnnxExporterError(RuntimeError):
    """A model, or one of its ops, that ONNX cannot express. The message names the op, the user's line and the module."""


class UnsupportedOperatorError(OnnxExporterError):
    """An op without a translation to ONNX."""
