"""The names of `torch.distributed.tensor`: placements, and a placeholder DTensor, since tensors are never sharded.

Libraries test whether a tensor is a DTensor even in one process; the answer is always no. Creating one raises NotImplementedError.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .device_mesh import _refuse

__path__: list[str] = []  # a package, as in PyTorch, so that importing a submodule gives a clear error
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
    """How a tensor is placed along one mesh dimension."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it is sharded (along `dim`, if given)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether it is replicated."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether it is pending a reduction (by `reduce_op`, if given)."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Sharded along `dim`."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Sharded along `dim` after another mesh dimension has sharded it."""

    split_factor: int = field(kw_only=True)

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Replicated in every process."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """A partial value in every process, pending a reduction."""

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


class DTensor:
    """Raises NotImplementedError; `isinstance(x, DTensor)` is always False."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("DTensor")

    @staticmethod
    def from_local(*args: Any, **kwargs: Any) -> NoReturn:
        """Raise NotImplementedError; see the class."""
        _refuse("DTensor.from_local")


def distribute_tensor(tensor: Any, device_mesh: Any = None, placements: Any = None, *, src_data_rank: int | None = 0) -> NoReturn:
    """Raise NotImplementedError: tensors are never sharded."""
    _refuse("distribute_tensor")


def distribute_module(
    module: Any, device_mesh: Any = None, partition_fn: Any = None, input_fn: Any = None, output_fn: Any = None
) -> NoReturn:
    """Raise NotImplementedError: parameters are never sharded."""
    _refuse("distribute_module")


def implicit_replication() -> contextlib.AbstractContextManager[None]:
    """Return a null context: there are no DTensors to mix with plain tensors."""
    return contextlib.nullcontext()


def compute_local_shape_and_global_offset(global_shape: Any, mesh: Any, placements: Any) -> NoReturn:
    """Raise NotImplementedError: there are no meshes."""
    _refuse("compute_local_shape_and_global_offset")


def _factory(name: str) -> Any:
    def make(*size: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"distributed.tensor.{name}")

    make.__name__ = make.__qualname__ = name
    make.__doc__ = "NotImplementedError: a tensor lies in one process."
    return make


empty, full, ones, rand, randn, zeros = map(_factory, ("empty", "full", "ones", "rand", "randn", "zeros"))
