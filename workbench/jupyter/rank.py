"""An engine of ipyparallel that is a rank of an MPI job: what `wb.cluster` has mpiexec start, and what it calls there.

A profile for Slurm, PBS or SSH has mpiexec start it, too: `python -m workbench.jupyter.rank`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count
from typing import Any

from engine.distributed import all_gather_object, mpi, world
from engine.distributed.monitor import Monitor

from ..distributed import across
from ..protocol.pack import pack
from ..session.session import Client, Sent, Session
from ..session.surface import ShownSession
from ..subjects.recordings import opened_on, recording_of
from . import cells


def main(arguments: list[str]) -> None:
    """Run the engine until its controller ends. Its number is the rank, and MPI is left to `engine.distributed`."""
    from ipyparallel.engine.app import IPEngine

    found = mpi.launched()
    if found is None:
        raise SystemExit("workbench.jupyter.rank: mpiexec must start it, see docs/cluster.md")
    rank, size = map(str, found)
    os.environ |= {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", rank)}
    IPEngine.launch_instance([f"--IPEngine.id={rank}", *(argument for argument in arguments if argument != "--mpi")])


def enter(torch: bool) -> tuple[int, int]:
    """Make the default process group; return rank and size. The first time, also have errors of cells told to the other ranks."""
    from IPython.core.getipython import get_ipython

    if world.is_initialized():
        world.destroy_process_group()
    elif torch:
        import engine

        engine.install_as_torch()
    world.init_process_group()
    cells.follow()
    shell: Any = get_ipython()
    if told not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", told)
        # only signals reach a rank that runs a cell
        for number, act in ((signal.SIGUSR1, Monitor.pause), (signal.SIGUSR2, Monitor.resume)):
            signal.signal(number, lambda *_, act=act: threading.Thread(target=lambda: act(world.monitor())).start())
    return world.get_rank(), world.get_world_size()


def told(result: Any) -> None:
    """Tell the other ranks that a cell has failed here, so that those that wait for this one raise an error, too."""
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        world.tell_failure(error)


# -- the graphs of all ranks in one view of the notebook ---------------------------------------------------------------------------

_numbers = count()
_shown: dict[int, tuple[Client, list[Sent]]] = {}  # by number of the view, equal on all ranks: its client, and messages for it


def show(code: str) -> tuple[int, dict[str, str], str]:
    """Open a session on what an expression of this rank gives; return its number, stills and headline.

    Raises the error of the first rank on which the expression fails.
    """
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    session, error = None, None
    try:
        session = session_of(eval(compile(code, "<cluster.show>", "eval"), shell.user_ns), shell.user_ns)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    errors: list = [None] * world.get_world_size()
    all_gather_object(errors, error)
    for rank, one in enumerate(errors):
        if one is not None:
            raise RuntimeError(f"cluster.show: on rank {rank}, {code} raised {one}")
    assert session is not None
    across.compare(session)
    number, sent = next(_numbers), []
    _shown[number] = session.connect(lambda message, buffers: sent.append((message, buffers))), sent
    return number, session.stills(), session.headline()


def session_of(value: Any, names: dict[str, Any]) -> Session:
    """The session of a view, or one on the recording of a tensor, a module or `with wb.record() as r`."""
    value = getattr(value, "session", value)
    return value if isinstance(value, Session) else opened_on(ShownSession, recording_of(value, names), "graph", names)


def asked(number: int, message: Any) -> list[Sent]:
    """Answer a message from the view."""
    client, sent = _shown[number]
    client.receive(message)
    found = [pack(*one) for one in sent]
    sent.clear()
    return found


def close(number: int) -> None:
    """Close the session of the view; an unfinished pass restores `.grad`."""
    client, _ = _shown.pop(number)
    client.close()
    if not client.session.clients:
        client.session.close()


if __name__ == "__main__":
    main(sys.argv[1:])
