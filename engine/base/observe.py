"""The observer: the interface through which the engine reports what it runs, to the workbench for one.

`current` is the active `Observer` or None. The call path, in-place writes, the backward pass, modules and optimizers notify it. Without an
observer each of them only tests `observe.current is not None`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Observer:
    """The base class of observers. Every method does nothing; a subclass overrides those that it needs.

    The methods are called in the thread that runs the op. An observer must not keep tensors alive and must not raise: its exceptions reach
    the user's code.
    """

    def begins(self) -> None:
        """An op is about to run in this thread; `op`, `wrote` or `failed` then says which. Timing starts here."""

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        """`output = op(*inputs, **attrs)` has just run; `output` is a Tensor, or a tuple for an op with several results.

        Inputs are Tensors, numbers or None. `output.node` is the tape's node, or None if the op was not recorded.
        """

    def failed(self, op: Any, inputs: tuple, attrs: dict, error: Exception) -> None:
        """The op failed; `error` is about to be raised in the user's code."""

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        """An in-place op has just changed `target`; its new node is `target.node`."""

    def enter(self, kind: str, name: str, subject: Any) -> None:
        """A scope opens; `kind` is "module", "function" (a composite op), "loading" (of a batch) or "scope" (opened by the user)."""

    def leave(self) -> None:
        """The innermost scope closes, normally or by an exception."""

    def backward_begins(self, roots: tuple, plan: list) -> None:
        """A backward pass starts; `plan` lists its nodes in the order of the pass."""

    def step_begins(self, node: Any) -> None:
        """The backward step of `node` is about to run; ops may run inside it, if the pass itself is recorded."""

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        """The backward step of `node` has just turned `grad` into `input_grads`, which are empty for a leaf: it accumulates `grad`."""

    def waited(self, what: str, seconds: float) -> None:
        """The host has just waited for a GPU, or copied to one; `what` is the call that did: "item", "bool", "synchronize", "copy"."""

    def updated(self, optimizer: Any) -> None:
        """An optimizer has just made a step; `optimizer.state` has its state for each parameter."""


current: Observer | None = None  # call sites only test `observe.current is not None`


class _Block:
    """An open `observing` block: its observer and the block around it."""

    __slots__ = ("observer", "around", "ended")

    def __init__(self, observer: Observer, around: _Block | None) -> None:
        self.observer, self.around, self.ended = observer, around, False


_innermost: _Block | None = None


def watcher() -> Observer | None:
    """Return the observer, also inside an op that hides its parts from it: `current` is None there."""
    return current if current is not None or _innermost is None else _innermost.observer


@contextmanager
def observing(observer: Observer) -> Iterator[Observer]:
    """Make `observer` the current observer inside the block, and restore the previous one afterwards.

    There is one observer at a time for all threads. Of blocks in several threads, which may end in any order, it is that of the open block
    that began last.
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
                current = before  # set without a block, or None
            else:
                current = None if _innermost is None else _innermost.observer


@contextmanager
def scope(name: str, kind: str = "scope", subject: Any = None) -> Iterator[None]:
    """Group the ops of a block under a name for the observer: `with scope("attention"): ...`."""
    watching = current
    if watching is None:
        yield
        return
    watching.enter(kind, name, subject)
    try:
        yield
    finally:
        watching.leave()
