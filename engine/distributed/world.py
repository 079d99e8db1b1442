"""Initialization of the job's processes, the default process group and its subgroups."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..core import devices
from . import mpi, seats
from .communicator import Alone
from .control import LEFT, Control
from .errors import DistError, DistNetworkError
from .group import ProcessGroup
from .monitor import Monitor
from .mpi import MpiCommunicator
from .stores import FileStore, HashStore, PrefixStore, Store, TCPStore

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
        self.control: Control | None = None
        self.monitor: Monitor | None = None
        self.store: Store | None = None
        self.owns_store = False
        self.groups: list[ProcessGroup] = []
        self.made, self.numbered = 0, 0


_state = _State()


def is_available() -> bool:
    """Return True: the package is always available."""
    return True


def is_gloo_available() -> bool:
    """Return True: "gloo" is always available, and for several processes it is MPI."""
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

    `backend` is "gloo" or "mpi" for CPU tensors, which both are MPI, or "nccl" for GPU tensors, and MPI for those of the CPU. In processes
    started by `mpiexec`, rank and size are MPI's. Those started otherwise, all on one machine, find each other by a `store` or an
    `init_method`: "env://" (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), "tcp://host:port" or "file:///path". A job of one process needs no
    MPI. If a process does not join, respond or survive, the others raise within `timeout` (30 minutes). `group_name` and `pg_options` are
    ignored.
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
    owns = store is None
    by_mpi = mpi.launched()
    if store is not None:
        if rank < 0 or world_size < 1:
            raise ValueError("both rank and world_size must be given with a store")
    elif by_mpi is not None and (chosen == "mpi" or _fits(by_mpi, rank, world_size)):
        (rank, world_size), store = by_mpi, HashStore()
    elif chosen == "mpi":
        raise RuntimeError('backend "mpi" needs processes that mpiexec, `workbench cluster` or engine.distributed.run has started')
    else:
        rank, world_size, store = _meet(init_method or "env://", rank, world_size, timeout)
    seconds = timeout.total_seconds()
    _state.made += 1
    try:
        _state.store, _state.owns_store, _state.numbered = store, owns, 0
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} is not between 0 and world_size - 1 = {world_size - 1}")
        store.set_timeout(timeout)
        _join(rank, world_size, by_mpi, PrefixStore(f"job {_state.made}", store), seconds, chosen)
    except BaseException:  # leave no state behind, so that it can be called again
        _leave()
        raise


def _fits(by_mpi: tuple[int, int], rank: int, world_size: int) -> bool:
    """Return whether rank and size, given or in the environment, are those of MPI."""
    rank = int(os.environ.get("RANK", -1)) if rank < 0 else rank
    world_size = int(os.environ.get("WORLD_SIZE", -1)) if world_size < 1 else world_size
    return rank in (-1, by_mpi[0]) and world_size in (-1, by_mpi[1])


def _join(rank: int, world_size: int, by_mpi: tuple[int, int] | None, store: Store, seconds: float, backend: str) -> None:
    """Make the default group of all processes."""
    ranks = list(range(world_size))
    if world_size == 1:
        _state.world = ProcessGroup(Alone(), Alone(), None, 0, ranks, seconds, backend)
        _state.groups = [_state.world]
        _state.monitor = Monitor(_state.world)
        return
    if not mpi.is_started() and by_mpi != (rank, world_size):
        seats.take(store, rank, world_size, seconds)
    everyone = MpiCommunicator(mpi.mpi().COMM_WORLD)
    if (everyone.rank, everyone.size) != (rank, world_size):
        raise RuntimeError(
            f"this process is rank {everyone.rank} of {everyone.size} since it first joined a job, not rank {rank} of {world_size}"
        )
    made = [everyone.duplicate() for _ in range(3)]
    end, requests = time.monotonic() + seconds, [request for _, request in made]
    while requests := [request for request in requests if not request.test()]:
        if time.monotonic() > end:
            raise DistNetworkError(f"rank {rank}: not all of the {world_size} processes have joined in {seconds:g} s")
        time.sleep(0.0002)
    comm, frames, words = (comm for comm, _ in made)
    _state.control = Control(words, describe, _advance)
    _state.world = _made(comm, frames, ranks, seconds, backend, 0)
    _state.groups = [_state.world]
    _state.monitor = Monitor(_state.world)
    if not _registered:
        if "ENGINE_JOINED" in os.environ and by_mpi == (rank, world_size):  # set by the program that `run` has started this process with
            os.write(int(os.environ.pop("ENGINE_JOINED")), b"1")
        _registered.append(Finalize(None, _end_job, exitpriority=-100))  # also in processes of multiprocessing, unlike atexit
        _show_failures()


def rebuild(comm: MpiCommunicator, frames: MpiCommunicator, words: MpiCommunicator) -> None:
    """Make the default group that of new communicators; other groups end."""
    world = resolve()
    for one in _state.groups[1:]:
        one.abort()
    _state.groups, _state.numbered = [world], 0
    _state.control = Control(words, describe, _advance, world.control.heeds if world.control is not None else None)
    world.rebuild(comm, frames, _state.control)


_registered: list[Finalize] = []


def _show_failures() -> None:
    """Have an uncaught exception end this process at once, and tell the others why. One that another process caused takes one line."""
    shown = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if cause := _cause(error):
            print(f"rank {get_rank()} ended because {cause}", file=sys.stderr, flush=True)
        else:
            shown(kind, error, trace)
        tell_failure(error)

    sys.excepthook = hook


def _cause(error: BaseException) -> str | None:
    """Return how another process has ended, if that is what an error says."""
    gone = {} if _state.control is None else _state.control.gone
    for rank, one in list(gone.items())[:1]:
        if isinstance(error, DistError) and (cause := f"rank {rank} {one.how}") in str(error):
            return cause
    return None


def tell_failure(error: BaseException) -> None:
    """Tell the other processes of the job that this one ends because of an error."""
    if _state.control is not None:
        text = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        _state.control.tell(gone=f"failed with {text}")
        _state.control.flush(1.0)


def _advance() -> bool:
    busy = [group.advance_all() for group in list(_state.groups)]
    return any(busy)


def describe() -> dict:
    """Return what this process is doing, as the other processes show it."""
    groups, monitor = list(_state.groups), _state.monitor
    known = {"calls": {str(g.number): g.called() for g in groups}, "doing": groups[0].doing() if groups else "is in no process group"}
    return known if monitor is None else known | monitor.state()


def monitor() -> Monitor:
    """Return what this process reports of itself. Raises ValueError if the default process group is not initialized."""
    if _state.monitor is None:
        raise ValueError(NOT_INITIALIZED)
    return _state.monitor


def _only(backend: str) -> str:
    """Choose one of several backends, as in "cpu:gloo,cuda:nccl": NCCL if requested and available, which uses TCP for CPU tensors."""
    if ":" not in backend:
        return backend
    named = dict(part.split(":", 1) for part in backend.split(","))
    return "nccl" if "nccl" in named.values() and is_nccl_available() else named.get("cpu", next(iter(named.values())))


def _made(comm: Any, frames: Any, ranks: list[int], timeout: float, backend: str, number: int) -> ProcessGroup:
    if backend == "nccl":
        from . import nccl

        return nccl.NcclGroup(comm, frames, _state.control, number, ranks, timeout, backend)
    return ProcessGroup(comm, frames, _state.control, number, ranks, timeout, backend)


def _meet(url: str, rank: int, world_size: int, timeout: timedelta) -> tuple[int, int, Store]:
    """Return `(rank, world_size, store)` for an init_method."""
    parts = urlsplit(url)
    asked = {k: int(v[0]) for k, v in parse_qs(parts.query).items() if k in ("rank", "world_size")}
    rank, world_size = asked.get("rank", rank), asked.get("world_size", world_size)
    if parts.scheme == "env":
        rank = _from_env("RANK") if rank < 0 else rank
        world_size = _from_env("WORLD_SIZE") if world_size < 1 else world_size
        host, port = _from_env("MASTER_ADDR", str), _from_env("MASTER_PORT")
        return rank, world_size, _tcp(host, port, rank, world_size, timeout)
    for name, value, least in (("rank", rank, 0), ("world size", world_size, 1)):
        if value < least:
            raise ValueError(f"Error initializing torch.distributed using {parts.scheme}:// rendezvous: {name} parameter missing")
    if parts.scheme == "tcp":
        if not parts.hostname or parts.port is None:
            raise ValueError(f"init_method {url!r}: expected tcp://host:port")
        return rank, world_size, _tcp(parts.hostname, parts.port, rank, world_size, timeout)
    if parts.scheme == "file":
        path = parts.netloc + parts.path
        if not path:
            raise ValueError("Error initializing torch.distributed using file:// rendezvous: path missing")
        return rank, world_size, FileStore(path, world_size)
    raise RuntimeError(f"No rendezvous handler for {parts.scheme}://; there are env://, tcp:// and file://")


def _from_env(name: str, kind: type = int) -> Any:
    if name not in os.environ:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set. "
            "Start the program with python -m engine.distributed.run, or set it."
        )
    return kind(os.environ[name])


def _tcp(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> Store:
    return HashStore() if world_size == 1 else TCPStore(host, port, world_size, rank == 0, timeout, wait_for_workers=False)


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
    """Tell the others, and close the groups and the store of this process."""
    if _state.monitor is not None:
        _state.monitor.close()
    if _state.control is not None:
        _state.control.tell(gone=LEFT)
        _state.control.flush(1.0)
        _state.control.close()
    for one in _state.groups:
        one.close()
    if _state.owns_store and isinstance(_state.store, TCPStore):
        _state.store.close()
    _state.world, _state.control, _state.monitor, _state.store, _state.groups = None, None, None, None, []


def _end_job() -> None:
    """Leave the job when the process ends. Where MPI does not let a job survive failures, that waits for all processes."""
    if _state.world is not None:
        _leave()
    seats.leave()
    if not mpi.survives():
        mpi.finalize()


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
    world.start(
        "new_group", world.barrier("new_group", hash(tuple(members)) >> 1), []
    ).wait()  # creating a communicator blocks until all are here
    if world.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    seconds = world.timeout if timeout is None else timeout.total_seconds()
    made = _made(world.comm.split(members), world.frames.split(members), members, seconds, Backend(backend or world.backend), number)
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
