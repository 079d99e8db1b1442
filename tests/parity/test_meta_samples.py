"""Tensors on the device "meta", over PyTorch's own samples: shapes, dtypes and strides of results, what is refused, and gradients."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from deviations import ABSENT
from samples import calls, flat, ours, variant
from torch.testing._internal.common_methods_invocations import op_db

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)

LAID = {  # ops whose results lie otherwise than PyTorch's: as they do here on the CPU
    r"linalg\.(eig|lu_solve|matrix_norm|matrix_power|solve.*|svd)|lu_solve|ormqr|svd|\w+_lowrank|triangular_solve": (
        "Some solutions and factors of matrices lie in rows where they lie in columns there, or the other way round."
    ),
    r"fft\..*|stft": "Transforms lie in rows here, whatever the dimension.",
    r"expand_as|unravel_index|meshgrid.*|nanquantile|quantile|ravel|unsafe_\w+": "A step over one element is another one here.",
}
ASKING = {  # ops that look at values here
    r"(lin|log)space\.tensor_overload": "A bound without data is refused: how far the steps are apart is computed at once.",
    r"_segment_reduce.*": "Lengths and offsets without data are refused.",
    r"as_strided\.partial_views": "A view beyond its storage is refused; there the storage without memory grows.",
    r"_?native_batch_norm.*|_batch_norm_with_update": "Saved statistics are those of the CPU: of the input's dtype, and empty without training.",
    r"nn\.functional\.fractional_max_pool3d": "A batch of no samples is refused, as on the CPU.",
}


def listed(op: Any, table: dict[str, str]) -> bool:
    return any(re.fullmatch(name, variant(op)) for name in table)


def memoryless(x: Any, made: dict) -> Any:
    """The same argument with tensors on "meta" that lie as these do: PyTorch's or the engine's."""
    if isinstance(x, (torch.Tensor, engine.Tensor)):
        if id(x) not in made:
            here = torch if isinstance(x, torch.Tensor) else engine
            made[id(x)] = here.empty_strided(tuple(x.shape), tuple(x.stride()), dtype=x.dtype, device="meta").requires_grad_(
                x.requires_grad
            )
        return made[id(x)]
    if isinstance(x, list) or type(x) is tuple:
        return type(x)(memoryless(v, made) for v in x)
    return {k: memoryless(v, made) for k, v in x.items()} if isinstance(x, dict) else x


def told(x: Any, strides: bool) -> Any:
    if isinstance(x, (torch.Tensor, engine.Tensor)):
        return str(x.dtype), tuple(x.shape), tuple(x.stride()) if x.numel() and strides else (), x.device.type, x.requires_grad
    return x


def run(call: Any, made: dict) -> Any:
    """The engine's results of a sample on "meta"."""
    return ours(call.op)(*[memoryless(x, made) for x in (call.input, *call.args)], **memoryless(call.kwargs, made))


def here(call: Any, strides: bool) -> Any:
    try:
        return [told(x, strides) for x in flat(run(call, {}))]
    except REFUSALS as error:
        return error


def there(call: Any, strides: bool) -> Any:
    made: dict = {}
    try:
        found = call.op.op(*[memoryless(x, made) for x in (call.sample.input, *call.sample.args)], **memoryless(call.sample.kwargs, made))
        return [told(x, strides) for x in flat(found)]
    except REFUSALS as error:
        return error


def seeds(results: Any) -> tuple[list, list]:
    """The results that require grad, and ones to begin a backward pass with."""
    ys = [y for y in flat(results) if isinstance(y, engine.Tensor) and y.requires_grad]
    return ys, [engine.ones_like(y) for y in ys]


def chosen(wanted: Any = lambda op: True) -> list:
    return [pytest.param(op, id=variant(op)) for op in op_db if op.name not in ABSENT and ours(op) is not None and wanted(op)]


def report(wrong: list[str]) -> None:
    assert not wrong, f"{len(wrong)} samples differ:\n" + "\n".join(wrong[:8])


def test_reasons_are_sentences():
    for reason in (*LAID.values(), *ASKING.values()):
        assert len(reason) >= 20 and reason.endswith(".")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("op", chosen(lambda op: not listed(op, ASKING)))
def test_results(op, dtype):
    """Where PyTorch has no answer itself, as for many ops that have no kernel for meta tensors, there is none to compare with."""
    if not op.supports_dtype(dtype, "cpu"):
        return
    wrong, strides = [], not listed(op, LAID)
    for call in calls("meta", op, dtype):
        theirs, found = there(call, strides), here(call, strides)
        if isinstance(theirs, NotImplementedError):
            continue
        same = isinstance(found, Exception) if isinstance(theirs, Exception) else found == theirs
        if not same:
            wrong.append(f"{call}: {found!r}"[:500] + f", on PyTorch {theirs!r}")
    report(wrong)


@pytest.mark.parametrize("op", chosen(lambda op: op.supports_autograd and op.supports_dtype(torch.float32, "cpu")))
def test_gradients(op):
    """A gradient that there is on the CPU is there without memory too, and has its leaf's shape and dtype."""
    wrong: list[str] = []
    for call in calls("second", op, torch.float32, grad=True):
        leaves, made = [b for _, b in call.leaves], {}
        try:
            wanted = engine.autograd.grad((given := seeds(call.run()))[0], leaves, given[1], allow_unused=True)
        except REFUSALS:
            continue
        try:
            given = seeds(call.sample.output_process_fn_grad(run(call, made)))
            found = engine.autograd.grad(given[0], [made[id(x)] for x in leaves], given[1], allow_unused=True)
        except REFUSALS as error:
            if "data" not in str(error) and "meta" not in str(error):  # what looks at values says so
                wrong.append(f"{call}: {error!r}"[:300])
            continue
        for f, w in zip(found, wanted, strict=True):
            if told(f, False) != (None if w is None else (*told(w, False)[:3], "meta", False)):
                wrong.append(f"{call}: {told(f, False)}, on the CPU {told(w, False)}")
    report(wrong)
