"""Where the parts of a compiled program come from: the engine's op, and the user's line."""

from __future__ import annotations

import re
from types import CodeType
from typing import Any, NamedTuple

import jax

from ..backends.xla import Traced
from ..base import errors, observe
from .discovery import Discovery

_NUMBER = re.compile(r"\bop(\d+)\b")


class Origin(NamedTuple):
    """An op of the engine, its backward step, or an optimizer's step, and the line that ran it."""

    op: str
    phase: str  # "forward", "backward" or "update"
    code: CodeType | None
    lasti: int
    line: int

    @property
    def where(self) -> str:
        """The user's line, as `train.py, line 12`; "" if unknown."""
        return "" if self.code is None else errors.where(self.code, self.line)

    def __str__(self) -> str:
        return self.op if self.phase == "forward" else f"{self.op} {self.phase}"


class Origins(observe.Observer):
    """Watches a step while it is traced: puts a number into JAX's name stack for each op, and notes what has that number.

    XLA keeps the name stack of every instruction as `op_name`. What runs between two ops has a number of its own, which is that of the
    optimizer if one makes a step there.
    """

    def __init__(self, forward: dict[int, Origin] | None = None) -> None:
        self.found = Discovery()
        self.table: list[Origin | None] = []
        self.forward: dict[int, Origin] = forward or {}  # the tape's time of a node -> the op that made it
        self._made: dict[int, Origin] = {}
        self._scope: Any = None
        self._next()

    def kept(self) -> str:
        """Name the op and the line of a tensor of the trace that is still alive; "" if there is none."""
        origins = (self._made[id(t)] for t in self.found.kept() if t.array.__class__ is Traced)
        return next((f"{origin.op}, {origin.where}" for origin in origins), "")

    def close(self) -> None:
        """Leave the name stack as it was."""
        if self._scope is not None:
            self._scope.__exit__(None, None, None)
        self._scope = None

    def _next(self) -> None:
        self.close()
        self._scope = jax.named_scope(f"op{len(self.table)}")
        self._scope.__enter__()
        self.table.append(None)

    def _is(self, op: str, phase: str) -> Origin:
        frame = errors.user_frame()
        origin = Origin(op, phase, None, 0, 0) if frame is None else Origin(op, phase, frame.f_code, frame.f_lasti, frame.f_lineno)
        self.table[-1] = origin
        return origin

    def begins(self) -> None:
        self._next()

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        self.found.op(op, inputs, attrs, output)
        origin = self._is(op.name, "forward")
        for out in output if isinstance(output, tuple) else (output,):
            self._made[id(out)] = origin
            if getattr(out, "node", None) is not None:
                self.forward[out.node.time] = origin
        self._next()

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        self.op(op, (target, *inputs), attrs, target)

    def step_begins(self, node: Any) -> None:
        self._next()

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        forward = self.forward.get(node.time)
        if forward is not None:  # its line says more than that of `backward()`
            self.table[-1] = forward._replace(phase="backward")
        else:
            self._is("accumulate" if node.op is None else node.op.name, "backward")
        self._next()

    def updated(self, optimizer: Any) -> None:
        self._is(type(optimizer).__name__, "update")
        self._next()


def numbers(op_name: str) -> list[int]:
    """The numbers in the name stack of an instruction of XLA's."""
    return [int(found) for found in _NUMBER.findall(op_name)]
