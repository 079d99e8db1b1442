"""Tensors of every kind that a course may have: each request about them is answered, in words that are true, and nothing breaks."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest
from asking import asked

import engine
import engine.nn.functional as F
import workbench as wb
from engine import distributions, func, nn
from engine.autograd import Function, graph
from engine.base import observe
from engine.utils.checkpoint import checkpoint
from workbench.backward.stepper import Stepper
from workbench.inspector import summary
from workbench.recording.recorder import Recorder
from workbench.session.passes import PassWatcher
from workbench.session.session import Session

Made = tuple[engine.Tensor, dict[str, Any]]


def leaf(*shape: int, **options: Any) -> engine.Tensor:
    return engine.randn(*shape, requires_grad=True, **options)


class Mine(engine.Tensor):
    """A program's own kind of tensor."""


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, how: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g, None


def sparse() -> Made:
    values, w, table = engine.tensor([3.0, 4, 5], requires_grad=True), leaf(3, 2), nn.Embedding(6, 3, sparse=True)
    matrix = engine.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], values, (2, 3))
    seen = table(engine.tensor([1, 2, 1])) + 0
    return engine.sparse.mm(matrix, w).sum() + matrix.to_dense().sum() + seen.sum(), locals()


def low_precision() -> Made:
    a, b = leaf(3, 4, dtype=engine.bfloat16), leaf(4, 2, dtype=engine.float16)
    product = a @ b.to(engine.bfloat16)
    large = a.half() * 60000 * 2
    return product.float().softmax(1)[:, 0].sum() + large.detach().isinf().sum(), locals()


def own_class() -> Made:
    w = engine.randn(2, 3).as_subclass(Mine).requires_grad_()
    h = (w * 2).exp()
    return h.sum(), locals()


def mapped() -> Made:
    w, x = leaf(3), engine.randn(5, 3)
    y = func.vmap(lambda row: (row * w).sum().tanh())(x)
    return y.sum(), locals()


def per_sample() -> Made:
    model, x, t = nn.Linear(3, 2), engine.randn(5, 3), engine.tensor([0, 1, 1, 0, 1])
    parameters = dict(model.named_parameters())

    def loss(p: Any, a: Any, b: Any) -> Any:
        return F.cross_entropy(func.functional_call(model, p, (a[None],)), b[None])

    gradients = func.vmap(func.grad(loss), (None, 0, 0))(parameters, x, t)
    return loss(parameters, x[0], t[0]), locals()


def nested() -> Made:
    w, b, x = leaf(3), leaf(3), engine.randn(2, 5, 3)

    def one(row: Any) -> Any:
        h = row * w
        h += b
        return h.tanh().sum()

    return func.vmap(func.vmap(one))(x).sum(), locals()


def jacobians() -> Made:
    x = leaf(3)
    jacobian, hessian = func.jacrev(lambda v: v.sin() * v)(x), func.hessian(lambda v: (v**3).sum())(x)
    return jacobian.sum() + hessian.sum(), locals()


def complex_numbers() -> Made:
    a = leaf(2, 3, dtype=engine.complex64)
    c = engine.fft.fft(a * (1 + 2j))
    return c.abs().sum() + engine.view_as_real(c).sum() + a.conj().imag.sum(), locals()


def channels_last() -> Made:
    x = engine.randn(2, 3, 4, 4).to(memory_format=engine.channels_last) + 0
    conv = nn.Conv2d(3, 4, 3).to(memory_format=engine.channels_last)
    return F.max_pool2d(conv(x).relu(), 2).mean(), locals()


def samples() -> Made:
    normal = distributions.Normal(leaf(3), leaf(3).exp())
    s = normal.rsample((2,))
    choice = distributions.Categorical(logits=leaf(4))
    g = distributions.Gamma(leaf(2).exp(), engine.ones(2)).rsample()
    return normal.log_prob(s).sum() - choice.log_prob(choice.sample()) + g.sum(), locals()


def checkpointed() -> Made:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), leaf(5, 3)
    return checkpoint(model, x, use_reentrant=False).sum(), locals()


def checkpointed_by_a_function() -> Made:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), leaf(5, 3)
    return checkpoint(model, x, use_reentrant=True).sum(), locals()


def packed() -> Made:
    x = leaf(3)
    with graph.saved_tensors_hooks(lambda t: t.detach().numpy(), engine.as_tensor):
        y = x.exp() * x
    with graph.save_on_cpu():
        z = (x * x).tanh()
    return (y + z).sum(), locals()


def parametrized() -> Made:
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    return nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))(model(engine.randn(4, 3))).sum(), locals()


def own_function() -> Made:
    x = leaf(3)
    return Cube.apply(x, len).sum() + Cube.apply(x, None).sum(), locals()


def written() -> Made:
    x = leaf(4, 5)
    t = x.clone()
    row = t[1]
    corner = t[:2][:, 1:]
    t[0] = 1
    t[:, 1] += 2
    row.mul_(2)
    return t.sum() + x[[0, 2], 1:3].sum() + x[x > 0].sum() + x.max(1).values.sum() + corner.sum(), locals()


def several_results() -> Made:
    a = leaf(3, 3)
    u, s, v = engine.linalg.svd(a)
    out, (h, c) = nn.LSTM(3, 4, batch_first=True)(leaf(2, 5, 3))
    return s.sum() + engine.linalg.slogdet(a)[1] + out.sum() + h.sum(), locals()


def without_memory() -> Made:
    with engine.device("meta"):
        model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), engine.randn(5, 3)
        y = model(x)
        y[0] = 1
    return y.sum(), locals()


PROGRAMS = [
    sparse, low_precision, own_class, mapped, per_sample, nested, jacobians, complex_numbers, channels_last, samples, checkpointed,
    checkpointed_by_a_function, packed, parametrized, own_function, written, several_results, without_memory,
]  # fmt: skip


def watched(program) -> Any:
    """As `%%watch --steps` does it, the pass included."""
    engine.manual_seed(0)
    recorder, names = Recorder("In [1]"), {}
    session = Session(recorder.recording)
    watcher = PassWatcher(session, recorder, None, lambda: names)
    with observe.observing(watcher):
        loss, made = program()
        names.update(made)
        loss.backward()
    watcher.close(None)
    recorder.stop()
    session.finish(names)
    session.names = names
    return session


def stepped(program) -> Any:
    """As `wb.step(loss)` does it after a recording."""
    engine.manual_seed(0)
    with wb.record("In [1]") as session:
        loss, names = program()
    session.graph.finish(names)
    session.names = names
    session.stepper = Stepper.of(session.recording, session.graph, loss)
    session.stepper.prepare()
    return session


@pytest.mark.slow
@pytest.mark.parametrize("seen", [watched, stepped], ids=["watched", "stepped"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_every_request_is_answered(program, seen):
    session = seen(program)
    r, failed = session.recording, []

    def ask(**request: Any) -> dict:
        told = [answer for answer, _ in session.handle({"v": 1, "id": 7, **request})]
        failed.extend((request, one["sentence"]) for one in told if one["type"] == "problem" and "could not answer" in one["sentence"])
        return told[0]

    for kind in ("ready", "ask_memory", "ask_findings", "ask_timing", "ask_predictions", "ask_slopes"):
        ask(type=kind)
    assert ask(type="ask_model")["type"] == "model_health"

    def look() -> None:
        for row in range(r.count):
            assert ask(type="inspect", node=row)["type"] == "inspected"
            ask(type="inspect", node=row, what="grad")
            ask(type="ask_element", node=row, what="value", index=[0] * len(r.shape[row]))
            for kind in ("ask_local", "ask_fan_out", "check_rule"):
                ask(type=kind, node=row)
        assert ask(type="ask_faces", nodes=list(range(r.count)))["type"] == "faces"

    look()
    assert session.stepper.total
    for place in range(1, session.stepper.total + 1):
        assert ask(type="step", do="next")["type"] == "stepped"
        row = session.stepper.plan[place - 1]
        if row >= 0:
            ask(type="ask_local", node=row, place=place)
    look()
    assert ask(type="ask_export", format="json")["type"] == "exported"
    repr(session)
    assert failed == []


def facts_of(session: Any, row: int) -> dict[str, str]:
    answer, _ = asked(session, type="inspect", node=row)
    return {fact["label"]: fact["text"] for fact in answer["facts"]}


def rows_of(session: Any, op: str) -> list[int]:
    return [row for row in range(session.recording.count) if session.recording.op_name(row) == op]


def test_inside_a_vmap_the_samples_are_the_first_axis():
    session = watched(mapped)
    (row,) = rows_of(session, "tanh")
    told, _ = asked(session, type="inspect", node=row)
    facts = facts_of(session, row)
    assert (facts["shape"], facts["vmap"]) == ("()", "one for each of the 5 samples, along the first axis")
    x, w = session.names["x"].numpy(), session.names["w"].detach().numpy()
    assert told["summary"]["shape"] == [5]
    assert told["summary"]["mean"] == pytest.approx(numpy.tanh(x.astype("f8") @ w).mean(), rel=1e-5)
    local, _ = asked(session, type="ask_local", node=row)
    assert "all samples at once" in local["missing"]


@pytest.mark.parametrize("program", [mapped, per_sample, jacobians, nested], ids=lambda p: p.__name__)
def test_a_pass_through_a_vmap_is_shown_on_the_recording_itself(program):
    session = watched(program)
    r = session.recording
    assert r.passes >= 1 and "batch" in map(r.op_name, range(r.count))  # not one made from the tape afterwards
    assert min(session.stepper.plan) >= 0
    for row in rows_of(session, "spread"):  # what all samples share comes from what it is, and is on the line that uses it
        ((source, _),) = r.inputs(row)
        assert r.grad[source] and r.shape[source] == r.shape[row] and r.code[row] is not None
        assert any(row in dict(r.inputs(later)) for later in range(row + 1, r.count))


def test_what_the_samples_share_is_told_as_such():
    session = watched(mapped)
    (row,) = rows_of(session, "spread")
    assert session.recording.names[session.recording.inputs(row)[0][0]] == "w"
    assert facts_of(session, row)["vmap"] == "the same for all 5 samples"
    told, _ = asked(session, type="inspect", node=row)
    assert told["summary"]["mean"] == pytest.approx(session.names["w"].mean().item())


def test_sparse_tensors_say_how_much_of_them_is_stored_and_count_their_zeros():
    session = watched(sparse)
    assert summary(engine.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0], (2, 3)).array).zero == 4
    table = next(row for row in range(session.recording.count) if session.recording.kind[row] == "parameter")
    told, _ = asked(session, type="inspect", node=table, what="grad")
    assert {f["label"]: f["text"] for f in told["facts"]}["layout"] == "sparse, 9 elements stored"
    assert (told["summary"]["zero"], told["summary"]["size"]) == (12, 18)
    assert told["summary"]["norm"] == pytest.approx(math.sqrt(3 * 1 + 3 * 2**2))  # row 1 was read twice


def test_a_programs_own_class_is_named():
    session = watched(own_class)
    row = max(row for row, name in session.recording.names.items() if name == "h")
    assert facts_of(session, row)["class"] == "Mine, the program's own"
    assert "class" not in facts_of(watched(channels_last), 0)


def test_what_checkpoint_computes_again_is_told_apart_from_derivatives():
    for program in (checkpointed, checkpointed_by_a_function):
        r = watched(program).recording
        again = rows_of(watched(program), "tanh")[1:] or rows_of(watched(program), "tanh")
        words = {r.note[row] for row in again}
        assert len(words) == 1 and "derivative of" not in words.pop()
    r = watched(checkpointed).recording
    first, again = (row for row in range(r.count) if r.op_name(row) == "tanh")
    assert r.note[first] == "" and r.note[again].startswith("computed to unpack what linear #")


def test_the_gradient_of_an_op_with_several_results_is_that_of_the_one_that_was_used():
    session = stepped(several_results)
    while not session.stepper.done:
        session.stepper.next()
    (row,) = rows_of(session, "svd")
    place = 1 + list(session.stepper.plan).index(row)
    told, _ = asked(session, type="ask_local", node=row, place=place)
    assert told["shape"] == [3] and told["missing"] == ""  # the singular values


def test_a_view_of_a_view_that_was_written_is_not_taken_for_its_last_op_alone():
    with wb.record("In [1]") as session:
        t = leaf(4, 5).clone()
        one, two = t[1:], t[1:].t()
        t.mul_(2)
    session.graph.finish({"t": t, "one": one, "two": two})
    r = session.recording
    again = {r.op_name(row): row for row in range(r.count) if r.note[row].startswith("view of") and "written in place" in r.note[row]}
    told, _ = asked(session, type="ask_local", node=again["getitem"])
    assert told["missing"] == "" and told["parts"][0]["structure"]
    told, _ = asked(session, type="ask_local", node=again["permute"])
    assert "neither the recording nor the tape kept" in told["missing"]
