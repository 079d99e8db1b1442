"""The one seam through which the engine can be watched. Nothing here knows who is watching."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Observer:
    """What a watcher is told. Every method does nothing; a watcher overrides those it wants.

    Calls come from the thread that runs the op, right after it ran. An observer must not keep tensors alive
    and must not raise: what it raises reaches the user's cell.
    """

    def begins(self) -> None:
        """An op is about to run in this thread; `op`, `wrote` or `failed` tells which. Whoever measures time looks at the clock here."""

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        """`output = op(*inputs, **attrs)` has just run; `output` is a Tensor, or a tuple for an op with several results.

        Inputs are Tensors, numbers or None. `output.node` is the tape's node, or None when nothing was recorded there.
        """

    def failed(self, op: Any, inputs: tuple, attrs: dict, error: Exception) -> None:
        """The op refused its inputs; `error` is about to be raised in the user's code."""

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        """An in-place op has just changed `target`; its new node is `target.node`."""

    def enter(self, kind: str, name: str, subject: Any) -> None:
        """A scope opens: kind is "module", "function" (a composite op), "loading" (of a batch) or "scope" (the user's own)."""

    def leave(self) -> None:
        """The innermost scope closes, also when an exception passes through it."""

    def backward_begins(self, roots: tuple, plan: list) -> None:
        """A backward pass starts; `plan` lists its nodes in the order of the pass."""

    def step_begins(self, node: Any) -> None:
        """The backward step of `node` is about to run; ops may run inside it, when the pass itself is being recorded."""

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        """One backward step has just run: `node` turned `grad` into `input_grads`. A leaf has none: it kept `grad`."""

    def updated(self, optimizer: Any) -> None:
        """An optimizer has just made a step; `optimizer.state` is what it keeps for each parameter."""


current: Observer | None = None  # every call site asks `if observe.current is not None`, and no more


class _Block:
    """One `observing` that runs: who watches in it, and the block around it."""

    __slots__ = ("observer", "around", "ended")

    def __init__(self, observer: Observer, around: _Block | None) -> None:
        self.observer, self.around, self.ended = observer, around, False


_innermost: _Block | None = None


@contextmanager
def observing(observer: Observer) -> Iterator[Observer]:
    """Make `observer` the current one inside the block, and put the one before back afterwards.

    There is one at a time: of blocks in several threads, which may end in any order, the one that began last and still runs.
    """
    global current, _innermost
    before, block = current, _Block(observer, _innermost)
    try:
        _innermost, current = block, observer
        yield observer
    finally:
        block.ended = True
        while _innermost is not None and _innermost.ended:
            _innermost = _innermost.around
        if current is observer:
            around = block.around
            if around is None or around.observer is not before:
                current = before  # somebody watches, or nobody, without a block
            else:
                current = None if _innermost is None else _innermost.observer


@contextmanager
def scope(name: str, kind: str = "scope", subject: Any = None) -> Iterator[None]:
    """A named group in whatever is watching: `with scope("attention"): ...`."""
    watcher = current
    if watcher is None:
        yield
        return
    watcher.enter(kind, name, subject)
    try:
        yield
    finally:
        watcher.leave()
