"""`python -m engine.distributed.run --nproc_per_node=2 script.py`: start a program in several processes, as torchrun does.

Each process gets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. `import torch` imports the engine in them, unless
`--no-torch-name` is given. If one fails, the others are terminated and all are restarted up to `--max_restarts` times; then exit with 1.
"""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from .output import Output


def parser() -> argparse.ArgumentParser:
    """Return a parser for torchrun's options that apply without an elastic agent, spelled with `_` or `-`."""
    made = argparse.ArgumentParser("python -m engine.distributed.run", description=__doc__)

    def add(name: str, **how: Any) -> None:
        made.add_argument(f"--{name}", f"--{name.replace('_', '-')}", **how)

    add("nproc_per_node", default="1", help='processes on this machine: a number, "auto", "cpu" or "gpu"')
    add("nnodes", default="1", help="machines: a number")
    add("node_rank", type=int, default=0, help="this machine's number")
    add("master_addr", default="127.0.0.1", help="the address of machine 0")
    add("master_port", type=int, default=None, help="its port; 29500 with several machines, else a free one")
    made.add_argument("--standalone", action="store_true", help="one machine, and a free port")
    add("rdzv_id", default="none", help="the job's name")
    add("rdzv_backend", default="static", choices=["static", "c10d"])
    add("rdzv_endpoint", default="", help="host:port, for master_addr and master_port")
    add("max_restarts", type=int, default=0, help="how often all processes are started again when one has failed; one machine only")
    add("monitor_interval", type=float, default=0.02, help="seconds between two looks at the processes")
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
    """Parse the number of processes on this machine."""
    if text in ("auto", "gpu"):
        from .. import cuda

        n = cuda.device_count()
        if n == 0 and text == "gpu":
            raise ValueError("--nproc_per_node=gpu: there is no GPU")
        return n or os.cpu_count() or 1
    if text == "cpu":
        return os.cpu_count() or 1
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f'--nproc_per_node: expected a number, "auto", "cpu" or "gpu", got {text!r}')
    return int(text)


def machines(text: str) -> int:
    """Parse the number of machines. Raises ValueError for a range: the number of machines is fixed."""
    least, _, most = text.partition(":")
    if not least.isdigit() or int(least) < 1 or (most and most != least):
        raise ValueError(f"--nnodes: expected a number, got {text!r}; a job keeps its number of machines here")
    return int(least)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is currently free."""
    with socket.create_server((host, 0)) as sock:
        return sock.getsockname()[1]


def command(options: argparse.Namespace) -> list[str]:
    """Return the command line of each process."""
    if options.no_python:
        return [options.script, *options.arguments]
    how = [] if options.no_torch_name else ["--torch"]
    return [
        sys.executable,
        "-u",
        "-m",
        "engine.distributed.run",
        "_child",
        *how,
        *(["-m"] if options.module else []),
        options.script,
        *options.arguments,
    ]


def launch(options: argparse.Namespace) -> int:
    """Start the processes, wait for them, and return the exit status: 0 if all succeed."""
    nodes, local = machines(options.nnodes), processes(options.nproc_per_node)
    if not 0 <= options.node_rank < nodes:
        raise ValueError(f"--node_rank: expected 0 to {nodes - 1}, got {options.node_rank}")
    if options.max_restarts and nodes > 1:
        raise ValueError("--max_restarts: with several machines processes are not started again; expected 0")
    output = Output(options.redirects, options.tee, options.log_dir, options.rdzv_id, local)
    for attempt in range(options.max_restarts + 1):
        status = _attempt(options, nodes, local, attempt, output)
        if status == 0:
            break
        if attempt < options.max_restarts:
            print(f"engine.distributed.run: started again ({attempt + 1} of {options.max_restarts})", file=sys.stderr)
    return status


def _attempt(options: argparse.Namespace, nodes: int, local: int, attempt: int, output: Output) -> int:
    """Start the processes once and wait."""
    host, port = options.master_addr, options.master_port
    if options.rdzv_endpoint:
        host, _, text = options.rdzv_endpoint.partition(":")
        port = int(text or 29400)
    if options.standalone:
        host, port = "127.0.0.1", None
    if not port:
        port = free_port() if nodes == 1 else 29500
    world = str(local * nodes)
    common = {"MASTER_ADDR": host, "MASTER_PORT": str(port), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": str(local)}
    common |= {"GROUP_RANK": str(options.node_rank), "GROUP_WORLD_SIZE": str(nodes), "ROLE_NAME": options.role, "ROLE_WORLD_SIZE": world}
    common |= {"TORCHELASTIC_RUN_ID": options.rdzv_id, "TORCHELASTIC_RESTART_COUNT": str(attempt)}
    common |= {"TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts)}
    if local > 1 and "OMP_NUM_THREADS" not in os.environ:
        common["OMP_NUM_THREADS"] = "1"  # otherwise every process would use all cores
    started: list[subprocess.Popen] = []

    def told(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, told)
    try:
        for i in range(local):
            rank = str(options.node_rank * local + i)
            mine = {"LOCAL_RANK": str(i), "RANK": rank, "ROLE_RANK": rank}
            started.append(subprocess.Popen(command(options), env={**os.environ, **common, **mine}, **output.of(i, attempt)))
            output.follow(started[-1], i, attempt, f"[{options.role}{rank}]:")
        return _watch(started, options)
    finally:
        signal.signal(signal.SIGTERM, before)
        end(started)
        output.close()


def _watch(started: list[subprocess.Popen], options: argparse.Namespace) -> int:
    while True:
        codes = [process.poll() for process in started]
        if any(code not in (None, 0) for code in codes):
            time.sleep(0.2)  # others may fail because of the first; report all
            for i, process in enumerate(started):
                if (code := process.poll()) not in (None, 0):
                    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                    print(f"engine.distributed.run: local rank {i} (pid {process.pid}) of {options.script} {how}", file=sys.stderr)
            return 1
        if all(code == 0 for code in codes):
            return 0
        time.sleep(options.monitor_interval)


def end(started: list[subprocess.Popen], grace: float = 5.0) -> None:
    """Terminate the running processes, and kill those left after `grace` seconds."""
    for process in started:
        if process.poll() is None:
            process.terminate()
    last = time.monotonic() + grace
    for process in started:
        try:
            process.wait(max(0.0, last - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def child(arguments: list[str]) -> None:
    """Entry point of a started process: install the engine as torch if requested, then run the program."""
    if arguments[0] == "--torch":
        import engine

        engine.install_as_torch()
        arguments = arguments[1:]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["_child"]:
        child(arguments[1:])
        return 0
    try:
        return launch(parser().parse_args(arguments))
    except ValueError as error:
        print(f"engine.distributed.run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
