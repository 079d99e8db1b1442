"""Alternative fixes for objects with a replaced method, as by a test or a patch, for which the usual fix may not help."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..protocol.checks import Finding
from .case import Case

# code of a finding -> the owner and name of the method that its fix calls, and the alternative fix
CALLED = {
    "missing-zero-grad": ("optimizer", "zero_grad", "for p in model.parameters(): p.grad = None, before loss.backward()"),
    "zero-grad-before-step": ("optimizer", "step", "type(optimizer).step(optimizer)"),
    "eval-mode-in-training": ("model", "train", "type(model).train(model)"),
    "gradient-cut": ("model", "forward", "call the layers themselves: for layer in model: x = layer(x)"),
    "in-place-overwrite": ("model", "forward", "call the layers themselves: for layer in model: x = layer(x)"),
}


def told(case: Case, finding: Finding) -> Finding:
    """Return the finding, with the alternative fix if the method that its own fix calls was replaced on the user's object."""
    whose, method, fix = CALLED.get(finding.code, ("", "", ""))
    subjects: Iterable[Any] = case.optimizers if whose == "optimizer" else case.models
    if not method or not any(method in vars(one) for one in subjects):
        return finding
    why = f"{finding.why} {method} of this {whose} object has been replaced, so calling it may not help."
    return replace(finding, why=why, fix=fix)
