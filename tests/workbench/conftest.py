"""What the tests of the workbench share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import torch_tests
import workbench as wb
from engine.base import observe

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def nobody_watches() -> Iterator[None]:
    """A test leaves no observer behind."""
    yield
    assert observe.current is None


@pytest.fixture
def fresh_sheet() -> Iterator[None]:
    """No question and no answer is left from another test."""
    wb.teach.quiz.clear()
    yield
    wb.teach.quiz.clear()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return torch_tests.left_out(config) if collection_path.name.startswith("test_torch") else None
