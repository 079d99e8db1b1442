"""Writes engine/compat/torch_homes.txt, where PyTorch says that its classes and functions are: `python tests/parity/make_torch_homes.py`.

A line is a module of PyTorch's, the engine's module, and the names that are at home in both. What pickle could not find again there is
left out.
"""

from __future__ import annotations

import importlib
import inspect
import types
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from engine.base import addresses
from engine.compat import missing

FILE = Path(__file__).resolve().parents[2] / "engine" / "compat" / "torch_homes.txt"


def _found(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except Exception:  # PyTorch's own, too, where a part of it is not installed
        return None


def homes() -> dict[tuple[str, str], set[str]]:
    """(PyTorch's module, the engine's module) -> names of classes and functions."""
    found, known = defaultdict(set), set()
    for home, names in missing.known().items():
        for name, there in names.items():
            theirs, ours = _found(there, name), _found(home, name)
            if not isinstance(ours, (type, types.FunctionType)) or not callable(theirs) or inspect.isclass(theirs) != inspect.isclass(ours):
                continue
            module, own = getattr(theirs, "__module__", None) or "", ours.__module__
            if not module.startswith("torch") or not own.startswith("engine") or getattr(theirs, "__name__", None) != ours.__name__:
                continue
            if ours not in known and ours.__qualname__ == ours.__name__ and _found(addresses.ours(module), ours.__name__) is ours:
                found[module, own].add(ours.__name__)
                known.add(ours)
    return found


def text() -> str:
    """The whole file."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    lines = [f"# PyTorch {torch.__version__.split('+')[0]}"]
    return "\n".join(lines + [" ".join([*modules, *sorted(names)]) for modules, names in sorted(homes().items())]) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
