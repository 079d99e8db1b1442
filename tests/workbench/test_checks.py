"""The checks: each mistake is found where it is, and its corrected twin is left in peace."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any
from weakref import ref

import mistakes
import numpy
import pytest
from mistakes import (
    TWINS,
    Net,
    Program,
    Scaled,
    Stacked,
    batch,
    checked,
    clipped,
    cut,
    cut_by_data,
    cut_by_detach,
    dead,
    deep,
    fully_masked,
    not_finite,
    one,
    plain,
    regressed,
    train,
    trained,
    written_over,
)

import engine
import engine.data
import engine.nn.functional as F
import workbench as wb
from engine import nn
from engine.base import observe
from engine.optim import SGD, Adam
from workbench import protocol
from workbench.checks.answers import check
from workbench.checks.look import look
from workbench.graph.graph import Graph
from workbench.recording.recorder import Recorder
from workbench.session.session import Session

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("code", "mistake", "corrected"), [pytest.param(*twin, id=f"{at}-{twin[0]}") for at, twin in enumerate(TWINS)])
def test_a_mistake_is_found_and_its_corrected_twin_is_left_in_peace(code: str, mistake: Program, corrected: Program) -> None:
    report = checked(mistake)
    finding = one(report, code)
    assert finding.sentence.endswith(".") and finding.why and finding.fix
    assert finding.code in repr(report) and finding.fix in repr(report)
    assert finding.site is not None or finding.node >= 0 or code == "unused-parameter"
    assert [found.code for found in checked(corrected).findings] == []


@pytest.mark.parametrize(
    ("program", "codes"),
    [
        (lambda: fully_masked(False), ["nan-forward"]),  # not the mask's infinities
        (lambda: written_over(False), ["in-place-overwrite"]),  # the pass did not end: nothing is said of missing gradients
        (lambda: plain(order="zsb"), ["step-before-backward"]),
        (lambda: clipped(0.0), ["zero-gradient"]),  # not the learning rate
        (lambda: regressed(100.0), ["learning-rate-too-large"]),  # not the gradient that explodes because of it
        (lambda: trained(Stacked(list)), ["unregistered-module"]),
        (lambda: trained(Scaled(engine.ones(3, requires_grad=True))), ["unregistered-parameter"]),  # not data with a gradient
        (not_finite(lambda x: (x.exp() * engine.tensor([1.0, 1.0, 0.0])).sum() * 0, 1000.0), ["inf-forward"]),
    ],
)
def test_the_cause_is_told_and_not_what_follows_from_it(program: Program, codes: list[str]) -> None:
    found = checked(program).findings
    assert [one.code for one in found] == codes and all(one.severity == "error" for one in found if one.code.startswith(("inf", "nan")))


def test_a_generator_that_a_detach_cuts_from_its_loss_is_not_told_of_the_order_of_calls_alone() -> None:
    def program() -> Any:
        generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
        optimizer = SGD(generator.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss = critic(generator(engine.randn(8, 2)).detach()).mean()
            loss.backward()
            optimizer.step()
        return loss  # the modules are gone: where the path broke can no longer be told

    finding = one(checked(program), "zero-grad-before-step")
    assert "the loss was not computed from this optimizer's parameters" in finding.sentence and "no detach()" in finding.fix


def test_an_infinity_is_told_where_it_is_made_and_a_sum_of_both_by_its_reason() -> None:
    def program() -> Any:
        x = engine.tensor([1000.0, 1.0, 1000.0], requires_grad=True)
        loss = (x.exp() * engine.tensor([1.0, 1.0, -1.0])).mean()
        loss.backward()
        return x, loss

    made = one(checked(program), "inf-forward")
    assert made.sentence.startswith("exp made the first +Inf")
    assert "From it mean at line" in made.why and "mean of +Inf and −Inf together" in made.why and "empty" not in made.fix


@pytest.mark.parametrize("shared", [False, True])
def test_a_nan_inside_vmap_is_told_with_its_sample_and_the_operand_there(shared: bool) -> None:
    scale, x = engine.tensor([1.0, -2.0]), engine.tensor([[1.0, 2.0], [-3.0, 4.0], [5.0, 6.0]])

    def energy(row: Any) -> Any:
        return (scale / row[0]).log() if shared else engine.func.vmap(lambda one: one.log())(row)

    made = one(checked(lambda: engine.func.vmap(energy)(x)), "nan-forward")
    index = [0, 1] if shared else [1, 0]  # of the first of scale / x[:, :1], and of x, that is below 0
    assert made.sentence.startswith("log made the first NaN") and f"at {index}" in made.sentence
    assert made.operands[0].value.endswith(f"{index} = −{2 if shared else 3}") and "negative" in made.why


def test_of_several_infinities_the_first_is_told() -> None:
    def program() -> Any:
        x = engine.tensor([1000.0, 1.0], requires_grad=True)
        first = x.exp()
        second = (x * 2).exp()
        loss = first.sum() + second.sum()
        loss.backward()
        return x, loss

    assert line_of(checked(program), "inf-forward") == "first = x.exp()"


def test_a_unit_that_was_alive_in_any_call_is_not_dead() -> None:
    """One model, called with x and with -x: what one call has at 0 the other has not, but for the units that are 0 in both."""
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 3))
    x, y = engine.ones(64, 4), engine.randint(0, 3, (64,))
    with engine.no_grad():
        model[0].weight.copy_(engine.tensor([[1.0] * 4] * 4 + [[-1.0] * 4] * 2 + [[0.0] * 4] * 2))

    def program(*signs: int) -> Any:
        for sign in signs:
            F.cross_entropy(model(sign * x), y).backward()
        return model

    assert one(checked(lambda: program(1)), "dead-units").sentence.startswith("4 of 8 units")
    assert one(checked(lambda: program(-1)), "dead-units").sentence.startswith("6 of 8 units")
    assert one(checked(lambda: program(-1, 1)), "dead-units").sentence.startswith("2 of 8 units")


def test_an_optimizer_inside_a_function_updates_its_parameters() -> None:
    """It is gone when the checks look."""
    model = Net()

    def program() -> Any:
        train(model, SGD(model.parameters(), 0.05))

    assert checked(program).findings == []
    assert [one.code for one in checked(lambda: train(model, SGD(model.first.parameters(), 0.05)) and None).findings] == [
        "not-in-optimizer"
    ]


@pytest.mark.slow
def test_what_no_optimizer_has_is_not_expected_to_learn() -> None:
    """Deep Q-learning: the target network runs under no_grad(), and is moved towards the other one."""
    model, target = Net(), Net()
    target.load_state_dict(model.state_dict())
    optimizer = Adam(model.parameters(), 1e-3)

    def program() -> Any:
        for _ in range(4):
            x, _ = batch()
            with engine.no_grad():
                wanted = target(batch()[0]).max(1)[0]
            loss = F.smooth_l1_loss(model(x)[engine.arange(8), 0], wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with engine.no_grad():
                for old, new in zip(target.parameters(), model.parameters(), strict=True):
                    old.mul_(0.9).add_(new, alpha=0.1)

    assert checked(program).findings == []


def test_the_line_of_a_layer_that_is_not_registered_or_not_called_is_told() -> None:
    assert (
        line_of(checked(lambda: trained(Stacked(list))), "unregistered-module") == "self.layers = kind([nn.Linear(4, 4) for _ in range(3)])"
    )
    assert line_of(checked(lambda: trained(Scaled(engine.ones(3, requires_grad=True)))), "unregistered-parameter") == "self.scale = scale"

    class Idle(Scaled):
        def __init__(self) -> None:
            super().__init__(1.0)
            self.extra = nn.Linear(2, 2)

    assert line_of(checked(lambda: trained(Idle())), "unused-parameter") == "self.extra = nn.Linear(2, 2)"


def test_where_a_number_was_taken_of_the_loss_is_told_also_when_the_tensor_has_no_name() -> None:
    def program() -> Any:
        model = nn.Linear(4, 1)
        number = F.mse_loss(model(engine.randn(8, 4)), engine.zeros(8, 1)).item()
        engine.tensor(number, requires_grad=True).backward()
        return model

    assert "number = F.mse_loss(model(engine.randn(8, 4)), engine.zeros(8, 1)).item()" in one(checked(program), "gradient-lost").sentence


# -- where, and with what ------------------------------------------------------------------------------------------------------


def line_of(report: Any, code: str) -> str:
    site = one(report, code).site
    assert site is not None
    return site.text


def test_the_first_op_that_makes_a_nan_is_named_with_its_operands_also_when_no_value_was_kept() -> None:
    data = numpy.array([[0.5, 2.0, -3.0], [-1.0, 1.0, 4.0]], "float32")
    with numpy.errstate(all="ignore"):
        at = tuple(int(i) for i in numpy.argwhere(numpy.isnan(numpy.log(data - 1)))[0])

    def program() -> Any:
        x = engine.tensor(data, requires_grad=True)
        shifted = x - 1
        safe = shifted.abs() + 1
        loss = (shifted.log() * safe).sum()
        loss.backward()
        return x, loss

    for keep in (None, 0):
        report = checked(program, keep)
        finding = one(report, "nan-forward")
        assert finding.sentence.startswith("log made the first NaN") and f"[{', '.join(map(str, at))}] and 2 more" in finding.sentence
        assert finding.site.text == "loss = (shifted.log() * safe).sum()"
        (operand,) = finding.operands
        assert operand.value.endswith(f"= {data[at] - 1:.4g}".replace("-", "−")) and operand.shape == [2, 3]
        assert "negative" in finding.why


def test_the_pass_of_a_long_loop_in_which_it_began_is_told() -> None:
    """2 is squared in each pass, until it is beyond float32."""

    def program() -> Any:
        w = engine.tensor([2.0], requires_grad=True)
        for _ in range(12):
            y = w.square()
            y.sum().backward()
            with engine.no_grad():
                w.copy_(y)
            w.grad = None
        return w

    first = next(k for k in range(1, 12) if 2 ** (2**k) > float(numpy.finfo("float32").max))
    for keep in (None, 0):
        finding = one(checked(program, keep), "inf-forward")
        assert f"in pass {first}" in finding.sentence and finding.sentence.startswith("square made the first +Inf")


@pytest.mark.parametrize("keep", [None, 0])
def test_the_first_backward_step_is_named_with_its_rule_and_upstream(keep: int | None) -> None:
    def program() -> Any:
        x = engine.tensor([4.0, 0.0, 9.0], requires_grad=True)
        loss = (x.sqrt() * 3).exp().sum()
        loss.backward()
        return x, loss

    finding = one(checked(program, keep), "inf-backward")
    assert (
        finding.sentence.startswith("The backward step of sqrt made the first +Inf")
        and "[1]" in finding.sentence
        and "d_input =" in finding.sentence
    )
    assert finding.site is not None and finding.site.text == "loss = (x.sqrt() * 3).exp().sum()"
    upstream = finding.operands[0]
    assert upstream.name == "g" and upstream.value == "g[1] = 3"  # 3 · exp(0)


def test_a_bad_gradient_in_a_loop_is_told_before_the_parameters_that_it_spoils() -> None:
    def program() -> Any:
        w = engine.tensor([1.0, 2.0], requires_grad=True)
        optimizer = SGD([w], 0.5)
        for turn in range(6):
            optimizer.zero_grad()
            ((w * (0.0 if turn == 3 else 1.0)).sqrt().sum() * 0.1).backward()
            optimizer.step()
        return w, optimizer

    report = checked(program)
    finding = next(one for one in report.findings if one.code in ("inf-backward", "nan-backward"))
    assert "of pass 4" in finding.sentence and "sqrt" in finding.sentence
    assert not [one for one in report.findings if one.code.endswith(("-forward", "-input"))]


def test_a_mask_of_infinities_is_no_finding() -> None:
    def program() -> Any:
        scores = engine.randn(3, 3, requires_grad=True)
        mask = engine.ones(3, 3).tril() == 0
        loss = scores.masked_fill(mask, float("-inf")).softmax(-1).square().sum()
        loss.backward()
        return scores, loss

    assert checked(program).findings == []


def test_both_lines_of_an_in_place_write_are_named() -> None:
    finding = one(checked(lambda: written_over(False)), "in-place-overwrite")
    assert finding.site.text == "g.add_(1)"
    saved, wrote = finding.operands
    lines = Path(mistakes.__file__).read_text(encoding="utf-8").splitlines()
    number = next(at for at, text in enumerate(lines, 1) if text == "    h = w.exp()")
    assert f"exp at line {number} of mistakes.py" in finding.sentence and "exp saved" in saved.words and wrote.words == "overwrote it"


@pytest.mark.parametrize(
    ("program", "line", "says"),
    [
        (cut_by_detach, "fixed = h.detach()", "detached"),
        (cut_by_data, "fixed = h.data", "detached"),
        (lambda: cut("no_grad"), "return h * 2", "no_grad()"),
        (lambda: cut("numpy"), "", "the loss does not depend"),
    ],
)
def test_where_a_gradient_is_cut_off_is_told(program: Program, line: str, says: str) -> None:
    finding = one(checked(program), "gradient-cut" if line else "gradient-lost")
    assert says in finding.sentence and re.search(r"reaches \w+\.weight and \w+\.bias", finding.sentence)
    if line:
        assert finding.site.text == line
    if "detached" in says:
        number = next(
            at for at, text in enumerate(Path(mistakes.__file__).read_text(encoding="utf-8").splitlines(), 1) if text.strip() == line
        )
        assert f"line {number}" in finding.sentence


def test_what_gradients_are_told_in_depth_order() -> None:
    finding = one(checked(lambda: deep(False)), "vanishing-gradient")
    names = [operand.name for operand in finding.operands]
    assert names == sorted(names, key=lambda name: (int(name.split(".")[0]), name.endswith("bias"))) and names[0] == "0.weight"


def test_nan_is_not_called_saturated() -> None:
    def program() -> Any:
        x = engine.tensor([[1.0, float("nan")]] * 40, requires_grad=True)
        loss = x.relu().sum()
        loss.backward()
        return x, loss

    assert "saturated" not in [one.code for one in checked(program).findings]


def test_dead_units_are_counted() -> None:
    finding = one(checked(lambda: dead(-100.0)), "dead-units")
    assert finding.sentence.startswith("8 of 8 units of 1 (relu)") and finding.severity == "warning"


def test_what_one_model_makes_as_data_for_another_is_no_mistake_and_a_cut_within_a_model_is() -> None:
    def program(stop: bool, updates: bool) -> Any:
        generator, critic = (
            nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)),
            nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)),
        )
        optimizer = SGD(critic.parameters(), 0.1)
        made = generator(engine.randn(8, 4))
        loss = critic(made.detach()).mean()
        if stop:
            loss = critic[2](critic[1](critic[0](engine.randn(8, 2))).detach()).mean()
        loss.backward()
        if updates:
            optimizer.step()
        return generator, critic, optimizer, made, loss

    assert checked(lambda: program(False, True)).findings == []
    apart = one(checked(lambda: program(False, False)), "gradient-cut")
    assert apart.severity == "note" and "GAN" in apart.why
    assert one(checked(lambda: program(True, False)), "gradient-cut").severity == "error"


@pytest.mark.parametrize("stop", ["detach", "no_grad"])
def test_a_generator_in_the_step_of_a_discriminator_is_no_mistake_and_what_one_optimizer_should_update_is(stop: str) -> None:
    def found(together: bool, steps: str) -> list[str]:
        generator, critic = nn.Linear(4, 2), nn.Linear(2, 1)
        of_critic = SGD([*critic.parameters(), *(generator.parameters() if together else ())], 0.1)
        of_generator = SGD(generator.parameters(), 0.1)
        with wb.record():
            if stop == "detach":
                made = generator(engine.randn(8, 4)).detach()
            else:
                with engine.no_grad():
                    made = generator(engine.randn(8, 4))
            loss = critic(made).square().mean()
            loss.backward()
            if "critic" in steps:
                of_critic.step()
            if "generator" in steps:
                of_generator.step()
        return [one.code for one in wb.check().findings]

    assert found(False, "") == found(False, "critic") == []
    assert all("gradient-cut" in found(*case) for case in ((True, ""), (True, "critic"), (False, "critic generator")))


def test_thirty_layers_that_explode_are_one_finding_that_names_the_first_its_line_and_how_far_it_goes() -> None:
    gradients: list[float] = []

    def program() -> Any:
        model = nn.Sequential(*[nn.Linear(16, 16, bias=False) for _ in range(30)])
        with engine.no_grad():
            for p in model.parameters():
                p.mul_(6.0)
        model(engine.randn(64, 16)).square().mean().backward()
        gradients.extend(float(numpy.abs(p.grad.numpy()).max()) for p in model.parameters())
        return model

    finding = one(report := checked(program), "exploding-gradient")
    assert len(report.findings) == 1 and all(size > 1e4 for size in gradients)
    first, last = (float(f"{size:.4g}") for size in (gradients[0], gradients[-1]))
    pattern = r"The gradient explodes in 30 of 30 parameters, from 0\.weight at line (\d+) of test_checks\.py, where .* is (\S+), to 29\.weight, where it is (\S+)\."
    line, shown, ends = re.fullmatch(pattern, finding.sentence).groups()
    text = Path(__file__).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert "model(engine.randn(64, 16))" in text and finding.site.line == int(line)
    assert (float(shown), float(ends)) == pytest.approx((first, last), rel=1e-3) and 2 < len(finding.operands) <= 12


def test_a_dead_layer_is_found_after_one_pass_with_the_gradients_that_are_zero_because_of_it() -> None:
    recorder = Recorder("In [1]")
    with observe.observing(recorder):
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        with engine.no_grad():
            model[0].bias.fill_(-100.0)
        model(engine.randn(8, 4)).square().mean().backward()
    Graph(recorder.stop()).name({"model": model})
    assert not model[0].weight.grad.numpy().any() and not model[2].weight.grad.numpy().any()
    (finding,) = look(recorder.recording).findings  # as each watched cell is looked at
    assert (finding.code, finding.severity) == ("dead-units", "warning")
    assert finding.sentence.startswith("16 of 16 units of 1 (relu) at line ")
    assert finding.sentence.endswith("The gradients of 0.weight and 2.weight are exactly 0.")


def test_a_tanh_in_the_derivative_of_a_loss_is_no_saturated_layer() -> None:
    def program() -> None:
        w = engine.full((2,), 9.0, requires_grad=True)
        loss = F.binary_cross_entropy_with_logits(engine.ones(64, 2) @ w, engine.ones(64))
        (g,) = engine.autograd.grad(loss, w, create_graph=True)
        g.sum().backward()

    assert "saturated" not in [one.code for one in checked(program).findings]


def test_dead_layers_one_behind_another_are_one_finding_and_so_are_saturated_ones() -> None:
    def program(act: type[nn.Module], scale: float, bias: float) -> Any:
        model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(8, 8), act())])
        with engine.no_grad():
            for p in model.parameters():
                p.mul_(scale) if p.dim() > 1 else p.fill_(bias)
        model(engine.randn(64, 8)).sum().backward()
        return model

    found = checked(lambda: program(nn.ReLU, 1.0, -100.0)).findings
    assert [one.code for one in found] == [
        "dead-units"
    ] and "so were 8 of 8 in 3 (relu), 8 of 8 in 5 (relu), 8 of 8 in 7 (relu) and 2 more" in found[0].sentence
    saturated = one(checked(lambda: program(nn.Tanh, 100.0, 1.0)), "saturated")
    assert re.search(r"^\d+ % of 1 \(tanh\).*; so are \d+ % in 3 \(tanh\), .* and \d more\.$", saturated.sentence)


def test_a_few_units_that_are_zero_on_one_batch_are_no_finding_and_too_few_samples_are_said_to_be_too_few() -> None:
    def program(units: int, off: int, samples: int) -> Any:
        model = nn.Sequential(nn.Linear(4, units), nn.ReLU(), nn.Linear(units, 3))
        with engine.no_grad():
            model[0].weight.mul_(0.01)
            model[0].bias.copy_(engine.tensor([-1.0] * off + [1.0] * (units - off)))
        F.cross_entropy(model(engine.randn(samples, 4)), engine.zeros(samples, dtype=engine.int64)).backward()
        return model

    assert checked(lambda: program(32, 5, 64)).findings == []
    few = checked(lambda: program(32, 16, 8))
    assert (
        few.findings == [] and "Too few samples to distinguish dead units: 16 of 32 units of 1 (relu) were 0 for all 8 samples." in few.text
    )
    assert [one.code for one in checked(lambda: program(32, 16, 32)).findings] == ["dead-units"]


def test_the_documentation_runs_and_lists_every_code(
    capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WB_UPDATE", "1")
    text = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "docs"}
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(program, "checks.md", "exec"), names)
    printed = capsys.readouterr().out
    for line in re.findall(r"^ERROR .*", text, re.MULTILINE):
        assert line in printed.splitlines()
    used = set(
        re.findall(r'finding\(\s*f?"([a-z0-9{}_\[\]-]+)"', "".join(p.read_text() for p in (ROOT / "workbench" / "checks").glob("*.py")))
    )
    listed = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", text)) | {"saturated"}
    assert {code for code in used if "{" not in code} <= listed and len(used) > 25
    assert {code for code, _, _ in TWINS} <= listed


# -- in a session --------------------------------------------------------------------------------------------------------------


def test_findings_reach_every_view_with_flags_and_a_thorough_look_is_answered() -> None:
    recorder = Recorder("In [1]")
    with observe.observing(recorder):
        held = not_finite(lambda x: x.log().sum(), -1.0)()
    recorder.stop()
    session = Session(recorder.recording)
    session.finish({})
    told: list[dict] = []
    client = session.connect(lambda message, buffers: told.append(message))
    check(session)
    kinds = [message["type"] for message in told]
    assert kinds == ["flags", "findings"] and told[0]["flags"][0]["glyph"] == "✕" and not told[1]["thorough"]
    assert [one["code"] for one in told[1]["findings"]] == ["nan-forward"]
    ((answer, _),) = session.handle({"type": "ask_findings", "v": protocol.VERSION, "id": 4}, client)
    assert answer["re"] == 4 and answer["thorough"] and [one["code"] for one in answer["findings"]] == ["nan-forward"]
    assert [m["type"] for m, _ in session.everything(client)].count("findings") == 1
    session.busy = lambda: True
    ((problem, _),) = session.handle({"type": "ask_findings", "v": protocol.VERSION, "id": 5}, client)
    assert problem["type"] == "problem" and "running" in problem["sentence"]
    del held


def test_a_check_that_fails_says_so_and_spoils_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: Any) -> list:
        raise KeyError("<b>x</b>")

    monkeypatch.setattr("workbench.checks.losses.check", broken)
    report = checked(lambda: plain(zero=False))
    assert one(report, "check-failed").sentence == "A check could not be done: KeyError: '<b>x</b>'."
    assert one(report, "missing-zero-grad").severity == "error"


@pytest.mark.slow
def test_nothing_recorded_is_said_and_no_tensor_is_kept_alive() -> None:
    report = checked(plain)
    assert "nothing found" in repr(report)
    with wb.record() as r:
        model, optimizer, _ = plain()
        weak = [ref(p) for p in model.parameters()]
        del model, optimizer
    look(r.recording, (), thorough=True)
    gc.collect()
    assert all(one() is None for one in weak)
