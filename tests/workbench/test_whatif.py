"""What if: forks of a pass and re-runs with other values, against plain `backward()` on changed programs, and never touching the user's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy
import pytest
from walked import PROGRAMS, fan_out, leaf, several_results, unrolled

import engine
import workbench as wb
from engine.base import observe
from workbench.backward import fanout
from workbench.backward.stepper import Stepper
from workbench.graph.graph import Graph
from workbench.recording.recompute import Cannot
from workbench.recording.recorder import Recorder
from workbench.recording.retrace import retrace
from workbench.session.passes import PassWatcher
from workbench.session.session import Session
from workbench.whatif.ask import row_of
from workbench.whatif.expression import BadExpression, Expression, edited, fitted
from workbench.whatif.forks import Edit, forks_of
from workbench.whatif.rerunning import Change, rerun

every_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)


def stepper_of(loss, **options) -> Stepper:
    recording = retrace([loss.node], [loss])
    graph = Graph(recording)
    graph.finish({})
    return Stepper.of(recording, graph, loss, **options)


def finished(run) -> tuple[Session, object]:
    """A pass that the program's own backward() has run, and whose graph it has freed."""
    recorder = Recorder("test")
    session = Session(recorder.recording)
    watcher = PassWatcher(session, recorder, None, dict)
    with observe.observing(watcher):
        loss = run()
        loss.backward()
    watcher.close()
    recorder.stop()
    return session, loss


# -- expressions ----------------------------------------------------------------------------------------------------------------


G = numpy.array([[-2.0, 0.5], [3.0, numpy.nan]], numpy.float32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("g * 0 + 1", G * 0 + 1),  # NaN stays NaN
        ("g.clip(-1, 1)", numpy.clip(G, -1, 1)),
        ("where(isnan(g), 0, g)", numpy.nan_to_num(G)),
        ("-g ** 2 / 4", -(G**2) / 4),
        ("g[0]", numpy.broadcast_to(G[0], (2, 2))),
        ("g[:, ::-1]", G[:, ::-1]),
        ("maximum(g, 0) * (g > 1)", numpy.maximum(G, 0) * (G > 1)),
        ("nan_to_num(g) / norm(nan_to_num(g))", numpy.nan_to_num(G) / numpy.sqrt(4 + 0.25 + 9)),
        ("sign(g) * sqrt(abs(g))", numpy.sign(G) * numpy.sqrt(numpy.abs(G))),
        ("7", numpy.full((2, 2), 7)),
    ],
)
def test_an_expression_is_what_numpy_computes(text, expected):
    before = G.copy()
    found = Expression(text).on(G)
    assert found.dtype == G.dtype
    numpy.testing.assert_allclose(found, expected, rtol=1e-6)
    numpy.testing.assert_array_equal(G, before)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "g.__class__", "g.tofile('x')", "open('x')", "lambda: g", "[g for g in g]", "g if 1 else 0",
        "'text'", "g.clip(out=g)", "h * 2", "g; g", "g = 1", "", "g +", "-" * 100 + "g", "g.clip.__self__", "f'{g}'",
        "exec('1')", "norm", "g[0].__dict__", "g @ g", "g and g", "x" * 500, "print(g)", "getattr(g, 'data')",
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_a_sentence(text):
    with pytest.raises(BadExpression) as error:
        Expression(text).on(G)
    assert str(error.value).endswith((".", ")", ":")) and len(str(error.value)) > 15


@pytest.mark.parametrize(
    "text", ["abs(g, g)", "maximum(g, -g, g)", "clip(g, 0, 1, g)", "nan_to_num(g, 0)", "g.round(0, g)", "sum(g, 0, g)"]
)
def test_an_expression_writes_nowhere(text):
    g = numpy.array([[1.5, -2.0], [numpy.nan, 4.0]])
    before = g.copy()
    with pytest.raises(BadExpression, match="at most, and here it has"):
        Expression(text).on(g)
    numpy.testing.assert_array_equal(g, before)


def test_what_has_no_number_in_the_tensors_type_is_refused():
    with pytest.raises(BadExpression, match="not finite, or too large for int64"):
        Expression("1 / 0", "x").on(numpy.array([1, 2]))
    assert Expression("x.mean()", "x").on(numpy.zeros((0, 3))).shape == (0, 3)  # without NumPy's warning


def test_an_expression_must_fit():
    with pytest.raises(BadExpression, match=r"has the shape \(3,\); it must fit into \(2, 2\)"):
        fitted(numpy.ones(3), numpy.ones((2, 2)), "“g”")
    with pytest.raises(BadExpression, match="complex"):
        Expression("g * 1j").on(G)
    with pytest.raises(BadExpression, match="could not be computed"):
        Expression("g[5]").on(G)


def test_huge_powers_of_integers_end():
    assert not numpy.isfinite(Expression("g * 0 + 9 ** 9 ** 9 ** 9").on(numpy.ones(2))).any()


def test_one_element_is_edited_in_a_copy():
    found = edited(G, [1, 0], "g * 10")
    assert found[1, 0] == 30
    assert G[1, 0] == 3
    numpy.testing.assert_array_equal(numpy.delete(found, 2), numpy.delete(G, 2))
    with pytest.raises(BadExpression, match="no element"):
        edited(G, [2, 0], "1")


# -- forks ----------------------------------------------------------------------------------------------------------------------


@every_program
def test_an_unchanged_fork_is_the_pass_bit_for_bit(program):
    leaves, run = program()
    loss = run()
    run().backward()
    wanted = [x.grad.numpy().copy() for x in leaves]
    for x in leaves:
        x.grad = None
    stepper = stepper_of(loss)
    stepper.prepare()
    for place in range(1, stepper.total + 1):
        fork = forks_of(stepper).make(Edit(stepper.plan[place - 1], "g", place=place))
        for x, w in zip(leaves, wanted, strict=True):
            numpy.testing.assert_array_equal(fork.leaves[stepper.recording.row_of(x.node)], w)
    assert all(x.grad is None for x in leaves)


@every_program
def test_a_fork_at_the_loss_scales_every_gradient(program):
    leaves, run = program()
    stepper = stepper_of(run())
    fork = forks_of(stepper).make(Edit(stepper.plan[0], "g * 2"))  # two is exact in floating point
    run().backward()
    for x in leaves:
        numpy.testing.assert_array_equal(fork.leaves[stepper.recording.row_of(x.node)], 2 * x.grad.numpy())
        assert fork.difference(stepper.recording.row_of(x.node)) == 1


def test_a_fork_is_what_a_hook_that_changes_the_gradient_gives():
    w, x = leaf(3, 3), leaf(2, 3, seed=1)

    def run(hook=None):
        h = engine.tanh(x @ w)
        if hook is not None:
            h.register_hook(hook)
        return h, (engine.tanh(h @ w) * h).sum()

    h, loss = run()
    stepper = stepper_of(loss)
    fork = forks_of(stepper).make(Edit(row_of(stepper.recording, h), "g.clip(-0.1, 0.1)"))
    run(lambda g: g.clamp(-0.1, 0.1))[1].backward()
    for t in (w, x):
        numpy.testing.assert_array_equal(fork.leaves[row_of(stepper.recording, t)], t.grad.numpy())


def test_a_changed_contribution_changes_that_branch_alone():
    x = leaf(3)
    y = x.exp()
    loss = (y * x).sum()
    stepper = stepper_of(loss)
    stepper.prepare()
    place = next(i + 1 for i, node in enumerate(stepper.nodes) if node.op is not None and node.op.name == "mul")
    row = stepper.plan[place - 1]
    fork = forks_of(stepper).make(Edit(row, "g * 0", slot=1, place=place))  # the branch through x itself
    numpy.testing.assert_allclose(fork.leaves[row_of(stepper.recording, x)], x.detach().numpy() * numpy.exp(x.detach().numpy()), rtol=1e-6)


def test_one_element_of_a_gradient_is_changed():
    x = leaf(4)
    loss = (x * 3).sum()
    stepper = stepper_of(loss)
    row = stepper.plan[1]
    fork = forks_of(stepper).make(Edit(row, "10", index=(2,)))
    assert fork.leaves[row_of(stepper.recording, x)].tolist() == [3, 3, 30, 3]


def test_an_op_with_several_results_forks_too():
    leaves, run = several_results()
    loss = run()
    stepper = stepper_of(loss)
    stepper.prepare()
    row = next(row for node, row in zip(stepper.nodes, stepper.plan, strict=True) if node.op is not None and node.op.name == "topk")
    fork = forks_of(stepper).make(Edit(row, "g * 0"))
    other = engine.tensor(leaves[0].detach().numpy()).requires_grad_()
    parts = other.split(2)
    (parts[0] * parts[1]).sum().backward()
    numpy.testing.assert_array_equal(fork.leaves[row_of(stepper.recording, leaves[0])], other.grad.numpy())


def test_a_complex_gradient_is_written_as_pytorch_has_it():
    z = engine.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    loss = (z * z).abs().sum()
    stepper = stepper_of(loss)
    fork = forks_of(stepper).make(Edit(stepper.plan[0], "g"))
    (z * z).abs().sum().backward()
    numpy.testing.assert_allclose(fork.leaves[row_of(stepper.recording, z)], z.grad.numpy(), rtol=1e-6)


@every_program
def test_a_freed_graph_is_computed_again(program):
    leaves, run = program()
    session, _ = finished(run)
    stepper = session.stepper
    forks = forks_of(stepper)
    fork = forks.make(Edit(stepper.plan[0], "g * 2"))
    assert "computed again" in forks.ground.note
    for x in leaves:
        numpy.testing.assert_array_equal(fork.leaves[row_of(stepper.recording, x)], 2 * x.grad.numpy())


def test_grad_of_tensors_that_keep_it_stays():
    x = leaf(3)
    y = x * 2
    y.retain_grad()
    loss = y.sum()
    stepper = stepper_of(loss)
    stepper.finish()
    kept = y.grad
    forks_of(stepper).make(Edit(stepper.plan[0], "g * 5"))
    assert y.grad is kept
    assert kept.tolist() == [1, 1, 1]


def test_a_fork_is_made_real_and_taken_back():
    x = leaf(3)
    x.grad = engine.tensor([10.0, 10.0, 10.0])
    first = x.grad
    stepper = stepper_of((x * 2).sum())
    fork = forks_of(stepper).make(Edit(stepper.plan[0], "g * 3"))
    assert x.grad is first
    fork.write(stepper)
    assert x.grad.tolist() == [16, 16, 16]  # what was there, and 3 times 2
    assert fork.written
    with pytest.raises(Cannot, match="already"):
        fork.write(stepper)
    fork.undo()
    assert x.grad.tolist() == [12, 12, 12]  # the finished pass's own
    assert not fork.written
    stepper.to(0)
    assert x.grad is first


def test_forks_have_names_and_can_be_deleted():
    stepper = stepper_of((leaf(3) * 2).sum())
    forks = forks_of(stepper)
    forks.make(Edit(stepper.plan[0], "g * 3"), "thrice")
    forks.make(Edit(stepper.plan[0], "g * 0"))
    assert list(forks.made) == ["thrice", "fork 2"]
    forks.delete("thrice")
    assert list(forks.made) == ["fork 2"]
    with pytest.raises(Cannot, match="no fork named “thrice”; there are fork 2"):
        forks.delete("thrice")


def test_what_cannot_be_forked_says_why():
    x = leaf(3)
    stepper = stepper_of((x * 2).sum())
    with pytest.raises(Cannot, match="does not reach"):
        forks_of(stepper).make(Edit(10**6, "g"))
    with pytest.raises(Cannot, match="gets no gradient"):
        forks_of(stepper).make(Edit(stepper.plan[1], "g", slot=1))
    with pytest.raises(Cannot, match="passes its gradient to no other node"):
        forks_of(stepper).make(Edit(row_of(stepper.recording, x), "g", slot=0))


# -- other values ------------------------------------------------------------------------------------------------------------------


@every_program
def test_other_values_give_what_the_program_gives_with_them(program):
    leaves, run = program()
    session, loss = finished(run)
    r = session.recording
    nodes = dict(zip(session.stepper.plan, session.stepper.nodes, strict=True))
    kept = [x.grad for x in leaves]
    numbers = [x.detach().numpy().copy() for x in leaves]
    found = rerun(r, row_of(r, loss), [Change(row_of(r, leaves[0]), "x * 1.25 + 0.5")], nodes)
    assert all(x.grad is g for x, g in zip(leaves, kept, strict=True))
    assert all((x.detach().numpy() == n).all() for x, n in zip(leaves, numbers, strict=True))
    assert found.notes == []
    assert found.base == pytest.approx(loss.item(), rel=1e-6)
    with engine.no_grad():
        leaves[0].mul_(1.25).add_(0.5)
    for x in leaves:
        x.grad = None
    loss = run()
    loss.backward()
    assert found.loss == pytest.approx(loss.item(), rel=1e-5)
    for x in leaves:
        numpy.testing.assert_allclose(found.gradients[row_of(r, x)], x.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_a_changed_input_and_one_changed_element():
    w = leaf(2, 2)
    x = engine.tensor([[1.0, 2.0]])
    with wb.record():
        loss = (x @ w).square().sum()
    found = wb.whatif.rerun(loss, {x: "x + 2", w: "x * 2"})
    expected = ((numpy.array([[3.0, 4.0]]) @ (2 * w.detach().numpy())) ** 2).sum()
    assert float(found.loss) == pytest.approx(expected, rel=1e-5)
    one = rerun(found.recording, found.recording.root, [Change(row_of(found.recording, w), "9", (0, 1))])
    changed = w.detach().numpy().copy()
    changed[0, 1] = 9
    assert float(one.loss) == pytest.approx(((x.numpy() @ changed) ** 2).sum(), rel=1e-5)


def test_random_numbers_are_those_that_were_drawn():
    x = leaf(50)
    engine.manual_seed(3)
    with wb.record():
        loss = engine.nn.functional.dropout(x, 0.5).sum()
    state = engine.get_rng_state()
    found = wb.whatif.rerun(loss, {x: "x * 2"})
    assert float(found.loss) == pytest.approx(2 * loss.item(), rel=1e-5)
    assert found.notes == []
    assert numpy.array_equal(engine.get_rng_state(), state)


def test_weights_that_were_updated_since_are_told():
    x = leaf(3)
    with wb.record():
        loss = (x * x).sum()
    with engine.no_grad():
        x.add_(1)
    found = wb.whatif.rerun(loss, {x: "x * 2"})
    assert any("written in place after the recording" in note for note in found.notes)
    assert any("when it was recorded" in note for note in found.notes)
    assert float(found.base) == pytest.approx((x.detach().numpy() ** 2).sum(), rel=1e-5)


def test_a_result_cannot_be_changed_by_itself():
    x = leaf(3)
    with wb.record():
        y = x * 2
        loss = y.sum()
    with pytest.raises(Cannot, match="its value follows from its inputs"):
        wb.whatif.rerun(loss, {y: "x * 0"})
    other = leaf(3)
    with pytest.raises(Cannot, match="does not occur"):
        wb.whatif.rerun(loss, {other: "x * 0"})


def test_a_watching_recorder_does_not_see_what_ifs():
    x = leaf(3)
    with wb.record() as session:
        loss = (x * 2).sum()
        count = session.recording.count
        wb.whatif.rerun(loss, {x: "x * 2"})
        assert session.recording.count == count


# -- through the session -------------------------------------------------------------------------------------------------------------


def asked(session: Session, type: str, **more) -> dict:
    ((message, *_), *_) = session.handle({"type": type, "v": 1, "id": 1, **more})
    return message


def walked(program=unrolled) -> Session:
    leaves, run = program()
    loss = run()
    recording = retrace([loss.node], [loss])
    session = Session(recording)
    session.graph.finish({})
    session.step_through(Stepper.of(recording, session.graph, loss))
    session.stepper.prepare()
    session.leaves = leaves  # type: ignore[attr-defined]
    return session


def test_forks_through_the_session():
    session = walked()
    session.stepper.to(5)
    row = session.stepper.plan[4]
    made = asked(session, "fork", do="make", node=row, place=5, text="g * 0")
    assert made["type"] == "forks"
    (fork,) = made["forks"]
    assert fork["edit"] == "g = g * 0"
    assert fork["here"]["difference"] == 1
    assert fork["here"]["other"]["norm"] == 0
    assert len(fork["differences"]) == session.stepper.total
    assert {p["difference"] for p in fork["parameters"]} - {0.0}
    written = asked(session, "fork", do="write", name="fork 1")
    assert written["forks"][0]["written"] is True
    assert session.leaves[0].grad is not None
    undone = asked(session, "fork", do="undo", name="fork 1")
    assert undone["forks"][0]["written"] is False
    assert asked(session, "fork", do="delete", name="fork 1")["forks"] == []


def test_refusals_through_the_session_are_sentences():
    session = walked()
    row = session.stepper.plan[0]
    for more in ({"text": "import os"}, {"text": "g.__class__"}, {"text": "g", "node": 10**6}, {"text": "g[7,7,7]"}):
        answer = asked(session, "fork", **{"do": "make", "node": row, "place": 1, **more})
        assert answer["type"] == "problem" and answer["sentence"].endswith(".")
    session.busy = lambda: True
    answer = asked(session, "fork", do="make", node=row, place=1, text="g")
    assert answer["sentence"] == "The kernel is running a cell. Try again when the cell is done."


def test_a_rerun_and_what_can_be_edited_through_the_session():
    session = walked()
    row = row_of(session.recording, session.leaves[0])
    answer = asked(session, "ask_edit", node=row, what="value")
    assert answer["edited"]["shape"] == [3, 3]
    assert answer["edited"]["picture"]["cells"]["shape"] == [3, 3]
    answer = asked(session, "rerun", node=row, text="x * 2")
    assert answer["type"] == "reran" and answer["loss"]["values"] != answer["base"]["values"]
    assert len(answer["parameters"]) == 2
    upstream = asked(session, "ask_edit", node=session.stepper.plan[3], place=4, what="upstream")
    assert upstream["edited"] is not None
    nothing = asked(session, "ask_edit", node=session.stepper.plan[0], what="value")
    assert "follows from its inputs" in nothing["missing"]


def test_fan_out_through_the_session_says_what_is_still_to_come():
    session = walked(fan_out)
    row = row_of(session.recording, session.leaves[0])
    x = session.leaves[0].detach().numpy()
    states = []
    for index in range(session.stepper.total + 1):
        session.stepper.to(index)
        answer = asked(session, "ask_fan_out", node=row)
        states.append([a["state"] for a in answer["addends"]])
    assert states[0] == ["to come"] * 5
    assert states[-1] == ["arrived"] * 5
    assert "the sum of 5 addends, from sub" in answer["sentence"]
    session.stepper.to(3)
    assert "still to come from" in asked(session, "ask_fan_out", node=row)["sentence"]
    total = numpy.sqrt(((2 * x + numpy.exp(x) * x + numpy.exp(x) - 1) ** 2).sum())
    assert answer["total"]["summary"]["norm"] == pytest.approx(total, rel=1e-5)


def test_a_root_is_handed_what_the_pass_begins_with_and_what_other_roots_add():
    session = walked(fan_out)
    row = session.stepper.plan[0]
    session.stepper.to(0)
    assert [a["state"] for a in asked(session, "ask_fan_out", node=row)["addends"]] == ["to come"]
    session.stepper.to(1)
    answer = asked(session, "ask_fan_out", node=row)
    (addend,) = answer["addends"]
    assert (addend["consumer"], addend["state"], addend["picture"]["summary"]["max"]) == (-1, "arrived", 1.0)
    assert answer["total"]["summary"]["max"] == 1.0

    x = leaf(3)
    recorder = Recorder("test")
    session = Session(recorder.recording)
    watcher = PassWatcher(session, recorder, lambda stepper: setattr(stepper, "wanted", stepper.total), dict)
    with observe.observing(watcher):
        h = (x * x).sum()
        engine.autograd.backward(
            [h * 3, h], [engine.tensor(2.0), engine.tensor(5.0)]
        )  # h begins with 5, and 2 * 3 comes through the product
    watcher.close()
    recorder.stop()
    stepper = session.passes[-1]
    stepper.to(stepper.total)
    told = fanout.fan_out(stepper, recorder.recording.row_of(h.node))
    assert {a.name.split(",")[0]: float(a.gradient) for a in told.addends} == {"the start of the pass": 5.0, "mul": 6.0}
    assert float(told.total) == 11.0
    numpy.testing.assert_allclose(x.grad.numpy(), 11 * 2 * x.detach().numpy(), rtol=1e-6)


def test_the_example_of_the_page_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "what-if.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    exec(compile(example, str(page), "exec"), {"__name__": "example"})
    told = capsys.readouterr().out
    for words in ("at h, g = g.clip(-0.1, 0.1)", "w: x = x * 2", "2 paths lead from the loss to w", "agrees with central differences"):
        assert words in told


def test_a_pass_that_waits_in_a_running_cell_is_forked_too():
    leaves, run = fan_out()
    recorder = Recorder("test")
    session = Session(recorder.recording)
    session.busy = lambda: True  # the cell runs, and waits inside backward()
    answers = []

    def wait(stepper):
        if len(stepper.taken) < 2:
            stepper.wanted = 2
            return
        if not answers:
            row = stepper.plan[1]
            answers.append(asked(session, "fork", do="make", node=row, place=2, text="g * 0"))
            answers.append(asked(session, "fork", do="write", name="fork 1"))
        stepper.wanted = stepper.total

    watcher = PassWatcher(session, recorder, wait, dict)
    with observe.observing(watcher):
        run().backward()
    watcher.close()
    recorder.stop()
    made, written = answers
    assert made["type"] == "forks" and {p["difference"] for p in made["forks"][0]["parameters"]} == {1}
    assert written["type"] == "problem" and "backward() still runs" in written["sentence"]
    x = leaves[0].detach().numpy()
    numpy.testing.assert_allclose(leaves[0].grad.numpy(), 2 * x + numpy.exp(x) * x + numpy.exp(x) - 1, rtol=1e-5)
