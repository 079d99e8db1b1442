"""Autocast: which dtype each op runs in, contexts and decorators, threads, casts of parameters, user-written functions, checkpoints."""

from __future__ import annotations

import json
import threading
import warnings

import numpy
import pytest
from autocast_calls import EXPECTED, WAYS, answer, calls

import engine
from engine import autograd, nn
from engine.amp import autocast, custom_bwd, custom_fwd, is_autocast_available
from engine.base import observe
from engine.core import call, casting
from engine.utils.checkpoint import checkpoint
from grouping import grouped

F = nn.functional
STORED = json.loads(EXPECTED.read_text(encoding="utf-8"))
LENIENT = (
    "torch.stack([m, n.float()])",
    "torch.cat([m, n.float()])",
    "m.index_copy(0, t, n)",
)  # PyTorch refuses bfloat16 under float16 there
LENIENT += ("F.batch_norm(i, torch.zeros(4), torch.ones(4), v.float(), w.float())",)  # and float64 beside float32


@pytest.fixture(autouse=True)
def all_is_off_again():
    yield
    assert casting.on == 0 and call._FAST and not casting._thread.cache and not casting._thread.nesting


def test_every_call_has_an_answer():
    assert list(STORED) == calls()


@pytest.mark.filterwarnings("ignore")
@grouped("program", calls())
def test_dtypes_are_pytorchs(program):
    for expected, way in zip(STORED[program], WAYS, strict=True):
        if expected.endswith("Error") and program in LENIENT:
            continue
        assert answer(engine, program, *way) == expected, way


def test_values_are_those_of_the_cast_operands():
    a, b = engine.randn(5, 4), engine.randn(4, 3)
    with autocast("cpu"):
        found = engine.mm(a, b)
        lost = F.mse_loss(found, engine.zeros(5, 3))
    assert engine.equal(found, engine.mm(a.bfloat16(), b.bfloat16()))
    assert lost.dtype == engine.float32 and engine.equal(lost, F.mse_loss(found.float(), engine.zeros(5, 3)))


def test_nesting_and_leaving():
    a = engine.ones(2, 2)
    with autocast("cpu"):
        assert (a @ a).dtype == engine.bfloat16
        with autocast("cpu", enabled=False):
            assert (a @ a).dtype == engine.float32 and not engine.is_autocast_enabled("cpu")
            with autocast("cpu", dtype=engine.float16):
                assert (a @ a).dtype == engine.float16
            assert (a @ a).dtype == engine.float32
        assert (a @ a).dtype == engine.bfloat16 and engine.get_autocast_dtype("cpu") == engine.bfloat16
        with pytest.raises(ZeroDivisionError), autocast("cpu", dtype=engine.float16):
            raise ZeroDivisionError
        assert (a @ a).dtype == engine.bfloat16
    assert (a @ a).dtype == engine.float32


def test_decorator_runs_each_call_under_it():
    @autocast("cpu", dtype=engine.float16)
    def product(a, depth=0):
        """Words."""
        return product(a, depth - 1) if depth else a @ a

    assert product(engine.ones(2, 2)).dtype == product(engine.ones(2, 2), 3).dtype == engine.float16
    assert product.__doc__ == "Words." and not engine.is_autocast_enabled("cpu")
    with pytest.raises(TypeError, match="requires a callable, but got int"):
        autocast("cpu")(3)


def test_it_holds_for_one_thread():
    a, seen = engine.ones(2, 2), []

    def elsewhere():
        seen.append(((a @ a).dtype, engine.is_autocast_enabled("cpu"), engine.get_autocast_dtype("cpu")))
        with autocast("cpu", dtype=engine.float16):
            started.set()
            go.wait(10)
            seen.append((a @ a).dtype)

    started, go = threading.Event(), threading.Event()
    with autocast("cpu"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        assert started.wait(10)
    assert (a @ a).dtype == engine.float32  # the other thread's is still on
    go.set()
    thread.join()
    assert seen == [(engine.float32, False, engine.bfloat16), engine.float16]


def test_a_parameter_is_cast_once_until_the_outermost_ends():
    class Counting(observe.Observer):
        def __init__(self):
            self.casts = 0

        def op(self, op, inputs, attrs, output):
            self.casts += op.name == "to_dtype"

    w, x = nn.Parameter(engine.randn(3, 3)), engine.randn(2, 3)

    def casts(**options):
        with observe.observing(Counting()) as seen, autocast("cpu", **options):
            F.linear(x, w)
            with autocast("cpu"):
                F.linear(x, w)
        return seen.casts

    assert casts() == 3  # x twice, w once
    assert casts(cache_enabled=False) == 4
    assert engine.is_autocast_cache_enabled()
    with autocast("cpu"):
        with engine.no_grad():
            F.linear(x, w)
        F.linear(x, w).sum().backward()  # what was cast without gradients is not kept
    assert w.grad.dtype == engine.float32


def test_gradients_are_those_of_the_rounded_product():
    layer, x = nn.Linear(4, 3), engine.randn(5, 4)
    with autocast("cpu"):
        y = layer(x)
    y.float().sum().backward()
    low = x.bfloat16().float().numpy()
    numpy.testing.assert_allclose(layer.weight.grad.numpy(), numpy.ones((3, 5), numpy.float32) @ low, rtol=2**-8)
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == engine.float32


def test_second_derivatives_pass_the_casts():
    x, w = engine.randn(3, 4, requires_grad=True), engine.randn(4, 2, requires_grad=True)
    with autocast("cpu"):
        y = (x @ w).float().pow(2).sum()
    (g,) = autograd.grad(y, x, create_graph=True)
    (h,) = autograd.grad(g.sum(), w)
    assert g.dtype == h.dtype == engine.float32
    xr, wr = (t.detach().bfloat16().double().requires_grad_() for t in (x, w))
    (gr,) = autograd.grad((xr @ wr).pow(2).sum(), xr, create_graph=True)
    (hr,) = autograd.grad(gr.sum(), wr)
    numpy.testing.assert_allclose(h.numpy(), hr.numpy(), rtol=0.03, atol=0.05)


def test_in_place_and_out_are_left_alone():
    a, b = engine.randn(3, 3), engine.randn(3, 3)
    out, plus = engine.empty(3, 3), a.clone()
    with autocast("cpu"):
        engine.mm(a, b, out=out)
        plus.addmm_(a, b)
    assert engine.equal(out, a @ b) and engine.equal(plus, engine.addmm(a, a, b))


def test_switches():
    assert not engine.is_autocast_enabled("cpu") and not engine.is_autocast_enabled()
    assert engine.get_autocast_dtype("cuda") == engine.float16 and engine.get_autocast_dtype("cpu") == engine.bfloat16
    engine.set_autocast_enabled("cpu", True)
    engine.set_autocast_dtype("cpu", engine.float16)
    assert (engine.ones(2, 2) @ engine.ones(2, 2)).dtype == engine.float16
    engine.set_autocast_enabled("cpu", False)
    engine.set_autocast_dtype("cpu", engine.bfloat16)
    engine.set_autocast_cache_enabled(False)
    assert not engine.is_autocast_cache_enabled()
    engine.set_autocast_cache_enabled(True)
    engine.clear_autocast_cache()
    assert is_autocast_available("cpu") and is_autocast_available("cuda") and not is_autocast_available("meta")
    with pytest.raises(TypeError, match="'enabled' .* must be bool, not int"):
        engine.set_autocast_enabled("cpu", 3)
    with pytest.raises(TypeError, match=r"'dtype' \(position 2\) must be torch.dtype, not int"):
        engine.set_autocast_dtype("cpu", 3)
    with pytest.raises(RuntimeError, match="nonsense"):
        engine.is_autocast_enabled("nonsense")


def test_older_names_warn_and_answer():
    with pytest.warns(DeprecationWarning, match=r"Please use torch.is_autocast_enabled\('cpu'\) instead"):
        assert engine.is_autocast_cpu_enabled() is False
    with pytest.warns(DeprecationWarning):
        assert engine.get_autocast_gpu_dtype() == engine.float16
    with pytest.warns(FutureWarning, match="torch.cpu.amp.autocast"):
        context = engine.cpu.amp.autocast(dtype=engine.float16)
    with context:
        assert (engine.ones(2, 2) @ engine.ones(2, 2)).dtype == engine.float16
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert not engine.cuda.amp.autocast()._enabled or engine.cuda.is_available()
    assert told[0].category is FutureWarning


def test_what_is_refused():
    for device, kind in ((3, ValueError), ("nonsense", RuntimeError), ("meta", RuntimeError)):
        with pytest.raises(kind):
            autocast(device)
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        refused = autocast("cpu", dtype=engine.float32)
    with refused:
        assert (engine.ones(2, 2) @ engine.ones(2, 2)).dtype == engine.float32
    if not engine.cuda.is_available():
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert not autocast("cuda")._enabled


def test_a_gpus_autocast_leaves_the_cpus_tensors_alone():
    engine.set_autocast_enabled(True)  # what autocast("cuda") does where there is a GPU
    try:
        a = engine.ones(2, 2)
        assert (a @ a).dtype == engine.float32
        assert a.half().exp().dtype == engine.float16
        with autocast("cpu"):
            assert (a @ a).dtype == engine.bfloat16
    finally:
        engine.set_autocast_enabled(False)


@pytest.mark.parametrize("cast_inputs", [None, engine.float32])
def test_user_written_functions_follow_it(cast_inputs):
    seen = {}

    class Square(autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            seen["forward"] = x.dtype, engine.is_autocast_enabled("cpu"), (x @ x).dtype
            return x @ x * factor

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            seen["backward"] = engine.is_autocast_enabled("cpu"), (x @ x).dtype
            return g @ x.t() + x.t() @ g, None

    x = engine.randn(2, 2, requires_grad=True)
    with autocast("cpu"):
        y = Square.apply(x.bfloat16() if cast_inputs else x, 1.0)
    y.sum().backward()
    follows = cast_inputs is None
    assert seen["forward"] == (engine.float32, follows, engine.bfloat16 if follows else engine.float32)
    assert seen["backward"] == (follows, engine.bfloat16 if follows else engine.float32)
    with pytest.raises(TypeError, match="device_type"):
        custom_fwd(lambda ctx: None)
    with pytest.raises(ValueError, match="device_type"):
        custom_bwd(device_type=3)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_computes_again_under_it(reentrant):
    layer, x, seen = nn.Linear(3, 3), engine.randn(2, 3, requires_grad=True), []

    def run(x):
        y = layer(x)
        seen.append(y.dtype)
        return y.float().sin()

    with autocast("cpu"):
        y = checkpoint(run, x, use_reentrant=reentrant)
    y.sum().backward()
    assert seen == [engine.bfloat16] * 2 and layer.weight.grad is not None


def test_every_name_in_the_lists_is_heeded():
    from engine.core.op import functions, registry

    heeded = {id(x.autocast) for x in (*registry.values(), *functions.values()) if getattr(x, "autocast", None) is not None}
    borders = {f"{kind} pad{n}d" for kind in ("reflect", "replicate") for n in (1, 2, 3)}  # asked for by `pad`
    assert {name for name, lists in casting.POLICIES.items() if id(lists) not in heeded} <= borders
