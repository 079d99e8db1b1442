"""Programs of other libraries are run only when asked for, by `pytest -m ecosystem` (make ecosystem)."""

from __future__ import annotations

import pytest

import torch_tests


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return torch_tests.left_out(config, "ecosystem")
