"""Comparisons with torch are collected only when asked for, by `pytest -m torch` (make parity)."""

from __future__ import annotations

import pytest

import torch_tests


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return torch_tests.left_out(config)
