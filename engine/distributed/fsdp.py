"""Names of `torch.distributed.fsdp`: the settings, and classes that say that parameters here are whole in every process.

Libraries ask whether a model is wrapped by FSDP, also in one process: the answer is no. To wrap one is refused; what spreads training
over processes is `DistributedDataParallel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NoReturn

from ..nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module, SyncBatchNorm

__path__: list[str] = []  # a package, as PyTorch's is: an import of what is below is answered in words
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
    """No module here is one, and making one is a NotImplementedError."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any):
        _refuse("FullyShardedDataParallel")


class FSDPModule:
    """What `fully_shard` would make of a module; no module here is one."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("FSDPModule")


def fully_shard(module: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError: parameters are whole in every process."""
    _refuse("fully_shard")


# -- settings, as PyTorch has them ----------------------------------------------------------------------------------------------


class ShardingStrategy(Enum):
    """What is cut: parameters, gradients and the optimizer's state, all but parameters, or nothing."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are fetched in backward."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """How a state dict holds the parameters."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What an optimizer's state is keyed by."""

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
