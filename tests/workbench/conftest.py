"""What the tests of the workbench share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import observe

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def nobody_watches() -> Iterator[None]:
    """A test leaves no observer behind."""
    yield
    assert observe.current is None
