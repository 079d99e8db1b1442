"""Optimizers and schedulers against ten steps of torch's (expected/optim.json, written by expected/make_optim.py)."""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path

import numpy
import pytest

import engine
from engine import Tensor, optim
from engine.nn import Parameter
from engine.optim import lr_scheduler
from grouping import grouped

EXPECTED = json.loads((Path(__file__).parent / "expected" / "optim.json").read_text())


def start(dtype=numpy.float64):
    return [Parameter(engine.tensor(numpy.array(a, dtype))) for a in EXPECTED["start"]]


def loss_of(x, y):
    residual = x * y.reshape(2, 1) - 1
    return (x * x * x * x).sum() * 0.05 + (residual * residual).sum() * 0.3 + (y * y).sum()


def closure_of(optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        return loss

    return closure


def label(case):
    return case["name"] + "-" + "-".join(f"{k}={v}" for k, v in case["options"].items())


@grouped("case", EXPECTED["cases"], ids=label)
def test_ten_steps(case):
    x, y = start()
    optimizer = getattr(optim, case["name"])([x, y], **case["options"])
    closure = closure_of(optimizer, x, y)
    for expected in case["steps"]:
        loss = optimizer.step(closure)
        got = [loss.item(), *x.array.ravel(), *y.array]
        numpy.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@grouped("case", [c for c in EXPECTED["cases"] if c["name"] != "LBFGS"], ids=label)
def test_ten_steps_in_float32(case):
    x, y = start(numpy.float32)
    optimizer = getattr(optim, case["name"])([x, y], **case["options"])
    closure = closure_of(optimizer, x, y)
    for _ in case["steps"]:
        optimizer.step(closure)
    assert x.array.dtype == numpy.float32
    numpy.testing.assert_allclose([*x.array.ravel(), *y.array], case["steps"][-1][1:], rtol=2e-3, atol=2e-4)


@grouped("case", EXPECTED["complex"]["cases"], ids=label)
def test_complex_parameters_are_pairs_of_numbers(case):
    z = Parameter(engine.tensor(numpy.array([complex(*pair) for pair in EXPECTED["complex"]["start"]])))
    optimizer = getattr(optim, case["name"])([z], **case["options"])

    def closure():
        optimizer.zero_grad()
        loss = (z * z.conj()).real.sum() + (z.real**3).sum() / 10
        loss.backward()
        return loss

    for expected in case["steps"]:
        optimizer.step(closure)
        numpy.testing.assert_allclose(z.array.view(numpy.float64), expected, rtol=1e-9, atol=1e-12)
    sizes = {s.array.dtype for s in optimizer.state[z].values() if isinstance(s, Tensor) and s.shape == z.shape}
    assert sizes <= {z.array.dtype}


@grouped("case", EXPECTED["cases"], ids=label)
def test_state_dict_continues_the_same_path(case):
    """Five steps, save, load into a fresh optimizer, five more: as ten steps."""
    x, y = start()
    first = getattr(optim, case["name"])([x, y], **case["options"])
    for _ in range(5):
        first.step(closure_of(first, x, y))
    saved = copy.deepcopy(first.state_dict())
    second = getattr(optim, case["name"])([x, y], **{**case["options"], "lr": 123.0})
    second.load_state_dict(saved)
    assert second.param_groups[0]["lr"] == case["options"]["lr"]
    for _ in range(5):
        second.step(closure_of(second, x, y))
    # ASGD's float32 "eta" is taken over in the parameter's float64, by torch too: from there on it is rounded less
    numpy.testing.assert_allclose([*x.array.ravel(), *y.array], case["steps"][-1][1:], rtol=1e-8 if case["name"] == "ASGD" else 1e-9)


def test_state_dict_has_torchs_layout():
    x, y = start()
    optimizer = optim.Adam([{"params": [x]}, {"params": [y], "lr": 0.5}], lr=0.1)
    optimizer.step(closure_of(optimizer, x, y))
    state = optimizer.state_dict()
    assert set(state) == {"state", "param_groups"}
    assert [g["params"] for g in state["param_groups"]] == [[0], [1]]
    assert [g["lr"] for g in state["param_groups"]] == [0.1, 0.5]
    assert set(state["state"]) == {0, 1}
    assert set(state["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
    assert state["state"][0]["step"].item() == 1.0 and state["state"][0]["step"].dtype.name == "float32"


def test_pickle_and_deepcopy():
    x, y = start()
    optimizer = optim.Adam([x, y], lr=0.1)
    optimizer.step(closure_of(optimizer, x, y))
    twins = copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))
    optimizer.step(closure_of(optimizer, x, y))
    for twin in twins:
        p, q = twin.param_groups[0]["params"]
        assert p is not x and not (p.array == x.array).all()
        twin.step(closure_of(twin, p, q))
        numpy.testing.assert_array_equal(p.array, x.array)
        numpy.testing.assert_array_equal(q.array, y.array)


def test_a_step_counts_as_a_write():
    x, y = start()
    optimizer = optim.SGD([x, y], lr=0.1)
    before = x._version
    loss = loss_of(x, y)
    loss.backward(retain_graph=True)
    optimizer.step()
    assert x._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradients_are_not_touched():
    for name in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Adagrad", "ASGD", "Rprop"):
        options = {"weight_decay": 0.1} if name != "Rprop" else {}
        x, y = start()
        optimizer = getattr(optim, name)([x, y], maximize=True, **options)
        for _ in range(2):
            x.grad = None
            y.grad = None
            loss_of(x, y).backward()
            kept = x.grad.array.copy()
            optimizer.step()
            numpy.testing.assert_array_equal(x.grad.array, kept, err_msg=name)


def test_parameters_without_gradient_stay():
    x, y = start()
    optimizer = optim.Adam([x, y])
    (x * x).sum().backward()
    before = y.array.copy()
    optimizer.step()
    numpy.testing.assert_array_equal(y.array, before)


def test_zero_grad():
    x, y = start()
    optimizer = optim.SGD([x, y], lr=0.1)
    loss_of(x, y).backward()
    kept = x.grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad is kept and (kept.array == 0).all() and kept.shape == x.shape
    optimizer.zero_grad()
    assert x.grad is None


def test_adagrad_starts_from_its_accumulator_whatever_the_parameter_holds():
    x = Parameter(engine.tensor([math.inf, 1.0]))
    optimizer = optim.Adagrad([x], initial_accumulator_value=0.5)
    y = Parameter(engine.tensor([2.0]))
    optimizer.add_param_group({"params": [y]})
    assert optimizer.state[x]["sum"].tolist() == [0.5, 0.5] and optimizer.state[y]["sum"].tolist() == [0.5]


def test_hooks():
    x, y = start()
    optimizer = optim.SGD([x, y], lr=0.1)
    told = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: told.append("before"))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: told.append("after"))
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert told == ["before", "after", "before"]


def test_named_parameters():
    x, y = start()
    optimizer = optim.SGD([("x", x), ("y", y)], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["x", "y"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["x", "y"]


def test_repr():
    text = repr(optim.SGD([start()[0]], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n") and "    lr: 0.1\n" in text and text.endswith(")")


@grouped(
    ("make", "message"),
    [
        (lambda p: optim.SGD(p, lr=-1), "Invalid learning rate: -1"),
        (lambda p: optim.SGD(p, lr=math.nan), "Invalid learning rate: nan"),
        (lambda p: optim.SGD(p, lr=1, momentum=-1), "Invalid momentum value: -1"),
        (lambda p: optim.SGD(p, lr=1, weight_decay=-1), "Invalid weight_decay value: -1"),
        (lambda p: optim.SGD(p, lr=1, nesterov=True), "Nesterov momentum requires a momentum and zero dampening"),
        (lambda p: optim.Adam(p, betas=(1.0, 0.9)), "Invalid beta parameter at index 0: 1.0"),
        (lambda p: optim.Adam(p, eps=-1), "Invalid epsilon value: -1"),
        (lambda p: optim.RMSprop(p, alpha=-1), "Invalid alpha value: -1"),
        (lambda p: optim.Adadelta(p, rho=2), "Invalid rho value: 2"),
        (lambda p: optim.Rprop(p, etas=(2, 3)), "Invalid eta values: 2, 3"),
        (lambda p: optim.SGD([]), "optimizer got an empty parameter list"),
        (lambda p: optim.SGD([{"params": p}, {"params": p}]), "some parameters appear in more than one parameter group"),
        (lambda p: optim.SGD([p[0] * 2]), "can't optimize a non-leaf Tensor"),
        (lambda p: optim.LBFGS([{"params": [p[0]]}, {"params": [p[1]]}]), "LBFGS doesn't support per-parameter options"),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(ValueError, match=message):
        make(start())


def test_bad_types():
    x, _ = start()
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        optim.SGD(x)
    with pytest.raises(TypeError, match="optimizer can only optimize Tensors, but one of the params is int"):
        optim.SGD([1])
    with pytest.raises(TypeError, match="ordering of tensors in sets"):
        optim.SGD([{"params": {x}}])
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([x]).step()


def test_loading_what_does_not_fit():
    x, y = start()
    state = optim.SGD([x, y]).state_dict()
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.SGD([{"params": [x]}, {"params": [y]}]).load_state_dict(state)
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optim.SGD([x]).load_state_dict(state)


# -- schedulers ---------------------------------------------------------------------------------------------------------------------


def two_groups():
    return optim.SGD([{"params": [start()[0]], "lr": 0.1}, {"params": [start()[1]], "lr": 0.4}], lr=0.1, momentum=0.9)


def check_rates(make, expected):
    optimizer = two_groups()
    scheduler = make(optimizer)
    for i, rates in enumerate(expected):
        got = [g["lr"] for g in optimizer.param_groups] + [g["momentum"] for g in optimizer.param_groups]
        numpy.testing.assert_allclose(got, rates, rtol=1e-12, atol=1e-15, err_msg=f"epoch {i}")
        assert scheduler.get_last_lr() == got[:2]
        optimizer.step()
        if i + 1 < len(expected):
            scheduler.step()
    return scheduler


@pytest.mark.parametrize("case", EXPECTED["schedules"], ids=label)
def test_schedule(case):
    scheduler = check_rates(lambda o: getattr(lr_scheduler, case["name"])(o, **case["options"]), case["rates"])
    if case["name"] == "OneCycleLR":
        with pytest.raises(ValueError, match="Tried to step 13 times"):
            scheduler.step()
            scheduler.step()


def test_function_schedules():
    check_rates(lambda o: lr_scheduler.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]), EXPECTED["lambda"])
    check_rates(lambda o: lr_scheduler.MultiplicativeLR(o, lambda e: 0.9), EXPECTED["multiplicative"])


def sequence(o):
    parts = [lr_scheduler.ConstantLR(o, 0.1, 3), lr_scheduler.ExponentialLR(o, 0.8), lr_scheduler.StepLR(o, 2)]
    return lr_scheduler.SequentialLR(o, parts, [3, 7])


def test_combined_schedules():
    check_rates(sequence, EXPECTED["sequential"])
    check_rates(
        lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.1, 3), lr_scheduler.ExponentialLR(o, 0.8)]),
        EXPECTED["chained"],
    )


def test_plateau():
    optimizer = optim.SGD([start()[0]], lr=1.0)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    rates = []
    for metric in EXPECTED["plateau"]["metrics"]:
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == EXPECTED["plateau"]["rates"]


def test_schedule_state_dict():
    optimizer = two_groups()
    scheduler = sequence(optimizer)
    for _ in range(5):
        optimizer.step()
        scheduler.step()
    state, groups = copy.deepcopy(scheduler.state_dict()), copy.deepcopy(optimizer.state_dict())
    other = two_groups()
    resumed = sequence(other)
    resumed.load_state_dict(state)
    other.load_state_dict(groups)
    for expected in EXPECTED["sequential"][6:]:
        other.step()
        resumed.step()
        numpy.testing.assert_allclose([g["lr"] for g in other.param_groups], expected[:2], rtol=1e-12)


def test_scheduler_before_optimizer_is_told():
    scheduler = lr_scheduler.StepLR(two_groups(), 2)
    with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\)` before `optimizer.step\(\)"):
        scheduler.step()


def test_closed_form_steps():
    scheduler = lr_scheduler.CosineAnnealingLR(two_groups(), T_max=8)
    scheduler.optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter"):
        scheduler.step(4)
    numpy.testing.assert_allclose(scheduler.get_last_lr(), [0.05, 0.2])


def rates_of(make, n):
    """The rate of one group over n epochs."""
    optimizer = optim.SGD([start()[0]], lr=1.0)
    scheduler, rates = make(optimizer), []
    for _ in range(n):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_a_sequence_may_begin_with_chained_schedules():
    """torch 2.13: 0.45, not 0.5, since the parts of a chain do not know that the chain's first step is one."""

    def make(o):
        chain = lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.5, 2), lr_scheduler.ExponentialLR(o, 0.9)])
        return lr_scheduler.SequentialLR(o, [chain, lr_scheduler.ExponentialLR(o, 0.5)], [3])

    with pytest.warns(UserWarning, match="before `optimizer.step"):  # as PyTorch: the parts step twice before the optimizer does
        rates = rates_of(make, 7)
    numpy.testing.assert_allclose(rates, [0.45, 0.405, 0.729, 1.0, 0.5, 0.25, 0.125])


def test_warm_restarts_resumed_after_several_periods():
    """torch 2.13, resumed after epoch 7 of periods of 3."""

    def make(o):
        o.param_groups[0]["initial_lr"] = 1.0
        return lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=3, last_epoch=7)

    numpy.testing.assert_allclose(rates_of(make, 4), [0.25, 1.0, 0.75, 0.25])


def test_a_plateau_takes_no_part_in_a_combination():
    optimizer = two_groups()
    parts = [lr_scheduler.ReduceLROnPlateau(optimizer)]
    for make in (lambda: lr_scheduler.ChainedScheduler(parts), lambda: lr_scheduler.SequentialLR(optimizer, parts, [])):
        with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau`"):
            make()


@pytest.mark.parametrize("make", [lambda: lr_scheduler.StepLR(1, 2), lambda: lr_scheduler.CyclicLR(1, 0.1, 0.2)])
def test_a_schedule_wants_an_optimizer(make):
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        make()


def test_a_wrapper_that_never_called_init_runs_its_own_step():
    """As the Lookahead of several libraries does: it borrows the groups of the optimizer inside."""

    class Wrapper(engine.optim.Optimizer):
        def __init__(self, inner):
            self.inner, self.param_groups, self.state, self.defaults = inner, inner.param_groups, {}, inner.defaults

        def step(self, closure=None):
            return self.inner.step(closure)

    w = engine.tensor([1.0], requires_grad=True)
    optimizer = Wrapper(engine.optim.SGD([w], lr=0.5))
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)  # accelerate's wrapper has one
    (w * 3).sum().backward()
    optimizer.step()
    assert w.item() == -0.5
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.25
    with pytest.warns(UserWarning, match="`lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`"):
        lr_scheduler.ExponentialLR(Wrapper(optimizer.inner), 0.5).step()
    optimizer.zero_grad()
    assert w.grad is None
