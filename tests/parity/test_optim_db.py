"""PyTorch's own samples of every optimizer: steps, state dicts both ways, text, and what is refused."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy
import pytest
import torch
from compare import differ
from samples import converted, number
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
OPTIMISERS = [pytest.param(info, id=info.optim_cls.__name__) for info in optim_db if info.optim_cls is not torch.optim.SparseAdam]
NOT_CPU = {"fused"}


def ours(info: Any) -> Any:
    return getattr(engine.optim, info.optim_cls.__name__)


def variants(info: Any) -> list[dict]:
    """The argument sets, and each with `foreach`, `fused` and `capturable` where PyTorch takes them on a CPU."""
    found = []
    for one in info.optim_inputs_func("cpu", torch.float64):
        found.append(one.kwargs)
        for flag in ("foreach", "fused"):
            if flag in info.supported_impls and not isinstance(one.kwargs.get("lr"), torch.Tensor):
                found.append({**one.kwargs, flag: True})
    return found


def layout(info: Any) -> list[tuple]:
    return [(3, 4), (5, 2)] if info.optim_cls is torch.optim.Muon else [(3, 4), (5,), (), (2, 3, 2)]


def made(info: Any, kwargs: dict, dtype: torch.dtype, seed: int = 0) -> tuple:
    torch.manual_seed(seed)
    theirs = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in layout(info)]
    mine = [engine.nn.Parameter(engine.Tensor._wrap(number(p).copy())) for p in theirs]
    return theirs, mine, info.optim_cls(theirs, **kwargs), ours(info)(mine, **converted(kwargs, {}))


def stepped(info: Any, theirs: list, mine: list, a: Any, b: Any, steps: int, seed: int = 1) -> None:
    """The same steps by both."""
    torch.manual_seed(seed)
    for _ in range(steps):
        grads = [torch.randn_like(p) for p in theirs]
        for p, q, g in zip(theirs, mine, grads, strict=True):
            p.grad, q.grad = g, engine.Tensor._wrap(number(g).copy())

        def loss_of(lib: Any, params: list) -> Any:
            def closure() -> Any:
                for p in params:
                    p.grad = None
                loss = sum(((p - 0.5) ** 2).sum() + (p**4).sum() for p in params)
                loss.backward()
                return loss

            return closure

        if info.optim_cls is torch.optim.LBFGS:
            a.step(loss_of(torch, theirs))
            b.step(loss_of(engine, mine))
        else:
            a.step()
            b.step()


def close(info: Any, theirs: list, mine: list) -> None:
    for p, q in zip(theirs, mine, strict=True):
        scale = 2e4 if info.optim_cls is torch.optim.Muon else 1.0  # its products are rounded to bfloat16
        told = differ(p, q, scale)
        assert told is None, told


def plain(state: Any, lib: Any) -> Any:
    """A state dict with the other library's tensors."""
    if isinstance(state, torch.Tensor):
        return engine.Tensor._wrap(number(state).copy())
    if isinstance(state, engine.Tensor):
        return torch.from_numpy(numpy.array(state.numpy()))
    if isinstance(state, dict):
        return {k: plain(v, lib) for k, v in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(plain(v, lib) for v in state)
    return state


def layout_of(state: Any) -> Any:
    """Keys, shapes and dtypes; without the room that LBFGS of PyTorch computes in, and its loss and step, which differ in the last bits."""
    if isinstance(state, (torch.Tensor, engine.Tensor)):
        return tuple(state.shape), str(state.dtype)
    if isinstance(state, dict):
        return {k: layout_of(v) for k, v in state.items() if k not in ("al", "prev_loss", "t")}
    if isinstance(state, (list, tuple)):
        return [layout_of(v) for v in state]
    return state


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("info", OPTIMISERS)
def test_steps(info, dtype):
    for kwargs in variants(info):
        theirs, mine, a, b = made(info, kwargs, dtype)
        assert repr(a) == repr(b), kwargs
        stepped(info, theirs, mine, a, b, 7)
        close(info, theirs, mine)


@pytest.mark.parametrize("info", [p for p in OPTIMISERS if p.values[0].optim_cls not in (torch.optim.Adafactor, torch.optim.Muon)])
def test_complex(info):
    for one in info.optim_inputs_func("cpu", torch.complex128):
        theirs, mine, a, b = made(info, one.kwargs, torch.complex128)
        if info.optim_cls is torch.optim.LBFGS:
            continue
        stepped(info, theirs, mine, a, b, 5)
        close(info, theirs, mine)


@pytest.mark.parametrize("info", OPTIMISERS)
def test_state_travels_both_ways(info):
    """PyTorch's state dict loads here and ours loads there, and training goes on alike."""
    for kwargs in variants(info):
        theirs, mine, a, b = made(info, kwargs, torch.float64)
        stepped(info, theirs, mine, a, b, 3)
        assert layout_of(a.state_dict()) == layout_of(b.state_dict()), kwargs
        swapped = plain(b.state_dict(), torch), plain(a.state_dict(), engine)
        _, _, a2, b2 = made(info, {}, torch.float64)
        a2, b2 = info.optim_cls(theirs, **kwargs), ours(info)(mine, **converted(kwargs, {}))
        a2.load_state_dict(swapped[0])
        b2.load_state_dict(swapped[1])
        stepped(info, theirs, mine, a2, b2, 3, seed=9)
        close(info, theirs, mine)


@pytest.mark.parametrize("info", OPTIMISERS)
def test_copies(info):
    theirs, mine, a, b = made(info, {}, torch.float64)
    stepped(info, theirs, mine, a, b, 2)
    again = copy.deepcopy(b)
    assert layout_of(again.state_dict()) == layout_of(a.state_dict())
    assert repr(again) == repr(a)


@pytest.mark.parametrize("info", OPTIMISERS)
def test_refusals(info):
    for error in info.optim_error_inputs_func("cpu", torch.float32):
        sample = error.optimizer_error_input
        params = sample.params if sample.params is not None else [torch.nn.Parameter(torch.randn(2, 3))]
        memory: dict = {}

        def put(x: Any, memory: dict = memory) -> Any:
            if isinstance(x, torch.Tensor):
                if id(x) not in memory:
                    made = converted(x.detach(), {})
                    memory[id(x)] = x, engine.nn.Parameter(made) if isinstance(x, torch.nn.Parameter) else made
                    if x.grad is not None:
                        memory[id(x)][1].grad = converted(x.grad, {})
                return memory[id(x)][1]
            if isinstance(x, dict):
                return {k: put(v) for k, v in x.items()}
            return type(x)(put(v) for v in x) if isinstance(x, (list, tuple)) else x

        def run(cls: Any, given: Any, kwargs: dict, at_step: bool) -> None:
            optimiser = cls(given, **kwargs)
            if at_step:
                optimiser.step()

        at_step = error.error_on == OptimizerErrorEnum.STEP_ERROR
        kind = error.error_type
        if any(isinstance(x, torch.Tensor) and x.layout is not torch.strided for x in (params if isinstance(params, list) else [])):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            with pytest.raises(kind):
                run(info.optim_cls, params, sample.kwargs, at_step)
            with pytest.raises(kind) as told:
                run(ours(info), put(params), converted(sample.kwargs, {}), at_step)
        assert str(told.value)
