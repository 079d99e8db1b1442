"""Flatten nested tuples, lists and dicts of tensors to lists, and rebuild them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> list:
    """List the leaves of nested tuples, lists and dicts, from left to right."""
    if isinstance(tree, (tuple, list)):
        return [x for branch in tree for x in leaves(branch)]
    if isinstance(tree, (dict, OrderedDict)):
        return [x for branch in tree.values() for x in leaves(branch)]
    return [tree]


def filled(tree: Any, values: Iterator) -> Any:
    """Return the same structure with each leaf replaced by the next of `values`."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[filled(branch, values) for branch in tree])
    if isinstance(tree, (tuple, list)):
        return type(tree)([filled(branch, values) for branch in tree])
    if isinstance(tree, (dict, OrderedDict)):
        return type(tree)((key, filled(branch, values)) for key, branch in tree.items())
    return next(values)


def mapped(fn: Callable, tree: Any) -> Any:
    """Return the same structure with `fn` applied to each leaf."""
    return filled(tree, iter([fn(x) for x in leaves(tree)]))


def spread(prefix: Any, tree: Any) -> list | None:
    """List a value for each leaf of `tree` from a prefix of its structure, whose leaves apply to whole subtrees; None on a mismatch."""
    if isinstance(prefix, (tuple, list)):
        if not isinstance(tree, (tuple, list)) or isinstance(prefix, list) != isinstance(tree, list) or len(prefix) != len(tree):
            return None
        parts = [spread(p, t) for p, t in zip(prefix, tree, strict=True)]
    elif isinstance(prefix, dict):
        if not isinstance(tree, dict) or prefix.keys() != tree.keys():
            return None
        parts = [spread(prefix[key], branch) for key, branch in tree.items()]
    else:
        return [prefix] * len(leaves(tree))
    return None if any(p is None for p in parts) else [x for p in parts if p is not None for x in p]
