"""Forward-mode differentiation with dual numbers: `f(make_dual(x, v))`.

A dual tensor starts a new graph on the tape, and `unpack_dual` pushes its tangent through that graph. Results computed under `no_grad`
are therefore constants without a tangent, whereas PyTorch propagates tangents through them. The same holds in `torch.func.jvp`.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy

from ..core import tape, xp
from ..core.tensor import Tensor
from .grad_mode import enable_grad

_levels: list[_Level] = []
_MAX = 1


class _Level:
    """An open dual level: the tangents of its dual tensors, keyed by node."""

    def __init__(self) -> None:
        self.seeds: dict[Any, Any] = {}
        self.pushed: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # a tangent lives as long as its node, so each jvp runs once
        self.recorded = False
        self.starts: list[Tensor] = []

    def add(self, node: Any, tangent: Tensor, recorded: bool) -> None:
        """Register a dual tensor."""
        self.seeds[node] = tangent
        if recorded:
            self.record()
        self.pushed[node] = tangent if self.recorded else tangent.array

    def record(self) -> None:
        """Make tangents differentiable from now on, discarding those already computed without a graph."""
        if not self.recorded:
            self.recorded = True
            self.pushed.clear()
            self.pushed.update(self.seeds)

    def reached(self, node: Any) -> Tensor | None:
        """Return the tangent that reaches this node, or None."""
        if node in self.seeds:
            return self.seeds[node]
        if not self.recorded and any(n.op is None for n in tape.plan([node])):
            self.record()  # a leaf that requires grad contributes
        with enable_grad():
            got = tape.push_forward(node, self.pushed, xp if self.recorded else numpy)
        return got if got is None or isinstance(got, Tensor) else Tensor._wrap(got)


class UnpackedDualTensor(NamedTuple):
    """A primal and its tangent; the tangent is None if there is none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Enter a dual level and return its index; levels cannot be nested (RuntimeError)."""
    if len(_levels) >= _MAX:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append(_Level())
    return len(_levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Exit the dual level and discard its tangents; RuntimeError unless it is the innermost one."""
    if not _levels or level is not None and level != len(_levels) - 1:
        raise RuntimeError(
            f"Trying to exit a forward AD level that was not the last one that was created. This is not supported: level {level}, "
            f"{len(_levels)} open"
        )
    _levels.pop()


class dual_level:
    """Context manager that opens a dual level."""

    def __enter__(self) -> int:
        self._level = enter_dual_level()
        self._grad = enable_grad()
        self._grad.__enter__()
        return self._level

    def __exit__(self, *exc: object) -> None:
        self._grad.__exit__(*exc)
        exit_dual_level(level=self._level)


def _open(level: int | None) -> _Level:
    if not _levels or level is not None and not 0 <= level < len(_levels):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
            if not _levels
            else f"there is no open dual level {level}"
        )
    return _levels[-1 if level is None else level]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a dual tensor with the values of `tensor` that carries `tangent` through later ops in this level.

    `tangent` has the same shape as `tensor`. Raises RuntimeError without an open level, on a shape mismatch, or if `tensor` already has a
    tangent in this level; ValueError for dtypes that are neither floating point nor complex.
    """
    found = _open(level)
    if not isinstance(tensor, Tensor) or not isinstance(tangent, Tensor):
        raise TypeError(f"make_dual: expected two Tensors, got {type(tensor).__name__} and {type(tangent).__name__}")
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {t.dtype}")
    if tangent.is_complex() and not tensor.is_complex():
        raise ValueError(f"make_dual: expected a real tangent for a primal of {tensor.dtype}, got {tangent.dtype}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. Tensor is "
            f"of size {list(tensor.shape)} while the given forward gradient is of size {list(tangent.shape)}."
        )
    if unpack_dual(tensor, level=level).tangent is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
            f"{len(_levels) - 1 if level is None else level} is not supported."
        )
    with enable_grad():
        out = tensor.view_as(tensor) if tensor.requires_grad else _start(tensor.detach())
    found.add(out.node, tangent, tensor.requires_grad or tangent.requires_grad)
    found.starts.append(out)
    return out


class _Start:
    """The op that creates a dual tensor, as the tape sees it: it has no inputs, so a backward pass ends there."""

    name, picks, variadic, view, multi, ruled, exact = "make_dual", False, False, False, False, True, True
    rules, slots, aux, defaults, inputs, params, outputs = (), (), (), {}, (), (), ("out",)

    @staticmethod
    def pull(node: Any, grad: Any) -> tuple:
        return ()

    @staticmethod
    def pull_recorded(node: Any, grad: Any, xp: Any) -> tuple:
        return ()

    def __repr__(self) -> str:
        return f"<op {self.name}>"


_dual = _Start()


def _start(tensor: Tensor) -> Tensor:
    """Make the tensor a non-leaf: a leaf could not be written in place, which a model's first layer may do."""
    tensor.node = tape.Node(_dual, (), {}, (), tensor.array.shape, tensor.array.dtype)
    return tensor


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the primal and its tangent in this level; the tangent is None without an open level or a dependence on a dual tensor."""
    if not _levels:
        return UnpackedDualTensor(tensor, None)
    found = _open(level)
    tangent = found.reached(tensor.node) if tensor.node is not None else None
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    own = {s.node for s in found.starts}
    foreign = found.recorded and any(n.op is None and n not in own for n in tape.plan([tensor.node]))
    return UnpackedDualTensor(tensor.view_as(tensor) if foreign else tensor.detach(), tangent)
