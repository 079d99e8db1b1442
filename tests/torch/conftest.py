"""The comparison with a live torch is collected only when asked for, by `pytest -m torch` (make parity)."""

from __future__ import annotations

from pathlib import Path

import pytest

import torch_tests


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return torch_tests.left_out(config) if collection_path.name == "test_answers_afresh.py" else None
