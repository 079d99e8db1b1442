"""Seats: let processes that `mpiexec` did not start form an MPI job.

`multiprocessing`, a shell or a test started them, and they know a store, their rank and the number of processes. Process 0 has `mpiexec`
start a small program (`seat.py`) for each rank, which writes its environment variables to a folder. The process of that rank sets them
before it starts MPI, and so gets that rank. MPI's daemon watches the program, and the program watches a lock that its process holds: so a
process that is killed is noticed as if `mpiexec` had started it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import DistError, DistNetworkError, DistStoreError
from .mpi import MISSING
from .seat import PREFIXES
from .stores import Store

_START = 60.0  # seconds in which mpiexec must have started the programs
_held: list[Any] = []  # the open lock of this process's seat, the folder and the rank
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_held.clear)


def mpiexec() -> str:
    """Return the path of `mpiexec`: that of this Python's environment, else that of the PATH. Raises RuntimeError without one."""
    own = Path(sys.prefix, "bin", "mpiexec")
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None:
        raise RuntimeError(MISSING)
    return found


def settings() -> dict[str, str]:
    """Return the variables that `mpiexec` needs: more processes than cores are allowed, and so is the superuser, as in a container."""
    found = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        found |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return found


def environment() -> dict[str, str]:
    """Return the environment for `mpiexec`. The user's settings of MPI stay, but not what makes this process one of another job."""
    inherited = dict(os.environ)
    if "PMIX_RANK" in inherited or "PMI_RANK" in inherited:
        inherited = {name: value for name, value in inherited.items() if not name.startswith((*PREFIXES, "PMI_"))}
    return settings() | inherited


def take(store: Store, rank: int, world_size: int, seconds: float) -> None:
    """Become process `rank` of an MPI job of `world_size` processes that share a store, all on this machine.

    Raises DistNetworkError if one does not come in time, or if they are on several machines, DistStoreError if rank 0 does not, and
    RuntimeError without MPI. If one process gives up, all do.
    """
    try:
        _take(store, rank, world_size, seconds)
    except BaseException as error:
        with suppress(DistError, OSError):  # of a store that is gone, too
            store.compare_set("gave up", "", str(error) or type(error).__name__)
            if rank == 0 and store.check(["folder"]):
                shutil.rmtree(_folder(store)[1], ignore_errors=True)
        leave()
        raise


def _take(store: Store, rank: int, world_size: int, seconds: float) -> None:
    import fcntl

    end = time.monotonic() + seconds
    if rank == 0:
        program = mpiexec()
        store.set("folder", f"{machine()} {tempfile.mkdtemp(prefix='engine-job-')}")
    else:
        late = f"no connection from rank(s) [0] in {seconds:g} s"
        _wait(lambda: store.check(["folder"]), rank, store, end, lambda: late, kind=DistStoreError)  # as PyTorch's stores wait
    place, folder = _folder(store)
    if place != machine():
        raise DistNetworkError(
            f"rank {rank} is on another machine than rank 0: start processes on several machines with `workbench cluster`, "
            "`python -m engine.distributed.run --hosts` or mpiexec"
        )
    held = open(folder / f"{rank}.held", "w+b")  # noqa: SIM115  open until the process ends
    _held[:] = [held, folder, rank]
    fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by a fork, unlike that of flock
    store.set(f"came/{rank}", "1")
    if rank == 0:
        came = [f"came/{r}" for r in range(world_size)]
        _wait(lambda: store.check(came), rank, store, end, lambda: f"no connection from rank(s) {_missing(store, came)} in {seconds:g} s")
        _start(program, folder, world_size)
        end = min(end, time.monotonic() + _START)
    seat = folder / f"{rank}.seat"
    _wait(lambda: _is_there(seat), rank, store, end, lambda: f"the job has not started in {seconds:g} s", folder, {0} - {rank})
    store.add("seated", 1)  # none starts MPI, which waits long for those that are missing, before all are here
    everyone = {*range(world_size)} - {rank}
    late = f"not all processes have come so far in {seconds:g} s"
    _wait(lambda: int(store.get("seated")) >= world_size, rank, store, end, lambda: late, folder, everyone)
    os.environ.update(json.loads(seat.read_text()))


def _folder(store: Store) -> tuple[str, Path]:
    """Return rank 0's machine, and the folder that the processes share."""
    place, _, folder = store.get("folder").decode().partition(" ")
    return place, Path(folder)


def _missing(store: Store, came: list[str]) -> list[int]:
    return [rank for rank, key in enumerate(came) if not store.check([key])]


def _is_there(seat: Path) -> bool:
    """Return whether `mpiexec` has started a seat's program. Raises DistNetworkError if it has failed."""
    if (seat.parent / "failed").exists():
        told = (seat.parent / "log").read_text(errors="replace").strip()
        raise DistNetworkError(f"rank {seat.stem}: mpiexec has not started the job{': ' + told if told else ''}")
    return seat.exists()


def _wait(
    done: Callable[[], bool], rank: int, store: Store, end: float, late: Callable[[], str], folder: Path | None = None,
    others: Iterable[int] = (), kind: type[DistError] = DistNetworkError,
) -> None:  # fmt: skip
    """Wait until `done()`. Raises `kind` after `end`, saying `late()`, and DistNetworkError if another process has given up or ended."""
    pause, looked = 0.001, time.monotonic()
    while not done():
        now = time.monotonic()
        if now > end:
            raise kind(f"rank {rank}: {late()}")
        if now > looked + 0.5:
            looked = now
            if store.check(["gave up"]):
                raise DistNetworkError(f"rank {rank}: the job has not started, because of {store.get('gave up').decode()}")
            if folder is not None and (gone := [r for r in others if _is_free(folder / f"{r}.held")]):
                raise DistNetworkError(f"rank {rank}: rank {gone[0]} has ended before the job started; see its own output")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def machine() -> str:
    """Return an identifier of this machine or container."""
    return f"{os.uname().nodename}/{os.stat('/tmp').st_dev}"


def _start(program: str, folder: Path, world_size: int) -> None:
    """Start `mpiexec` in a session of its own, which outlives this process and removes the folder in the end."""
    seat = [sys.executable, "-I", "-S", str(Path(__file__).with_name("seat.py")), str(folder)]
    command = [program, "--with-ft", "ulfm", "-n", str(world_size), *seat]
    script = '("$@"; code=$?; if [ -e "$0/0.seat" ]; then rm -rf "$0"; else echo $code > "$0/failed"; fi) &'
    with open(folder / "log", "wb") as log:
        subprocess.run(
            ["/bin/sh", "-c", script, str(folder), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(),
            start_new_session=True, check=True,
        )  # fmt: skip


def _is_free(lock: Path) -> bool:
    """Return whether no process holds a lock, and release it if so."""
    import fcntl

    try:
        with open(lock, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def leave() -> None:
    """Mark this process as ending normally; otherwise MPI reports to the others that it was killed."""
    if _held:
        held, folder, rank = _held
        with suppress(FileNotFoundError):  # removed by rank 0, which has given up
            (folder / f"{rank}.left").touch()
        held.close()
        _held.clear()
