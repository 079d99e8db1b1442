"""Reads the tensors that a node of PyTorch's graph saves for backward."""

from __future__ import annotations

from typing import Any

from .loaded import torch

saved_names: dict[type, list[tuple[str, str]]] = {}  # type of a node -> PyTorch's attribute and our name for what it saves
FREED = "freed by an earlier backward()"
SPOILT = "what it saved for backward was written in place since, so backward() will refuse"


def saved(node: Any) -> tuple[list[tuple[str, Any]], str]:
    """The node's saved tensors as `(name, tensor)`, and what is wrong with them ("" if nothing is)."""
    found, wrong = [], ""
    tensor = torch().Tensor
    for attribute, name in _attributes(node):
        value, bad = _read(node, attribute)
        wrong = bad or wrong
        if isinstance(value, tensor):
            found.append((name, value))
        elif isinstance(value, (tuple, list)):
            found += [(name, x) for x in value if isinstance(x, tensor)]
    return found, wrong


def freed(node: Any) -> bool:
    """Whether an earlier backward() has freed the saved tensors. All are freed at once, so only the first is checked."""
    for attribute, _ in _attributes(node):
        value, wrong = _read(node, attribute)
        if wrong or isinstance(value, torch().Tensor):
            return wrong == FREED
    return False


def _attributes(node: Any) -> list[tuple[str, str]]:
    """PyTorch's attributes for the saved values of such a node, each with our name."""
    kind = type(node)
    known = saved_names.get(kind)
    if known is None:
        told = [name for name in dir(node) if name.startswith("_saved_")] or (["saved_tensors"] if hasattr(kind, "saved_tensors") else [])
        known = saved_names[kind] = [(name, name.removeprefix("_saved_")) for name in told]
    return known


def _read(node: Any, attribute: str) -> tuple[Any, str]:
    """The saved value of that attribute, and what is wrong with it."""
    try:
        return getattr(node, attribute), ""
    except RuntimeError as error:  # only PyTorch's message distinguishes the two causes
        return None, SPOILT if "modified by an inplace operation" in str(error) else FREED
