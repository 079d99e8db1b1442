"""An engine of ipyparallel that is a rank of an MPI job: what `wb.cluster` has mpiexec start, and what it calls there.

A profile for Slurm, PBS or SSH has mpiexec start it, too: `python -m workbench.jupyter.rank`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from engine.distributed import mpi, world


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
    shell: Any = get_ipython()
    if told not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", told)
    return world.get_rank(), world.get_world_size()


def told(result: Any) -> None:
    """Tell the other ranks that a cell has failed here, so that those that wait for this one raise an error, too."""
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        world.tell_failure(error)


if __name__ == "__main__":
    main(sys.argv[1:])
