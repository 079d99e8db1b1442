"""A real kernel: %%watch, live views, errors, a cell paused inside backward(), interrupts, the panel, and no thread left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernels import Kernel, custom, is_custom, printed

import ipykernels

pytestmark = pytest.mark.slow

SETUP = """%load_ext workbench
import engine as torch
w = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
x = torch.tensor([[1.0, -1.0]])"""
PAUSED = """w.grad = None
with wb.step():
    loss = (x @ w).tanh().sum()
    loss.backward()
print("done", w.grad.tolist())"""


@pytest.fixture(scope="module", params=ipykernels.VERSIONS, ids=ipykernels.name_of)
def kernel(request) -> Iterator[Kernel]:
    kernel = Kernel(ipykernels.folder_of(request.param))
    assert [m for m in kernel.run(SETUP) if m["msg_type"] == "error"] == []
    yield kernel
    kernel.close()


@pytest.fixture(params=["main shell", "subshell"])
def shell(kernel, request) -> Iterator[Kernel]:
    """The kernel, its front end's messages going to the main shell, or to a subshell where the kernel has them."""
    if request.param == "subshell" and kernel.has_subshells:
        kernel.use_subshell()
    yield kernel
    kernel.subshell = None


def paused(kernel, code=PAUSED) -> tuple[str, str]:
    """Starts a cell that waits in backward(), with its view open: the cell's request, the view's comm."""
    before = len(kernel.seen)
    request = kernel.start(code)
    comm = kernel.widget(before)
    kernel.say(comm, {"type": "ready"})
    kernel.until(lambda m: is_custom(m, comm) and custom(m)["type"] == "stepper" and custom(m)["mode"] == "paused")
    return request, comm


def error_of(messages) -> str:
    return next((m["content"]["ename"] + ": " + m["content"]["evalue"] for m in messages if m["msg_type"] == "error"), "")


def data_of(messages, kind) -> list[dict]:
    return [m["content"]["data"] for m in messages if m["msg_type"] == kind]


def test_watch_shows_the_graph_and_keeps_the_cells_own_output(kernel):
    messages = kernel.run("%%watch\nfor t in range(3):\n    h = (x @ w).tanh()\nloss = h.sum()\nloss")
    (shown,), (final,) = data_of(messages, "display_data"), data_of(messages, "update_display_data")
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert final["image/svg+xml"].startswith("<svg") and "7 ops" in final["text/plain"]
    assert "tensor(" in printed(messages)
    comm = kernel.widget()
    kernel.say(comm, {"type": "ready"})
    graph = custom(kernel.until(lambda m: is_custom(m, comm) and custom(m)["type"] == "graph" and not custom(m)["live"]))
    assert {n for n in graph["nodes"]["name"] if n} == {"x", "w", "h", "loss"}
    assert [(s["line"], s["text"]) for s in graph["sites"]] == [(3, "h = (x @ w).tanh()"), (4, "loss = h.sum()")]
    number = next(m["content"]["execution_count"] for m in messages if m["msg_type"] == "execute_input")
    assert {s["cell"] for s in graph["sites"]} == {f"In [{number}]"} == {graph["title"]}
    assert [g["kind"] for g in graph["groups"]] == ["loop", "iteration", "iteration", "iteration"]


def test_an_error_in_a_watched_cell_is_raised_as_usual_and_the_partial_graph_is_shown(kernel):
    messages = kernel.run("%%watch\ny = x @ w\nz = y @ torch.tensor([1.0, 2.0, 3.0])")
    assert error_of(messages).startswith("RuntimeError: matmul")
    (final,) = data_of(messages, "update_display_data")
    assert "failed: matmul" in final["text/plain"]
    assert printed(kernel.run("print(y.shape)")) == "torch.Size([1, 2])\n"


def test_wrong_options_of_watch_are_refused(kernel):
    assert "takes a size such as 64MB" in printed(kernel.run("%%watch --keep lots\n1"))


def test_a_live_pass_is_stepped_by_messages(kernel):
    kernel.run("w.grad = None\ns = wb.step((x @ w).tanh().sum())\ns")
    comm = kernel.widget()
    kernel.say(comm, {"type": "ready"})
    assert kernel.ask(comm, type="step", do="last")["done"]
    assert printed(kernel.run("print(w.grad is not None)")) == "True\n"
    assert kernel.ask(comm, type="step", do="first")["index"] == 0
    assert printed(kernel.run("print(w.grad)")) == "None\n"
    kernel.run("s.close(); del s")


def test_a_cell_paused_in_backward_is_driven_by_the_view(shell):
    request, comm = paused(shell)
    assert [shell.ask(comm, type="step", do="next")["index"] for _ in range(3)] == [1, 2, 3]
    assert shell.ask(comm, type="step", do="previous")["index"] == 2
    assert shell.ask(comm, type="inspect", node=0)["summary"]["size"] in (2, 4)
    later = shell.start("print('the next cell')")
    done = shell.ask(comm, type="step", do="last")
    assert done["done"] and done["index"] == 4
    assert printed(shell.finish(request)).startswith("done [[0.0706")
    assert printed(shell.finish(later)) == "the next cell\n"
    assert shell.ask(comm, type="step", do="index", to=1)["index"] == 1  # the record can still be looked at


def test_a_paused_cell_can_be_interrupted(shell):
    request, comm = paused(shell)
    shell.ask(comm, type="step", do="next")
    shell.manager.interrupt_kernel()
    assert error_of(shell.finish(request)).startswith("KeyboardInterrupt")
    assert printed(shell.run("print(w.grad)")) == "None\n"


def test_a_paused_cell_under_watch_uses_its_view(shell):
    request, comm = paused(shell, "%%watch\n" + PAUSED)
    assert shell.ask(comm, type="step", do="next")["index"] == 1
    assert shell.ask(comm, type="step", do="last")["done"]
    messages = shell.finish(request)
    assert printed(messages).startswith("done [[0.0706")
    assert len(data_of(messages, "display_data")) == 1


def test_without_a_view_a_paused_cell_runs_on(kernel):
    messages = kernel.run(
        PAUSED.replace("wb.step()", "pause.Pause(patience=0.2)").replace("w.grad = None", "from workbench.jupyter import pause")
    )
    assert "no view has opened" in printed(messages) and "done" in printed(messages)


def test_where_a_program_runs_the_cells_nothing_waits(kernel):
    kernel.client.allow_stdin = False  # as nbclient does
    try:
        messages = kernel.run(PAUSED)
        assert "nobody can press a button" in printed(messages) and "done" in printed(messages)
        looped = printed(kernel.run("import workbench as wb\nfor turn in wb.loop([1, 2, 3]):\n    print(turn)"))
        assert looped.splitlines() == ["wb.loop(): nobody can press a button here, so the loop plays.", "1", "2", "3"]
    finally:
        kernel.client.allow_stdin = True


def test_the_panel_follows_the_latest_session(kernel):
    session = kernel.client.session
    kernel.client.shell_channel.send(session.msg("comm_open", {"comm_id": "panel-1", "target_name": "workbench", "data": {}}))

    def says(kind):
        return lambda m: m["msg_type"] == "comm_msg" and m["content"]["comm_id"] == "panel-1" and m["content"]["data"]["type"] == kind

    def say(kind):
        kernel.client.shell_channel.send(session.msg("comm_msg", {"comm_id": "panel-1", "data": {"v": 1, "id": 1, "type": kind}}))

    # The status bar's line hears what it asks for, and of nothing else.
    kernel.run("%%watch\nz = (x @ w).exp()")
    say("ask_bytes")
    told = kernel.until(says("bytes"))["content"]["data"]
    assert told["newest"] and told["peak"] >= 4 * (4 + 2 + 2 + 2)  # float32: w, x, x @ w, exp
    heard = [m["content"] for m in kernel.seen if m["msg_type"] == "comm_msg" and m["content"]["comm_id"] == "panel-1"]
    assert {content["data"]["type"] for content in heard} == {"bytes"}

    say("ready")
    kernel.until(says("graph"))
    before = len(kernel.seen)
    kernel.run("wb.show((w * 2).sum())")
    last = [m["content"]["data"] for m in kernel.seen[before:] if says("graph")(m)][-1]
    assert [op for op in last["nodes"]["op"] if op] == ["mul", "sum"]
    kernel.client.shell_channel.send(session.msg("comm_close", {"comm_id": "panel-1", "data": {}}))
    before = len(kernel.seen)
    kernel.run("wb.show((w * 3).sum())")
    assert not [m for m in kernel.seen[before:] if says("graph")(m)]


def test_a_finished_graph_is_sent_once_to_each_who_asks(kernel):
    before = len(kernel.seen)
    kernel.run("%%watch\nh = (x @ w).tanh()\nloss = h.sum()")
    comm = kernel.widget(before)
    assert kernel.told(comm, "graph") == []  # nobody has asked yet
    for _ in range(2):  # a page, and the same page after a reload
        kernel.ask(comm, type="to_side_panel")  # answered behind what was sent before
        count = len(kernel.told(comm, "graph"))
        kernel.say(comm, {"type": "ready"})
        kernel.ask(comm, type="to_side_panel")
        (graph,) = kernel.told(comm, "graph")[count:]
        assert [op for op in graph["nodes"]["op"] if op] == ["matmul", "tanh", "sum"] and not graph["live"]


def test_a_cell_that_runs_answers_where_there_is_only_the_main_shell(kernel):
    before = len(kernel.seen)
    kernel.run("import time\nfrom workbench.jupyter import comm as panels")
    request = kernel.start(
        "%%watch\nend = time.time() + 60\ng = x\nwhile time.time() < end and not panels.latest().opened:\n    g = g + x\nprint(time.time() < end)"
    )
    comm = kernel.widget(before)
    kernel.say(comm, {"type": "ready"})
    graph = kernel.until(lambda m: is_custom(m, comm) and custom(m).get("type") == "graph")
    assert custom(graph)["live"]
    assert printed(kernel.finish(request)) == "True\n"


def test_tensors_have_a_rich_look_and_their_text_is_unchanged(kernel):
    (data,) = data_of(kernel.run("w"), "execute_result")
    assert data["text/plain"] == printed(kernel.run("print(repr(w), end='')"))
    assert "float32 2×2" in data["text/html"] and "<script" not in data["text/html"]


def test_a_closed_view_leaves_nothing_of_its_pass(kernel):
    kernel.run(
        "import gc, weakref\nv = wb.step((w * 2).sum())\nkept = [weakref.ref(o) for o in (v, v.session, v.stepper, v.session.recording)]"
    )
    assert printed(kernel.run("v.close()\ndel v\n_ = gc.collect()\nprint([one() for one in kept])")) == "[None, None, None, None]\n"


def test_views_leave_no_thread(kernel):
    code = "import threading; print(sorted(t.name for t in threading.enumerate() if not t.name.startswith('subshell-')))"
    before = printed(kernel.run(code))
    kernel.run("v = wb.step((w * 2).sum())\nv")
    kernel.run("v.close()")
    assert printed(kernel.run(code)) == before
