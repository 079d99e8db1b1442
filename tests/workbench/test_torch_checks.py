"""Where a NaN began in backward, held against what PyTorch's detect_anomaly names; and the checks of PyTorch's own recordings."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import engine
import workbench as wb

pytestmark = pytest.mark.torch

PROGRAMS: list[tuple[Callable[[Any], Any], list[float]]] = [
    (lambda x: (x * x).sqrt().mul(0).sum(), [1.0, 0.0]),
    (lambda x: (x.pow(0.5) * 0).exp().sum(), [0.0, 4.0]),
    (lambda x: x.acos().mul(0).sum(), [1.0, 0.5]),
    (lambda x: (x.square().sum().sqrt() * 0).exp(), [0.0, 0.0]),
    (lambda x: (x.tanh() * 2).rsqrt().reciprocal().mul(0).sum(), [0.5, 0.0]),
]


@pytest.mark.parametrize("at", range(len(PROGRAMS)))
def test_the_step_is_the_one_that_pytorch_names(at: int) -> None:
    program, data = PROGRAMS[at]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is on
        with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as raised:
            program(torch.tensor(data, requires_grad=True)).backward()
    found = re.search(r"'(\w+)Backward\d+' returned nan", str(raised.value))
    assert found is not None
    with wb.record():
        x = engine.tensor(data, requires_grad=True)
        loss = program(x)
        loss.backward()
    finding = next(one for one in wb.check().findings if one.code == "nan-backward")
    assert f"The backward step of {found[1].lower()} " in finding.sentence
    with wb.guard(inf=False), pytest.raises(FloatingPointError, match=f"The backward step of {found[1].lower()} made NaN"):
        program(engine.tensor(data, requires_grad=True)).backward()


def test_programs_of_pytorch_are_checked_too() -> None:
    model, x, y = torch.nn.Linear(4, 3), torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])

    def codes(program: Callable[[], Any]) -> list[str]:
        with wb.watch(model):
            held = program()
        found = [one.code for one in wb.check().findings]
        del held
        return found

    assert codes(lambda: F.cross_entropy(model(x), y).backward()) == []
    assert codes(lambda: F.cross_entropy(model(x).softmax(1), y).backward()) == ["softmax-before-cross-entropy"]
    assert codes(lambda: (model(x) - 100).log().sum()) == ["nan-forward"]
    with pytest.raises(RuntimeError, match="cannot be multiplied"), wb.watch(model):
        model(x).matmul(x)
    (finding,) = wb.check().findings
    assert finding.code == "shape-mismatch" and [operand.marked for operand in finding.operands] == [[1], [0]]
