"""Tests that need torch are collected only when asked for, by `pytest -m torch` (make parity)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def left_out(config: pytest.Config) -> bool | None:
    """Whether tests that import torch are not to be collected. UsageError when they are wanted and torch is not installed."""
    marks = config.option.markexpr
    if "torch" not in marks or "not torch" in marks:
        return True
    if find_spec("torch") is None:
        raise pytest.UsageError("torch is not installed: make parity installs it")
    return None
