"""Error messages for missing names: whether PyTorch has the name, and the nearest one available here."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from ..base.addresses import ours, theirs


@functools.cache
def known() -> dict[str, dict[str, str]]:
    """Return PyTorch's public names, and torchvision's missing ones, by engine module or class: {name: PyTorch's module or class}.

    Read from files on first use.
    """
    texts = ((Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("torch_names.txt", "../vision/names.txt"))
    found: dict[str, dict[str, str]] = {}
    for line in [line for text in texts for line in text.splitlines()[1:]]:
        home, *names = line.split()
        found[ours(home)] = dict.fromkeys(names, home) | found.get(ours(home), {})  # one module here may stand for several of PyTorch's
    return found


@functools.lru_cache(4096)
def sentence(what: str, home: str, name: str, here: frozenset[str]) -> str:
    """Return a message such as "module 'engine.nn' has no attribute 'Liner', and neither has PyTorch 2.13; did you mean 'Linear'?"."""
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
    told += ", and neither has PyTorch 2.13" if names and top == "torch" and not name.startswith("_") else ""  # lists only public ones
    return f"{told}; did you mean {near[0]!r}?" if near else told


def module(name: str) -> ModuleNotFoundError:
    """Return the error for `import torch.name` if the engine has no such module."""
    return ModuleNotFoundError(_absence(name), name=name)


@functools.lru_cache(1024)  # libraries retry the same import for each tensor that they save
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
