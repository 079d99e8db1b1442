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
from pathlib import Path
from typing import Any

from .errors import DistNetworkError, DistStoreError
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

    Raises DistNetworkError if one does not come in time, or if they are on several machines, and RuntimeError without MPI.
    """
    import fcntl

    end = time.monotonic() + seconds
    if rank == 0:
        program = mpiexec()
        folder = tempfile.mkdtemp(prefix="engine-job-")
        store.set("folder", f"{machine()} {folder}")
    else:
        try:
            place, _, folder = store.get("folder").decode().partition(" ")
        except DistStoreError as error:
            raise DistStoreError(f"rank {rank}: no connection from rank(s) [0] in {seconds:g} s") from error
        if place != machine():
            raise DistNetworkError(
                f"rank {rank} is on another machine than rank 0: start processes on several machines with `workbench cluster`, "
                "`python -m engine.distributed.run --hosts` or mpiexec"
            )
    seat = Path(folder, f"{rank}.seat")
    held = open(Path(folder, f"{rank}.held"), "w+b")  # noqa: SIM115  open until the process ends
    fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by a fork, unlike that of flock
    store.add("came", 1)
    store.set(f"came/{rank}", "1")
    try:
        if rank == 0:
            _await_all(store, world_size, end, seconds)
            _start(program, folder, world_size)
        _await_seat(seat, store, end)
    except BaseException:
        held.close()
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    os.environ.update(json.loads(seat.read_text()))
    _held[:] = [held, folder, rank]


def machine() -> str:
    """Return an identifier of this machine or container."""
    return f"{os.uname().nodename}/{os.stat('/tmp').st_dev}"


def _await_all(store: Store, world_size: int, end: float, seconds: float) -> None:
    pause = 0.001
    while int(store.get("came")) < world_size:
        if time.monotonic() > end:
            missing = [r for r in range(world_size) if not store.check([f"came/{r}"])]
            raise DistNetworkError(f"rank 0: no connection from rank(s) {missing} in {seconds:g} s")
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _start(program: str, folder: str, world_size: int) -> None:
    """Start `mpiexec` in a session of its own, which outlives this process and removes the folder in the end."""
    seat = [sys.executable, "-I", "-S", str(Path(__file__).with_name("seat.py")), folder]
    command = [program, "--with-ft", "ulfm", "-n", str(world_size), *seat]
    script = '("$@"; code=$?; if [ -e "$0/0.seat" ]; then rm -rf "$0"; else echo $code > "$0/failed"; fi) &'
    with open(Path(folder, "log"), "wb") as log:
        subprocess.run(
            ["/bin/sh", "-c", script, folder, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(),
            start_new_session=True, check=True,
        )  # fmt: skip


def _await_seat(seat: Path, store: Store, end: float) -> None:
    started = looked = time.monotonic()
    pause = 0.002
    while not seat.exists():
        if (seat.parent / "failed").exists() or (seat.stem == "0" and time.monotonic() > started + _START) or time.monotonic() > end:
            log = seat.parent / "log"
            told = log.read_text(errors="replace").strip() if log.exists() else ""
            raise DistNetworkError(f"rank {seat.stem}: mpiexec has not started the job{': ' + told if told else ''}")
        if seat.stem != "0" and time.monotonic() > looked + 0.5:
            looked = time.monotonic()
            if _is_free(seat.with_name("0.held")):
                raise DistNetworkError(f"rank {seat.stem}: rank 0 has ended before the job started; see its own output")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


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
        Path(folder, f"{rank}.left").touch()
        held.close()
        _held.clear()
