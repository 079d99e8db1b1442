"""The hub of docs/hub.md is tested only when asked for, by `pytest -m hub` as root (make hub)."""

from __future__ import annotations

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if "hub" in config.option.markexpr else True
