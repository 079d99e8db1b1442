"""PyTorch's own samples of every op: values, dtypes, gradients of both orders and modes, in place, `out=`, and what is refused."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy
import pytest
import torch
from compare import differ, differ_but_ties, same_gradients
from deviations import ABSENT, DEVIATIONS, RANDOM, TIES
from samples import Call, Skipped, calls, converted, flat, number, ours, variant
from torch.testing._internal.common_methods_invocations import op_db

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
DTYPES = [torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128, torch.float16, torch.bfloat16]
RESHAPED = ("squeeze_", "unsqueeze_", "transpose_", "t_", "resize_", "resize_as_", "as_strided_")  # they change a tensor, not its memory
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


def report(wrong: list[str]) -> None:
    assert not wrong, f"{len(wrong)} samples differ:\n" + "\n".join(dict.fromkeys(wrong[:12]))


def chosen(wanted: Any = lambda op: True) -> list:
    return [pytest.param(op, id=variant(op)) for op in op_db if op.name not in ABSENT and op.name not in RANDOM and wanted(op)]


# -- what PyTorch has ----------------------------------------------------------------------------------------------------------


def test_every_name_is_there_or_has_a_reason():
    missing = {op.name for op in op_db if ours(op) is None} - set(RANDOM)
    assert missing - set(ABSENT) == set(), "neither in the engine nor in ABSENT"
    assert set(ABSENT) - missing == set(), "in ABSENT, but the engine has them"


def test_reasons_are_sentences():
    for reason in [*ABSENT.values(), *RANDOM.values(), *TIES.values(), *[row.reason for row in DEVIATIONS]]:
        assert len(reason) >= 20 and reason.endswith(".") and " " in reason, reason
    names = {variant(op) for op in op_db}
    for row in DEVIATIONS:
        assert any(re.fullmatch(row.op, known) for known in names), f"PyTorch has no op {row.op!r}"


@pytest.mark.parametrize("op", chosen(lambda op: op.method_variant is not None and "." not in op.name))
def test_methods(op):
    if hasattr(torch.Tensor, op.name):
        assert hasattr(engine.Tensor, op.name), f"Tensor.{op.name} is missing"


# -- results -------------------------------------------------------------------------------------------------------------------


def expected(call: Call) -> Any:
    """PyTorch's answer; None where it has none itself."""
    try:
        found = call.theirs()
    except REFUSALS:
        return None
    return None if any(isinstance(x, torch.Tensor) and x.dtype is torch.complex32 for x in flat(found)) else found  # not one of ours


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("op", chosen())
def test_samples(op, dtype):
    if not op.supports_dtype(dtype, "cpu"):
        return
    wrong: list[str] = []
    for call in calls("samples", op, dtype):
        answer = expected(call)
        if answer is None:
            continue
        try:
            told = differ_but_ties(call, answer, call.run())
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    report(wrong)


def differentiable(call: Call) -> dict[int, torch.Tensor]:
    """PyTorch's results through which a gradient flows, by their places."""
    return {i: a for i, a in enumerate(flat(call.theirs())) if isinstance(a, torch.Tensor) and a.requires_grad}


def weights(results: list) -> tuple[list, list]:
    made = [torch.randn_like(a) for a in results]
    return made, [engine.Tensor._wrap(number(w).copy()) for w in made]


def our_gradients(call: Call, places: Any, ws: list, create_graph: bool = False) -> Any:
    """The engine's gradients of its results at these places, one or None for each leaf."""
    results, leaves = flat(call.run()), [b for _, b in call.leaves]
    live = [(results[i], w) for i, w in zip(places, ws, strict=True) if results[i].requires_grad]
    if not live:
        return [None] * len(leaves)
    outputs, seeds = zip(*live, strict=True)
    return engine.autograd.grad(outputs, leaves, seeds, create_graph=create_graph, allow_unused=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("op", chosen(lambda op: op.supports_autograd))
def test_gradients(op, dtype):
    if not op.supports_dtype(dtype, "cpu") or dtype not in op.supported_backward_dtypes("cpu"):
        return
    wrong: list[str] = []
    for call in calls("gradients", op, dtype, grad=True):
        try:
            theirs = differentiable(call)
            ws, vs = weights([*theirs.values()])
            answer = torch.autograd.grad([*theirs.values()], [a for a, _ in call.leaves], ws, allow_unused=True)
        except REFUSALS:
            continue  # PyTorch has no answer itself
        try:
            told = same_gradients(answer, our_gradients(call, theirs, vs))
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    report(wrong)


@pytest.mark.parametrize("op", chosen(lambda op: op.supports_autograd and op.supports_gradgrad and op.supports_dtype(torch.float64, "cpu")))
def test_second_derivatives(op):
    """The gradient of the gradient along a fixed direction is PyTorch's."""
    wrong: list[str] = []
    for call in calls("second", op, torch.float64, grad=True):
        try:
            theirs, leaves = differentiable(call), [a for a, _ in call.leaves]
            ws, vs = weights([*theirs.values()])
            first = torch.autograd.grad([*theirs.values()], leaves, ws, create_graph=True, allow_unused=True)
            known = [g for g in first if g is not None]
            along, vlong = weights(known)
            total = sum(((g * w).sum() for g, w in zip(known, along, strict=True)), torch.zeros(()))
            answer = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
        except REFUSALS:
            continue  # PyTorch has no answer itself
        try:
            mine, found = [b for _, b in call.leaves], our_gradients(call, theirs, vs, create_graph=True)
            terms = [
                (g * v).sum()
                for g, v in zip([g for g, f in zip(found, first, strict=True) if f is not None], vlong, strict=True)
                if g is not None
            ]
            value = sum(terms[1:], terms[0]) if terms else None
            again = (
                engine.autograd.grad(value, mine, allow_unused=True) if value is not None and value.requires_grad else [None] * len(mine)
            )
            told = same_gradients(answer, again, 100.0)
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    report(wrong)


@pytest.mark.parametrize(
    "op", chosen(lambda op: op.supports_autograd and op.supports_forward_ad and op.supports_dtype(torch.float64, "cpu"))
)
def test_forward_mode(op):
    """The product with the Jacobian is the transpose of the product with its transpose."""
    wrong: list[str] = []
    for call in calls("forward", op, torch.float64, grad=True):
        try:
            wanted = [*differentiable(call)]
        except REFUSALS:
            continue  # PyTorch has no answer itself
        mine = [b for _, b in call.leaves]
        if not wanted or not mine:
            continue
        ts = [engine.Tensor._wrap(numpy.asarray(numpy.random.standard_normal(x.shape))) for x in mine]

        def along(*xs, mine=mine, call=call, wanted=wanted):
            at = {id(x): y for x, y in zip(mine, xs, strict=True)}
            put = lambda v: at.get(id(v), v) if isinstance(v, engine.Tensor) else type(v)(map(put, v)) if type(v) in (list, tuple) else v  # noqa: E731
            kwargs = {k: put(v) for k, v in call.kwargs.items()}
            out = call.sample.output_process_fn_grad(ours(call.op)(put(call.input), *map(put, call.args), **kwargs))
            return tuple(y for i, y in enumerate(flat(out)) if i in wanted)

        try:
            outs, pushed = engine.autograd.functional.jvp(along, tuple(mine), tuple(ts))
            vs = [engine.Tensor._wrap(numpy.asarray(numpy.random.standard_normal(p.shape)).astype(p.array.dtype)) for p in pushed]
            forward = sum(float((v.array * p.array.conj()).real.sum()) for v, p in zip(vs, pushed, strict=True))
            ys = along(*mine)
            live = [(y, v) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
            back = engine.autograd.grad([y for y, _ in live], mine, [v for _, v in live], allow_unused=True) if live else []
            reverse = sum(float((g.array * t.array).sum()) for g, t in zip(back, ts, strict=False) if g is not None)
            same = abs(forward - reverse) <= 1e-7 * max(1, abs(forward)) or numpy.isnan(forward) and numpy.isnan(reverse)
            told = None if same else f"forward mode gives {forward}, reverse mode {reverse}"
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    report(wrong)


# -- in place, out= ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", chosen(lambda op: getattr(op.inplace_variant, "__name__", "").endswith("_")))
def test_in_place(op):
    name = op.inplace_variant.__name__
    method = getattr(engine.Tensor, name, None)
    assert method is not None, f"Tensor.{name} is missing"
    wrong: list[str] = []
    for dtype in (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128):
        for call in (
            calls("in_place", op, dtype, dtype is torch.float64 and op.supports_autograd) if op.supports_dtype(dtype, "cpu") else ()
        ):
            if not isinstance(call.sample.input, torch.Tensor) or call.sample.broadcasts_input:
                continue
            try:
                answer = op.inplace_variant(call.sample.input.clone(), *call.sample.args, **call.sample.kwargs)
                w, theirs = torch.randn_like(answer) if answer.is_floating_point() else None, None
                if answer.requires_grad and call.leaves:
                    theirs = torch.autograd.grad(answer, [a for a, _ in call.leaves], w, allow_unused=True)
            except REFUSALS:
                continue
            try:
                base = engine.stack([call.input.detach()] * 2)
                copy = call.input.clone()
                seen = method(copy, *call.args, **call.kwargs)
                told = "a new tensor, not itself" if seen is not copy else differ(answer, seen)
                if told is None and theirs is not None:
                    found = engine.autograd.grad(
                        seen, [b for _, b in call.leaves], engine.Tensor._wrap(number(w).copy()), allow_unused=True
                    )
                    told = same_gradients(theirs, found)
                if told is None:
                    with engine.no_grad():
                        part = base[0]
                        if name not in RESHAPED:
                            method(part, *call.args, **call.kwargs)
                            told = differ(answer.detach(), base[0]) or differ(call.sample.input.detach(), base[1])
                            told = told and f"written through a view: {told}"
            except REFUSALS as error:
                told = f"{type(error).__name__}: {error}"
            if told:
                wrong.append(f"{call}: {told}")
    report(wrong)


@pytest.mark.parametrize("op", chosen(lambda op: op.supports_out))
def test_out(op):
    wrong: list[str] = []
    for dtype in (torch.float64, torch.int64):
        for call in calls("out", op, dtype) if op.supports_dtype(dtype, "cpu") else ():
            try:
                answer = op.op(call.sample.input, *call.sample.args, **call.sample.kwargs)
            except REFUSALS:
                continue
            places = [engine.empty_like(engine.Tensor._wrap(number(x).copy())) for x in flat(answer) if isinstance(x, torch.Tensor)]
            if not places or len(places) != len(flat(answer)):
                continue
            out = tuple(places) if isinstance(answer, (tuple, list)) else places[0]
            try:
                found = ours(op)(call.input, *call.args, **call.kwargs, out=out)
                told = "not what was given as out" if not all(a is b for a, b in zip(flat(found), places, strict=True)) else None
                told = told or differ_but_ties(call, call.sample.output_process_fn_grad(answer), call.sample.output_process_fn_grad(found))
            except REFUSALS as error:
                told = f"{type(error).__name__}: {error}"
            if told:
                wrong.append(f"{call}: {told}")
    report(wrong)


# -- refusals ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", chosen(lambda op: op.error_inputs_func is not None))
def test_errors(op):
    wrong: list[str] = []
    for error in op.error_inputs("cpu"):
        made: dict = {}
        sample = error.sample_input
        try:
            call = Call(op, sample, converted(sample.input, made), converted(sample.args, made), converted(sample.kwargs, made), [])
        except Skipped:
            continue
        if call.deviates("errors"):
            continue
        kind = None
        try:
            op.op(sample.input, *sample.args, **sample.kwargs)
        except REFUSALS as theirs:
            kind = next(k for k in (NotImplementedError, *REFUSALS) if isinstance(theirs, k))
        if kind is None:
            continue  # the wrapper of PyTorch's test did not let the refusal through
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ours(op)(call.input, *call.args, **call.kwargs)
            told = f"no {kind.__name__} ({error.error_regex})"
        except kind:
            continue
        except Exception as other:
            told = f"{type(other).__name__} ({other}), not {kind.__name__} ({error.error_regex})"
        wrong.append(f"{call}: {told}")
    report(wrong)
