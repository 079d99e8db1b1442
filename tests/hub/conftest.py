"""The hub of docs/hub.md is tested only when asked for, by `pytest -m hub` as root (make hub)."""

from __future__ import annotations

from pathlib import Path

import pytest

import torch_tests


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return torch_tests.left_out(config, "hub") or None
