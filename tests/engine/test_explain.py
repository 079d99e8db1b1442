"""`explain()` of compiled functions: programs, parts with origin, cost and time, and the reader of XLA's text."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine import nn, optim

jax = pytest.importorskip("jax")

from engine.compiler.explain import Explanation  # noqa: E402
from engine.compiler.hlo import Module  # noqa: E402

F = nn.functional


@pytest.fixture(scope="module")
def trained():
    """A compiled step, its model and its arguments."""
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = optim.Adam(model.parameters())

    @engine.compile
    def step(x, batch):
        loss = F.cross_entropy(model(x), batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, batch = engine.randn(8, 16), {"labels": engine.randint(0, 10, (8,)), "weight": engine.ones(2)}
    for _ in range(3):
        step(x, batch)
    return step, model, x, batch


def test_a_program_says_what_it_is_for_and_what_it_uses(trained):
    (program,) = trained[0].explain().programs
    assert program.arguments == ["x: float32 8×16", "batch[0]: int64 8", "batch[1]: float32 2"] and not program.because
    assert (program.state.tensors, program.state.changed, program.state.gradients) == (16, 16, 4)  # 4 parameters, 3 of Adam's for each
    assert program.memory.aliased > 0 and program.memory.peak >= program.memory.arguments
    assert program.ops == 4 + 8 + 1  # linear, relu, linear, cross_entropy; their backward steps and the leaves'; Adam
    assert {"0.weight", "0.weight.exp_avg", "2.bias.grad", "x", "batch[0]", "lr"} <= set(program.inputs)
    assert program.outputs[-1] == "result" and "2.weight.grad" in program.outputs


def test_parts_name_the_ops_and_the_lines(trained):
    (program,) = trained[0].explain().programs
    phases = {(origin.op, origin.phase) for part in program.parts for origin in part.origins}
    assert {("linear", "forward"), ("linear", "backward"), ("relu", "backward"), ("Adam", "update")} <= phases
    lines = {origin.op: origin.where for part in program.parts for origin in part.origins}
    first = trained[0].fn.__code__.co_firstlineno
    assert lines["linear"] == lines["cross_entropy"] == f"test_explain.py, line {first + 2}"
    assert lines["Adam"] == f"test_explain.py, line {first + 5}"
    assert all(part.origins for part in program.parts if part.flops > 1000)


def test_shares_are_estimated_and_with_arguments_measured_without_a_change(trained):
    step, model, x, batch = trained
    (program,) = step.explain().programs
    assert program.seconds is None and sum(map(program.share, program.parts)) == pytest.approx(1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    text = str(step.explain(x, batch))
    (program,) = step.explain().programs
    assert program.seconds > 0 and sum(part.seconds > 0 for part in program.parts) > len(program.parts) / 2
    assert all(engine.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert "Adam update" in text and "of it in the parts" in text
    with pytest.raises(RuntimeError, match="no program for these arguments"):
        step.explain(x[:2], batch)


def test_what_is_not_compiled_and_why():
    compiled = engine.compile(lambda x: x if x.sum().item() > 0 else -x)
    assert "Nothing has been compiled yet" in str(compiled.explain())
    x = engine.ones(3)
    compiled(x)
    with pytest.warns(UserWarning, match=".item()"):
        compiled(x)
    ((arguments, why),) = compiled.explain().eager
    assert arguments == ["float32 3"] and ".item() needs the value" in why


def test_a_module_has_a_program_for_its_backward_pass_and_says_why_it_has_another():
    model = engine.compile(nn.Linear(3, 2))
    for _ in range(2):
        model(engine.ones(4, 3)).sum().backward()
    explanation = model.explain()
    assert isinstance(explanation, Explanation) and [program.backward for program in explanation.programs] == [False, True]
    assert explanation.programs[1].outputs == ["weight.grad", "bias.grad"]
    assert {str(origin) for part in explanation.programs[1].parts for origin in part.origins} == {"linear backward"}
    model.eval()
    for _ in range(2):
        model(engine.ones(4, 3))
    assert "'training' of Linear" in [program.because for program in model.explain().programs][-1]


def read(fn, *args):
    compiled = jax.jit(fn).lower(*args).compile()
    module = Module(compiled.as_text())
    return sum(module.flops(one, module.main) for one in module.main.values()), compiled.cost_analysis()["flops"]


def test_operations_are_counted_as_xla_counts_them():
    a, b = numpy.ones((8, 16), "f4"), numpy.ones((16, 4), "f4")
    image, kernel = numpy.ones((2, 3, 8, 8), "f4"), numpy.ones((5, 3, 3, 3), "f4")
    for fn, args in (
        (lambda a, b: a @ b, (a, b)),
        (lambda a: a * a + a, (a,)),
        (lambda x, k: jax.lax.conv_general_dilated(x, k, (1, 1), "VALID"), (image, kernel)),
        (lambda a: jax.lax.reduce(a, 0.0, jax.lax.add, (0, 1)), (a,)),
    ):
        ours, theirs = read(fn, *args)
        assert ours == pytest.approx(theirs, rel=0.01)


def test_text_that_is_no_program_is_refused():
    with pytest.raises(ValueError, match="expected a module with an ENTRY"):
        Module("HloModule nothing")
    with pytest.raises(ValueError, match="expected an instruction"):
        Module("ENTRY %main (x: f32[2]) -> f32[2] {\n  what is this\n}")
    with pytest.raises(ValueError, match="uses y before it is made"):
        Module("ENTRY %main (x: f32[2]) -> f32[2] {\n  ROOT %x = f32[2] negate(%y)\n}")
