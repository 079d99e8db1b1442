"""What tests of several subjects stand on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What is freed inside is freed by reference counts alone."""
    gc.disable()
    yield
    gc.enable()
