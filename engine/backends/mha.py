"""`engine.backends.mha`: the switch of a fused path for attention layers. There is one path here, and it changes nothing."""

from __future__ import annotations

_fast = True


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` said last."""
    return _fast


def set_fastpath_enabled(value: bool) -> None:
    """Note a wish."""
    global _fast
    _fast = bool(value)
