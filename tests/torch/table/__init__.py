"""The table of cases that PyTorch and the engine both answer: one module for each family of names. See ../README.md for how to add one."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from .case import TABLE, Case, Check

PARTS = {"answer", "case", "compare", "inputs", "store"}  # what the table is made of; every other module is a family
FAMILIES = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name not in PARTS)

for _family in FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")


def checks() -> list[Check]:
    """Every check of every family, once."""
    return list({str(check): check for case in TABLE for check in case.checks()}.values())
