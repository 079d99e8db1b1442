"""Schedules, weight averages and an optimizer's hooks: the same programs under PyTorch and the engine."""

from __future__ import annotations

import copy
import importlib
import math
from typing import Any

import pytest
import torch
from test_nn_programs import compared, given, refusal, state, warned

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SCHEDULES = {
    "StepLR": [lambda s, o: s.StepLR(o, 3), lambda s, o: s.StepLR(o, step_size=2, gamma=0.5)],
    "MultiStepLR": [lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.3)],
    "ConstantLR": [lambda s, o: s.ConstantLR(o), lambda s, o: s.ConstantLR(o, 0.5, 4)],
    "LinearLR": [lambda s, o: s.LinearLR(o), lambda s, o: s.LinearLR(o, 0.2, 0.9, 4)],
    "ExponentialLR": [lambda s, o: s.ExponentialLR(o, 0.8)],
    "PolynomialLR": [lambda s, o: s.PolynomialLR(o), lambda s, o: s.PolynomialLR(o, 7, 2.0)],
    "LambdaLR": [lambda s, o: s.LambdaLR(o, lambda e: 0.9**e), lambda s, o: s.LambdaLR(o, [lambda e: 1 / (e + 1), Warm(4)])],
    "MultiplicativeLR": [lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95), lambda s, o: s.MultiplicativeLR(o, [lambda e: 0.9, lambda e: 0.5])],
    "CosineAnnealingLR": [lambda s, o: s.CosineAnnealingLR(o, 5), lambda s, o: s.CosineAnnealingLR(o, T_max=4, eta_min=0.01)],
    "CosineAnnealingWarmRestarts": [
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 3), lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=2, T_mult=2, eta_min=0.001),
    ],
    "CyclicLR": [
        lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, cycle_momentum=True), lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.1, 0.2], 2, 4, "triangular2"),
        lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, mode="exp_range", gamma=0.9), lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, scale_fn=lambda x: 0.5, scale_mode="cycle"),
    ],
    "OneCycleLR": [
        lambda s, o: s.OneCycleLR(o, 0.5, total_steps=14), lambda s, o: s.OneCycleLR(o, [0.5, 0.2], epochs=7, steps_per_epoch=2, anneal_strategy="linear"),
        lambda s, o: s.OneCycleLR(o, 0.5, total_steps=14, three_phase=True, pct_start=0.4, cycle_momentum=False),
    ],
    "SequentialLR": [
        lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], [3]),
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1, 3), s.CosineAnnealingLR(o, 5), s.StepLR(o, 2)], milestones=[3, 8]),
    ],
    "ChainedScheduler": [lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)])],
}  # fmt: skip


class Warm:
    """A schedule that is an object; what it has is part of the state dict."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, epoch: int) -> float:
        return min(1.0, (epoch + 1) / self.n)


def optimizer(lib: Any) -> Any:
    a, b = (lib.nn.Parameter(given(lib, 2, seed=i)) for i in range(2))
    return lib.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.3}], lr=0.1, momentum=0.9)


def rates(lib: Any, make: Any) -> list:
    """The rates of 14 steps, saved and taken up again in their middle; then the state and the words of the optimizer."""
    schedules = lib.optim.lr_scheduler
    o = optimizer(lib)
    s = make(schedules, o)
    told: list = [s.get_last_lr()]
    for _ in range(6):
        o.step()
        s.step()
        told += [s.get_last_lr(), [g.get("momentum") for g in o.param_groups]]
    saved, opt_saved = copy.deepcopy(s.state_dict()), copy.deepcopy(o.state_dict())
    o2 = optimizer(lib)
    s2 = make(schedules, o2)
    o2.load_state_dict(opt_saved)
    s2.load_state_dict(saved)
    for _ in range(6):
        o2.step()
        s2.step()
        told += [s2.get_last_lr()]
    keys = sorted(k for k in saved if not k.startswith("_get_lr") and k not in ("_is_initial",))
    return [
        *told,
        getattr(s2, "last_epoch", None),
        [k for k in keys if not k.startswith("_")],
        [k for k in sorted(o2.param_groups[0]) if k != "params"],
    ]


@pytest.mark.parametrize("make", [pytest.param(m, id=f"{name}{i}") for name, makes in SCHEDULES.items() for i, m in enumerate(makes)])
def test_schedule(make):
    compared(rates(torch, make), rates(engine, make))


@pytest.mark.parametrize("options", [{}, {"mode": "max", "factor": 0.5, "patience": 1}, {"threshold_mode": "abs", "threshold": 0.1, "cooldown": 2, "patience": 0}, {"min_lr": [0.05, 0.1], "patience": 0}])  # fmt: skip
def test_plateau(options):
    def run(lib: Any) -> list:
        o = optimizer(lib)
        s = lib.optim.lr_scheduler.ReduceLROnPlateau(o, **options)
        told = [s.get_last_lr()]
        for i, metric in enumerate([3, 2, 2.05, 2.04, 2.1, 1.99, 2.5, 2.6, 2.7, 1, 1.2, 1.3, 1.4, 1.5, float("nan"), 1.5] * 2):
            o.step()
            s.step(lib.tensor(metric) if i % 2 else metric)
            told += [s.get_last_lr(), s.num_bad_epochs, s.best]
        saved = s.state_dict()
        again = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer(lib))
        again.load_state_dict(saved)
        return [*told, again.best, again.cooldown_counter, sorted(k for k in saved if not k.startswith("_"))]

    compared(run(torch), run(engine))


def words(lib: Any) -> list:
    """Warnings and refusals of schedules."""
    s = lib.optim.lr_scheduler
    o = optimizer(lib)
    step = s.StepLR(o, 2)
    late = optimizer(lib)
    late.step()
    after = s.StepLR(late, 2)

    class Own(s.LRScheduler):
        def get_lr(self):
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    own = Own(late)
    late.step()
    own.step()

    class OwnOptimizer(lib.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.5})

        @lib.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(group["lr"] * p.grad)

    p = lib.nn.Parameter(given(lib, 3))
    mine = OwnOptimizer([p])
    schedule = s.ExponentialLR(mine, 0.5)
    told = []
    mine.register_step_pre_hook(lambda opt, args, kwargs: told.append("before"))
    mine.register_step_post_hook(lambda opt, args, kwargs: told.append("after"))
    for _ in range(3):
        p.grad = given(lib, 3, seed=4)
        mine.step()
        schedule.step()
    return [
        warned(step.step), warned(after.step), warned(lambda: s.StepLR(optimizer(lib), 2).step(3)), own.get_last_lr(), p, told, mine.param_groups[0]["lr"],
        s._LRScheduler.__name__, isinstance(step, s._LRScheduler), isinstance(step, s.LRScheduler),
        refusal(lambda: s.StepLR(3, 2)), refusal(lambda: s.StepLR(o, 2, last_epoch=3)), refusal(lambda: s.LambdaLR(o, [lambda e: 1])),
        refusal(lambda: s.OneCycleLR(o, 0.5)), refusal(lambda: s.OneCycleLR(o, 0.5, total_steps=-1)), refusal(lambda: s.OneCycleLR(o, 0.5, total_steps=3, pct_start=2)),
        refusal(lambda: s.OneCycleLR(o, 0.5, total_steps=3, anneal_strategy="x")), refusal(lambda: s.CyclicLR(o, 0.1, 0.2, mode="x")),
        refusal(lambda: s.CosineAnnealingWarmRestarts(o, 0)), refusal(lambda: s.CosineAnnealingWarmRestarts(o, 2, 0)),
        refusal(lambda: s.ConstantLR(o, 2)), refusal(lambda: s.LinearLR(o, 2)), refusal(lambda: s.LinearLR(o, 0.5, 3)), refusal(lambda: s.ReduceLROnPlateau(o, "x")),
        refusal(lambda: s.ReduceLROnPlateau(o, factor=1.0)), refusal(lambda: s.SequentialLR(o, [s.StepLR(o, 2)], [1])), refusal(lambda: s.ChainedScheduler([])),
        refusal(lambda: [x.step() for x in [s.OneCycleLR(o, 0.5, total_steps=2)] * 5]), refusal(lambda: s.ReduceLROnPlateau(o, min_lr=[1])),
    ]  # fmt: skip


def test_words_of_schedules():
    compared(words(torch), words(engine))


def averages(lib: Any) -> list:
    """Averages over training and exponentially moving ones, with buffers and without."""
    swa = lib.optim.swa_utils
    told: list = []
    for options in (
        {}, {"use_buffers": True}, {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8)}, {"avg_fn": swa.get_ema_avg_fn(0.7)},
        {"multi_avg_fn": swa.get_swa_multi_avg_fn()}, {"avg_fn": swa.get_swa_avg_fn()}, {"avg_fn": lambda a, new, n: 0.5 * a + 0.5 * new},
        {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8), "use_buffers": True},
    ):  # fmt: skip
        lib.manual_seed(0)
        net = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2)).double()
        model = swa.AveragedModel(net, **options)
        o = lib.optim.SGD(net.parameters(), lr=0.1)
        for i in range(4):
            o.zero_grad()
            net(given(lib, 5, 3, seed=i)).pow(2).sum().backward()
            o.step()
            model.update_parameters(net)
        told += [state(model), model(given(lib, 2, 3)), model.n_averaged, sorted(model.state_dict())[:3]]
        data = [given(lib, 5, 3, seed=i) for i in range(3)]
        swa.update_bn(data, model)
        swa.update_bn([(x, 1) for x in data], model)
        told += [state(model), model.training, model.module[1].momentum]
    for options in (
        {"swa_lr": 0.05},
        {"swa_lr": [0.05, 0.5], "anneal_epochs": 3, "anneal_strategy": "linear"},
        {"swa_lr": 0.01, "anneal_epochs": 0},
    ):
        o = optimizer(lib)
        s = swa.SWALR(o, **options)
        for _ in range(7):
            o.step()
            s.step()
            told += [s.get_last_lr()]
    return told + [
        refusal(lambda: swa.SWALR(optimizer(lib), 0.1, anneal_strategy="x")), refusal(lambda: swa.SWALR(optimizer(lib), 0.1, anneal_epochs=-1)),
        refusal(lambda: swa.SWALR(optimizer(lib), [0.1])), refusal(lambda: swa.get_ema_multi_avg_fn(2)),
        refusal(lambda: swa.AveragedModel(lib.nn.Linear(1, 1), avg_fn=print, multi_avg_fn=print)),
    ]  # fmt: skip


def test_averages():
    compared(averages(torch), averages(engine))


def hooks(lib: Any) -> list:
    """An optimizer's hooks on its state and steps, and parameters put in for a while."""
    told: list = []
    steps = importlib.import_module(f"{lib.__name__}.optim.optimizer")
    p = lib.nn.Parameter(given(lib, 3))
    o = lib.optim.Adam([p], lr=0.1)
    o.register_state_dict_pre_hook(lambda opt: told.append("before"))
    o.register_state_dict_post_hook(lambda opt, d: {**d, "more": 1})
    o.register_load_state_dict_pre_hook(lambda opt, d: {**d, "param_groups": [{**d["param_groups"][0], "lr": 0.7}]})
    o.register_load_state_dict_post_hook(lambda opt: told.append("loaded"))
    handles = [
        steps.register_optimizer_step_pre_hook(lambda opt, args, kwargs: told.append(type(opt).__name__)),
        steps.register_optimizer_step_post_hook(lambda opt, args, kwargs: told.append("stepped")),
    ]
    p.grad = given(lib, 3, seed=2)
    o.step()
    for handle in handles:
        handle.remove()
    o.step()
    saved = o.state_dict()
    o.load_state_dict(saved)
    other = given(lib, 3, seed=5)
    other.grad = given(lib, 3, seed=6)
    inside = {"state": {0: {k: v.clone() for k, v in saved["state"][0].items()}}, "param_groups": saved["param_groups"]}
    with lib.optim.swap_in_optimizer_params_and_state(o, {"p": other}, inside):
        o.step()
    loss = o.step(lambda: lib.tensor(3.0))
    return [*told, sorted(saved), o.param_groups[0]["lr"], p, other, inside["state"][0]["step"], o.state[p]["step"], loss, repr(o)]


def test_hooks():
    compared(hooks(torch), hooks(engine))


def test_lambda_objects_travel():
    for lib in (torch, engine):
        s = lib.optim.lr_scheduler.LambdaLR(optimizer(lib), [Warm(3), lambda e: math.exp(-e)])
        assert s.state_dict()["lr_lambdas"] == [{"n": 3}, None]
