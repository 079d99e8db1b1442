"""Tests that need torch are collected only when asked for by their mark: `pytest -m torch` (make parity), `-m ecosystem` (make ecosystem)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def left_out(config: pytest.Config, mark: str = "torch") -> bool | None:
    """Whether tests of this mark are not to be collected. UsageError when they are wanted and torch is not installed."""
    marks = config.option.markexpr
    if mark not in marks or f"not {mark}" in marks:
        return True
    if find_spec("torch") is None:
        raise pytest.UsageError("torch is not installed: make parity installs it")
    return None
