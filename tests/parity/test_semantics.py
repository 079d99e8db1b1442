"""The tests of autograd, in-place writes and grad modes, run on torch itself: what they expect of the engine is what PyTorch does."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch
import torch.func
import torch.utils.checkpoint

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
ENGINE_TESTS = Path(__file__).parents[1] / "engine"


def executed(name: str) -> types.ModuleType:
    """A file of the engine's tests as a module."""
    path = ENGINE_TESTS / f"{name}.py"
    module = types.ModuleType(f"{name}_on_torch")
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), module.__dict__)
    return module


def on_torch(names: tuple[str, ...]) -> dict:
    """The test functions of the files, with `engine` standing for torch in them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "engine", torch)
        patch.setitem(sys.modules, "engine.autograd", torch.autograd)
        patch.setitem(sys.modules, "engine.autograd.function", torch.autograd.function)
        patch.setitem(sys.modules, "engine.func", torch.func)
        patch.setitem(sys.modules, "engine.utils.checkpoint", torch.utils.checkpoint)
        patch.setitem(sys.modules, "leaf", executed("leaf"))
        return {f"{test}_{name}": fn for name in names for test, fn in vars(executed(name)).items() if test.startswith("test_")}


FILES = ("test_backward", "test_grad", "test_hooks", "test_function", "test_gradcheck", "test_gradients", "test_inplace", "test_modes")
FILES += ("test_func", "test_checkpoint", "test_autograd_graph")
globals().update(on_torch(FILES))
