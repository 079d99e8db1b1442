"""A real kernel whose running cell is controlled from the view: by both ways that lead from the view to a kernel that is busy."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kernels import Kernel, custom, is_custom, printed

pytestmark = pytest.mark.slow

SETUP = """%load_ext workbench
import engine as torch
import time
w = torch.tensor([1.0, 2.0, 2.0]).requires_grad_()"""
PASSES = """with wb.step():
    for scale in SCALES:
        (w * scale).sum().backward()
print("went on")"""
LOOP = """turns = []
for k in wb.loop(range(100000), w):
    turns.append(k)
    with torch.no_grad():
        w.add_(1)
    time.sleep(0.002)
print("left after", len(turns) > 2, w.tolist() == before)"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    assert [m for m in kernel.run(SETUP) if m["msg_type"] == "error"] == []
    yield kernel
    kernel.close()


@pytest.fixture(params=["main shell", "subshell"])
def shell(kernel, request) -> Iterator[Kernel]:
    if request.param == "subshell":
        if not kernel.has_subshells:
            pytest.skip("this kernel has no subshells")
        kernel.use_subshell()
    yield kernel
    kernel.subshell = None


def opened(kernel: Kernel, code: str, kind: str) -> tuple[str, str]:
    """Starts a cell and opens its view: the cell's request, the view's comm; when it has been told of this kind."""
    before = len(kernel.seen)
    request = kernel.start(code)
    comm = kernel.widget(before)
    kernel.say(comm, {"type": "ready"})
    kernel.until(lambda m: is_custom(m, comm) and custom(m)["type"] == kind)
    return request, comm


def test_a_paused_cell_runs_to_its_breakpoint_and_on(shell):
    shell.run("w.grad = None; SCALES = (1.0, 1.0, 5000.0, 1.0)")
    request, comm = opened(shell, PASSES, "stepper")
    (one,) = shell.ask(comm, type="break", do="add", where="any", when="norm > 8000")["breakpoints"]
    assert shell.ask(comm, type="step", do="run")["type"] == "stepped"
    shell.until(lambda m: is_custom(m, comm) and custom(m).get("stopped", "").startswith("Stopped because norm > 8000: what mul hands"))
    last = shell.told(comm, "stepper")[-1]
    assert last["number"] == 2 and len(last["passes"]) == 3 and last["mode"] == "paused"
    shell.ask(comm, type="break", do="remove", number=one["number"])
    shell.ask(comm, type="step", do="run")
    assert printed(shell.finish(request)) == "went on\n"


def test_a_cell_that_waits_is_woken_by_the_wish_not_by_the_clock(shell):
    shell.run("w.grad = None; SCALES = (1.0,)\nfrom workbench.jupyter import pause\ntick, pause.TICK = pause.TICK, 600_000")
    request, comm = opened(shell, PASSES, "stepper")
    assert [shell.ask(comm, type="step", do="next")["index"] for _ in range(2)] == [1, 2]
    shell.ask(comm, type="step", do="last")
    assert printed(shell.finish(request)) == "went on\n"
    shell.run("pause.TICK = tick")


def test_a_run_to_a_breakpoint_can_be_stopped(shell):
    shell.run("w.grad = None; SCALES = [1.0] * 100000")
    request, comm = opened(shell, PASSES, "stepper")
    shell.ask(comm, type="break", do="add", where="any", when="nan > 0")
    shell.ask(comm, type="step", do="run")
    shell.until(lambda m: is_custom(m, comm) and custom(m)["type"] == "stepper" and custom(m)["number"] > 3)
    before = len(shell.seen)
    shell.say(comm, {"type": "step", "do": "stop"})

    def stands(m):
        """Before the first step of a pass, or within one."""
        told = custom(m) if is_custom(m, comm) and m in shell.seen[before:] else {"type": ""}
        paused = told["type"] == "stepper" and told["mode"] == "paused" or told["type"] == "stepped" and not told["done"]
        return paused and not told["runs"]

    shell.until(stands)
    shell.manager.interrupt_kernel()
    told = shell.finish(request)
    # where Python has no line for the instruction that was interrupted, IPython prints the error instead of sending it
    assert "KeyboardInterrupt" in [m["content"].get("ename") for m in told] or "\nKeyboardInterrupt\n" in printed(told)
    shell.run("from workbench.backward.breakpoints import kept; kept.clear()")


RECORDED = """%%watch
x = w * 2.0
print("on its way")
while True:
    ((w * 2.0).exp() + w).sum().backward()"""


def test_every_interrupt_of_a_recorded_loop_is_heard_and_its_view_still_answers(shell):
    for turn in range(6):
        before = len(shell.seen)
        request = shell.start(RECORDED)
        comm = shell.widget(before)
        shell.say(comm, {"type": "ready"})
        shell.until(lambda m, request=request: m["msg_type"] == "stream" and m["parent_header"].get("msg_id") == request)
        time.sleep(0.03 * turn)  # wherever it is then
        shell.manager.interrupt_kernel()
        told = shell.finish(request)
        assert "KeyboardInterrupt" in [m["content"].get("ename") for m in told] or "\nKeyboardInterrupt\n" in printed(told)
        assert "Exception ignored" not in printed(told)
        assert shell.ask(comm, type="inspect", node=0)["type"] == "inspected"
    assert printed(shell.run("print((w * 2.0).sum().item())")) == printed(shell.run("print(2 * sum(w.tolist()))"))


HASTY = """from workbench.jupyter import pause
serve = pause.Pump._serve
def hasty(pump, frames):
    serve(pump, frames)
    raise KeyboardInterrupt
pause.Pump._serve = hasty"""


def test_after_an_interrupt_in_the_midst_of_an_answer_the_next_cell_runs(kernel):
    kernel.run("w.grad = None; SCALES = [1.0]")
    kernel.run(HASTY)
    request = kernel.start(PASSES)
    comm = kernel.widget(len(kernel.seen))
    kernel.say(comm, {"type": "ready"})
    told = kernel.finish(request)
    assert "KeyboardInterrupt" in [m["content"].get("ename") for m in told]
    assert printed(kernel.run("pause.Pump._serve = serve; 'heard'")) == "'heard'"


def test_what_comes_while_a_cell_waits_runs_after_it_in_order(kernel):
    kernel.run("w.grad = None; SCALES = [1.0]; order = []")
    request, comm = opened(kernel, PASSES, "stepper")
    later = [kernel.start(f"order.append({k})") for k in range(3)]
    kernel.ask(comm, type="step", do="last")
    assert printed(kernel.finish(request)) == "went on\n"
    later.append(kernel.start("order"))
    for one in later[:-1]:
        kernel.finish(one)
    assert printed(kernel.finish(later[-1])) == "[0, 1, 2]"


def test_a_training_loop_is_played_paused_put_back_and_left(shell):
    shell.run("before = w.tolist()")
    request, comm = opened(shell, LOOP, "training")
    assert shell.ask(comm, type="train", do="step")["state"] in ("runs", "waits")
    shell.until(
        lambda m: is_custom(m, comm) and custom(m)["type"] == "training" and custom(m)["turn"] == 1 and custom(m)["state"] == "waits"
    )
    shell.ask(comm, type="train", do="play")
    shell.until(lambda m: is_custom(m, comm) and custom(m)["type"] == "training" and custom(m)["turn"] > 50)
    paused = shell.ask(comm, type="train", do="pause")
    assert paused["state"] == "waits" and paused["turn"] > 50
    shell.ask(comm, type="train", do="reset")
    shell.until(lambda m: is_custom(m, comm) and custom(m)["type"] == "training" and custom(m)["turn"] == 0)
    shell.ask(comm, type="train", do="end")
    assert printed(shell.finish(request)).endswith("left after True True\n")


def test_a_view_has_the_findings_of_the_checks(shell):
    code = "scores = torch.ones(3, requires_grad=True)\nwith wb.record() as r:\n    loss = torch.nn.functional.cross_entropy((torch.ones(4, 3) * scores).softmax(1), torch.tensor([0, 1, 2, 0]))\n"
    code += "print([finding.code for finding in wb.show(loss).findings])"
    assert "softmax-before-cross-entropy" in printed(shell.run(code))
