"""What a program hears that asks for a name which is not here: whether PyTorch has it, and the nearest one that is here."""

from __future__ import annotations

import dis
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from ..backends import _LATER as _SWITCHES
from ..base.addresses import PATHS, ours, public, theirs

_FROM = dis.opmap["IMPORT_FROM"]
# What every op walks through has no `__getattr__`: CPython does not remember where the names of a module that has one are, and each
# `observe.current` or `xp.tanh` would take 30 ns and not 4.
_WALKED = {
    "batching",
    "call",
    "cast_lists",
    "casting",
    "devices",
    "dtypes",
    "errors",
    "inplace",
    "layout",
    "naming",
    "observe",
    "op",
    "out",
    "quick",
    "rules",
    "tape",
    "tensor",
}


@functools.cache
def known() -> dict[str, dict[str, str]]:
    """PyTorch's public names by module and class, and torchvision's that are not here, under the engine's names of these: name -> its home.

    Read from files at the first miss.
    """
    texts = ((Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("torch_names.txt", "../vision/names.txt"))
    found: dict[str, dict[str, str]] = {}
    for line in [line for text in texts for line in text.splitlines()[1:]]:
        home, *names = line.split()
        found[ours(home)] = dict.fromkeys(names, home) | found.get(ours(home), {})  # one module here may answer for several of PyTorch's
    return found


@functools.lru_cache(4096)
def said(what: str, home: str, name: str, here: frozenset[str]) -> str:
    """The sentence: "module 'engine.nn' has no attribute 'Liner', and neither has PyTorch 2.13; did you mean 'Linear'?"."""
    import difflib

    other = theirs(home)
    top = other.partition(".")[0]
    names = known().get(ours(other)) if top in ("torch", "torchvision") else None
    there = names is not None and (name in names or f"{ours(other)}.{name}" in known())
    near = [n for n in sorted(here) if n.replace("_", "").lower() == name.replace("_", "").lower()][:1]
    near = near or difflib.get_close_matches(name, here, 1, 0.7)
    told = f"{what} has no attribute {name!r}"
    if there:
        who, nearest = "PyTorch" if top == "torch" else top, f". The nearest name here is {near[0]!r}" if near else ""
        return f"{told}: {who} has {(names or {}).get(name, other)}.{name}, this engine does not{nearest}"
    told += ", and neither has PyTorch 2.13" if names and top == "torch" and not name.startswith("_") else ""  # only public ones are listed
    return f"{told}; did you mean {near[0]!r}?" if near else told


def attribute(home: str, name: str, deep: int = 1) -> Any:
    """`__getattr__` of a module: one of its modules that are imported late (`_LATER`), or that PyTorch has there.

    Else AttributeError; in `from home import name` ImportError. `deep`: how many frames above this one the name was asked for.
    """
    __tracebackhide__ = True  # in a notebook the user's own line is the last
    if name.startswith("__"):
        raise AttributeError(f"module {home!r} has no attribute {name!r}")
    asked, home = sys.modules[home], public(home)
    path = f"{home}.{name}"
    if path in PATHS or name in vars(asked).get("_LATER", ()) and importlib.util.find_spec(path) is not None:
        try:
            found = importlib.import_module(PATHS.get(path, path))
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "engine":
                raise  # a library that the module needs
            raise AttributeError(f"module {home!r} has no attribute {name!r}: {error}", name=name) from error
        setattr(asked, name, found)  # which an import does only for a module at its own address
        watch()
        return found
    listed = (*vars(asked).get("__all__", ()), *vars(asked).get("_LATER", ()))
    told = said(f"module {home!r}", home, name, frozenset(n for n in (*vars(asked), *listed) if n != name and not n.startswith("_")))
    if path not in sys.modules and _imports(sys._getframe(deep)):
        raise ImportError(told.replace(" has no attribute ", ": cannot import name ", 1), name=home)
    raise AttributeError(told, name=name)  # without the object, for which Python would suggest a name again


def _imports(frame: FrameType) -> bool:
    """Whether the frame is at `from module import name`, which would put a sentence of its own in place of an AttributeError's."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _FROM


def module(name: str) -> ModuleNotFoundError:
    """The error for `import torch.name`, where the engine has no such module."""
    return ModuleNotFoundError(_absence(name), name=name)


@functools.lru_cache(1024)  # libraries try the same import for each tensor that they save
def _absence(name: str) -> str:
    import difflib

    top, (above, _, last) = name.partition(".")[0], name.rpartition(".")
    beside = {n.rpartition(".")[2] for n in map(theirs, list(sys.modules)) if n.rpartition(".")[0] == above and "._" not in n}
    near = difflib.get_close_matches(last, beside, 1, 0.7)
    told = f"No module named {name!r} in this engine"
    there = ours(name) in known()
    if top == "torchvision" and there:
        told = f"{told}, though torchvision has it"
    if top == "torch":
        told = f"{told}, though PyTorch has it" if there else f"{told}, and neither has PyTorch 2.13 a public one"
    return f"{told}{f'; the nearest name here is {above}.{near[0]}' if near else ''}"


arrivals: list[Callable[[], None]] = []  # what is called when modules may have been loaded


def watch() -> None:
    """Every loaded module of the engine answers for names that it lacks, unless it does so itself."""
    for name, loaded in list(sys.modules.items()):
        if name.startswith("engine.") and isinstance(loaded, ModuleType) and "__getattr__" not in vars(loaded) and not _walked(name):
            vars(loaded)["__getattr__"] = functools.partial(attribute, loaded.__name__)
    for told in arrivals:
        told()


def _walked(name: str) -> bool:
    """Whether it is a module of the inner floors, and not one of PyTorch's switches beside the backends."""
    _, top, *rest = name.split(".")
    return bool(rest) and rest[0] in _WALKED or top == "ops" and bool(rest) or top == "backends" and bool(rest) and rest[0] not in _SWITCHES
