"""Describe a chain in words, and find the line of code that breaks it."""

from __future__ import annotations

from typing import Any

from engine.core import tape, versions
from engine.core.tensor import Tensor

from ...recording.recording import recent
from ..words import for_which, saving
from .chain import Chain, Root


def saves(node: Any, owner: Any) -> int | None:
    """The index in `node.saved` of an array on this memory; None if the node does not save it."""
    saved = getattr(node, "saved", ())
    for place, array in enumerate(saved if isinstance(saved, tuple) else ()):
        for a in array if array.__class__ is tuple else (array,):
            if isinstance(a, owner.__class__) and versions.storage(a) is owner:
                return place
    return None


def saver(node: Any, owner: Any) -> tuple[Any, int] | None:
    """The oldest node of a graph that saves the memory, and the index in its `saved`; None if there is none."""
    found = None
    for at in tape.plan([node]):
        place = saves(at, owner)
        if place is not None:
            found = at, place
    return found


def told(root: Root, path: str, thing: Any, owner: Any) -> Chain:
    """Describe a chain in words, with the line that breaks it."""
    called, fix, advice = root.called, root.fix, root.advice
    name = fix.removeprefix("del ") if called == f"the variable {fix.removeprefix('del ')}" else ""
    links = [f"{called}{path}".replace(",[", "[").removesuffix(",")]
    graph = thing if isinstance(thing, tape.Node) else thing.node if isinstance(thing, Tensor) else None
    direct = not isinstance(thing, tape.Node) and _is_in(thing, owner)
    if not direct and graph is not None:
        found = saver(graph, owner)
        links.append("its graph")
        if found is not None:
            node, place = found
            slot = for_which(node.op, place)
            links.append(saving(_called(node), slot))
    if name:
        fix, advice = _cut(name, path, thing, direct)
    return Chain(tuple(links), fix, advice)


def _called(node: Any) -> str:
    """The op of a node, with its line if a recording has it: "mul, line 12"."""
    found = next(((r, row) for r in reversed(recent) if (row := r.times.get(node.time)) is not None), None)
    return node.op.name if found is None else found[0].maker(found[1])


def _is_in(thing: Any, owner: Any) -> bool:
    return versions.storage(thing.array if isinstance(thing, Tensor) else thing) is owner


def _cut(name: str, path: str, thing: Any, direct: bool) -> tuple[str, str]:
    """The line of code that releases the object at `name` + `path`, and what it does."""
    whole = name + path
    holder, _, last = path.rpartition("[")
    if not direct and isinstance(thing, Tensor):
        if path and "(" not in path and thing.array.size == 1:
            return f"{whole} = {whole}.item()", "keeps the value and frees the graph; append loss.item(), not loss"
        if "(" not in path:
            if thing.array.size == 1:
                return f"{whole} = {whole}.item()", "keeps the value and frees the graph"
            return f"{whole} = {whole}.detach()", "keeps the values and frees the graph"
    if path.endswith(".grad"):
        return f"{whole} = None", "frees the gradient; optimizer.zero_grad() does so for all parameters"
    if ".state[" in path:
        return f"del {name}", "the optimizer needs this at its next step; forget the optimizer when training is over"
    if "(" in path:
        return f"del {name}", "forgets the variable"
    if not path:
        return f"del {name}", "forgets the variable"
    if last.endswith("]") and "." not in last:
        return f"del {whole}", "takes it out of the container"
    if isinstance(thing, Tensor) and type(thing).__name__ == "Parameter":
        return f"del {name}", "forgets the whole model"
    return f"{whole} = None", "removes it from the object"
