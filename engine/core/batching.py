"""`vmap` and the tape: the ops that take arrays into and out of a vmap level, and random functions inside one.

An array whose first dimension is the batch enters a level by `batch` and leaves it by `unbatch`. An array that all samples share enters by
`spread`, and its gradient leaves by `gathered`, the sum over the samples. The ops of each pair are each other's derivative.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from ..backends import meta
from ..backends.batch import Batched, Level, Namespace, at_work, space
from ..base import observe
from ..base.errors import Refused
from . import devices, random, tape
from .registry import functions
from .tensor import Tensor


class _Running(threading.local):
    """The vmap levels that are running in this thread, outermost first."""

    def __init__(self) -> None:
        self.levels: list[Level] = []


running = _Running()


class Crossing:
    """An op of one input that takes an array into or out of a vmap level; its derivative is the op in the other direction, `back`."""

    picks = variadic = view = multi = False
    ruled, rules, slots, aux, defaults, exact = True, (), (), (), {}, True
    inputs, params, outputs = ("input",), ("input", "level"), ("out",)

    def __init__(self, name: str, told: str, forward: Callable, enters: bool) -> None:
        self.name, self.__doc__, self._forward, self.enters = name, told, forward, enters
        self.back: Crossing = self

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __call__(self, x: Tensor, level: Level) -> Tensor:
        watcher = observe.current
        if watcher is not None:
            watcher.begins()
        array, node = x.array, x.node if tape.mode.grad else None
        if node is not None and self.enters:
            array, node = _shared(array, node, level)
        out = Tensor._wrap(self._forward(array, level))
        if node is not None:
            out.node = self.node(node, level, out.array.shape, out.array.dtype)
        if watcher is not None:
            watcher.op(self, (x,), {"level": level}, out)
        return out

    def node(self, source: Any, level: Level, shape: tuple, dtype: Any) -> tape.Node:
        return tape.Node(self, (source,), {"level": level}, (), tuple(shape), dtype)

    def pull(self, node: Any, grad: Any) -> tuple:
        return (self.back._forward(grad, node.attrs["level"]),)

    def pull_recorded(self, node: Any, grad: Any, xp: Any) -> tuple:
        return (self.back(grad, node.attrs["level"]),)

    def push(self, node: Any, tangents: list, xp: Any, recorded: bool) -> Any:
        (t,), level = tangents, node.attrs["level"]
        return self(t, level) if recorded else self._forward(t, level)


# A second derivative may enter a level that has ended while a later one runs. The later level stays the inner one: its array is processed
# for each of its samples.


def _later(array: Any, level: Level) -> bool:
    return array.__class__ is Batched and array.level.number > level.number


def _wrap(array: Any, level: Level) -> Any:
    if _later(array, level):
        return Batched(_wrap(array.inner if array.alike else array.inner.swapaxes(0, 1), level), array.level, array.alike)
    return level.wrap(array)


def _unwrap(array: Any, level: Level) -> Any:
    if _later(array, level):
        whole = _unwrap(array.inner, level)
        return Batched(whole if array.alike else whole.swapaxes(0, 1), array.level, array.alike)
    if array.__class__ is Batched and array.level is level:
        return array.whole()
    return space(array).broadcast_to(array, (level.size, *array.shape))


def _same(array: Any, level: Level) -> Any:
    return Batched(_same(array.inner, level), array.level, array.alike) if _later(array, level) else level.same(array)


def _sum(array: Any, level: Level) -> Any:
    if _later(array, level):
        return Batched(_sum(array.inner, level), array.level, array.alike)
    if not (array.__class__ is Batched and array.level is level):
        return array * level.size
    return array.inner * level.size if array.alike else space(array.inner).sum(array.inner, 0)


batch = Crossing("batch", "The first dimension becomes the batch of a vmap.", _wrap, True)
unbatch = Crossing("unbatch", "The batch of a vmap becomes the first dimension.", _unwrap, False)
spread = Crossing("spread", "Expand a tensor that all samples of a vmap share.", _same, True)
gathered = Crossing("gathered", "The sum over the samples of a vmap.", _sum, False)
batch.back, unbatch.back, spread.back, gathered.back = unbatch, batch, gathered, spread


def _shared(array: Any, node: Any, level: Level) -> tuple:
    """Spread an array that enters a level over the levels around it as well, so that its gradient is summed over their samples too."""
    for outer in running.levels:
        if outer.number >= level.number:
            break
        inner = array
        while inner.__class__ is Batched and inner.level is not outer:
            inner = inner.inner
        if inner.__class__ is not Batched:
            array, node = outer.same(array), spread.node(node, outer, array.shape, array.dtype)
    return array, node


_PLAIN = frozenset((int, float, bool, str, slice, type(None), type(Ellipsis)))


def plain(attrs: dict) -> bool:
    """Whether an op's attributes are all of simple types, so that there is no array among them."""
    return all(v.__class__ in _PLAIN or v.__class__ is tuple and all(i.__class__ in _PLAIN for i in v) for v in attrs.values())


def prepared(xp: Any, forward: Callable, arrays: list, nodes: list, attrs: dict) -> tuple:
    """The namespace, forward, arrays and nodes of a call on the innermost vmap level among its arrays and attributes, if there is one."""
    inside = space(arrays, attrs)
    if inside.__class__ is not Namespace:
        if inside is meta.space and xp is not inside:  # a meta tensor among the attributes, such as an index
            raise Refused("Tensor on device meta is not on the expected device cpu!")
        if devices.traced_array is not None and inside is devices.traced_array.library:  # a traced index of an array that is known
            xp = inside
        return xp, at_work(xp, forward), arrays, nodes
    arrays, nodes = entered(inside.level, arrays, nodes)
    if space(attrs) is inside:  # such as `x[i]` where only i differs between samples: NumPy cannot run it
        arrays = [inside.marked(a) for a in arrays]
    return inside, at_work(inside, forward), arrays, nodes


def entered(level: Level, arrays: list, nodes: list) -> tuple[list, list]:
    """Take the arrays of a call into a level: those with a node enter by `spread`, so that their gradient is summed over the samples."""
    arrays, nodes = list(arrays), list(nodes)
    for i, (a, n) in enumerate(zip(arrays, nodes, strict=True)):
        if n is not None and not (a.__class__ is Batched and a.level is level):
            a, n = _shared(a, n, level)
            arrays[i], nodes[i] = level.same(a), spread.node(n, level, a.shape, a.dtype)
    return arrays, nodes


class open_level:
    """`with open_level(size, randomness) as level:` opens a vmap level of `size` samples for the mapped function."""

    def __init__(self, size: int, randomness: str) -> None:
        self.level = Level(size, randomness)

    def __enter__(self) -> Level:
        devices.mixed = True  # from now on the namespace is looked up for each array
        running.levels.append(self.level)
        return self.level

    def __exit__(self, *exc: object) -> None:
        running.levels.remove(self.level)


def randomly(fn: Callable) -> Callable:
    """Make a random function follow `randomness` inside vmap: "error" raises, "same" draws once for all samples, "different" for each."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not running.levels:
            return fn(*args, **kwargs)
        level = running.levels.pop()  # the numbers are drawn outside this level
        try:
            return _drawn(call, args, kwargs, level)
        finally:
            running.levels.append(level)

    return call


def _drawn(fn: Callable, args: tuple, kwargs: dict, level: Level) -> Any:
    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation ({fn.__name__}) while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )
    given = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.array.__class__ is Batched and t.array.level is level]
    if level.randomness == "same" and not given:
        return fn(*args, **kwargs)
    own = kwargs.get("generator")
    state = random.states(*[own] if own else []) if level.randomness == "same" else None
    whole = {id(t): unbatch(t, level) for t in given}
    found = []
    for i in range(level.size):
        if state is not None:
            random.restore(state)
        one = lambda t, i=i: whole[id(t)][i] if id(t) in whole else t  # noqa: E731
        found.append(fn(*map(one, args), **{k: one(v) for k, v in kwargs.items()}))
    if given and given[0] is args[0] and fn.__name__.endswith("_"):
        return args[0]  # filled in place: each sample is a view of it
    return batch(functions["stack"](found), level)
