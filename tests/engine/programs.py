"""Random programs of views and in-place writes, run alike on NumPy arrays, on the engine and on torch."""

from __future__ import annotations

from typing import Any

import numpy
from hypothesis import strategies

SHAPE = (2, 3)
VIEWS = ("first", "last", "tail", "every other", "transpose", "unsqueeze", "flat", "squeeze")
WRITES = ("add_", "sub_", "mul_", "copy_", "fill_", "zero_", "setitem")
OPERANDS = ("number", "weight", "another", "itself")

steps = strategies.lists(
    strategies.one_of(
        strategies.tuples(strategies.just("view"), strategies.integers(0, 9), strategies.sampled_from(VIEWS)),
        strategies.tuples(strategies.just("new"), strategies.integers(0, 9), strategies.integers(0, 9)),
        strategies.tuples(
            strategies.just("write"), strategies.integers(0, 9), strategies.sampled_from(WRITES),
            strategies.sampled_from(OPERANDS), strategies.integers(0, 9),
        ),
    ),
    min_size=1,
    max_size=10,
)  # fmt: skip


def view(v: Any, kind: str) -> Any:
    """One view of `v`; of a 0-d tensor, itself once more."""
    if v.ndim == 0:
        return v.reshape(1)
    if kind == "first":
        return v[0, ...]
    if kind == "last":
        return v[..., v.shape[-1] - 1]
    if kind == "tail":
        return v[1:] if v.shape[0] > 1 else v[0:]
    if kind == "every other":
        return v[..., ::2]
    if kind == "transpose":
        return v.swapaxes(0, -1)
    if kind == "unsqueeze":
        return v[..., None]
    if kind == "flat":
        return v.reshape(-1)
    return v[..., 0] if v.shape[-1] == 1 else v[:]


def operand(kind: str, number: int, v: Any, pool: list, w: Any, copy: Any) -> Any:
    """What is written: copies throughout, since PyTorch refuses overlapping memory and gradients of overwritten operands."""
    if kind == "number":
        return (number - 4) / 3
    if kind == "weight":
        return w[number % 3, ...]
    other = pool[number % len(pool)] if kind == "another" else v
    fits = other.ndim <= v.ndim and all(a in (1, b) for a, b in zip(other.shape[::-1], v.shape[::-1], strict=False))
    return copy(other) if fits else copy(w[0, ...])


def run(program: list, x: Any, w: Any, copy: Any, zeros: Any, write: Any) -> list:
    """Everything that the program made: results of ops, constants that were written, and views of both."""
    pool = [x * 1.0, zeros(SHAPE)]
    for kind, target, *rest in program:
        v = pool[target % len(pool)]
        if kind == "view":
            if v.ndim < 4:
                pool.append(view(v, *rest))
        elif kind == "new":
            pool.append(copy(v) * copy(w[rest[0] % 3, ...]) + copy(v))
        else:
            name, source, number = rest
            write(v, name, operand(source, number, v, pool, w, copy))
    return pool


def write_numpy(v: numpy.ndarray, name: str, value: Any) -> None:
    old = v.copy()
    new = {"add_": lambda: old + value, "sub_": lambda: old - value, "mul_": lambda: old * value, "zero_": lambda: 0.0}
    v[...] = new.get(name, lambda: value)()


def write_tensor(v: Any, name: str, value: Any) -> None:
    """The same write with the methods that the engine and torch share."""
    if name == "setitem":
        v[...] = value
    elif name == "zero_":
        v.zero_()
    elif name == "fill_" and getattr(value, "ndim", 0):
        v.copy_(value)
    elif name == "copy_" and not hasattr(value, "ndim"):
        v.fill_(value)
    else:
        getattr(v, name)(value)


def weights(pool: list) -> list[numpy.ndarray]:
    rng = numpy.random.default_rng(0)
    return [rng.normal(size=tuple(v.shape)) for v in pool]


def numpy_loss(program: list, x: numpy.ndarray, w: numpy.ndarray) -> float:
    pool = run(program, x, w, numpy.copy, numpy.zeros, write_numpy)
    return float(sum((c * v).sum() for c, v in zip(weights(pool), pool, strict=True)))
