"""The names of `torch.distributed.fsdp`: settings, and placeholder classes, since parameters are never sharded.

Libraries test whether a model is wrapped by FSDP even in one process; the answer is always no. Wrapping raises NotImplementedError; use
`DistributedDataParallel` to train in several processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NoReturn

from ..nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module, SyncBatchNorm

__path__: list[str] = []  # a package, as in PyTorch, so that importing a submodule gives a clear error
__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "FSDPModule",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
    "fully_shard",
]


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"{name}: parameters are not sharded by this engine; DistributedDataParallel trains in several processes")


class FullyShardedDataParallel(Module):
    """Raises NotImplementedError; `isinstance(x, FullyShardedDataParallel)` is always False."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any):
        _refuse("FullyShardedDataParallel")


class FSDPModule:
    """Raises NotImplementedError; no module is an instance."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("FSDPModule")


def fully_shard(module: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: parameters are never sharded."""
    _refuse("fully_shard")


# -- settings, as PyTorch has them ----------------------------------------------------------------------------------------------


class ShardingStrategy(Enum):
    """Whether parameters, gradients and optimizer state are sharded, all but the parameters, or nothing."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When to prefetch the next parameters in the backward pass."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """How a state dict stores parameters."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """How an optimizer's state is keyed."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class CPUOffload:
    offload_params: bool = False


@dataclass
class MixedPrecision:
    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Module]] = (BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm)


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    pass


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    pin_memory: bool = True


@dataclass
class StateDictConfig:
    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    pass


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
