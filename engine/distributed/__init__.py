"""`engine.distributed`: train in several processes, under the names of `torch.distributed`."""

from __future__ import annotations

from typing import Any

from ..base import addresses
from .collectives import (
    P2POp,
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    gather,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    send,
)
from .data_parallel import DistributedDataParallel
from .device_mesh import DeviceMesh, init_device_mesh
from .elastic import ElasticJob
from .errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from .grad_bucket import GradBucket
from .group import ProcessGroup, Work
from .objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from .reductions import ReduceOp, supports_complex
from .stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from .world import (
    Backend,
    GroupMember,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)

_LATER = frozenset({"algorithms", "checkpoint", "device_mesh", "fsdp", "optim", "rpc", "run", "tensor"})
reduce_op = ReduceOp  # the old name


def __getattr__(name: str) -> Any:
    return addresses.attribute(__name__, name, 2)
