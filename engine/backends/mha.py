"""`engine.backends.mha`: PyTorch's switch for the fused attention path, kept for compatibility; there is only one path here."""

from __future__ import annotations

_fast = True


def get_fastpath_enabled() -> bool:
    """Return the last value passed to `set_fastpath_enabled`; True by default."""
    return _fast


def set_fastpath_enabled(value: bool) -> None:
    """Record the setting; it has no effect."""
    global _fast
    _fast = bool(value)
