"""`engine.ao.quantization`: classes that libraries test modules for; nothing is quantized."""

from __future__ import annotations

from typing import Any

from ...nn import Module


class _Quantizing(Module):
    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(f"{type(self).__name__}: this engine quantizes no models")


class ObserverBase(_Quantizing):
    """Raises NotImplementedError; `isinstance(x, ObserverBase)` is always False."""


class FakeQuantizeBase(_Quantizing):
    """Raises NotImplementedError; `isinstance(x, FakeQuantizeBase)` is always False."""
