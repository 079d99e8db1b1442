"""Comparisons with torch are collected only when asked for, by `pytest -m torch` (make parity)."""

from __future__ import annotations

import pytest

import torch_tests


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return torch_tests.left_out(config)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Samples are small: PyTorch's threads would wait for each other longer than they compute."""
    import torch

    torch.set_num_threads(1)
