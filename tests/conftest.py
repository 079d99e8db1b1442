"""The folder `tests/torch` stands where modules of the tests are found; no program may take it for PyTorch."""

from __future__ import annotations

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

HERE = str(Path(__file__).resolve().parent)


class WithoutTorch(FileFinder):
    """Finds everything in a folder but `torch`: without PyTorch, libraries that ask for it are to hear that it is not there."""

    def find_spec(self, fullname: str, target: Any = None) -> ModuleSpec | None:
        return None if fullname == "torch" else super().find_spec(fullname, target)


sys.path_importer_cache[HERE] = WithoutTorch(
    HERE, (ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceFileLoader, SOURCE_SUFFIXES), (SourcelessFileLoader, BYTECODE_SUFFIXES)
)
