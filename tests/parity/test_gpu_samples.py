"""PyTorch's own samples of every op on a GPU: values, dtypes and gradients are those of the engine on the CPU.

Without a GPU they run on the stand-in for CuPy of `tests/cuda`.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from deviations import ABSENT, RANDOM
from samples import Call, calls, flat, ours, variant
from torch.testing._internal.common_methods_invocations import op_db

import engine
from engine import Tensor

sys.path.append(str(Path(__file__).resolve().parents[1] / "cuda"))
from on_stand_in import installed

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
DTYPES = [torch.float32, torch.float64, torch.int64, torch.complex64, torch.float16]
TOLERANCE = {torch.float16: 2e-2, torch.float64: 1e-8}  # the others: 1e-3
MOST = 12  # samples of one op and dtype: kernels are compiled at first use
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)
STORAGES = {"as_strided.partial_views", "as_strided"}  # a view that is moved brings its elements, not its storage


@pytest.fixture(scope="module", autouse=True)
def gpu():
    with contextlib.nullcontext() if engine.cuda.is_available() else installed():
        yield


def moved(x: Any, made: dict) -> Any:
    """A sample's argument on the GPU; tensors are remembered by their identity."""
    if isinstance(x, Tensor):
        if id(x) not in made:
            made[id(x)] = x.detach().to("cuda").requires_grad_(x.requires_grad)
        return made[id(x)]
    if type(x) in (list, tuple):
        return type(x)(moved(v, made) for v in x)
    return {k: moved(v, made) for k, v in x.items()} if isinstance(x, dict) else x


def differ(a: Any, b: Any, tolerance: float) -> str | None:
    """What is different between the CPU's answer and the GPU's, in words, or None."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return None if type(a) is type(b) and (a == b or a != a) else f"{b!r}, not {a!r}"
    x, y = a._host(), b._host()
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return f"{y.shape} {y.dtype}, not {x.shape} {x.dtype}"
    if x.dtype.kind in "biu":
        return None if (x == y).all() else "other values"
    wide = numpy.complex128 if x.dtype.kind == "c" else numpy.float64
    same = numpy.allclose(x.astype(wide), y.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True)
    return None if same else "other values"


def compared(call: Call, tolerance: float) -> str | None:
    """One sample on both devices: results, then gradients of their sum."""
    made: dict[int, Any] = {}
    given, rest, named = moved(call.input, made), moved(call.args, made), moved(call.kwargs, made)
    here, there = flat(call.run()), flat(call.sample.output_process_fn_grad(ours(call.op)(given, *rest, **named)))
    if len(here) != len(there):
        return f"{len(there)} results, not {len(here)}"
    told = next((t for a, b in zip(here, there, strict=True) if (t := differ(a, b, tolerance))), None)
    leaves = [x for _, x in call.leaves if id(x) in made]
    live = [(a, b) for a, b in zip(here, there, strict=True) if isinstance(a, Tensor) and a.requires_grad]
    if told or not leaves or not live:
        return told
    ones = [engine.ones_like(a) for a, _ in live]
    on_cpu = engine.autograd.grad([a for a, _ in live], leaves, ones, allow_unused=True)
    on_gpu = engine.autograd.grad([b for _, b in live], [made[id(x)] for x in leaves], [w.to("cuda") for w in ones], allow_unused=True)
    return next((f"gradient: {t}" for a, b in zip(on_cpu, on_gpu, strict=True) if (t := differ(a, b, tolerance))), None)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize(
    "op", [pytest.param(op, id=variant(op)) for op in op_db if op.name not in {*ABSENT, *RANDOM} and variant(op) not in STORAGES]
)
def test_samples(op, dtype):
    if not op.supports_dtype(dtype, "cpu"):
        return
    wrong = []
    for call in list(calls("samples", op, dtype, grad=op.supports_autograd and dtype.is_floating_point))[:MOST]:
        try:
            call.run()
        except REFUSALS:
            continue  # refused on the CPU too
        try:
            told = compared(call, TOLERANCE.get(dtype, 1e-3))
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    assert not wrong, f"{len(wrong)} samples differ:\n" + "\n".join(wrong[:6])
