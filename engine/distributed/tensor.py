"""Names of `torch.distributed.tensor`: the placements, and a DTensor that says that tensors here lie in one process each.

Libraries ask whether a tensor is a DTensor, also in one process: the answer is no. Making one is refused.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .device_mesh import _refuse

__path__: list[str] = []  # a package, as PyTorch's is: an import of what is below is answered in words
__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]


class Placement:
    """How a tensor would lie along one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is cut along a dimension (`dim`, if that is given)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every process has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the processes' parts are still to be reduced (by `reduce_op`, if that is given)."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Cut along `dim`."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Cut along `dim` after another mesh dimension has cut it."""

    split_factor: int = field(kw_only=True)

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole in every process."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """A part of a sum, or of another reduction, in every process."""

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


class DTensor:
    """No tensor here is one: `isinstance(x, DTensor)` is False, and making one is a NotImplementedError."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("DTensor")

    @staticmethod
    def from_local(*args: Any, **kwargs: Any) -> NoReturn:
        """NotImplementedError: see the class."""
        _refuse("DTensor.from_local")


def distribute_tensor(tensor: Any, device_mesh: Any = None, placements: Any = None, *, src_data_rank: int | None = 0) -> NoReturn:
    """NotImplementedError: a tensor lies in one process."""
    _refuse("distribute_tensor")


def distribute_module(
    module: Any, device_mesh: Any = None, partition_fn: Any = None, input_fn: Any = None, output_fn: Any = None
) -> NoReturn:
    """NotImplementedError: the parameters of a module lie in one process."""
    _refuse("distribute_module")


def implicit_replication() -> contextlib.AbstractContextManager[None]:
    """A block in which plain tensors could be mixed with DTensors: there are none, so it changes nothing."""
    return contextlib.nullcontext()


def compute_local_shape_and_global_offset(global_shape: Any, mesh: Any, placements: Any) -> NoReturn:
    """NotImplementedError: there is no mesh over which a shape could be cut."""
    _refuse("compute_local_shape_and_global_offset")


def _factory(name: str) -> Any:
    def make(*size: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"distributed.tensor.{name}")

    make.__name__ = make.__qualname__ = name
    make.__doc__ = "NotImplementedError: a tensor lies in one process."
    return make


empty, full, ones, rand, randn, zeros = map(_factory, ("empty", "full", "ones", "rand", "randn", "zeros"))
