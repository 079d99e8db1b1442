"""Sorting: sort, topk, argsort and msort."""

from __future__ import annotations

from ..base import dtypes
from ..base.errors import Refused
from ..base.layout import as_first
from ..core.op import Op, composite
from ..core.tensor import Tensor


class sort(Op):
    """Elements sorted along a dimension, and their indices; nan counts as the largest."""
    inputs, outputs, differentiable, laid = ("input",), ("values", "indices"), ("values",), staticmethod(as_first)
    examples = ((((3, 4),), {}), (((3, 4),), {"dim": 0, "descending": True}), (((4,),), {"stable": True}))

    @classmethod
    def prepare(cls, arrays): return super().prepare(ordered(arrays, "c"))

    def forward(xp, input, dim=-1, descending=False, stable=False):
        if descending.__class__ is not bool: raise Refused(f"argument 'descending' must be bool, not {type(descending).__name__}", TypeError)
        return xp.sorted(input, dim, descending, stable)
    def d_input(xp, g, indices, shape, dim): return xp.add_along_axis(g, indices, shape[dim] if shape else 1, dim)


def ordered(arrays: list, refused: str) -> list:
    """Return the arrays. Raises RuntimeError for a kind of dtype ("c": complex, "b": bool) that the op cannot order."""
    if arrays[0].dtype.kind in refused:
        raise Refused(f"{dtypes.FROM_NUMPY[arrays[0].dtype].name} tensors are not supported", RuntimeError)
    return arrays


class topk(Op):
    """The `k` largest (or smallest) elements along a dimension, in order, and their indices."""
    inputs, outputs, differentiable = ("input",), ("values", "indices"), ("values",)
    examples = ((((2, 5),), {"k": 3}), (((5, 2),), {"k": 2, "dim": 0, "largest": False}))

    @classmethod
    def prepare(cls, arrays): return super().prepare(ordered(arrays, "cb"))

    def forward(xp, input, k, dim=-1, largest=True, sorted=True): return xp.topk(input, k, dim, largest)
    def d_input(xp, g, indices, shape, dim): return xp.add_along_axis(g, indices, shape[dim] if shape else 1, dim)


@composite(method=True)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Indices that sort the elements along a dimension."""
    return sort(input.detach(), dim, descending, stable)[1]


@composite(method=True)
def msort(input: Tensor) -> Tensor:
    """Elements sorted along the first dimension."""
    return sort(input, 0)[0]
