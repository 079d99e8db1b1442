"""The arguments of `torch.cuda`'s functions and classes are PyTorch's."""

from __future__ import annotations

import importlib
import inspect

import pytest

pytestmark = pytest.mark.torch
MODULES = ("", ".memory", ".streams", ".graphs", ".random", ".nvtx", ".amp", ".comm", ".profiler")


def arguments(function: object) -> list[tuple] | None:
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None  # a constant, or a builtin
    return [(p.name, p.kind, str(p.default)) for p in parameters]


@pytest.mark.parametrize("module", MODULES)
def test_arguments_are_those_of_torch(module):
    theirs, ours = (importlib.import_module(f"{top}.cuda{module}") for top in ("torch", "engine"))
    shared = {name for name in getattr(theirs, "__all__", vars(theirs)) if not name.startswith("_") and name in vars(ours)}
    pairs = {name: (arguments(getattr(ours, name)), arguments(getattr(theirs, name))) for name in shared}
    differ = {name: pair for name, pair in pairs.items() if None not in pair and pair[0] != pair[1]}
    assert len(shared) > 2 and differ == {}
