"""`engine.backends.mkldnn`: PyTorch's switches for oneDNN, which convolutions on the CPU follow.

Without `enabled` they use NumPy. The others can be set and read without effect: results are deterministic, and computed in float32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import onednn

enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"


def is_available() -> bool:
    """Return whether oneDNN is installed and can be used; it is loaded for the answer."""
    return not isinstance(onednn.found(), str)


def set_flags(
    _enabled: bool | None = None, _deterministic: bool | None = None, _allow_tf32: bool | None = None, _fp32_precision: str = "none"
) -> tuple:
    """Set the switches that are given; return their previous values."""
    before = (enabled, deterministic, allow_tf32, fp32_precision)
    given = {"enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32, "fp32_precision": _fp32_precision}
    globals().update({name: value for name, value in given.items() if value is not None})
    return before


@contextlib.contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none") -> Iterator[None]:
    """Set switches for the duration of a `with` block."""
    before = set_flags(enabled, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        set_flags(*before)
        globals()["allow_tf32"] = before[2]
