"""The tests of autograd, in-place writes and grad modes, run on torch itself: what they expect of the engine is what PyTorch does."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
ENGINE_TESTS = Path(__file__).parents[1] / "engine"


def on_torch(name: str) -> dict:
    """The test functions of a file, with `engine` standing for torch in it."""
    path = ENGINE_TESTS / f"{name}.py"
    module = types.ModuleType(f"{name}_on_torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "engine", torch)
        patch.setitem(sys.modules, "engine.autograd", torch.autograd)
        exec(
            compile(
                path.read_text(encoding="utf-8").replace("from engine.autograd.function", "from torch.autograd.function"), path, "exec"
            ),
            module.__dict__,
        )
    return {f"{test}_{name}": fn for test, fn in vars(module).items() if test.startswith("test_")}


for file in ("test_autograd", "test_inplace", "test_modes"):
    globals().update(on_torch(file))
