"""python -m engine.distributed.run: a program in several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]
ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(2) * dist.get_rank()
dist.all_reduce(x)
if dist.get_rank() == 1:
    print("found", x.tolist(), sys.argv[1:], os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"], torch.nn.__name__)
if "--fail" in sys.argv and dist.get_rank() == 1:
    raise ValueError("on purpose")
dist.barrier()
dist.destroy_process_group()
"""


def launched(tmp_path, *arguments):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "engine.distributed.run", "--nproc_per_node=2", str(script), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)


def test_launcher(tmp_path):
    done = launched(tmp_path, "--lr", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "found [1.0, 1.0] ['--lr', '3'] 1 2 engine.nn"


def test_launcher_ends_all_when_one_fails(tmp_path):
    done = launched(tmp_path, "--fail")
    assert done.returncode == 1 and "ValueError: on purpose" in done.stderr and "local rank 1" in done.stderr


def test_launcher_refuses(capsys):
    from engine.distributed import run

    assert run.main(["--nproc_per_node=none", "x.py"]) == 2 and "expected a number" in capsys.readouterr().err
    for arguments, said in (
        (["--max-restarts=3", "--nnodes=2"], "with several machines processes are not started again"),
        (["--nnodes=1:2"], "--nnodes: expected a number, got '1:2'"),
        (["--nnodes=0"], "--nnodes: expected a number, got '0'"),
        (["--nnodes=2", "--node-rank=2"], "--node_rank: expected 0 to 1, got 2"),
        (["--tee=4"], "--tee: expected 0, 1, 2 or 3"),
        (["-r", "1:3"], "--redirects: expected local ranks below 1, got '1'"),
    ):
        assert run.main([*arguments, "x.py"]) == 2 and said in capsys.readouterr().err


ROLES = """
import os, sys
names = "RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RESTART_COUNT"
sys.stdout.write(" ".join(os.environ[n] for n in names) + "\\n")  # in one piece: the processes share a pipe
sys.stderr.write("trouble " + os.environ["RANK"] + "\\n")
if "--once" in sys.argv and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
    sys.exit(3)
if "--always" in sys.argv:
    sys.exit(3)
"""


def run_roles(tmp_path, options, *arguments):
    script = tmp_path / "roles.py"
    script.write_text(ROLES)
    how = [sys.executable, "-m", "engine.distributed.run", "--nproc_per_node=2", "--no-torch-name", *options, str(script), *arguments]
    done = subprocess.run(how, cwd=ROOT, capture_output=True, text=True, timeout=900)
    return done.returncode, sorted(done.stdout.splitlines()), done.stderr


def test_roles_and_machines(tmp_path):
    assert run_roles(tmp_path, ["--nnodes=1:1", "--role=trainer"])[:2] == (0, ["0 0 2 trainer 0", "1 1 2 trainer 0"])


def test_output_goes_into_files(tmp_path):
    logs = tmp_path / "logs" / "job" / "attempt_0"
    options = ["--log-dir", str(tmp_path / "logs"), "--rdzv-id=job", "--redirects=0:3", "--tee=1:1"]
    status, shown, errors = run_roles(tmp_path, options)
    assert (status, shown) == (0, ["[default1]:1 1 2 default 0"])
    assert "trouble 1" in errors and "trouble 0" not in errors
    found = {str(p.relative_to(logs)): p.read_text() for p in logs.rglob("*.log")}
    assert found == {"0/stdout.log": "0 0 2 default 0\n", "0/stderr.log": "trouble 0\n", "1/stdout.log": "1 1 2 default 0\n"}


def test_all_are_started_again(tmp_path):
    status, shown, errors = run_roles(tmp_path, ["--max-restarts=2"], "--once")
    assert status == 0 and {"0 0 2 default 1", "1 1 2 default 1"} <= set(shown) and errors.count("started again") == 1
    status, shown, errors = run_roles(tmp_path, ["--max_restarts=1"], "--always")
    assert status == 1 and errors.count("started again (1 of 1)") == 1 and "ended with exit code 3" in errors
