"""python -m engine.distributed.run: a program in several processes."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import engine

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
    assert done.returncode == 1
    first, _, then = done.stderr.partition("ValueError: on purpose\n")  # the traceback of the cause comes first, from the script's line on
    assert first.startswith("Traceback") and first.count("File ") == 1 and "script.py" in first
    assert then == "rank 0 ended because rank 1 failed with ValueError: on purpose\n"


def test_launcher_refuses(capsys, tmp_path, monkeypatch):
    from engine.distributed import run

    monkeypatch.setattr(run.subprocess, "Popen", None)  # nothing may be started
    for name in run.ALLOCATIONS:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "x.py").touch()
    (tmp_path / "hostfile").write_text("# nothing\n")
    for arguments, said in (
        (["--nproc_per_node=none"], "--nproc_per_node: expected a number"),
        (["--nproc_per_node=0"], "--nproc_per_node: expected a number"),
        (["--max-restarts=-1"], "--max_restarts: expected a number of at least 0, got -1"),
        (["--nnodes=1:2"], "--nnodes: expected a number, got '1:2'"),
        (["--nnodes=0"], "--nnodes: expected a number, got '0'"),
        (["--nnodes=2"], "--nnodes=2: which machines?"),
        (["--nnodes=3", "--hosts=a,b"], "--nnodes: 3 machines, but --hosts has 2"),
        (["--nnodes=2", "--node-rank=1"], "--node_rank: expected 0, got 1"),
        (["--hosts=a:x"], "--hosts: expected machines such as a:4,b:4, or the path of a hostfile, got 'a:x'"),
        (["--hosts=a:0"], "got 'a:0'"),
        (["--hosts=-x:1"], "got '-x:1'"),
        (["--hosts=a,,b"], "got ''"),
        (["--hosts=a:2,a:2"], "--hosts: a is there twice"),
        ([f"--hosts={tmp_path}/none"], "cannot be read"),
        ([f"--hosts={tmp_path}/hostfile"], "--hosts: there is no machine in"),
        (["--master_port=70000"], "--master_port: expected a port from 0 to 65535, got 70000"),
        (["--rdzv_endpoint=here:there"], "--rdzv_endpoint: expected host:port, got 'here:there'"),
        (["--rdzv_id=../up"], "--rdzv_id: expected a name, got '../up'"),
        (["--tee=4"], "--tee: expected 0, 1, 2 or 3"),
        (["-r", "1:3"], "--redirects: expected local ranks below 1, got '1'"),
    ):
        assert run.main([*arguments, str(tmp_path / "x.py")]) == 2 and said in capsys.readouterr().err, arguments
    assert run.main(["no_such_file.py"]) == 2 and "there is no file 'no_such_file.py'" in capsys.readouterr().err
    monkeypatch.setattr("engine.distributed.seats.Path.exists", lambda path: path.name == "x.py")
    monkeypatch.setattr("engine.distributed.seats.shutil.which", lambda name: None)
    assert run.main([str(tmp_path / "x.py")]) == 2 and 'pip install "gradient-workbench[cluster]"' in capsys.readouterr().err


def test_several_machines(tmp_path, monkeypatch):
    """The command line, and the variables of each rank; only one machine is here to run it."""
    from engine.distributed import child, run

    (tmp_path / "hostfile").write_text("a slots=2  # as Kubernetes' MPI operator writes it\nb slots=3\n")
    for given in ("a:2,b:3", str(tmp_path / "hostfile")):
        command, job = run.plan(run.parser().parse_args([f"--hosts={given}", "--master_port=1234", "-m", "x"]))
        assert command[command.index("--host") + 1] == "a:2,b:3" and command[command.index("-n") + 1] == "5"
    found = []
    for rank in range(5):
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "5")
        mine = child.variables(job | {"attempt": 0})
        found.append(" ".join(mine[name] for name in ("GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")))
    assert found == ["0 0 2 a 1234", "0 1 2 a 1234", "1 0 3 a 1234", "1 1 3 a 1234", "1 2 3 a 1234"]


ROLES = """
import os, sys
names = "RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RESTART_COUNT"
sys.stdout.write(" ".join(os.environ[n] for n in names) + "\\n")  # in one piece: the processes share a pipe
sys.stderr.write("trouble " + os.environ["RANK"] + "\\n")
if "--always" in sys.argv:
    sys.exit(3)
if "--kill" in sys.argv and os.environ["RANK"] == "1":
    os.kill(os.getpid(), 9)
if "--kill" in sys.argv or "--wait" in sys.argv:
    import time
    time.sleep(600)
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


SNAPSHOT = """  # like that of PyTorch's tutorial on training with torchrun
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.manual_seed(0)
model, first = torch.nn.Linear(2, 1), 0
if os.path.exists("snapshot.pt"):
    snapshot = torch.load("snapshot.pt")
    model.load_state_dict(snapshot["MODEL_STATE"])
    first = snapshot["EPOCHS_RUN"]
ddp = DDP(model)
optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
for epoch in range(first, 4):
    if (rank, epoch, attempt) == (1, 2, 0):
        sys.exit(3)
    optimizer.zero_grad()
    (ddp(torch.tensor([[1.0 + rank, 2.0]])) - epoch).square().mean().backward()
    optimizer.step()
    if rank == 0:
        torch.save({"MODEL_STATE": model.state_dict(), "EPOCHS_RUN": epoch + 1}, "snapshot.pt")
if rank == 0:
    print(attempt, first, model.weight.tolist(), flush=True)
dist.destroy_process_group()
"""


def test_a_snapshot_is_gone_on_with_after_a_restart(tmp_path):
    (tmp_path / "train.py").write_text(SNAPSHOT)
    how = [sys.executable, "-m", "engine.distributed.run", "--nproc_per_node=2", "--max_restarts=2", "train.py"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(how, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900)
    engine.manual_seed(0)
    model = engine.nn.Linear(2, 1)
    optimizer = engine.optim.SGD(model.parameters(), 0.1)
    for epoch in range(4):
        optimizer.zero_grad()
        (model(engine.tensor([[1.0, 2.0], [2.0, 2.0]])) - epoch).square().mean().backward()
        optimizer.step()
    assert done.returncode == 0 and done.stderr.count("started again (1 of 2)") == 1, done.stderr
    attempt, first, weight = done.stdout.split(maxsplit=2)
    assert (attempt, first) == ("1", "2") and json.loads(weight)[0] == pytest.approx(model.weight.tolist()[0], rel=1e-6)


def test_all_are_started_again(tmp_path):
    status, shown, errors = run_roles(tmp_path, ["--max_restarts=1"], "--always")
    assert status == 1 and errors.count("started again (1 of 1)") == 1 and "ended with exit code 3" in errors


def test_all_end_when_one_is_killed(tmp_path):
    status, _, errors = run_roles(tmp_path, [], "--kill")
    assert status == 1 and "rank 1 of" in errors and "was killed by SIGKILL" in errors and "prterun" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_end_with_the_launcher(tmp_path, number):
    script = tmp_path / "roles.py"
    script.write_text(ROLES.replace("os.environ[n] for n in names", "[str(os.getpid())]"))
    how = [sys.executable, "-m", "engine.distributed.run", "--nproc_per_node=2", "--no-torch-name", str(script), "--wait"]
    default = functools.partial(signal.signal, number, signal.SIG_DFL)  # a job in the background of a shell ignores SIGINT
    with subprocess.Popen(how, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=default) as started:
        pids = [int(started.stdout.readline()) for _ in range(2)]
        started.send_signal(number)
        assert started.stdout.read() == "" and started.wait() == 128 + number  # mpiexec and the processes hold the pipe as long as they run
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
