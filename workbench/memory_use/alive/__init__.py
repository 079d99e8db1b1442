"""Find why a tensor is alive: chains of references from a variable or a notebook output down to the tensor's memory.

The search goes forward from the roots through strong references: variables, items, attributes, closures, frames, the tape. It calls no
user code, follows no weak references, keeps nothing afterwards, and stops at a fixed number of objects. If no root leads to the memory,
the garbage collector's referrers are searched as a fallback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.core import inplace, versions
from engine.core.tensor import Tensor

from ... import protocol
from ...inspector import bytes_text, shape_text
from ...recording.recording import BYTES, KEY, NUMBER, ROW, Recording
from ...torch_models import loaded
from ..words import called
from .chain import Chain, Root, Why
from .roots import FORGET_ERROR, FORGOT_ERROR, add_roots, namespace, set_namespace
from .search import Search

__all__ = ["FORGET_ERROR", "FORGOT_ERROR", "Chain", "Root", "Why", "add_roots", "namespace", "of_block", "set_namespace", "why"]


def why(tensor: Tensor | Any, names: Mapping[str, Any], what: str = "", hide: Iterable[Any] = ()) -> Why:
    """Return what keeps the memory of a tensor or array alive. Raises TypeError for anything else."""
    array = tensor.array if isinstance(tensor, Tensor) else tensor
    if not hasattr(array, "base") or not hasattr(array, "nbytes"):
        kind = type(tensor)
        hint = ""
        if loaded.is_tensor(tensor):
            hint = "; references to PyTorch tensors are not searched: wb.memory() reports which variables and ops need memory"
        raise TypeError(
            f"wb.why_alive takes a tensor of the engine or an array, got {kind.__module__.partition('.')[0]}.{kind.__name__}{hint}"
        )
    owner = versions.storage(array)
    said = what or f"The {shape_text(array.shape)} {array.dtype} tensor ({bytes_text(owner.nbytes)})"
    return Search(owner, names, hide, tensor).run(said)


def of_block(r: Recording, re: int | None, number: int) -> protocol.Why:
    """Return what keeps a recording's block alive, by its number. Raises `protocol.Refused` if the block has been freed."""
    r.settle()
    block = next((b for b in list(r.blocks.values()) if b[NUMBER] == number), None)
    found = None if block is None else _in_block(r, block)
    if block is None or found is None:
        raise protocol.Refused("This memory is not there any more: what held it has let it go.")
    row = block[ROW]
    name = _name(r, number, row)
    told = why(found, namespace(), name, hide=(block,))
    chains = [protocol.Chain(list(chain.links), chain.fix, chain.advice) for chain in told.chains]
    return protocol.Why(re, r.name, number, row, name, block[BYTES], chains, told.sentence)


def _name(r: Recording, number: int, row: int) -> str:
    """The name of a block: its tensor, a gradient, or an optimizer's state."""
    role, row = r.roles.get(number, ("", row))
    name = called(r, row)
    return {"": name, "saved": f"what {name} keeps", "gradient": f"{name}.grad"}.get(role, f"{role} of {name}" if row >= 0 else role)


def _in_block(r: Recording, block: list) -> Any:
    """An array stored in the block, from any object that still has one; None if there is none."""
    key = block[KEY]
    kept = r.others.get(block[NUMBER], lambda: None)()
    if kept is not None:
        return getattr(kept, "array", kept)
    for row in range(r.count):
        tensor = r.tensor(row)
        if isinstance(tensor, Tensor) and id(versions.storage(tensor.array)) == key:
            return tensor.array
    for held in list(r.gradients.values()):
        gradient = held()
        if gradient is not None and id(versions.storage(gradient.array)) == key:
            return gradient.array
    for saving in list(r.savings.values()):
        saved = getattr(saving(), "saved", ())
        for array in saved if isinstance(saved, tuple) else ():
            for a in array if array.__class__ is tuple else (array,):
                if hasattr(a, "base") and id(versions.storage(a)) == key:
                    return a
    return None
