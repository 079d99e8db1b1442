"""GPU memory: what tensors use and the pool holds, as CuPy's pool tells it; all of it is 0 without a GPU."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from ..core.devices import cuda_available as is_available
from .device import backend, device_count, index_of
from .device import device as _device
from .streams import ExternalStream, StreamContext

__all__ = [
    "MemPool", "caching_allocator_alloc", "caching_allocator_delete", "device_memory_used", "empty_cache", "get_allocator_backend",
    "get_per_process_memory_fraction", "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "memory_stats_as_nested_dict", "memory_summary",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
    "set_per_process_memory_fraction", "use_mem_pool",
]  # fmt: skip


def empty_cache() -> None:
    """Return the pool's free memory to the GPUs. A no-op without a GPU."""
    for index in range(device_count()):
        backend("memory").free_blocks(index)


def memory_allocated(device: Any = None) -> int:
    """Return the bytes used by tensors on the GPU; 0 without a GPU."""
    return backend("memory").used_bytes(index_of(device)) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Return the bytes held by the pools on the GPU, used or free; 0 without a GPU."""
    return backend("memory").held_bytes(index_of(device)) if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """Return the peak of `memory_allocated` since `reset_peak_memory_stats`; 0 without a GPU.

    Counting takes time and only starts with that call, for the allocations of the calling thread. Before it, the result is the most
    that the pools were seen to hold, an upper bound.
    """
    return backend("memory").peak_used(index_of(device)) if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """Return the peak of `memory_reserved` since `reset_peak_memory_stats`, or since the start; 0 without a GPU."""
    return backend("memory").note(index_of(device)) if is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Reset the peaks of `max_memory_allocated` and `max_memory_reserved`, and count from here on. A no-op without a GPU."""
    if is_available():
        backend("memory").reset_peaks(index_of(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Set the totals of `memory_stats`, "allocated" and "freed", to 0. A no-op without a GPU."""
    counts = backend("memory").counts(index_of(device)) if is_available() else None
    if counts is not None:
        counts.allocated.clear()
        counts.freed.clear()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return `memory_stats` as nested dictionaries: `["allocated_bytes"]["all"]["peak"]`; empty without a GPU."""
    if not is_available():
        return {}
    memory, index = backend("memory"), index_of(device)
    counts = memory.counts(index)
    found: dict[str, Any] = {
        "allocated_bytes": {"current": memory.used_bytes(index), "peak": memory.peak_used(index)},
        "reserved_bytes": {"current": memory.held_bytes(index), "peak": memory.note(index)},
    }
    if counts is not None:
        for kind in memory.KINDS:
            values = {"current": counts.current[kind], "peak": counts.peak[kind]} | found.get(kind, {})
            found[kind] = values | {"allocated": counts.allocated[kind], "freed": counts.freed[kind]}
    found["active_bytes"] = found["allocated_bytes"]
    return {kind: {"all": values} for kind, values in found.items()} | {"num_ooms": memory.ooms[index]}


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Return what is known of the pools under PyTorch's keys, such as "allocated_bytes.all.peak"; empty without a GPU.

    Known are the current and peak bytes allocated and reserved. After `reset_peak_memory_stats`, which starts counting, also the
    numbers and sizes of allocations and segments since then ("allocation.all.current" does not include older ones).
    """
    flat: dict[str, Any] = {}
    for kind, value in memory_stats_as_nested_dict(device).items():
        if isinstance(value, dict):
            flat |= {f"{kind}.all.{moment}": n for moment, n in value["all"].items()}
        else:
            flat[kind] = value
    return OrderedDict(sorted(flat.items()))


_ROWS = {
    "allocated_bytes": "Allocated memory", "active_bytes": "Active memory", "requested_bytes": "Requested memory",
    "reserved_bytes": "GPU reserved memory", "allocation": "Allocations", "segment": "GPU reserved segments",
}  # fmt: skip


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return `memory_stats` as a table in PyTorch's form; "-" is what is not counted. `abbreviated` has no effect: there is one pool."""
    stats = memory_stats_as_nested_dict(device) or {"allocated_bytes": {"all": {}}, "reserved_bytes": {"all": {}}}
    index, rule = index_of(device) if is_available() else 0, "=" * 75
    lines = [
        rule,
        f" {'':16} PyTorch CUDA memory summary, device ID {index:<17d} ",
        "-" * 75,
        f"  {'':9} CUDA OOMs: {stats.get('num_ooms', 0):<12d} | {'':6} cudaMalloc retries: {'-':<8}  ",
        rule,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for kind, name in _ROWS.items():
        if kind in stats:
            values = stats[kind]["all"]
            cells = (_cell(values.get(moment), kind.endswith("bytes")) for moment in ("current", "peak", "allocated", "freed"))
            lines += ["-" * 75, f" {name:<21} | {' | '.join(cells)} "]
    return "".join(f"|{line}|\n" for line in [*lines, rule])


def _cell(n: int | None, sizes: bool) -> str:
    """Ten characters for a number, with a unit under which it has at most five digits."""
    if n is None:
        return f"{'-':>10}"
    units = ("B  ", "KiB", "MiB", "GiB", "TiB") if sizes else (" ", "K", "M")
    step, place = 1024 if sizes else 1000, 0
    while n >= 100_000 and place < len(units) - 1:
        n, place = n // step, place + 1
    return f"{n:6d} {units[place]}" if sizes else f"{n:7d} {units[place]} "


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the GPU's free and total memory in bytes. Raises RuntimeError without a GPU."""
    return backend().memory_info(index_of(device))


def device_memory_used(device: Any = None) -> int:
    """Return the bytes of the GPU's memory that are in use, by any process. Raises RuntimeError without a GPU."""
    free, total = mem_get_info(device)
    return total - free


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit the pool to a fraction of the GPU's memory. Raises ValueError unless it is in [0, 1], RuntimeError without a GPU."""
    index = index_of(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    backend("memory").limit(index, fraction)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the fraction of the GPU's memory to which the pool is limited. Raises RuntimeError without a GPU."""
    return backend("memory").limited(index_of(device))


def get_allocator_backend() -> str:
    """Return "cupy": memory is that of CuPy's pools. PyTorch's values are "native" and "cudaMallocAsync"."""
    return "cupy"


_raw: dict[int, Any] = {}  # address -> memory that `caching_allocator_alloc` returned


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Return the address of new memory for another library, freed by `caching_allocator_delete`. `stream`: one for its first use."""
    used = ExternalStream(stream, device) if isinstance(stream, int) and stream else stream or None
    with _device(index_of(device)), StreamContext(used):
        pointer = backend("memory").allocate(size)
    _raw[pointer.ptr] = pointer
    return pointer.ptr


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free memory of `caching_allocator_alloc`. Raises RuntimeError for another address."""
    if _raw.pop(mem_ptr, None) is None:
        raise RuntimeError(f"invalid device pointer: {mem_ptr:#x}")


class MemPool:
    """A memory pool apart from the default one, for `use_mem_pool` and `graph`. `use_on_oom` and `no_split` have no effect."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False):
        if allocator is not None:
            raise NotImplementedError("MemPool: another allocator cannot be used; CuPy's `using_allocator` takes one")
        self._pool = backend("memory").Pool()

    @property
    def id(self) -> tuple[int, int]:
        """The id of the pool, which `graph(pool=...)` takes."""
        return self._pool.id


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Allocate from a pool in this thread on one GPU, by default the current one, inside a `with` block."""
    with backend("memory").using(pool._pool, index_of(device)):
        yield
