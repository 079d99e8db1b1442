"""Scaled dot-product attention through the engine on the stand-ins for CuPy and cuDNN, beside the CPU's composed ops."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import host_cudnn
import numpy
import pytest
import syncs
from on_stand_in import installed

import engine
from engine.autograd import grad
from engine.backends import cudnn as switches
from engine.core import devices
from engine.nn import functional as F
from engine.nn.attention import SDPBackend, sdpa_kernel

pytest.importorskip("cupy")

attend = F.scaled_dot_product_attention
HALF = {"float16": engine.float16, "bfloat16": engine.bfloat16}


@pytest.fixture(scope="module")
def module():
    with installed():
        yield {name: importlib.import_module(f"engine.backends.gpu.{name}") for name in ("dnn", "launch")}


@pytest.fixture
def gpu(module):
    """The backend without plans."""
    module["dnn"]._thread.plans.clear()
    module["dnn"]._warn.cache_clear()
    module["launch"].driver.launches.clear()
    host_cudnn.graphs.clear()
    return module


def planned() -> list[str]:
    """What each graph that was planned computes."""
    return [graph.attention.name for graph in host_cudnn.graphs]


def launched(gpu: Any) -> list[str]:
    return [name for name in gpu["launch"].driver.launches if name.startswith("attention")]


def drawn(*shapes: tuple, seed: int = 0) -> list:
    rng = numpy.random.default_rng(seed)
    return [engine.tensor(rng.normal(size=shape).astype("f")) for shape in shapes]


def both(shapes: tuple, dtype: Any, mask: Any = None, **more: Any) -> tuple[list, list]:
    """The result and the gradients on the GPU, and on the CPU in float64 of the same rounded numbers."""
    given = [x.to(dtype) for x in drawn(*shapes)]
    runs = []
    for place, kind in (("cuda", dtype), ("cpu", engine.float64)):
        q, k, v = (x.to(place, kind).requires_grad_() for x in given)
        seen = (
            mask if mask is None else mask.detach().to(place, kind if mask.requires_grad else mask.dtype).requires_grad_(mask.requires_grad)
        )
        out = attend(q, k, v, seen, **more)
        (g,) = drawn(tuple(out.shape), seed=1)
        wanted = [q, k, v] + [seen] * (seen is not None and seen.requires_grad)
        runs.append([x.detach().cpu().double() for x in (out, *grad(out, wanted, g.to(dtype).to(place, kind)))])
    return runs[0], runs[1]


def same(found: list, expected: list, dtype: Any) -> None:
    eps = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype.name]
    for a, b in zip(found, expected, strict=True):
        engine.testing.assert_close(a, b, rtol=2 * eps, atol=2 * eps * (1 + b.abs().max().item()))


SHAPES = {
    "plain": ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 16)), "square": ((2, 2, 6, 16),) * 3, "no batch": ((3, 5, 8), (3, 7, 8), (3, 7, 8)),
    "two dimensions": ((5, 8), (7, 8), (7, 8)), "five dimensions": ((2, 1, 2, 5, 8),) * 3,
}  # fmt: skip
MASKS = {
    "none": None, "boolean": engine.tensor(numpy.tril(numpy.ones((5, 7), bool), 1)), "hidden keys": engine.tensor([True] * 5 + [False] * 2),
    "rows that see nothing": engine.tensor(numpy.arange(5)[:, None] % 2 == numpy.ones((1, 7), int)),
    "added": drawn((2, 1, 5, 7))[0].masked_fill(engine.tensor(numpy.eye(5, 7, dtype=bool)), -math.inf), "one per head": drawn((3, 1, 7))[0],
    "very negative": engine.zeros(5, 7).masked_fill(engine.tensor(numpy.eye(5, 7, dtype=bool)), -3e38),
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALF.values(), ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_half_precision_runs_on_cudnn(gpu, name, dtype):
    for causal in (False, True):
        same(*both(SHAPES[name], dtype, is_causal=causal, scale=0.3), dtype)
    assert planned() == ["forward", "backward"] * 2 and not launched(gpu)


@pytest.mark.parametrize("dtype", [engine.float16, engine.float32], ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_masks(gpu, mask, dtype):
    shapes = SHAPES["plain"]
    same(*both(shapes, dtype, MASKS[mask]), dtype)
    assert (planned() == ["forward", "backward"]) == (dtype is engine.float16) == (not launched(gpu))


@pytest.mark.parametrize("dtype", [engine.float16, engine.float32], ids=str)
def test_the_gradient_of_a_mask(gpu, dtype):
    for shape in ((5, 7), (2, 1, 5, 7), (3, 1, 1)):
        mask = drawn(shape)[0].to(dtype).requires_grad_()
        same(*both(SHAPES["plain"], dtype, mask), dtype)
    assert "attention_query" in launched(gpu)


@pytest.mark.parametrize("dtype", [engine.bfloat16, engine.float32], ids=str)
def test_grouped_heads(gpu, dtype):
    shapes = ((2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
    same(*both(shapes, dtype, enable_gqa=True), dtype)
    with pytest.raises(RuntimeError):
        attend(*[x.cuda() for x in drawn(*shapes)])


def test_what_cudnn_refuses_runs_on_the_kernels(gpu):
    with pytest.warns(RuntimeWarning, match=r"without tensor cores, .*: \w+ of \(2, 3, 5, 8\).*: No valid") as told:
        refuse = lambda self: (_ for _ in ()).throw(host_cudnn.cudnnGraphNotSupportedError("No valid engine configs\nfor it"))  # noqa: E731
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host_cudnn.pygraph, "check_support", refuse)
            same(*both(SHAPES["plain"], engine.float16), engine.float16)
    assert len(told) == 2 and launched(gpu) == ["attention", "attention_dot", "attention_query", "attention_key_value"]
    same(
        *both(((2, 3, 5, 7), (2, 3, 7, 7), (2, 3, 7, 9)), engine.float16), engine.float16
    )  # head dimensions that it never takes: no warning
    assert len(launched(gpu)) == 8


def test_without_cudnn(gpu, monkeypatch):
    monkeypatch.setattr(host_cudnn, "backend_version", lambda: (_ for _ in ()).throw(RuntimeError("Unable to find cudnnGetVersion")))
    switches.library.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="attention runs on a kernel without tensor cores") as told:
            same(*both(SHAPES["plain"], engine.float16), engine.float16)
        assert len(told) == 1 and not host_cudnn.graphs
    finally:
        switches.library.cache_clear()


def test_switches(gpu):
    with switches.flags(enabled=False):
        same(*both(SHAPES["plain"], engine.float16), engine.float16)
    assert len(launched(gpu)) == 4 and not host_cudnn.graphs
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        same(*both(SHAPES["plain"], engine.float16), engine.float16)
    assert len(launched(gpu)) == 8 and not host_cudnn.graphs
    with sdpa_kernel(SDPBackend.MATH):
        q = drawn((2, 3, 5, 8))[0].cuda().requires_grad_()
        assert attend(q, q, q).grad_fn.op.name == "matmul"
    assert attend(q, q, q).grad_fn.op.name == "attention" and len(launched(gpu)) == 9
    with switches.flags(enabled=True, deterministic=True):
        same(*both(SHAPES["plain"], engine.float16), engine.float16)
    assert [graph.deterministic for graph in host_cudnn.graphs if graph.attention.name == "backward"] == [True]


def test_a_plan_is_built_once_and_nothing_waits(gpu):
    q, k, v = (x.cuda().half() for x in drawn(*SHAPES["plain"]))
    mask = MASKS["boolean"].cuda()
    syncs.found.clear()
    for _ in range(3):
        x = q.clone().requires_grad_()
        attend(x, k, v).sum().backward()
        attend(x, k, v, mask, dropout_p=0.3).sum().backward()
        attend(x.float(), k.float(), v.float(), dropout_p=0.3).sum().backward()
    assert syncs.found == [] and sorted(planned()) == ["backward"] * 3 + ["forward"] * 4  # three of them to see whether it has dropout


def test_operands_are_read_where_they_are(gpu, monkeypatch):
    """Parts of one projection, in the order (batch, rows, heads, elements): nothing is copied, and the result is in that order."""
    whole = drawn((2, 5, 3, 3, 8))[0].cuda().half().requires_grad_()
    q, k, v = (whole[:, :, i].transpose(1, 2) for i in range(3))
    plans = gpu["dnn"]._thread.plans
    out = attend(q, k, v)
    assert out.stride() == (5 * 3 * 8, 8, 3 * 8, 1)
    (signature, _), *rest = plans
    assert not rest and signature.layouts[0] == ((2, 3, 5, 8), (5 * 3 * 3 * 8, 8, 3 * 3 * 8, 1))
    odd = engine.zeros(2 * 3 * 5 * 8 + 1, dtype=engine.float16, device="cuda")[1:].view(2, 3, 5, 8)  # at an address that cuDNN refuses
    assert (attend(odd, odd, odd) == 0).all()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", [engine.float32, engine.float16], ids=str)
def test_values_and_gradients_are_pytorchs(gpu, dtype):
    """PyTorch computes in float64: masks, rows that see nothing, causal with fewer keys or queries, grouped heads."""
    torch = pytest.importorskip("torch")
    square, grouped = ((2, 4, 9, 8),) * 3, ((2, 4, 9, 8), (2, 2, 70, 8), (2, 2, 70, 16))
    some = numpy.random.default_rng(3).random((9, 9)) < 0.5
    some[4] = False
    cases = [(square, {}), (square, {"is_causal": True}), (grouped, {"is_causal": True, "enable_gqa": True, "scale": 0.2})]
    cases += [
        (((1, 2, 70, 8), (1, 2, 9, 8), (1, 2, 9, 8)), {"is_causal": True}),
        (square, {"attn_mask": some}),
        (square, {"attn_mask": some * 1.0}),
    ]
    for shapes, more in cases:
        given = [x.to(dtype).float().numpy() for x in drawn(*shapes)]
        (g,) = drawn((*shapes[0][:-1], shapes[2][-1]), seed=9)
        same(*[_attended(lib, given, g.to(dtype).float().numpy(), dtype.name, more) for lib in (engine, torch)], dtype)


def _attended(lib: Any, given: list, g: Any, dtype: str, more: dict) -> list:
    """The result and the gradients: the engine's in `dtype` on the GPU, PyTorch's in float64."""

    def cast(x: Any) -> Any:
        x = lib.tensor(x) if x.dtype == bool else lib.tensor(x).to(getattr(lib, dtype if lib is engine else "float64"))
        return x.cuda() if lib is engine else x

    tensors = [cast(x).requires_grad_() for x in given]
    out = lib.nn.functional.scaled_dot_product_attention(*tensors, **{k: cast(v) if k == "attn_mask" else v for k, v in more.items()})
    found = (out, *lib.autograd.grad(out, tensors, cast(g)))
    return [engine.tensor(x.detach().cpu().double().numpy()) for x in found]


# -- dropout -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [engine.float16, engine.float32], ids=str)
def test_dropout(gpu, dtype):
    """With values of one and no scores, a result is the sum of the weights that stay."""
    q, v = engine.zeros(2, 3, 64, 8, dtype=dtype, device="cuda"), engine.ones(2, 3, 64, 8, dtype=dtype, device="cuda")
    engine.manual_seed(0)
    first, second = (attend(q, q, v, dropout_p=0.25)[..., 0].cpu().double() for _ in range(2))
    engine.manual_seed(0)
    again = attend(q, q, v, dropout_p=0.25)[..., 0].cpu().double()
    assert (first == again).all() and (first != second).any()
    for one in (first, second):
        assert abs(one.mean() - 1) < 5 * math.sqrt(1 / 3 / 64 / one.numel())
        assert 0.7 < one.std() * math.sqrt(64 * 3) < 1.3
    shares = first * 48
    assert (shares - shares.round()).abs().max() < 0.05  # a weight is 1 / 64, or 1 / 48 where it stays
    assert (planned() != []) == (dtype is engine.float16)


@pytest.mark.parametrize("dtype", [engine.float16, engine.float32], ids=str)
def test_the_gradient_of_dropout(gpu, dtype):
    """The result is linear in the value: its gradient says which weights were dropped."""
    q, k, v = (x.cuda().to(dtype) for x in drawn((2, 2, 9, 8), (2, 2, 9, 8), (2, 2, 9, 8)))
    v = engine.eye(9, 16, device="cuda").to(dtype).expand(2, 2, 9, 16).contiguous().requires_grad_()
    out = attend(q, k, v, dropout_p=0.5)
    weights = out.detach()[..., :9]  # as they were used
    g = engine.eye(9, 16, device="cuda").to(dtype).expand(2, 2, 9, 16)
    (found,) = grad(out, v, g)
    engine.testing.assert_close(found[..., :9], weights.mT, rtol=1e-3, atol=1e-3)
    assert 0.3 < (weights == 0).float().mean() < 0.7


@pytest.mark.parametrize("dtype", [engine.float16, engine.float32], ids=str)
def test_dropout_of_everything(gpu, dtype):
    q = engine.ones(2, 3, 4, 8, dtype=dtype, device="cuda")
    assert (attend(q, q, q, dropout_p=1.0) == 0).all()


def test_a_graph_draws_anew_in_each_replay(gpu):
    for dtype in (engine.float32, engine.float16):
        q, v = engine.zeros(1, 2, 8, 8, dtype=dtype, device="cuda"), engine.ones(1, 2, 8, 8, dtype=dtype, device="cuda")
        attend(q, q, v, dropout_p=0.5)
        graph = engine.cuda.CUDAGraph()
        with engine.cuda.graph(graph):
            out = attend(q, q, v, dropout_p=0.5)
        seen = []
        for _ in range(3):
            graph.replay()
            seen.append(tuple(out[..., 0].cpu().reshape(-1).tolist()))
        assert len(set(seen)) == 3


# -- derivatives of other kinds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [engine.bfloat16, engine.float32], ids=str)
def test_gradients_of_gradients(gpu, dtype, dropout):
    """By the formula of the first gradient: its derivative along a direction is that of the composed ops, dropout included."""
    shapes = SHAPES["plain"]
    q, k, v = (x.to(dtype).cuda().requires_grad_() for x in drawn(*shapes))
    engine.manual_seed(3)
    out = attend(q, k, v, MASKS["boolean"].cuda(), dropout_p=dropout)
    draws = out.grad_fn.saved[0][-1]
    first = grad((out.float() ** 2).sum(), (q, k, v), create_graph=True)
    second = grad(sum((d.float() ** 2).sum() for d in first), (q, k, v))
    kept: Any = 1.0
    if dropout:
        kept = (
            engine.Tensor._wrap(devices.gpu.attention_kept(q.detach().float().array, k.detach().float().array, draws, dropout))
            .cpu()
            .double()
        )
    x, y, z = (t.detach().cpu().double().requires_grad_() for t in (q, k, v))
    scores = (x / math.sqrt(8)) @ y.mT
    weights = scores.masked_fill(MASKS["boolean"].logical_not(), -math.inf).softmax(-1) * kept
    out = weights @ z
    want_first = grad((out**2).sum(), (x, y, z), create_graph=True)
    want = grad(sum((d**2).sum() for d in want_first), (x, y, z))
    tolerance = 0.1 if dtype is engine.bfloat16 else 1e-4
    for found, expected in zip((*first, *second), (*want_first, *want), strict=True):
        apart = (found.detach().cpu().double() - expected.detach()).norm() / expected.detach().norm()
        assert apart < tolerance, apart


def test_forward_mode_and_vmap(gpu):
    q, k, v = drawn(*SHAPES["plain"])
    f = lambda q, k, v: attend(q, k, v, is_causal=True)  # noqa: E731
    tangents = tuple(drawn(*SHAPES["plain"], seed=7))
    on = lambda xs: tuple(x.cuda() for x in xs)  # noqa: E731
    expected, found = engine.func.jvp(f, (q, k, v), tangents), engine.func.jvp(f, on((q, k, v)), on(tangents))
    for a, b in zip(found, expected, strict=True):
        engine.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)
    engine.testing.assert_close(engine.vmap(f)(*on((q, k, v))).cpu(), engine.vmap(f)(q, k, v), rtol=1e-4, atol=1e-5)
    jacobian = engine.func.jacrev(lambda q: f(q, k.to(q.device), v.to(q.device))[0, 0, 1])
    engine.testing.assert_close(jacobian(q.cuda()).cpu(), jacobian(q), rtol=1e-4, atol=1e-5)


def test_a_layer_and_autocast(gpu):
    engine.manual_seed(0)
    layer = engine.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    x = drawn((2, 5, 16))[0]
    padding = engine.tensor([[False] * 5, [False] * 3 + [True] * 2])
    expected = layer(x, src_key_padding_mask=padding)
    layer.cuda()
    engine.testing.assert_close(layer(x.cuda(), src_key_padding_mask=padding.cuda()).cpu(), expected, rtol=1e-4, atol=1e-5)
    assert launched(gpu) == ["attention"]
    with engine.autocast("cuda", dtype=engine.bfloat16):
        out = layer(x.cuda(), src_key_padding_mask=padding.cuda())
    engine.testing.assert_close(out.float().cpu(), expected, rtol=0.05, atol=0.05)
    assert planned() == ["forward"]


def test_it_is_counted_and_exported(gpu, tmp_path):
    from engine.utils.flop_counter import FlopCounterMode

    q, k, v = (x.cuda().requires_grad_() for x in drawn(*SHAPES["plain"]))
    with FlopCounterMode(display=False) as counter:
        attend(q, k, v).sum().backward()
    once, name = 2 * (2 * 3 * 5 * 7) * (8 + 16), "aten._scaled_dot_product_efficient_attention"
    assert counter.get_flop_counts()["Global"] == {name: once, f"{name}_backward": 2 * once}
    layer = engine.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).eval().cuda()
    engine.onnx.export(layer, (drawn((2, 5, 16))[0].cuda(),), str(tmp_path / "layer.onnx"))


# -- the stand-in itself -----------------------------------------------------------------------------------------------------

FAULTS = {
    "another scale": ("sdpa", lambda given: {"attn_scale": 1.0}),
    "no diagonal": ("sdpa", lambda given: {"diagonal_band_right_bound": None}),
    "keys for values": ("sdpa", lambda given: {"v": given["k"]}),
    "the result for its gradient": ("sdpa_backward", lambda given: {"dO": given["o"]}),
    "another scale of the gradient": ("sdpa_backward", lambda given: {"attn_scale": 1.0}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(gpu, monkeypatch, fault):
    name, change = FAULTS[fault]
    method = getattr(host_cudnn.pygraph, name)
    planted = lambda self, **given: method(self, **{k: v for k, v in (given | change(given)).items() if v is not None})  # noqa: E731
    monkeypatch.setattr(host_cudnn.pygraph, name, planted)
    with warnings.catch_warnings(), pytest.raises((AssertionError, RuntimeError, RuntimeWarning)):
        warnings.simplefilter("error")
        same(*both(((2, 2, 5, 8),) * 3, engine.float16, is_causal=True, scale=0.3), engine.float16)


def test_addresses_and_layouts_count(gpu, monkeypatch):
    sdpa = importlib.import_module("engine.backends.gpu.sdpa")
    monkeypatch.setitem(sdpa._UIDS, "key", sdpa._UIDS["value"]), monkeypatch.setitem(sdpa._UIDS, "value", sdpa._UIDS["key"] - 1)
    found, expected = both(((2, 2, 5, 8),) * 3, engine.float16)
    same(found, expected, engine.float16)  # names of the same tensors: nothing changes
    monkeypatch.undo()
    monkeypatch.setattr(sdpa, "_layout", lambda x: (x.shape, tuple([s // x.itemsize + 1 for s in x.strides])))
    with warnings.catch_warnings(), pytest.raises((AssertionError, RuntimeError, RuntimeWarning)):
        warnings.simplefilter("error")
        same(*both(((2, 2, 5, 8),) * 3, engine.float16), engine.float16)
