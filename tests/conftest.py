"""What all tests run in: no program may take the folder `tests/torch` for PyTorch, and collected tests are no garbage to look through."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
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

import hypothesis
import pytest

import engine
import torch_tests

pytest_plugins = ["chromium", "cpu_times", "grouping", "on_device", "pytester"]

HERE = str(Path(__file__).resolve().parent)


class WithoutTorch(FileFinder):
    """Finds everything in a folder but `torch`: libraries that ask for PyTorch are to hear that it is not there."""

    @classmethod
    def look_in(cls, folder: str) -> None:
        """All imports from the folder go through one."""
        kinds = (ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceFileLoader, SOURCE_SUFFIXES), (SourcelessFileLoader, BYTECODE_SUFFIXES)
        sys.path_importer_cache[folder] = cls(folder, *kinds)

    def find_spec(self, fullname: str, target: Any = None) -> ModuleSpec | None:
        return None if fullname == "torch" else super().find_spec(fullname, target)


# The same examples each time; many more of them before a merge.
hypothesis.settings.register_profile("usual", max_examples=150, deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", max_examples=400, deadline=None, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))

os.environ.setdefault("GRADIENT_WORKBENCH_KERNELS", "numpy")  # whether or not they are compiled; test_compiled.py uses them

WithoutTorch.look_in(HERE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run the lessons without what makes them shorter, and look at what they reach")


def pytest_configure(config: pytest.Config) -> None:
    """Where no test of PyTorch runs, an installed one is not there for the others: tensorboardX would import it."""
    if all(torch_tests.left_out(config, mark) for mark in ("torch", "ecosystem")):
        for folder in sys.path:
            if Path(folder, "torch").is_dir():
                WithoutTorch.look_in(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files in longest.txt come first, so that no worker still runs one of them when the others have nothing left to do."""
    place = {str(Path(HERE, name)): number for number, name in enumerate(Path(HERE, "longest.txt").read_text().split())}
    items.sort(key=lambda item: place.get(str(item.path), len(place)))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The same random numbers whatever ran before in the process."""
    engine.manual_seed(0)


@pytest.fixture(autouse=True)
def nothing_stays_chosen() -> Iterator[None]:
    """A test leaves no level of views and no vocabulary behind, which the process's later tests would see."""
    yield
    for name in ("workbench.session.levels", "workbench.inspector.vocabulary"):
        assert getattr(sys.modules.get(name), "current", None) is None, f"{name}.current is still set"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Who leaves slow tests out does not import files that have no others."""
    if "not slow" in config.option.markexpr and collection_path.suffix == ".py":
        return bool(re.search(r"^pytestmark = .*\bmark\.slow\b", collection_path.read_text(encoding="utf-8"), re.MULTILINE)) or None
    return None


def pytest_collection_finish(session: pytest.Session) -> None:
    """What has been collected lives to the end. Frozen, it costs the collections that tests ask for no time: they took 4 s each."""
    gc.collect()
    gc.freeze()
