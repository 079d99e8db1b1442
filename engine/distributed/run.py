"""`python -m engine.distributed.run --nproc_per_node=2 script.py`: start a program in several processes, as torchrun does.

The processes are those of one MPI job, on this machine or on those of `--hosts`. Each gets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT. `import torch` imports the engine in them, unless `--no-torch-name` is given. If one fails, the others are ended and all are
started again up to `--max_restarts` times; then exit with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .child import STREAMS
from .seats import environment, mpiexec

PROGRAM = "engine.distributed.run"
ALLOCATIONS = ("SLURM_JOB_NODELIST", "PBS_NODEFILE")  # set where mpiexec itself finds the machines of the job


def parser() -> argparse.ArgumentParser:
    """Return a parser for torchrun's options that apply without an elastic agent, spelled with `_` or `-`."""
    made = argparse.ArgumentParser("python -m engine.distributed.run", description=__doc__)

    def add(name: str, **how: Any) -> None:
        made.add_argument(f"--{name}", f"--{name.replace('_', '-')}", **how)

    add("nproc_per_node", default="1", help='processes on each machine: a number, "auto", "cpu" or "gpu"')
    made.add_argument("--hosts", default="", help="machines and their processes, as in a:4,b:4, or the path of a hostfile of MPI")
    add("nnodes", default="1", help="machines, in an allocation of Slurm or PBS: a number")
    add("node_rank", type=int, default=0, help="0: one command starts the processes of all machines")
    add("master_addr", default="", help="MASTER_ADDR; the first of the hosts unless given")
    add("master_port", type=int, default=None, help="MASTER_PORT; a free one unless given")
    made.add_argument("--standalone", action="store_true", help="one machine, and a free port")
    add("rdzv_id", default="none", help="the job's name")
    add("rdzv_backend", default="static", choices=["static", "c10d"])
    add("rdzv_endpoint", default="", help="host:port, for master_addr and master_port")
    add("max_restarts", type=int, default=0, help="how often all processes are started again when one has failed")
    add("monitor_interval", type=float, default=0.1, help="ignored: failures are noticed at once")
    add("role", default="default", help="the processes' name: ROLE_NAME, and before each line of --tee")
    add("log_dir", default=None, help="the folder of --redirects and --tee; a new one unless given")
    made.add_argument("-r", "--redirects", default="0", help="what goes into files: 1 stdout, 2 stderr, 3 both, or by local rank, 0:3,1:1")
    made.add_argument("-t", "--tee", default="0", help="what goes into files and is shown too; written as in --redirects")
    made.add_argument("-m", "--module", action="store_true", help="the script is a module's name")
    add("no_python", action="store_true", help="the script is a program of its own")
    add("no_torch_name", action="store_true", help="`import torch` is left as it is")
    made.add_argument("script")
    made.add_argument("arguments", nargs=argparse.REMAINDER)
    return made


def processes(text: str) -> int:
    """Parse the number of processes on a machine."""
    if text in ("auto", "gpu"):
        from .. import cuda

        n = cuda.device_count()
        if n == 0 and text == "gpu":
            raise ValueError("--nproc_per_node=gpu: there is no GPU")
        return n or os.cpu_count() or 1
    if text == "cpu":
        return os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f'--nproc_per_node: expected a number, "auto", "cpu" or "gpu", got {text!r}')
    return int(text)


def machines(text: str) -> int:
    """Parse the number of machines. Raises ValueError for a range: the number of machines is fixed."""
    least, _, most = text.partition(":")
    if not least.isdecimal() or int(least) < 1 or (most and most != least):
        raise ValueError(f"--nnodes: expected a number, got {text!r}; a job keeps its number of machines here")
    return int(least)


def hosts(text: str, local: int) -> dict[str, int]:
    """Parse "a:4,b:4", or the path of a hostfile with lines such as "a slots=4". Returns the processes of each machine."""
    if "/" in text:
        try:
            lines = [line.partition("#")[0].strip() for line in Path(text).read_text(encoding="utf-8").splitlines()]
        except OSError as error:
            raise ValueError(f"--hosts: {text!r} cannot be read: {error.strerror}") from error
        parts = [re.sub(r"\s+slots\s*=\s*(\d+).*", r":\1", line) for line in lines if line]
    else:
        parts = text.split(",")
    found: dict[str, int] = {}
    for part in parts:
        match = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?::(\d+))?", part.strip())
        if match is None or match[2] is not None and int(match[2]) < 1:
            raise ValueError(f"--hosts: expected machines such as a:4,b:4, or the path of a hostfile, got {part!r}")
        if match[1] in found:
            raise ValueError(f"--hosts: {match[1]} is there twice")
        found[match[1]] = local if match[2] is None else int(match[2])
    if not found:
        raise ValueError(f"--hosts: there is no machine in {text!r}")
    return found


def streams(text: str, local: int, option: str) -> list[list[str]]:
    """Parse "0" (none), "1" (stdout), "2" (stderr), "3" (both) or "0:3,1:1" by rank; return the streams of each local process."""

    def chosen(digit: str) -> list[str]:
        if digit not in ("0", "1", "2", "3"):
            raise ValueError(f'--{option}: expected 0, 1, 2 or 3, or a list such as "0:3,1:1", got {text!r}')
        return [name for bit, name in enumerate(STREAMS, 1) if int(digit) & bit]

    if ":" not in text:
        return [chosen(text)] * local
    found: list[list[str]] = [[]] * local
    for part in text.split(","):
        rank, _, digit = part.partition(":")
        if not rank.isdecimal() or int(rank) >= local:
            raise ValueError(f"--{option}: expected local ranks below {local}, got {rank!r} in {text!r}")
        found[int(rank)] = chosen(digit)
    return found


def master(options: argparse.Namespace, first: str) -> tuple[str, int]:
    """Return MASTER_ADDR and MASTER_PORT. Raises ValueError if they are none."""
    host, port = options.master_addr or first, options.master_port
    if options.rdzv_endpoint:
        host, colon, text = options.rdzv_endpoint.rpartition(":") if ":" in options.rdzv_endpoint else (options.rdzv_endpoint, "", "")
        if not host or colon and not text.isdecimal():
            raise ValueError(f"--rdzv_endpoint: expected host:port, got {options.rdzv_endpoint!r}")
        port = int(text) if text else port
    if port is not None and not 0 <= port < 65536:
        raise ValueError(f"--master_port: expected a port from 0 to 65535, got {port}")
    if not port or options.standalone:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    return host, port


def plan(options: argparse.Namespace, program: str = PROGRAM) -> tuple[list[str], dict[str, Any]]:
    """Return the arguments of mpiexec up to the program, and what each process needs to know. Raises ValueError for bad options."""
    nodes, local = machines(options.nnodes), processes(options.nproc_per_node)
    if options.node_rank != 0:
        raise ValueError(f"--node_rank: expected 0, got {options.node_rank}: one command starts all processes, with --hosts a:4,b:4")
    if options.max_restarts < 0:
        raise ValueError(f"--max_restarts: expected a number of at least 0, got {options.max_restarts}")
    if not options.module and not options.no_python and not Path(options.script).exists():
        raise ValueError(f"there is no file {options.script!r}")
    if options.rdzv_id in ("", ".", "..") or "/" in options.rdzv_id:
        raise ValueError(f"--rdzv_id: expected a name, got {options.rdzv_id!r}")
    allocated = any(name in os.environ for name in ALLOCATIONS)
    where = hosts(options.hosts, local) if options.hosts else {}
    if where and nodes not in (1, len(where)):
        raise ValueError(f"--nnodes: {nodes} machines, but --hosts has {len(where)}")
    if nodes > 1 and not where and not allocated:
        raise ValueError(f"--nnodes={nodes}: which machines? Give them with --hosts a:4,b:4, or start in an allocation of Slurm or PBS")
    slots = list(where.values()) or [local] * nodes
    host, port = master(options, next(iter(where), "127.0.0.1" if nodes == 1 else socket.gethostname()))
    job = {"program": program, "host": host, "port": port, "slots": slots, "role": options.role, "id": options.rdzv_id}
    most = max(slots)
    tees, redirects = streams(options.tee, most, "tee"), streams(options.redirects, most, "redirects")
    job |= {"tees": tees, "redirects": redirects, "restarts": options.max_restarts, "logs": options.log_dir}
    path = mpiexec()
    version = subprocess.run([path, "--version"], env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    mpich = "Open MPI" not in version
    command = [path, *([] if mpich else ["--with-ft", "ulfm"]), "-n", str(sum(slots))]
    if where:
        command += ["-hosts" if mpich else "--host", ",".join(f"{host}:{n}" for host, n in where.items())]
    elif mpich and allocated:
        command += ["-ppn", str(local)]
    if not mpich:
        command += ["--map-by", f"ppr:{local}:node:oversubscribe" if allocated and not where else "slot:oversubscribe"]
        command += [word for name in ("PYTHONPATH", "OMP_NUM_THREADS") if name in os.environ for word in ("-x", name)]
    return command, job


def launch(options: argparse.Namespace, program: str) -> int:
    """Start the processes, wait for them, and return the exit status: 0 if all succeed."""
    command, job = plan(options, program)
    if job["logs"] is None and any(job["tees"] + job["redirects"]):
        job["logs"] = tempfile.mkdtemp(prefix="engine-run-")
        print(f"{program}: what the processes print is in {job['logs']}", file=sys.stderr)
    how = [option for option, given in (("--program", options.no_python), ("--module", options.module)) if given]
    how += [] if options.no_torch_name else ["--torch"]
    child = [sys.executable, "-u", str(Path(__file__).with_name("child.py"))]
    for attempt in range(options.max_restarts + 1):
        told = json.dumps(job | {"attempt": attempt})
        status = _wait(subprocess.Popen([*command, *child, told, *how, "--", options.script, *options.arguments], env=environment()))
        if status == 0:
            return 0
        if attempt < options.max_restarts:
            print(f"{program}: started again ({attempt + 1} of {options.max_restarts})", file=sys.stderr)
    return 1


def _wait(started: subprocess.Popen) -> int:
    """Wait for mpiexec, and have it end all processes if this one is interrupted or terminated."""

    def told(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, told)
    try:
        return started.wait()
    except BaseException:
        try:
            started.wait(1.0)  # a terminal interrupts mpiexec, too
        except subprocess.TimeoutExpired:
            started.terminate()
            started.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def main(arguments: list[str] | None = None, program: str = PROGRAM) -> int:
    """Run the command line; messages begin with the program's name."""
    try:
        return launch(parser().parse_args(arguments), program)
    except (ValueError, RuntimeError) as error:  # RuntimeError: there is no MPI
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
