"""Tensors on the device "meta", over PyTorch's own samples: shapes, dtypes and strides of results and gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from deviations import ABSENT
from samples import Call, Skipped, calls, converted, flat, ours, variant
from torch.testing._internal.common_methods_invocations import op_db

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


def memoryless(x: Any, made: dict) -> Any:
    """The same argument with tensors on "meta" that lie as these do: PyTorch's or the engine's."""
    if isinstance(x, (torch.Tensor, engine.Tensor)):
        if id(x) not in made:
            where = torch if isinstance(x, torch.Tensor) else engine
            made[id(x)] = where.empty_strided(tuple(x.shape), tuple(x.stride()), dtype=x.dtype, device="meta").requires_grad_(x.requires_grad)
        return made[id(x)]
    if isinstance(x, list) or type(x) is tuple:
        return type(x)(memoryless(v, made) for v in x)
    return {k: memoryless(v, made) for k, v in x.items()} if isinstance(x, dict) else x


def told(x: Any) -> Any:
    """What a result on "meta" is."""
    if isinstance(x, (torch.Tensor, engine.Tensor)):
        return str(x.dtype), tuple(x.shape), tuple(x.stride()) if x.numel() else (), x.device.type
    return x


def asked(fn: Any) -> Any:
    try:
        return [told(x) for x in flat(fn())]
    except REFUSALS as error:
        return error


def chosen() -> list:
    return [pytest.param(op, id=variant(op)) for op in op_db if op.name not in ABSENT]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("op", chosen())
def test_samples(op, dtype):
    if not op.supports_dtype(dtype, "cpu") or ours(op) is None:
        return
    wrong = []
    for call in calls("meta", op, dtype):
        t: dict = {}
        theirs = asked(lambda: op.op(memoryless(call.sample.input, t), *memoryless(call.sample.args, t), **memoryless(call.sample.kwargs, t)))
        if isinstance(theirs, NotImplementedError):
            continue
        e: dict = {}
        found = asked(lambda: ours(op)(memoryless(call.input, e), *memoryless(call.args, e), **memoryless(call.kwargs, e)))
        if isinstance(theirs, Exception):
            if not isinstance(found, Exception):
                wrong.append(f"{call}: {found}, PyTorch: {type(theirs).__name__}: {str(theirs)[:100]}")
        elif isinstance(found, Exception):
            wrong.append(f"{call}: {type(found).__name__}: {str(found)[:160]}, PyTorch: {theirs}")
        elif found != theirs:
            wrong.append(f"{call}: {found}, PyTorch: {theirs}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:6])
