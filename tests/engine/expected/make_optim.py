"""Writes optim.json: what torch's optimizers and schedulers do in 10 steps. Needs torch; run it from this folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent

CASES = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.001, "maximize": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1, "betas": [0.8, 0.9]}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adadelta", {"lr": 1.0, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.05}),
    ("RMSprop", {"lr": 0.05, "centered": True, "momentum": 0.9, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "t0": 3, "weight_decay": 0.1}),
    ("Rprop", {"lr": 0.1}),
    ("LBFGS", {"lr": 0.5, "max_iter": 4}),
    ("LBFGS", {"lr": 1, "max_iter": 5, "history_size": 3, "line_search_fn": "strong_wolfe"}),
]
X = [[3.0, -2.0, 1.0], [0.5, 4.0, -1.0]]
Y = [1.0, -1.0]

Z = [[1.0, 2.0], [3.0, -1.0], [-0.5, 0.25]]
COMPLEX = [c for c in CASES if not c[1].get("maximize")]

SCHEDULES = [
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 5], "gamma": 0.3}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 6}),
    ("ExponentialLR", {"gamma": 0.8}),
    ("PolynomialLR", {"total_iters": 7, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 2, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": 12}),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": 12, "anneal_strategy": "linear", "three_phase": True}),
]


def trajectory(name: str, options: dict) -> list:
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    y = torch.tensor(Y, dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, name)([x, y], **options)

    def closure():
        optimizer.zero_grad()
        residual = x * y.reshape(2, 1) - 1
        loss = (x * x * x * x).sum() * 0.05 + (residual * residual).sum() * 0.3 + (y * y).sum()
        loss.backward()
        return loss

    steps = []
    for _ in range(10):
        loss = optimizer.step(closure)
        steps.append([loss.item(), *x.flatten().tolist(), *y.tolist()])
    return steps


def complex_path(name: str, options: dict) -> list:
    """Real and imaginary parts after each of four steps down sum |z|² + sum Re(z)³ / 10."""
    z = torch.tensor([complex(*pair) for pair in Z], dtype=torch.complex128, requires_grad=True)
    optimizer = getattr(torch.optim, name)([z], **options)

    def closure():
        optimizer.zero_grad()
        loss = (z * z.conj()).real.sum() + (z.real**3).sum() / 10
        loss.backward()
        return loss

    steps = []
    for _ in range(4):
        optimizer.step(closure)
        steps.append(torch.view_as_real(z.detach()).flatten().tolist())
    return steps


def schedule(make) -> list:
    p = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": [p], "lr": 0.1}, {"params": [torch.zeros(1)], "lr": 0.4}], lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    rates = [[g["lr"] for g in optimizer.param_groups] + [g["momentum"] for g in optimizer.param_groups]]
    for _ in range(12):
        optimizer.step()
        try:
            scheduler.step()
        except ValueError:
            break
        rates.append([g["lr"] for g in optimizer.param_groups] + [g["momentum"] for g in optimizer.param_groups])
    return rates


def plateau() -> list:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    rates = []
    for metric in METRICS:
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


METRICS = [5, 4, 4, 4, 4, 3.9999, 3, 3, 3, 3, 3, 3, 3, 3]

if __name__ == "__main__":
    L = torch.optim.lr_scheduler
    found = {
        "start": [X, Y],
        "cases": [{"name": n, "options": o, "steps": trajectory(n, o)} for n, o in CASES],
        "complex": {"start": Z, "cases": [{"name": n, "options": o, "steps": complex_path(n, o)} for n, o in COMPLEX]},
        "schedules": [{"name": n, "options": o, "rates": schedule(lambda opt, n=n, o=o: getattr(L, n)(opt, **o))} for n, o in SCHEDULES],
        "lambda": schedule(lambda opt: L.LambdaLR(opt, [lambda e: 0.9**e, lambda e: 1 / (1 + e)])),
        "multiplicative": schedule(lambda opt: L.MultiplicativeLR(opt, lambda e: 0.9)),
        "sequential": schedule(
            lambda opt: L.SequentialLR(opt, [L.ConstantLR(opt, 0.1, 3), L.ExponentialLR(opt, 0.8), L.StepLR(opt, 2)], [3, 7])
        ),
        "chained": schedule(lambda opt: L.ChainedScheduler([L.ConstantLR(opt, 0.1, 3), L.ExponentialLR(opt, 0.8)])),
        "plateau": {"metrics": METRICS, "rates": plateau()},
    }
    (HERE / "optim.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
