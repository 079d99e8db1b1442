"""The fixture that puts a stand-in for CuPy in place of CuPy."""

from __future__ import annotations

import pytest
from on_stand_in import stand_in  # noqa: F401  a fixture


def pytest_itemcollected(item: pytest.Item) -> None:
    """Kernels on the emulator take minutes, and few changes reach them: `make test` keeps the quick tests, `.ci/run` has all of them."""
    if item.get_closest_marker("slow") is not None:
        item.add_marker("long")
