"""Flatten nested containers to a list of leaves and a `TreeSpec`, and rebuild them, under PyTorch's names.

Lists, tuples, named tuples, dicts, OrderedDicts, defaultdicts, deques and types registered with `register_pytree_node` are nodes;
everything else is a leaf. Libraries import this module although PyTorch calls it private.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = [
    "GetAttrKey", "LeafSpec", "MappingKey", "PyTree", "SequenceKey", "TreeSpec", "key_get", "keystr", "register_pytree_node",
    "tree_all", "tree_any", "tree_flatten", "tree_flatten_with_path", "tree_iter", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
]  # fmt: skip

PyTree = Any


class MappingKey(NamedTuple):
    """A path entry: the key in a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """A path entry: the index in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """A path entry: an attribute name."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


class _Kind(NamedTuple):
    """How to split a container into its children and a context, and rebuild it."""

    flatten_fn: Callable[[Any], tuple[list, Any]]
    unflatten_fn: Callable[[Iterable, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list, Any]] | None = None


def _dict_flatten(x: dict) -> tuple[list, list]:
    return list(x.values()), list(x)


def _dict_unflatten(values: Iterable, keys: list) -> dict:
    return dict(zip(keys, values, strict=True))


def _dict_flatten_with_keys(x: dict) -> tuple[list, list]:
    return [(MappingKey(k), v) for k, v in x.items()], list(x)


def _namedtuple_flatten(x: tuple) -> tuple[list, type]:
    return list(x), type(x)


def _namedtuple_unflatten(parts: Iterable, kind: Any) -> Any:
    return kind(*parts)


SUPPORTED_NODES: dict[type, _Kind] = {
    list: _Kind(lambda x: (x, None), lambda parts, _: list(parts)),
    tuple: _Kind(lambda x: (list(x), None), lambda parts, _: tuple(parts)),
    dict: _Kind(_dict_flatten, _dict_unflatten),
    OrderedDict: _Kind(_dict_flatten, lambda parts, keys: OrderedDict(zip(keys, parts, strict=True))),
    defaultdict: _Kind(
        lambda x: (list(x.values()), [x.default_factory, list(x)]),
        lambda parts, told: defaultdict(told[0], zip(told[1], parts, strict=True)),
    ),
    deque: _Kind(lambda x: (list(x), x.maxlen), lambda parts, most: deque(parts, maxlen=most)),
    namedtuple: _Kind(_namedtuple_flatten, _namedtuple_unflatten),  # type: ignore[dict-item]
}


def register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, *, flatten_with_keys_fn: Any = None, **more: Any) -> None:
    """Register a container class: `flatten_fn(x) -> (children, context)`, `unflatten_fn(children, context) -> x`.

    Raises ValueError if the class is already registered. PyTorch's arguments for serialization names are accepted and ignored.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node. Overwriting the previous registration is not allowed.")
    SUPPORTED_NODES[cls] = _Kind(flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


class TreeSpec:
    """The structure of a tree: the type and context of the root, and the specs of its children."""

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]):
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_leaves = sum(child.num_leaves for child in children_specs) if type is not None else 1
        self.num_nodes = 1 + sum(child.num_nodes for child in children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self.children_specs) == (other.type, other.context, other.children_specs)

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, self.num_nodes))

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        return f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def _kind_of(x: Any) -> Any:
    """Return the container type's key, or None for a leaf. As in PyTorch, subclasses of containers, except named tuples, are leaves."""
    kind = type(x)
    if kind in SUPPORTED_NODES:
        return kind
    return namedtuple if isinstance(x, tuple) and hasattr(kind, "_fields") else None


def _get_node_type(tree: Any) -> Any:
    """Return the container type's key, or the type of a leaf."""
    return _kind_of(tree) or type(tree)


def tree_flatten(tree: Any, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """Return the leaves from left to right, and the spec."""
    leaves: list = []

    def walk(x: Any) -> TreeSpec:
        kind = None if is_leaf is not None and is_leaf(x) else _kind_of(x)
        if kind is None:
            leaves.append(x)
            return LeafSpec()
        parts, context = SUPPORTED_NODES[kind].flatten_fn(x)
        return TreeSpec(kind, context, [walk(part) for part in parts])

    return leaves, walk(tree)


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> Any:
    """Rebuild a tree from its leaves and spec. Raises ValueError if the number of leaves does not match."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type {type(treespec)}."
        )
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree that holds "
            f"{treespec.num_leaves} items ({treespec})."
        )
    rest = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        if spec.is_leaf():
            return next(rest)
        return SUPPORTED_NODES[spec.type].unflatten_fn([build(child) for child in spec.children_specs], spec.context)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable | None = None) -> list:
    """Return the leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Callable | None = None) -> Iterable:
    """Return an iterator over the leaves."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Callable | None = None) -> TreeSpec:
    """Return the spec of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None) -> Any:
    """Apply `func` to each leaf and the corresponding leaves of `rests`, and return a tree of the results."""
    leaves, spec = tree_flatten(tree, is_leaf)
    beside = []
    for other in rests:
        found, shape = tree_flatten(other, is_leaf)
        if shape != spec:
            raise ValueError(f"Expected trees of one shape, got {spec} and {shape}.")
        beside.append(found)
    return tree_unflatten([func(*each) for each in zip(leaves, *beside, strict=True)], spec)


def tree_map_(func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None) -> Any:
    """Call `func` on each leaf for its side effects, and return `tree` unchanged."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(wanted: Any, func: Callable) -> Callable:
    fits = wanted if callable(wanted) and not isinstance(wanted, type) else lambda x: isinstance(x, wanted)
    return lambda x: func(x) if fits(x) else x


def tree_map_only(wanted: Any, /, func: Callable, tree: Any, is_leaf: Callable | None = None) -> Any:
    """Apply `func` only to leaves of the given types, or for which a predicate holds; other leaves are kept."""
    return tree_map(_only(wanted, func), tree, is_leaf=is_leaf)


def tree_map_only_(wanted: Any, /, func: Callable, tree: Any, is_leaf: Callable | None = None) -> Any:
    """Call `func` on the leaves selected as in `tree_map_only`, for its side effects, and return `tree` unchanged."""
    return tree_map_(_only(wanted, func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable, tree: Any, is_leaf: Callable | None = None) -> bool:
    """Return whether `pred` holds for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable, tree: Any, is_leaf: Callable | None = None) -> bool:
    """Return whether `pred` holds for any leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


# -- paths -----------------------------------------------------------------------------------------------------------------------


def keystr(kp: tuple) -> str:
    """Format a path, as in "['a'][0].x"."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: tuple) -> Any:
    """Return the object at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _keyed(kind: Any, x: Any) -> list:
    """Return the children of a container with their keys."""
    told = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if told is not None:
        return told(x)[0]
    if kind is namedtuple:
        return [(GetAttrKey(name), getattr(x, name)) for name in x._fields]
    if kind in (dict, OrderedDict, defaultdict):
        return [(MappingKey(key), value) for key, value in x.items()]
    if kind in (list, tuple, deque):
        return [(SequenceKey(i), value) for i, value in enumerate(x)]
    raise ValueError(f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn argument.")


def tree_flatten_with_path(tree: Any, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """Return (path, leaf) pairs from left to right, and the spec."""
    found: list = []

    def walk(x: Any, path: tuple) -> None:
        kind = None if is_leaf is not None and is_leaf(x) else _kind_of(x)
        if kind is None:
            found.append((path, x))
            return
        for key, part in _keyed(kind, x):
            walk(part, (*path, key))

    walk(tree, ())
    return found, tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Callable | None = None) -> list:
    """Return (path, leaf) pairs from left to right."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func: Callable, tree: Any, *rests: Any, is_leaf: Callable | None = None) -> Any:
    """Apply `func(path, leaf, ...)` to each leaf and the corresponding leaves of `rests`, and return a tree of the results."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in found], [leaf for _, leaf in found]
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(paths, leaves, *others, strict=True)], spec)
