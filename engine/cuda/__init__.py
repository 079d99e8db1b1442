"""`engine.cuda`: GPU devices, memory, streams, graphs and random state, under PyTorch's names; queries also work without a GPU."""

from __future__ import annotations

from typing import Any

from ..base import addresses
from ..base.errors import OutOfMemoryError
from ..core import devices, legacy
from ..core.devices import cuda_available as is_available
from ..core.random import generator_of
from .cudart import CudaError, check_error, cudart
from .device import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    get_sync_debug_mode,
    init,
    ipc_collect,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    set_sync_debug_mode,
    synchronize,
)
from .graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables
from .memory import (
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
    device_memory_used,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from .nvml import clock_rate, list_gpu_processes, memory_usage, power_draw, temperature, utilization
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

has_half, has_magma = True, False
_LATER = frozenset({"amp", "comm", "nccl", "nvtx", "profiler"})
globals().update(legacy.cuda)  # FloatTensor and so on


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # read by public code that saves random states in checkpoints
        return is_initialized()
    if name == "default_generators":
        return tuple([generator_of(devices.device("cuda", index)) for index in range(device_count())])
    return addresses.attribute(__name__, name, 2)
