"""The fixture that puts a stand-in for CuPy in place of CuPy."""

from __future__ import annotations

from on_stand_in import stand_in  # noqa: F401  a fixture
