"""Trees of containers: flattened and put together again."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from engine.utils import _pytree as trees

Pair = namedtuple("Pair", "a b")
TREE = {"x": [1, (2, 3)], "y": Pair(4, OrderedDict(p=5)), "z": [None, deque([6], maxlen=2), defaultdict(list, k=7)]}


def test_there_and_back():
    leaves, spec = trees.tree_flatten(TREE)
    assert leaves == [1, 2, 3, 4, 5, None, 6, 7] and spec.num_leaves == 8
    again = trees.tree_unflatten(leaves, spec)
    assert again == TREE and type(again["y"]) is Pair and again["z"][1].maxlen == 2 and again["z"][2].default_factory is list
    assert trees.tree_structure(again) == spec != trees.tree_structure([1])


def test_maps():
    assert trees.tree_map(lambda a, b: a + b, {"a": 1, "b": [2]}, {"a": 10, "b": [20]}) == {"a": 11, "b": [22]}
    assert trees.tree_map_only(int, lambda x: -x, [1, "s", (2.0, 3)]) == [-1, "s", (2.0, -3)]
    assert trees.tree_leaves([[1], [2]], is_leaf=lambda x: x == [1]) == [[1], 2]
    assert trees.tree_any(lambda x: x == 3, TREE) and not trees.tree_all(lambda x: x == 3, TREE)


def test_own_containers():
    class Box:
        def __init__(self, inside):
            self.inside = inside

    trees.register_pytree_node(Box, lambda box: ([box.inside], "told"), lambda parts, told: Box(parts[0]))
    assert trees.tree_map(lambda x: x + 1, Box([1, 2])).inside == [2, 3]
    with pytest.raises(ValueError, match="already registered"):
        trees.register_pytree_node(Box, None, None)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="has length 1"):
        trees.tree_unflatten([1], trees.tree_structure([1, 2]))
    with pytest.raises(ValueError, match="one shape"):
        trees.tree_map(lambda a, b: a, [1], [1, 2])
