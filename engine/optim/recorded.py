"""Optimizer steps recorded by autograd, for `differentiable=True`: update rules run on tensors instead of arrays.

Rules write into arrays, but values needed for backward must not be overwritten. Rules therefore receive cells: a write replaces the tensor
in the cell, and the previous one stays unchanged on the tape.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..base.dtypes import FROM_NUMPY
from ..core import inplace
from ..core import xp as tensors
from ..core.op import functions
from ..core.tensor import Tensor


class Cell:
    """A container for a tensor that acts like an array: arithmetic returns new cells; `+=`, `out=` and `cell[...] = x` set its tensor."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]
    base = None  # arrays have this attribute; with it, `Tensor._wrap` accepts a cell unchanged
    shape = property(lambda self: self.value.array.shape)
    ndim = property(lambda self: self.value.array.ndim)
    dtype = property(lambda self: self.value.array.dtype)

    def __init__(self, value: Tensor):
        self.value = value

    def copy(self) -> Cell:
        """Return a detached copy: PyTorch initializes SGD's momentum buffer this way."""
        return Cell(self.value.detach())

    def astype(self, dtype: Any) -> Cell:
        return Cell(self.value.to(FROM_NUMPY[dtype]))

    def clip(self, least: Any, most: Any, out: Cell) -> Cell:
        return _put(self.value.clamp(_held(least), _held(most)), out)

    def __setitem__(self, index: Any, value: Any) -> None:
        held = _held(value)
        self.value = _full_like(self.value.detach(), held).to(self.value.dtype)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __neg__(self) -> Cell:
        return Cell(-self.value)


def _held(x: Any) -> Any:
    return x.value if x.__class__ is Cell else x


def _put(value: Any, out: Cell | None) -> Cell:
    if out is None:
        return Cell(value)
    out.value = value
    return out


def _operators(name: str) -> None:
    operate = getattr(operator, name)

    def forward(self: Cell, other: Any) -> Cell:
        return Cell(operate(self.value, _held(other)))

    def reflected(self: Cell, other: Any) -> Cell:
        return Cell(operate(_held(other), self.value))

    def in_place(self: Cell, other: Any) -> Cell:
        self.value = forward(self, other).value
        return self

    for start, method in (("", forward), ("r", reflected), ("i", in_place)):
        setattr(Cell, f"__{start}{name}__", method)


for _name in ("add", "sub", "mul", "truediv", "pow"):
    _operators(_name)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Cell, f"__{_name}__", lambda self, other, name=f"__{_name}__": Cell(getattr(self.value, name)(_held(other))))


def _full_like(x: Tensor, value: Any) -> Tensor:
    return tensors.zeros_like(x) + value


_LIKE: dict[str, Callable] = {"empty_like": tensors.zeros_like, "full_like": _full_like}


class _Library:
    """NumPy's functions, including `out=`, for cells."""

    def __getattr__(self, name: str) -> Callable:
        fn = _LIKE.get(name) or getattr(tensors, name)

        def call(*args: Any, out: Cell | None = None) -> Cell:
            return _put(fn(*map(_held, args)), out)

        return call


library = _Library()


class _State(dict):
    """A parameter's state with its tensors in cells; the step count has no derivative."""

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and name != "step":
            value = Tensor._wrap(value.array if value.array.__class__ is Cell else Cell(value))
        super().__setitem__(name, value)


def step(update: Callable, p: Tensor, state: dict, group: dict, name: str) -> None:
    """Run one parameter's step by `update(xp, p, g, state, group)` and record it.

    `p` and its state become functions of the gradient, of their previous values, and of hyperparameters that are tensors. Raises
    RuntimeError for a leaf that requires grad, which must not be overwritten.
    """
    inplace.refuse_leaf(p, name)
    seen: Callable = functions["view_as_real"] if p.is_complex() else lambda x: x
    back: Callable = functions["view_as_complex"] if p.is_complex() else lambda x: x
    cell, grad = Cell(seen(p._like(p.array.copy(), p.node))), Cell(seen(p._grad))  # p's memory is written below
    cells = _State()
    for key, value in state.items():
        cells[key] = seen(value) if isinstance(value, Tensor) and value.is_complex() else value
    update(library, cell, -grad if group.get("maximize") else grad, cells, {k: _celled(v) for k, v in group.items() if k != "params"})
    for key, value in cells.items():
        held = value.array.value if isinstance(value, Tensor) and value.array.__class__ is Cell else value
        state[key] = back(held) if isinstance(held, Tensor) and held.ndim > p.ndim else held
    inplace.put(p, back(cell.value), name)


def _celled(x: Any) -> Any:
    """Return a hyperparameter, or several, with tensors in cells."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(_celled, x))
    return Cell(x.reshape(())) if isinstance(x, Tensor) else x
