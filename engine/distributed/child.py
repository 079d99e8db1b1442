"""The program that `mpiexec` starts for each rank of a job of `run`: it sets torchrun's variables, runs the script in a process of its own,
and reports how that has ended. It imports only the standard library, so that the variables are set before NumPy is loaded.
"""

from __future__ import annotations

import bisect
import itertools
import json
import mmap
import os
import runpy
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

RANKS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))  # of Open MPI and of MPICH
STREAMS = ("stdout", "stderr")
GRACE = 0.5  # seconds after a failure in which the other ranks may report its consequences: then mpiexec ends them


def variables(job: dict[str, Any]) -> dict[str, str]:
    """Return the environment variables that torchrun would set for this rank."""
    names = next(names for names in RANKS if names[0] in os.environ)
    rank, world = (os.environ[name] for name in names)
    ends = list(itertools.accumulate(job["slots"]))  # mpiexec fills one machine after the other
    node = bisect.bisect(ends, int(rank))
    local_world = job["slots"][node]
    found = {"RANK": rank, "WORLD_SIZE": world}
    found |= {"LOCAL_RANK": str(int(rank) - ends[node] + local_world), "LOCAL_WORLD_SIZE": str(local_world)}
    found |= {"GROUP_RANK": str(node), "GROUP_WORLD_SIZE": str(len(job["slots"]))}
    found |= {"ROLE_NAME": job["role"], "ROLE_RANK": rank, "ROLE_WORLD_SIZE": world}
    found |= {"MASTER_ADDR": job["host"], "MASTER_PORT": str(job["port"]), "TORCHELASTIC_RUN_ID": job["id"]}
    found |= {"TORCHELASTIC_RESTART_COUNT": str(job["attempt"]), "TORCHELASTIC_MAX_RESTARTS": str(job["restarts"])}
    if local_world > 1 and "OMP_NUM_THREADS" not in os.environ:
        found["OMP_NUM_THREADS"] = "1"  # otherwise every process would use all cores
    return found


def main(text: str, how: list[str], script: list[str]) -> int:
    """Start the script, wait for it, and return its exit status."""
    job = json.loads(text)
    os.environ.update(variables(job))
    rank, local = os.environ["RANK"], int(os.environ["LOCAL_RANK"])
    reported = mmap.mmap(-1, 1)  # shared with the script's process, which sets it when it has printed why it fails
    joined, joining = os.pipe()
    os.environ["ENGINE_JOINED"] = str(joining)  # init_process_group writes into it
    outputs = {name: _output(job, rank, local, name) for name in STREAMS}
    pid = os.fork()
    if pid == 0:
        for name, (into, _) in outputs.items():
            if into is not None:
                os.dup2(into, getattr(sys, name).fileno())
        return _run(how, script, reported)
    os.close(joining)
    signal.signal(signal.SIGTERM, lambda number, frame: _terminate(pid, reported))
    threads = []
    for name, (into, copied) in outputs.items():
        if into is not None:
            os.close(into)
        if copied is not None:
            label = f"[{job['role']}{rank}]:"
            threads.append(threading.Thread(target=_copy, args=(*copied, getattr(sys, name), label), daemon=True))
            threads[-1].start()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for thread in threads:
        thread.join(5.0)  # not for the output of processes that the script has left behind
    if status == 0:
        return 0
    if not reported[0]:
        ended = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit code {status}"
        print(f"{job['program']}: rank {rank} of {script[0]} (pid {pid} on {socket.gethostname()}) {ended}", file=sys.stderr, flush=True)
    time.sleep(GRACE if status > 0 else 0)
    os.set_blocking(joined, False)
    try:
        in_job = os.read(joined, 1) == b"1"
    except BlockingIOError:  # processes that the script has left behind hold the other end
        in_job = False
    if status < 0 and in_job:
        os.kill(os.getpid(), -status)  # MPI notices it and tells the other processes: they may survive
    return max(status, 1)


def _terminate(pid: int, reported: mmap.mmap) -> None:
    """Pass on that mpiexec ends the job: there is nothing to report."""
    reported[0] = 1
    os.kill(pid, signal.SIGTERM)


def _output(job: dict[str, Any], rank: str, local: int, name: str) -> tuple[int | None, tuple | None]:
    """Return where a stream of the script goes if not to its terminal, and for `--tee` what to copy into which file."""
    tee = name in job["tees"][local]
    if not tee and name not in job["redirects"][local]:
        return None, None
    path = Path(job["logs"], job["id"], f"attempt_{job['attempt']}", rank, f"{name}.log")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("wb")
    if not tee:
        return os.dup(file.fileno()), None
    source, into = os.pipe()
    return into, (source, file)


def _copy(source: int, file: Any, here: Any, label: str) -> None:
    with open(source, "rb") as lines, file:
        for line in lines:
            file.write(line)
            file.flush()
            here.write(f"{label}{line.decode(errors='replace')}")
            here.flush()


def _run(how: list[str], script: list[str], reported: mmap.mmap) -> int:
    """Run the script in this process. An uncaught exception is shown from the script's own lines on."""
    if "--program" in how:
        os.execvp(script[0], script)
    if "--torch" in how:
        sys.path[0] = str(Path(__file__).resolve().parents[2])
        import engine

        engine.install_as_torch()
    sys.argv = script
    try:
        if "--module" in how:
            sys.path[0] = os.getcwd()
            runpy.run_module(script[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(script[0]))
            runpy.run_path(script[0], run_name="__main__")
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.run_path.__code__.co_filename):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        reported[0] = 1
        return 1
    except SystemExit as error:
        if error.code and (world := sys.modules.get("engine.distributed.world")):
            world.tell_failure(error)
        raise
    except KeyboardInterrupt:
        reported[0] = 1
        return 130
    return 0


if __name__ == "__main__":
    split = sys.argv.index("--")
    sys.exit(main(sys.argv[1], sys.argv[2:split], sys.argv[split + 1 :]))
