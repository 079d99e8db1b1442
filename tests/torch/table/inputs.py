"""Inputs of cases: arrays drawn from a seed, by shape, dtype, range and memory layout, written in few letters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy

LAYOUTS = {
    "": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1),
    "stepped": lambda x: x[..., ::2],
    "offset": lambda x: x[1:],
    "expanded": lambda x: x.expand(*x.shape),
}


@dataclasses.dataclass(frozen=True)
class Input:
    """A tensor to be drawn: uniformly from [low, high) or, if `distinct`, different integers in random order; or the `values` themselves."""

    shape: tuple[int, ...]
    dtype: str = "float64"
    low: float = -2.0
    high: float = 2.0
    layout: str = ""
    values: Any = None
    distinct: bool = False
    grad: bool = True
    may_refuse: bool = False  # PyTorch may have no answer for this dtype: then its error is the answer

    def __repr__(self) -> str:
        if self.values is not None:
            return f"{self.dtype} {self.values}"
        words = [
            "x".join(map(str, self.shape)) or "0-d",
            self.dtype,
            self.layout,
            "distinct" if self.distinct else f"{self.low:g}..{self.high:g}",
        ]
        return " ".join(word for word in words if word)

    @property
    def differentiable(self) -> bool:
        return self.grad and self.dtype.startswith(("float", "bfloat", "complex"))

    def stored_shape(self) -> tuple[int, ...]:
        """The shape in memory, of which the layout shows the wanted one."""
        shape = list(self.shape)
        if self.layout == "transposed":
            shape[0], shape[-1] = shape[-1], shape[0]
        elif self.layout == "stepped":
            shape[-1] = max(0, 2 * shape[-1] - 1)
        elif self.layout == "offset":
            shape[0] += 1
        return tuple(shape)

    def draw(self, rng: numpy.random.Generator) -> numpy.ndarray:
        """The stored array in NumPy; half precision is drawn in float32."""
        shape, kind = self.stored_shape(), {"float16": "float32", "bfloat16": "float32"}.get(self.dtype, self.dtype)
        if self.values is not None:
            return numpy.array(self.values, kind)
        if self.distinct:
            return rng.permutation(int(numpy.prod(shape))).reshape(shape).astype(kind)
        if self.dtype == "bool":
            return numpy.asarray(rng.random(shape) < 0.5)
        if "int" in self.dtype:
            return rng.integers(int(max(self.low, 0) if self.dtype == "uint8" else self.low), int(self.high), shape).astype(kind)
        if self.dtype.startswith("complex"):
            return numpy.asarray(rng.uniform(self.low, self.high, shape) + 1j * rng.uniform(self.low, self.high, shape)).astype(kind)
        return numpy.asarray(rng.uniform(self.low, self.high, shape)).astype(kind)

    def tensor(self, lib: Any, rng: numpy.random.Generator) -> Any:
        """The tensor of the library, in its layout, without a gradient; an `expanded` one has its first dimension repeated."""
        array = self.draw(rng)
        if self.layout == "expanded":
            return lib.tensor(array[:1]).to(getattr(lib, self.dtype)).expand(*self.shape)
        return LAYOUTS[self.layout](lib.tensor(array).to(getattr(lib, self.dtype)))


def f(*shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float64", **more: Any) -> Input:
    """Floating-point numbers, float64 unless told otherwise."""
    return Input(shape, dtype, low, high, **more)


def c(*shape: int, dtype: str = "complex128", **more: Any) -> Input:
    """Complex numbers."""
    return Input(shape, dtype, **more)


def i(*shape: int, low: int = -5, high: int = 6, dtype: str = "int64", **more: Any) -> Input:
    """Integers from `low` up to, and without, `high`."""
    return Input(shape, dtype, low, high, **more)


def b(*shape: int, **more: Any) -> Input:
    """True and False."""
    return Input(shape, "bool", **more)


def perm(*shape: int, dtype: str = "float64", **more: Any) -> Input:
    """Different whole numbers in random order: no ties, in any dtype."""
    return Input(shape, dtype, distinct=True, **more)


def v(values: Any, dtype: str = "float64", **more: Any) -> Input:
    """These values."""
    return Input(numpy.shape(values), dtype, values=values, **more)


def but(x: Input, **changes: Any) -> Input:
    return dataclasses.replace(x, **changes)


def floats(x: Input) -> list[Input]:
    """The input in each floating-point dtype."""
    return [but(x, dtype=dtype) for dtype in ("float64", "float32", "float16", "bfloat16")]


def dtypes(x: Input) -> list[Input]:
    """The input in every kind of dtype; PyTorch may refuse those that the function does not take."""
    others = ("complex128", "int64", "int32", "uint8", "bool")
    return floats(x) + [
        but(x, dtype=dtype, may_refuse=True, low=x.low if dtype[0] == "c" else int(x.low) - 2, high=int(x.high) + 2) for dtype in others
    ]


def layouts(x: Input) -> list[Input]:
    """The input as it comes, transposed, with steps, from the middle of a storage, and one row that stands for all."""
    return [but(x, layout=layout) for layout in LAYOUTS]


def shapes(x: Input, *also: tuple[int, ...]) -> list[Input]:
    """The input, 0-d, of one element, with no elements at all, and in these shapes."""
    return [x, *(but(x, shape=shape) for shape in ((), (1,), (0,), (0, 3), *also))]


def every(x: Input) -> list[Input]:
    """Dtypes, layouts and shapes, one after the other."""
    return [*dtypes(x), *layouts(x)[1:], *shapes(x)[1:]]
