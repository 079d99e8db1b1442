"""Initialization of the job's processes, the default process group and its subgroups."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy

from ..core import devices
from .group import ProcessGroup
from .links import Links, host_for
from .stores import FileStore, PrefixStore, Store, TCPStore

default_pg_timeout = timedelta(minutes=30)
NOT_INITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


class Backend(str):
    """The name of a backend: `Backend.GLOO`, `Backend.NCCL` or `Backend.MPI`."""

    UNDEFINED, GLOO, NCCL, MPI = "undefined", "gloo", "nccl", "mpi"
    backend_list = [UNDEFINED, GLOO, NCCL, MPI]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        if name.lower() not in (cls.GLOO, cls.NCCL, cls.MPI, cls.UNDEFINED):
            raise ValueError(f"Invalid backend: {name!r}; there are 'gloo', 'nccl' and 'mpi'")
        return str.__new__(cls, name.lower())


class _Meta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group."""
        return _state.world


class group(metaclass=_Meta):
    """Namespace of `group.WORLD`, the default group."""

    NON_GROUP_MEMBER = -100


class GroupMember(metaclass=_Meta):
    """Namespace of `GroupMember.NON_GROUP_MEMBER`, which `new_group` returns outside of the group."""

    NON_GROUP_MEMBER = -100


class _State:
    """The job's state in this process; None and empty before initialization."""

    def __init__(self) -> None:
        self.world: ProcessGroup | None = None
        self.links: Links | None = None
        self.store: Store | None = None
        self.owns_store = False
        self.groups: list[ProcessGroup] = []
        self.made, self.numbered = 0, 0


_state = _State()


def is_available() -> bool:
    """Return True: the package is always available."""
    return True


def is_gloo_available() -> bool:
    """Return True: "gloo", implemented here by TCP between all processes, is always available."""
    return True


def is_nccl_available() -> bool:
    """Return whether there is a GPU and CuPy has NCCL."""
    if not devices.cuda_available():
        return False
    from . import nccl

    return nccl.available()


def is_mpi_available() -> bool:
    """Return whether `mpi4py` is installed."""
    import importlib.util

    return importlib.util.find_spec("mpi4py") is not None


def is_initialized() -> bool:
    """Return whether the default process group is initialized."""
    return _state.world is not None


def is_torchelastic_launched() -> bool:
    """Return whether `python -m engine.distributed.run` or torchrun started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None, world_size: int = -1, rank: int = -1,
    store: Store | None = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Initialize the default process group; returns once all `world_size` processes have joined.

    `backend` is "gloo" for CPU tensors (TCP between all processes), "nccl" for GPU tensors (CPU tensors use TCP), or "mpi", which gets the
    rank and size from mpi4py. Pass a `store`, or an `init_method`: "env://" (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT),
    "tcp://host:port" or "file:///path". If a process does not join, respond or survive, the others raise within `timeout` (30 minutes).
    `group_name` and `pg_options` are ignored.
    """
    if _state.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise ValueError("Cannot specify both init_method and store.")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    timeout = default_pg_timeout if timeout is None else timeout
    chosen = Backend(_only(backend)) if backend is not None else Backend("nccl" if is_nccl_available() else "gloo")
    if chosen == "nccl" and not is_nccl_available():
        raise RuntimeError('backend "nccl" needs a GPU and CuPy with NCCL; use "gloo" for tensors on the CPU')
    host = "127.0.0.1"
    owns = store is None
    if store is not None:
        if rank < 0 or world_size < 1:
            raise ValueError("both rank and world_size must be given with a store")
        host = getattr(store, "host", host)
    elif chosen == "mpi":
        rank, world_size, store, host = _by_mpi(timeout)
    else:
        rank, world_size, store, host = _meet(init_method or "env://", rank, world_size, timeout)
    seconds = timeout.total_seconds()
    _state.made += 1
    try:
        _state.store, _state.owns_store, _state.numbered = store, owns, 0
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} is not between 0 and world_size - 1 = {world_size - 1}")
        store.set_timeout(timeout)
        _state.links = Links(rank, world_size, PrefixStore(f"group {_state.made}", store), seconds, host_for(host))
        _state.world = _made(list(range(world_size)), seconds, chosen, 0)
        _state.groups = [_state.world]
        _state.world.barrier(_state.world.tag(), seconds)  # all must be connected before any can finish
    except BaseException:  # leave no state behind, so that it can be called again
        _leave()
        raise


def _only(backend: str) -> str:
    """Choose one of several backends, as in "cpu:gloo,cuda:nccl": NCCL if requested and available, which uses TCP for CPU tensors."""
    if ":" not in backend:
        return backend
    named = dict(part.split(":", 1) for part in backend.split(","))
    return "nccl" if "nccl" in named.values() and is_nccl_available() else named.get("cpu", next(iter(named.values())))


def _made(ranks: list[int], timeout: float, backend: str, number: int) -> ProcessGroup:
    assert _state.links is not None
    if backend == "nccl":
        from . import nccl

        return nccl.NcclGroup(_state.links, number, ranks, timeout, backend)
    return ProcessGroup(_state.links, number, ranks, timeout, backend)


def _meet(url: str, rank: int, world_size: int, timeout: timedelta) -> tuple[int, int, Store, str]:
    """Return `(rank, world_size, store, host)` for an init_method."""
    parts = urlsplit(url)
    asked = {k: int(v[0]) for k, v in parse_qs(parts.query).items() if k in ("rank", "world_size")}
    rank, world_size = asked.get("rank", rank), asked.get("world_size", world_size)
    if parts.scheme == "env":
        rank = _from_env("RANK") if rank < 0 else rank
        world_size = _from_env("WORLD_SIZE") if world_size < 1 else world_size
        host, port = _from_env("MASTER_ADDR", str), _from_env("MASTER_PORT")
        return rank, world_size, _tcp(host, port, rank, world_size, timeout), host
    for name, value, least in (("rank", rank, 0), ("world size", world_size, 1)):
        if value < least:
            raise ValueError(f"Error initializing torch.distributed using {parts.scheme}:// rendezvous: {name} parameter missing")
    if parts.scheme == "tcp":
        if not parts.hostname or parts.port is None:
            raise ValueError(f"init_method {url!r}: expected tcp://host:port")
        return rank, world_size, _tcp(parts.hostname, parts.port, rank, world_size, timeout), parts.hostname
    if parts.scheme == "file":
        path = parts.netloc + parts.path
        if not path:
            raise ValueError("Error initializing torch.distributed using file:// rendezvous: path missing")
        return rank, world_size, FileStore(path, world_size), os.environ.get("MASTER_ADDR", "127.0.0.1")
    raise RuntimeError(f"No rendezvous handler for {parts.scheme}://; there are env://, tcp:// and file://")


def _from_env(name: str, kind: type = int) -> Any:
    if name not in os.environ:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set. "
            "Start the program with python -m engine.distributed.run, or set it."
        )
    return kind(os.environ[name])


def _tcp(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> TCPStore:
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return TCPStore(host, port, world_size, rank == 0 and not served, timeout, wait_for_workers=False)


def _by_mpi(timeout: timedelta) -> tuple[int, int, Store, str]:
    """Return rank, size, store and host, using MPI to share the address of process 0's store."""
    try:
        from mpi4py import MPI  # type: ignore[import-not-found]
    except ImportError as error:
        raise RuntimeError('backend "mpi" needs mpi4py, which is not installed') from error
    import socket

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    one_host = len(set(comm.allgather(socket.gethostname()))) == 1
    host = comm.bcast("127.0.0.1" if one_host else socket.gethostbyname(socket.gethostname()))
    store = TCPStore(host, 0, size, True, timeout, wait_for_workers=False) if rank == 0 else None
    port = comm.bcast(None if store is None else store.port)
    return rank, size, store or TCPStore(host, port, size, False, timeout, wait_for_workers=False), host


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave the job, or discard one group. Other processes that still wait for this one raise an error."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    if _state.world is None:
        raise AssertionError("Process group cannot be None")
    if group is not None and group is not _state.world:
        if group not in _state.groups:
            raise ValueError("Invalid process group specified")
        group.close()
        _state.groups.remove(group)
        return
    _leave()


def _leave() -> None:
    """Close the groups, links and own store."""
    for one in _state.groups:
        one.close()
    if _state.links is not None:
        _state.links.close()
    if _state.owns_store and isinstance(_state.store, TCPStore):
        _state.store.close()
    _state.world, _state.links, _state.store, _state.groups = None, None, None, []


def resolve(group: Any = None) -> ProcessGroup:
    """Return the group, or the default group. Raises ValueError if it is not initialized."""
    if _state.world is None:
        raise ValueError(NOT_INITIALIZED)
    if group is None:
        return _state.world
    if not isinstance(group, ProcessGroup):
        raise ValueError("Invalid process group specified")
    return group


def new_group(
    ranks: Any = None, timeout: timedelta | None = None, backend: str | None = None, pg_options: Any = None,
    use_local_synchronization: bool = False, group_desc: str | None = None, device_id: Any = None, sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """Create a group of the given ranks (None for all). Every process must call it, including those not in the group.

    Returns `GroupMember.NON_GROUP_MEMBER` in processes outside of the group.
    """
    world = resolve()
    if use_local_synchronization:
        raise ValueError("new_group: use_local_synchronization=True is not supported; every process must call new_group")
    members = list(range(world.size())) if ranks is None else (sorted(ranks) if sort_ranks else list(ranks))
    if len(set(members)) != len(members):
        raise ValueError(f"new_group: ranks must differ, got {list(ranks)}")
    if any(not 0 <= r < world.size() for r in members):
        raise ValueError(f"The new group's rank should be within the world_size set by init_process_group: got {members} of {world.size()}")
    _state.numbered += 1  # equal in all processes
    number = _state.numbered
    if world.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    seconds = world.timeout if timeout is None else timeout.total_seconds()
    made = _made(members, seconds, Backend(backend or world.backend), number)
    _state.groups.append(made)
    return made


def is_backend_available(backend: str) -> bool:
    """Return whether the named backend is available."""
    asked = {"gloo": is_gloo_available, "nccl": is_nccl_available, "mpi": is_mpi_available}.get(backend.lower())
    return asked is not None and asked()


def get_pg_count() -> int:
    """Return the number of groups with this process, including the default one."""
    return len(_state.groups)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]], timeout: Any = None, backend: str | None = None, pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list]:  # fmt: skip
    """Create disjoint groups of the given ranks. Returns this process's group (or None) and all groups."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    members = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(members)) != len(members):
        raise ValueError(f"new_subgroups_by_enumeration: a rank can be in one subgroup only, got {ranks_per_subgroup_list}")
    groups = [new_group(ranks, timeout, backend) for ranks in ranks_per_subgroup_list]
    return next((g for g in groups if isinstance(g, ProcessGroup)), None), groups


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: Any = None, backend: str | None = None, pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list]:  # fmt: skip
    """Split the processes into groups of `group_size` consecutive ranks. Returns this process's group and all groups."""
    world = resolve(group)
    size = world.size() if group_size is None else group_size
    if size <= 0 or world.size() % size:
        raise ValueError(f"The world size {world.size()} must be divisible by group_size={size}")
    groups = [new_group(world.ranks[a : a + size], timeout, backend) for a in range(0, world.size(), size)]
    return groups[world.rank() // size], groups


def get_rank(group: Any = None) -> int:
    """Return this process's rank in the group, or -1 outside of it."""
    return -1 if group == GroupMember.NON_GROUP_MEMBER and group is not None else resolve(group).rank()


def get_world_size(group: Any = None) -> int:
    """Return the number of processes in the group, or -1 outside of it."""
    return -1 if group == GroupMember.NON_GROUP_MEMBER and group is not None else resolve(group).size()


def get_backend(group: Any = None) -> Backend:
    """Return the group's backend: "gloo", "nccl" or "mpi"."""
    return Backend(resolve(group).backend)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return the global ranks of the group's processes."""
    return list(resolve(group).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the global rank of a process in a group."""
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group.ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the group rank of a process given its global rank."""
    if global_rank not in group.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return group.ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's rank on its machine, from LOCAL_RANK, or `fallback_rank`. Raises RuntimeError without either."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work")
    return int(fallback_rank)


def get_default_backend_for_device(device: Any) -> str:
    """Return "nccl" for GPUs and "gloo" for the CPU."""
    return "nccl" if devices.device(device).type == "cuda" else "gloo"


def flat(array: Any) -> numpy.ndarray:
    """Return the flattened array on the host."""
    host = devices.move(array, devices.CPU)
    return numpy.ascontiguousarray(host).reshape(-1)
