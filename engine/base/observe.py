"""The single hook through which the engine can be observed. Nothing here knows the observers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Observer:
    """Base class of observers: every method does nothing; override those that you need.

    Methods are called in the thread that runs the op, right after it ran. An observer must not keep tensors alive and must not raise: an
    exception would reach the user's cell.
    """

    def begins(self) -> None:
        """An op is about to run in this thread; `op`, `wrote` or `failed` follows. For observers that measure time."""

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        """`output = op(*inputs, **attrs)` has just run; `output` is a Tensor, or a tuple for an op with several results.

        Inputs are Tensors, numbers or None. `output.node` is the tape's node, or None if the op was not recorded on the tape.
        """

    def failed(self, op: Any, inputs: tuple, attrs: dict, error: Exception) -> None:
        """The op rejected its inputs; `error` is about to be raised in the user's code."""

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        """An in-place op has just changed `target`; its new node is `target.node`."""

    def enter(self, kind: str, name: str, subject: Any) -> None:
        """A scope begins. `kind` is "module", "function" (a composite op), "loading" (of a batch) or "scope" (named by the user)."""

    def leave(self) -> None:
        """The innermost scope ends, possibly because of an exception."""

    def backward_begins(self, roots: tuple, plan: list) -> None:
        """A backward pass begins; `plan` lists its nodes in the order of the pass."""

    def step_begins(self, node: Any) -> None:
        """The backward step of `node` is about to run. Ops may run inside it if the pass itself is recorded."""

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        """A backward step has run: `node` turned `grad` into `input_grads`. For a leaf, `input_grads` is empty: it accumulated `grad`."""

    def updated(self, optimizer: Any) -> None:
        """An optimizer has made a step; `optimizer.state` is its state for each parameter."""


current: Observer | None = None  # call sites only test `if observe.current is not None`


class _Block:
    """A running `observing` block: its observer, and the enclosing block."""

    __slots__ = ("observer", "around", "ended")

    def __init__(self, observer: Observer, around: _Block | None) -> None:
        self.observer, self.around, self.ended = observer, around, False


_innermost: _Block | None = None


@contextmanager
def observing(observer: Observer) -> Iterator[Observer]:
    """Make `observer` the current one inside the block, and restore the previous one afterwards.

    There is one observer at a time. If blocks run in several threads, and end in any order, it is the one that began last and is still
    running.
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
                current = before  # an observer, or None, set without a block
            else:
                current = None if _innermost is None else _innermost.observer


@contextmanager
def scope(name: str, kind: str = "scope", subject: Any = None) -> Iterator[None]:
    """Name a group of ops for the observer: `with scope("attention"): ...`."""
    watcher = current
    if watcher is None:
        yield
        return
    watcher.enter(kind, name, subject)
    try:
        yield
    finally:
        watcher.leave()
