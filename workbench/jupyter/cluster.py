"""`wb.cluster`: the ranks of an MPI job as engines of ipyparallel, in which `%%px` cells run."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython
from IPython.core.magic import Magics, line_cell_magic, magics_class

from engine.distributed import run, seats, world

from . import rank

if TYPE_CHECKING:
    from .ranks_view import RanksView

MISSING = 'wb.cluster needs ipyparallel and MPI: pip install "gradient-workbench[cluster]"'
RANK = [sys.executable, "-m", "workbench.jupyter.rank"]
WATCH = "import sys; sys.stdin.read(); import ipyparallel; ipyparallel.Cluster.from_file(sys.argv[1]).stop_cluster_sync()"
_running: list[Cluster] = []  # at most one: `%%px` belongs to it


class Cluster:
    """The ranks that `wb.cluster` has started. `view` and `client` are ipyparallel's."""

    def __init__(self, start: Callable[[], tuple[Any, Any]], torch: bool, seconds: float) -> None:
        self._start, self._torch, self._seconds = start, torch, seconds
        self.client: Any = None
        self._begin()
        _running.append(self)
        try:
            self._enter()
        except BaseException:
            self.stop()
            raise
        if (shell := get_ipython()) is not None:
            shell.events.register("post_run_cell", self._after)

    def _begin(self) -> None:
        self._cluster, self.client = self._start()
        watch = [sys.executable, "-c", WATCH, self._cluster.cluster_file]  # stops the cluster when this process ends, even if it is killed
        self._watch = subprocess.Popen(watch, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    def _enter(self) -> None:
        self.view = self.client[:]
        self.view.block = True
        found = self.view.apply_async(rank.enter, self._torch).get(self._seconds)
        self.size = len(found)
        if found != [(i, self.size) for i in range(self.size)]:
            raise RuntimeError(
                f"the engines are not the ranks of one MPI job: rank and size are {found}. The profile must have mpiexec start "
                "`python -m workbench.jupyter.rank`, see docs/cluster.md"
            )
        if (shell := get_ipython()) is not None:
            from ipyparallel.client.magics import ParallelMagics

            magics: Any = ParallelMagics(shell, self.view)
            magics.signal_on_interrupt = None  # `_after` does it, and waits for the ranks
            shell.magics_manager.register(magics)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        if self.client is None:
            return "a cluster that has been stopped"
        return f"{self.size} ranks. %%px runs a cell on all of them; Ctrl-C interrupts them; stop() ends them"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def show(self, code: str) -> RanksView:
        """Return a view of the graphs of all ranks, with a slider for the rank and flags where they begin to differ.

        Args:
            code: what to show, as code that runs on the ranks: a tensor such as "loss", the `r` of `with wb.record() as r`, or
                "wb.step(loss)", to step through the backward pass of one rank.

        Raises:
            RuntimeError: the code raises an error on a rank, or the ranks still run a cell.
        """
        self._idle()
        from .ranks_view import RanksView  # it loads the view

        return RanksView(self.view, code, self._seconds)

    def pause(self) -> None:
        """Have all ranks pause after the same step of their optimizer, while a `%%px --noblock` cell runs. Time-outs stand still."""
        self.client.send_signal(signal.SIGUSR1, targets=0, block=True)

    def resume(self) -> None:
        """Have all ranks go on."""
        self.client.send_signal(signal.SIGUSR2, targets=0, block=True)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in what runs on the ranks, as Ctrl-C does while a `%%px` cell runs."""
        self.client.send_signal(signal.SIGINT, block=True)

    def reset(self) -> None:
        """Make the default process group anew, as happens after each `%%px` cell that fails. Variables are kept; other groups are not.

        Raises:
            RuntimeError: a rank has been killed, or the ranks still run a cell.
        """
        self._idle()
        self.view.apply_async(rank.enter, self._torch).get(self._seconds)

    def _idle(self) -> None:
        """Raise RuntimeError unless all ranks are there and run nothing."""
        if self.client is None:
            raise RuntimeError("the cluster has been stopped: cluster.restart() starts it again")
        lost = sorted(set(range(self.size)) - set(self.client.ids))
        if lost:
            raise RuntimeError(f"rank {lost[0]} has ended: cluster.restart() starts all ranks again, without their variables")
        if self.client.outstanding:
            raise RuntimeError("the ranks still run a cell: cluster.interrupt() stops it")

    def restart(self) -> None:
        """End all ranks and start new ones, which have no variables."""
        self._end()
        self._begin()
        self._enter()

    def stop(self) -> None:
        """End all ranks. Happens by itself when the notebook's kernel ends."""
        shell = get_ipython()
        if shell is not None and self._after in shell.events.callbacks["post_run_cell"]:
            shell.events.unregister("post_run_cell", self._after)
        self._end()
        if self in _running:
            _running.remove(self)

    def _end(self) -> None:
        if self.client is not None:
            self._watch.kill()
            self._watch.communicate()
            self.client.close()
            self._cluster.stop_cluster_sync()
            self.client = None

    def _after(self, result: Any) -> None:
        """After a cell that has failed on a rank, the group is made anew: what the ranks told each other would stop the next cell."""
        from ipyparallel.error import RemoteError

        error = result.error_in_exec
        interrupted = isinstance(error, KeyboardInterrupt) and bool(getattr(self.client, "outstanding", ()))
        if not interrupted and not isinstance(error, RemoteError):
            return
        try:
            if interrupted:
                self.interrupt()
                self.client.wait(timeout=self._seconds)
            self.reset()
        except (RuntimeError, TimeoutError, RemoteError) as error:
            print(f"wb.cluster: {error}", file=sys.stderr)


@magics_class
class Here(Magics):
    """`%%px` without a cluster: the cell runs in this process."""

    @line_cell_magic
    def px(self, line: str, cell: str | None = None) -> None:
        """Run a cell in this process, which is the only rank."""
        assert self.shell is not None
        self.shell.run_cell(line if cell is None else cell).raise_error()


class Single:
    """One rank, which is this process: the same `%%px` cells run without MPI."""

    size = 1

    def __init__(self, torch: bool) -> None:
        if torch:
            import engine

            engine.install_as_torch()
        if not world.is_initialized():
            os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
            world.init_process_group("gloo")
        if (shell := get_ipython()) is not None:
            shell.register_magics(Here)

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "1 rank: this process. %%px runs a cell here"

    def show(self, code: str) -> Any:
        """Return a view of the graph of what the code gives, as `Cluster.show` does for several ranks."""
        from .widget import View

        shell = get_ipython()
        names = {} if shell is None else shell.user_ns
        session = rank.session_of(eval(compile(code, "<cluster.show>", "eval"), names), names)
        return View(session) if shell is not None else session

    def stop(self) -> None:
        """Discard the process group."""
        if world.is_initialized():
            world.destroy_process_group()


def started(n: int | None, hosts: str, profile: str, torch: bool, timeout: float) -> Cluster | Single:
    """Start the ranks; see `wb.cluster`."""
    if n is not None and (not isinstance(n, int) or isinstance(n, bool)):
        raise TypeError(f"wb.cluster: expected a number of ranks, got {n!r}")
    if n is not None and n < 1:
        raise ValueError(f"wb.cluster: expected at least 1 rank, got {n}")
    if hosts and profile:
        raise ValueError("wb.cluster: give hosts or a profile, which has its own machines")
    where = run.hosts(hosts, 1) if hosts else {}
    if where and n not in (None, sum(where.values())):
        raise ValueError(f"wb.cluster: {n} ranks, but hosts={hosts!r} has {sum(where.values())}")
    n = sum(where.values()) if where else n
    if n is None:
        raise ValueError("wb.cluster: how many ranks? Such as wb.cluster(4), or wb.cluster(hosts='a:4,b:4')")
    for one in list(_running):
        one.stop()
    if n == 1 and not hosts and not profile:
        return Single(torch)
    try:
        import ipyparallel
        from traitlets.config import Config
    except ImportError as error:
        raise RuntimeError(MISSING) from error
    config = Config({"EngineLauncher": {"engine_cmd": RANK}})
    options: dict[str, Any] = {"n": n, "engine_timeout": int(timeout), "delay": 0.0, "log_level": logging.ERROR}
    if profile:
        _find(profile)
        options["profile"] = profile
    else:
        options["engines"] = "mpi"
        where_to = ["--host", ",".join(f"{host}:{count}" for host, count in where.items())] if where else []
        config.MPIEngineSetLauncher.mpi_cmd = [seats.mpiexec(), "--with-ft", "ulfm", "--map-by", "slot:oversubscribe", *where_to]
        config.MPIEngineSetLauncher.environment = {"OMP_NUM_THREADS": "1"} | seats.settings()
        if where:
            options["controller_ip"] = "*"

    def start() -> tuple[Any, Any]:
        made = ipyparallel.Cluster(config=config, **options)
        try:
            return made, made.start_and_connect_sync()
        except BaseException:
            made.stop_cluster_sync()
            raise

    return Cluster(start, torch, timeout)


def _find(profile: str) -> None:
    """Raise ValueError if there is no such profile: ipyparallel would make an empty one."""
    from IPython.core.profiledir import ProfileDir, ProfileDirError
    from IPython.paths import get_ipython_dir

    try:
        ProfileDir.find_profile_dir_by_name(get_ipython_dir(), profile)
    except ProfileDirError as error:
        raise ValueError(f"wb.cluster: there is no profile {profile!r}; docs/cluster.md has some to copy") from error
