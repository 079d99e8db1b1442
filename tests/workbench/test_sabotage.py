"""Seeded bugs: each is there, is found, and can be fixed."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest

import engine
import engine.nn.functional as F
import workbench as wb
from engine import nn, optim
from workbench.teach.bugs import BUGS, Program
from workbench.teach.seeded import small

pytestmark = pytest.mark.usefixtures("fresh_sheet")


def loop(model, optimizer, loss, data):
    """The plain loop."""
    model.train()
    for x, y in data:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


class Layers:
    """A model called layer by layer: whatever was done to the model's own forward() is left out."""

    def __init__(self, model):
        self.model = model

    def train(self):
        self.model.train()

    def __call__(self, x):
        for layer in self.model:
            x = layer(x)
        return x


def without_grads(model, optimizer, loss, data):
    model.train()
    for x, y in data:
        for p in model.parameters():
            p.grad = None
        loss(model(x), y).backward()
        optimizer.step()


def own_step(model, optimizer, loss, data):
    model.train()
    for x, y in data:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        type(optimizer).step(optimizer)


def in_training(model, optimizer, loss, data):
    nn.Module.train(model)
    loop(model, optimizer, loss, data)


def slower(model, optimizer, loss, data):
    optimizer.param_groups[0]["lr"] /= 300
    loop(model, optimizer, loss, data)


def all_parameters(model, optimizer, loss, data):
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    optimizer.add_param_group({"params": [p for p in model.parameters() if id(p) not in known]})
    loop(model, optimizer, loss, data)


def anew(model, optimizer, loss, data):
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    loop(model, optimizer, loss, data)


REPAIRS = {
    "no_zero_grad": without_grads,
    "zero_after_backward": own_step,
    "softmax_axis": lambda m, o, loss, d: loop(m, o, F.cross_entropy, d),
    "double_softmax": lambda m, o, loss, d: loop(m, o, F.cross_entropy, d),
    "detach": lambda m, o, loss, d: loop(Layers(m), o, loss, d),
    "eval_mode": in_training,
    "learning_rate": slower,
    "forgotten_layer": all_parameters,
    "broadcast_loss": lambda m, o, loss, d: loop(m, o, loss, [(x, y.reshape(-1, 1)) for x, y in d]),
    "labels_shifted": lambda m, o, loss, d: loop(m, o, loss, [(x, engine.roll(y, -1)) for x, y in d]),
    "dead_relu": anew,
    "vanishing_init": anew,
    "in_place": lambda m, o, loss, d: loop(Layers(m), o, loss, d),
    "graph_kept": lambda m, o, loss, d: loop(m, o, loss.sound, d),
    "target_dtype": lambda m, o, loss, d: loop(m, o, loss, [(x, y.long()) for x, y in d]),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_there_is_found_and_is_fixed(name):
    exercise = wb.teach.sabotage(name)
    failed = ""
    try:
        with wb.record():
            exercise.train()
    except RuntimeError as error:
        failed = str(error)
    if BUGS[name].finding:
        assert BUGS[name].finding in [one.code for one in wb.check().findings]
    assert BUGS[name].title not in repr(exercise)
    try:
        assert not wb.teach.sabotage.solved(loop).fixed  # the plain loop does not get around it
    except RuntimeError:
        assert failed
    verdict = exercise.solved(REPAIRS[name])
    assert verdict.fixed and not verdict.found, verdict
    assert exercise.guess("no_zero_grad" if name != "no_zero_grad" else "detach") == "Not right."
    assert exercise.guess(BUGS[name].finding or name).startswith("Right.")
    assert wb.teach.sabotage.solved().found and BUGS[name].title in repr(exercise)


def until_it_falls(model, optimizer, loss, data):
    def losses_at(lr):
        trial, steps = copy.deepcopy((model, optimizer))
        steps.param_groups[0]["lr"] = lr
        return Program(trial, steps, loss, data).train()

    lr = optimizer.param_groups[0]["lr"]
    while losses_at(lr)[-1] > 0.5:
        lr /= 10
    optimizer.param_groups[0]["lr"] = lr
    loop(model, optimizer, loss, data)


def detached_totals(model, optimizer, loss, data):
    for x, y in data:
        loop(model, optimizer, loss, [(x, y)])
        loss.total = loss.total.detach()


# What the finding's fix says, and a loop that does just that.
FOLLOWED = {
    "no_zero_grad": ("for p in model.parameters(): p.grad = None", without_grads),
    "zero_after_backward": ("type(optimizer).step(optimizer)", own_step),
    "softmax_axis": ("F.cross_entropy(logits, target)", REPAIRS["softmax_axis"]),
    "double_softmax": ("F.cross_entropy(logits, target)", REPAIRS["double_softmax"]),
    "detach": ("for layer in model: x = layer(x)", REPAIRS["detach"]),
    "eval_mode": ("type(model).train(model)", in_training),
    "learning_rate": ("ten times smaller, and again until the loss falls", until_it_falls),
    "forgotten_layer": ("add_param_group()", all_parameters),
    "broadcast_loss": ("prediction.squeeze(-1)", lambda m, o, loss, d: loop(m, o, lambda p, y: loss(p.squeeze(-1), y), d)),
    "labels_shifted": (
        "y[p.argsort()]",
        lambda m, o, loss, d: loop(m, o, loss, [(x, y[engine.roll(engine.arange(len(y)), 1).argsort()]) for x, y in d]),
    ),
    "dead_relu": ("layer.reset_parameters()", anew),
    "vanishing_init": ("layer.reset_parameters()", anew),
    "in_place": ("for layer in model: x = layer(x)", REPAIRS["in_place"]),
    "graph_kept": ("total = total.detach()", detached_totals),
    "target_dtype": ("target.long()", REPAIRS["target_dtype"]),
}


@pytest.mark.parametrize("name", BUGS)
def test_what_the_finding_recommends_fixes_the_bug_and_nothing_else_is_found(name):
    words, train = FOLLOWED[name]
    exercise = wb.teach.sabotage(name)
    with contextlib.suppress(RuntimeError), wb.record():
        exercise.train()
    (finding,) = wb.check().findings
    assert words in finding.fix, finding.fix
    verdict = exercise.solved(train)
    assert verdict.fixed, verdict


def test_a_pass_whose_error_was_caught_is_not_told_as_a_path_that_is_cut():
    exercise = wb.teach.sabotage("in_place")
    with wb.record(), contextlib.suppress(RuntimeError):
        exercise.train()
    assert "gradient-lost" not in [one.code for one in wb.check().findings]


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_the_sound_program_learns_and_nothing_is_found(task):
    sound = small(task)
    with wb.record():
        losses = sound.train()
    assert losses[-1] < 0.5 * losses[0]
    assert wb.check().findings == []


def test_a_bug_in_a_program_of_ones_own_is_taken_out_again():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    data = [(engine.randn(6, 4), engine.randint(0, 3, (6,))) for _ in range(3)]
    before = [p.detach().clone() for p in model.parameters()]
    attributes = set(vars(model)), set(vars(optimizer))
    for name in ("no_zero_grad", "zero_after_backward", "detach", "learning_rate", "forgotten_layer", "dead_relu", "vanishing_init"):
        with wb.teach.sabotage(name, model, optimizer, F.cross_entropy, data) as exercise:
            assert exercise.model is model
        assert (set(vars(model)), set(vars(optimizer))) == attributes
        assert optimizer.param_groups[0]["lr"] == 0.1 and len(optimizer.param_groups[0]["params"]) == 4
        assert all(bool((a == b).all()) for a, b in zip(model.parameters(), before, strict=True))
    with pytest.raises(ValueError, match="Dropout or BatchNorm"):
        wb.teach.sabotage("eval_mode", model, optimizer, F.cross_entropy, data)
    with pytest.raises(ValueError, match="all four"):
        wb.teach.sabotage("detach", model)
    with pytest.raises(ValueError, match="There is no bug 'typo'"):
        wb.teach.sabotage("typo")


def test_a_bug_that_nobody_asks_about_is_not_graded(tmp_path):
    wb.teach.quiz.save(tmp_path / "answers.json")
    with wb.teach.sabotage("no_zero_grad") as exercise:
        assert not exercise.solved() and "one bug" in repr(exercise)
    assert wb.teach.grade(tmp_path / "answers.json").of == 0
    assert exercise.guess("detach").startswith("Not right.")
    assert [mark.sentence for mark in wb.teach.grade(tmp_path / "answers.json").marks] == [
        "'A detach() cuts the graph in the middle' is not right."
    ]


def test_hints_come_in_three_levels_and_random_bugs_do_not_tell_their_name():
    seen = set()
    for seed in range(12):
        exercise = wb.teach.sabotage.random(seed=seed)
        title = exercise._bug.title
        seen.add(title)
        assert wb.teach.sabotage.random(seed=seed)._bug.title == title  # the same again
        assert title not in repr(exercise) and exercise._bug.name not in repr(exercise)
        message = json.dumps(vars(exercise.question.message()))
        assert message.count(title) == 1  # among the choices alone
    assert len(seen) > 4
    assert [exercise.hint()[:11] for _ in range(3)] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3"]
    assert exercise._bug.title in exercise.reveal()


@pytest.mark.parametrize("asked", [False, True])
def test_a_guess_after_the_answer_was_revealed_does_not_count(asked):
    exercise = wb.teach.sabotage("no_zero_grad", id=f"revealed-{asked}")
    if asked:
        exercise.guess("learning_rate")
    exercise.reveal()
    assert "counts no more" in exercise.guess("no_zero_grad") and not exercise.solved().found
    found = wb.teach.sabotage("no_zero_grad", id=f"found-{asked}")
    found.guess("no_zero_grad")
    found.reveal()
    assert found.solved().found


def test_the_guess_is_graded_like_any_answer(tmp_path):
    exercise = wb.teach.sabotage("detach", id="exercise-1")
    wb.teach.quiz.save(tmp_path / "answers.json")
    exercise.guess("gradient-cut")
    assert wb.teach.grade(tmp_path / "answers.json", "exercise-1").points == 1
