"""What all tests run in: no program may take the folder `tests/torch` for PyTorch, and collected tests are no garbage to look through."""

from __future__ import annotations

import gc
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["grouping", "pytester"]

HERE = str(Path(__file__).resolve().parent)


class WithoutTorch(FileFinder):
    """Finds everything in a folder but `torch`: without PyTorch, libraries that ask for it are to hear that it is not there."""

    def find_spec(self, fullname: str, target: Any = None) -> ModuleSpec | None:
        return None if fullname == "torch" else super().find_spec(fullname, target)


sys.path_importer_cache[HERE] = WithoutTorch(
    HERE, (ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceFileLoader, SOURCE_SUFFIXES), (SourcelessFileLoader, BYTECODE_SUFFIXES)
)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What has been collected lives to the end. Frozen, it costs the collections that tests ask for no time: they took 4 s each."""
    gc.collect()
    gc.freeze()
