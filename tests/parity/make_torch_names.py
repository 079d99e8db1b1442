"""Writes engine/compat/torch_names.txt, the public names of the installed PyTorch: `python tests/parity/make_torch_names.py`.

One module or class in a line, and behind it the names in it. A program that asks `engine` for a name that is not there hears from this
list whether PyTorch has it.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "engine" / "compat" / "torch_names.txt"
ASIDE = ("torch.ao", "torch.quantization", "torch.fx.passes", "torch.fx.experimental", "torch.include")
CLASSES = ("Tensor", "nn.Module", "optim.Optimizer", "autograd.Function")
ASKED = (
    "distributions",
    "func",
    "profiler",
    "utils.data",
    "utils.checkpoint",
    "utils.benchmark",
    "fft",
    "linalg",
    "special",
    "sparse",
    "multiprocessing",
)


def modules(torch) -> list[str]:
    """Every public module's name, from its file; nothing is imported."""
    root = Path(torch.__file__).parent
    found = {"torch", *ASIDE[:2]}
    for path in root.rglob("*.py"):
        parts = [part for part in path.relative_to(root).with_suffix("").parts if part != "__init__"]
        name = ".".join(["torch", *parts])
        if not any(part.startswith("_") or not part.isidentifier() for part in parts) and not name.startswith(ASIDE):
            found.add(name)
    return sorted(found)


def names(thing) -> list[str]:
    """The public names of a module or class that are PyTorch's own: what a module imports from elsewhere is left out."""
    listed = set(getattr(thing, "__all__", ()))
    found = []
    own = dir(type(thing)) if type(thing) is not types.ModuleType and not isinstance(thing, type) else []  # torch.backends.cudnn
    for name in sorted({*dir(thing), *own} - {"TYPE_CHECKING", "torch"}):
        if name.startswith("_") or len(name) == 1 and isinstance(thing, types.ModuleType) and name not in (*listed, "e"):
            continue
        value = getattr(thing, name, None)
        home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or "torch"
        if name in listed or isinstance(thing, type) or home.split(".")[0] in ("torch", "builtins"):
            found.append(name)
    return found


def text() -> str:
    """The whole file."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    for name in ASKED:
        importlib.import_module(f"torch.{name}")
    lines = [f"# PyTorch {torch.__version__.split('+')[0]}"]
    for name in modules(torch):
        shown = name.count(".") < 3 and name in sys.modules
        lines.append(" ".join([name, *(names(sys.modules[name]) if shown else ())]))
    for name in CLASSES:
        thing = torch
        for part in name.split("."):
            thing = getattr(thing, part)
        lines.append(" ".join([f"torch.{name}", *names(thing)]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
