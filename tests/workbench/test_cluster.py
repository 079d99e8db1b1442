"""`wb.cluster`: `%%px` cells on the ranks of an MPI job, started once for all tests of this file, in a real kernel."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from kernels import PATIENCE, ROOT, Kernel, printed

import workbench as wb
from engine import distributed as dist
from workbench.jupyter import cluster as clusters

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32" or importlib.util.find_spec("ipyparallel") is None, reason="needs the extra `cluster`"),
]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        kernel = Kernel()
    kernel.run("import workbench as wb\ncluster = wb.cluster(2)\nprint(cluster)")
    kernel.run(TRAIN)
    yield kernel
    kernel.close()


def px(kernel, code):
    return kernel.run(f"%%px\n{code}")


def said(messages):
    """All that a cell has printed, here and on the ranks, and its error."""
    texts = [m["content"]["data"].get("text/plain", "") for m in messages if m["msg_type"] == "display_data"]
    texts += ["\n".join(m["content"]["traceback"]) for m in messages if m["msg_type"] == "error"]
    return re.sub(r"\x1b\[[0-9;]*m", "", printed(messages) + "".join(texts))


# Each rank has half of four samples.
TRAIN = """%%px
import engine, engine.distributed as dist
from engine import nn

def trained():
    engine.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 1))
    optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
    x = engine.arange(12.0).reshape(4, 3) / 12
    share = 4 // dist.get_world_size()
    x = x[dist.get_rank() * share :][:share]
    for _ in range(3):
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [round(value, 5) for p in model.parameters() for value in p.flatten().tolist()]
"""


def test_a_cell_trains_on_all_ranks_and_in_one_process_alike(kernel):
    shown = said(px(kernel, "print(dist.get_rank(), dist.get_world_size(), trained())"))
    ranks = sorted(re.findall(r"\[stdout:(\d)\] (\d) 2 (\[.*\])", shown))
    assert ranks == [("0", "0", ranks[0][2]), ("1", "1", ranks[0][2])], shown  # the number of an engine is its rank
    space: dict = {}
    cluster = wb.cluster(1)
    try:
        exec(TRAIN.partition("\n")[2], space)
        assert str(space["trained"]()) == ranks[0][2]
    finally:
        cluster.stop()


def test_a_cell_that_fails_on_one_rank_ends_on_the_others(kernel):
    shown = said(px(kernel, "if dist.get_rank() == 1: raise ValueError('on purpose')\ndist.barrier()"))
    assert "ValueError" in shown and "barrier: rank 1 failed with ValueError: on purpose" in shown
    assert said(px(kernel, "x = engine.ones(1); dist.all_reduce(x); print('sum', x.item())")).count("sum 2.0") == 2


def test_one_view_shows_the_graph_of_each_rank_and_steps_on_one(kernel):
    px(
        kernel,
        """import workbench as wb
x, w = engine.full((2,), 1.0 + dist.get_rank()), engine.ones(2, requires_grad=True)
loss = (w * x).sum()""",
    )
    ask = """
import json, time
view, came = cluster.show("wb.step(loss)"), []
view.send = lambda content, buffers=None: came.append(content)

def ask(**request):
    came.clear()
    view._handle_custom_msg({"v": 1, "id": 1, **request}, [])
    end = time.monotonic() + 120
    while not came and time.monotonic() < end:
        time.sleep(0.02)
    found = {one["type"]: one for content in list(came) for one in content.get("messages", [content])}
    print(json.dumps([found.get("graph", {}).get("recording"), found.get("stepped", {}).get("index"), found.get("ranks"), found.get("problem")]))

ask(type="ready")
ask(type="ask_rank", rank=1)
ask(type="step", do="next", to=-1, by="op")
ask(type="ask_rank", rank=0)
ask(type="ask_rank", rank=1)
ask(type="ask_rank", rank=2)
"""
    told = [json.loads(line) for line in said(kernel.run(ask)).splitlines() if line.startswith("[")]
    opened, other, stepped, first, again, none = told
    assert len({opened[0], other[0], first[0], again[0]}) == 1  # one name: the view stays where it is
    assert [one[2]["rank"] for one in (opened, other, first, again)] == [0, 1, 0, 1] and opened[2]["size"] == 2
    assert opened[2]["sentences"] == ["Each rank has its own data: x. Nothing else differs but what is computed from them."]
    assert [one[1] for one in (other, stepped, first, again)] == [None, 1, None, 1]  # only rank 1 has taken a step
    assert "one process" in none[3]["sentence"]
    assert "on rank 1, missing raised NameError" in said(
        px(kernel, "if dist.get_rank() == 0: missing = loss") + kernel.run("cluster.show('missing')")
    )


def test_the_board_of_rank_0_is_drawn_while_the_cell_runs(kernel):
    request = kernel.start("%%px\nimport time, workbench as wb; board = wb.ranks()\ntime.sleep(120)")

    def drawn(message):
        value = message["content"].get("data", {}).get("state", {}).get("value")
        return message["msg_type"] == "comm_msg" and "<b>computes</b> line 2 of the cell" in str(value)

    kernel.until(drawn)
    kernel.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in said(kernel.finish(request))
    px(kernel, "board.close()")


def test_ranks_that_run_a_cell_pause_after_the_same_step(kernel, tmp_path):
    kernel.run(f"""%%px --noblock
p = engine.zeros(1, requires_grad=True)
optimizer = engine.optim.SGD([p])
while True:
    p.grad = engine.ones(1)
    dist.all_reduce(p.grad)
    optimizer.step()
    open({str(tmp_path)!r} + f"/{{dist.get_rank()}}", "a").write(".")
""")

    def steps():
        return [path.stat().st_size for path in sorted(tmp_path.iterdir())]

    def until(condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def still():
        before = steps()
        time.sleep(0.5)
        return before == steps()

    until(lambda: len(steps()) == 2)
    kernel.run("cluster.pause()")
    until(still)
    reached = steps()
    assert reached[0] == reached[1]
    kernel.run("cluster.resume()")
    until(lambda: steps() > reached)
    assert "stops it" in said(kernel.run("cluster.show('p')"))
    kernel.run("cluster.interrupt()\ncluster.client.wait(timeout=60)\ncluster.reset()")
    assert said(px(kernel, "x = engine.ones(1); dist.all_reduce(x); print('sum', x.item())")).count("sum 2.0") == 2


def test_an_interrupt_reaches_all_ranks(kernel):
    request = kernel.start("%%px\nprint('waits', flush=True)\nif dist.get_rank() == 0: dist.barrier()\nimport time; time.sleep(600)")
    kernel.until(lambda m: m["msg_type"] == "display_data" and "[stdout:0] waits" in m["content"]["data"].get("text/plain", ""))
    kernel.manager.interrupt_kernel()
    shown = said(kernel.finish(request))
    assert "KeyboardInterrupt" in shown and "wb.cluster:" not in shown
    assert said(px(kernel, "x = engine.ones(1); dist.all_reduce(x); print('sum', x.item())")).count("sum 2.0") == 2


def test_without_a_cluster_px_runs_here():
    shell = InteractiveShell()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "get_ipython", lambda: shell)
        alone = wb.cluster(1)
    try:
        assert "1 rank: this process" in repr(alone) and len(alone) == 1
        shell.run_cell(TRAIN).raise_error()
        shell.run_cell("%%px\nfound = dist.get_world_size(), trained()").raise_error()
        assert shell.user_ns["found"][0] == 1
        with pytest.raises(ZeroDivisionError):
            shell.run_cell("%px 1 / 0").raise_error()
    finally:
        alone.stop()


def test_the_ranks_end_with_the_kernel_even_if_it_is_killed(kernel):
    pids = re.findall(r"\d+", said(kernel.run("print(*cluster.view.apply_sync(lambda: __import__('os').getpid()))")))
    assert len(pids) == 2
    kernel.manager.shutdown_kernel(now=True)
    deadline = time.monotonic() + PATIENCE
    while any(alive(int(pid)) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_nonsense_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr(clusters, "Cluster", None)
    for error, said, arguments in (
        (TypeError, "expected a number of ranks, got '4'", {"n": "4"}),
        (TypeError, "got True", {"n": True}),
        (ValueError, "expected at least 1 rank, got 0", {"n": 0}),
        (ValueError, "how many ranks", {}),
        (ValueError, "expected machines such as a:4,b:4", {"hosts": "a:b"}),
        (ValueError, "3 ranks, but hosts='a:4' has 4", {"n": 3, "hosts": "a:4"}),
        (ValueError, "hosts or a profile", {"hosts": "a:4", "profile": "slurm"}),
        (ValueError, "there is no profile 'no_such_profile'", {"n": 2, "profile": "no_such_profile"}),
    ):
        with pytest.raises(error) as raised:
            wb.cluster(**arguments)
        assert said in str(raised.value)
    monkeypatch.setitem(sys.modules, "ipyparallel", None)
    with pytest.raises(RuntimeError, match=r'pip install "gradient-workbench\[cluster\]"'):
        wb.cluster(2)
    assert not dist.is_initialized()


@pytest.mark.parametrize("name", ["slurm", "pbs"])
def test_profiles_of_the_docs(name, tmp_path, monkeypatch):
    """A job script that has mpiexec start the ranks; there is no Slurm and no PBS here to run it."""
    from ipyparallel import Cluster
    from traitlets.config import PyFileConfigLoader

    monkeypatch.chdir(tmp_path)  # the script is written there
    config = PyFileConfigLoader(f"ipcluster_config_{name}.py", str(ROOT / "docs" / "cluster")).load_config()
    cluster = Cluster(config=config, n=8, load_profile=False)
    launcher = cluster.engine_launcher_class(config=config, engine_cmd=clusters.RANK)
    launcher.context["n"] = 8
    launcher.write_batch_script(8)
    script = Path(launcher.batch_file).read_text()
    assert "mpiexec --with-ft ulfm -n 8" in script and "workbench.jupyter.rank" in script, script


def test_hogwild_of_the_docs():
    done = subprocess.run(
        [sys.executable, "docs/cluster/hogwild.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = map(float, re.findall(r"\d+\.\d+", done.stdout))
    assert after < before / 3
