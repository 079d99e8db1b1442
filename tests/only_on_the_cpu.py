"""Tests that do not run with `--device cuda`, and why; all others in tests/engine do."""

from __future__ import annotations

TABLE: dict[str, str] = {}


def reason(module: str, test: str) -> str | None:
    """Why a test, or its whole module, is only for the CPU; None if it is not."""
    return _REASONS.get(f"{module}::{test}") or _REASONS.get(module)


_REASONS = {name: why for why, names in TABLE.items() for name in names.split()}
