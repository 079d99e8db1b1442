"""Small programs run under PyTorch and under the engine: what is around layers and optimizers gives the same answers, texts and refusals."""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import numpy
import pytest
import torch
from compare import differ

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
PROGRAMS: list = []


def program(fn: Any) -> Any:
    """A function of the library; what it returns is compared."""
    PROGRAMS.append(pytest.param(fn, id=fn.__name__))
    return fn


def given(lib: Any, *shape: int, seed: int = 0, grad: bool = False) -> Any:
    """Normal numbers, the same in both."""
    array = numpy.random.default_rng(seed).standard_normal(shape)
    x = lib.tensor(array)
    return x.requires_grad_() if grad else x


def refusal(call: Any) -> str:
    """The type of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def warned(call: Any) -> list:
    """The types and beginnings of the warnings of a call."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    return [(w.category.__name__, str(w.message)[:40]) for w in told]


def flat(x: Any) -> list:
    if isinstance(x, dict):
        return [y for k, v in x.items() for y in [k, *flat(v)]]
    return [y for v in x for y in flat(v)] if isinstance(x, (list, tuple)) else [x]


def compared(theirs: Any, mine: Any) -> None:
    a, b = flat(theirs), flat(mine)
    assert len(a) == len(b), (a, b)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if isinstance(x, torch.Tensor):
            told = differ(x.detach(), y)
            assert told is None, f"at {i}: {told}"
        elif isinstance(x, float):
            assert x == pytest.approx(y, rel=1e-6, abs=1e-12, nan_ok=True), (i, x, y)
        else:
            assert x == y, (i, x, y)


@pytest.mark.parametrize("run", PROGRAMS)
def test_program(run):
    torch.manual_seed(0)
    theirs = run(torch)
    engine.manual_seed(0)
    compared(theirs, run(engine))


def state(module: Any) -> dict:
    return dict(module.state_dict())


# -- weight norms, parametrizations ---------------------------------------------------------------------------------------------------


@program
def old_weight_norm(lib):
    told = []
    for make, dim, shape in (
        (lambda: lib.nn.Linear(5, 3), 0, (2, 5)), (lambda: lib.nn.Linear(5, 3), None, (2, 5)), (lambda: lib.nn.Linear(5, 3), 1, (2, 5)),
        (lambda: lib.nn.Conv2d(2, 4, 3), 0, (1, 2, 5, 5)),
    ):  # fmt: skip
        layer = lib.nn.utils.weight_norm(make().double(), dim=dim)
        x = given(lib, *shape, grad=True)
        y = layer(x)
        y.pow(2).sum().backward()
        told += [state(layer), y, x.grad, layer.weight_g.grad, layer.weight_v.grad, repr(layer)]
        with lib.no_grad():
            layer.weight_g.mul_(2)
        told += [layer(x), refusal(lambda layer=layer: lib.nn.utils.weight_norm(layer))]
        lib.nn.utils.remove_weight_norm(layer)
        told += [state(layer), layer(x), refusal(lambda layer=layer: lib.nn.utils.remove_weight_norm(layer))]
    return told + [warned(lambda: lib.nn.utils.weight_norm(lib.nn.Linear(2, 2)))[0]]


@program
def old_spectral_norm(lib):
    told = []
    for make, shape in (
        (lambda: lib.nn.Linear(5, 3), (2, 5)), (lambda: lib.nn.Conv2d(2, 4, 3), (1, 2, 5, 5)), (lambda: lib.nn.ConvTranspose2d(2, 4, 3), (1, 2, 5, 5)),
    ):  # fmt: skip
        layer = lib.nn.utils.spectral_norm(make().double(), n_power_iterations=2)
        told += [state(layer), repr(layer)]
        x = given(lib, *shape, grad=True)
        for _ in range(3):
            y = layer(x)
            y.pow(2).sum().backward()
        told += [state(layer), y, x.grad, layer.weight_orig.grad]
        layer.eval()
        told += [layer(x), state(layer)]
        lib.nn.utils.remove_spectral_norm(layer)
        told += [state(layer), layer(x), refusal(lambda layer=layer: lib.nn.utils.remove_spectral_norm(layer))]
    told.append(refusal(lambda: lib.nn.utils.spectral_norm(lib.nn.Linear(2, 2), n_power_iterations=0)))
    return told


@program
def new_weight_norm(lib):
    told, norms = [], lib.nn.utils.parametrizations
    for dim in (0, 1, None):
        layer = norms.weight_norm(lib.nn.Linear(5, 3).double(), dim=dim)
        x = given(lib, 2, 5)
        layer(x).pow(2).sum().backward()
        p = layer.parametrizations.weight
        told += [state(layer), layer(x), repr(layer), p.original0.grad, p.original1.grad, [n for n, _ in layer.named_parameters()]]
        layer.weight = given(lib, 3, 5, seed=3)
        told += [layer.weight, state(layer)]
        lib.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        told += [state(layer), repr(layer)]
    old = lib.nn.utils.weight_norm(lib.nn.Linear(5, 3).double())
    new = norms.weight_norm(lib.nn.Linear(5, 3).double())
    new.load_state_dict(old.state_dict())
    return told + [state(new)]


@program
def new_spectral_norm(lib):
    told = []
    for make, shape in (
        (lambda: lib.nn.Linear(5, 3), (2, 5)), (lambda: lib.nn.Conv1d(2, 4, 3), (1, 2, 5)), (lambda: lib.nn.ConvTranspose1d(2, 4, 3), (1, 2, 5)),
    ):  # fmt: skip
        layer = lib.nn.utils.parametrizations.spectral_norm(make().double())
        x = given(lib, *shape)
        for _ in range(2):
            y = layer(x)
        y.pow(2).sum().backward()
        told += [state(layer), y, layer.parametrizations.weight.original.grad, repr(layer), layer.eval()(x), state(layer)]
    bias = lib.nn.utils.parametrizations.spectral_norm(lib.nn.Linear(5, 3).double(), "bias")
    told += [bias.bias, state(bias)]
    return told + [
        refusal(lambda: lib.nn.utils.parametrizations.spectral_norm(lib.nn.Linear(2, 2), n_power_iterations=0)),
        refusal(lambda: lib.nn.utils.parametrizations.spectral_norm(lib.nn.Linear(2, 2), dim=5)),
        refusal(lambda: lib.nn.utils.parametrizations.spectral_norm(lib.nn.Linear(2, 2), "nothing")),
    ]


@program
def orthogonal_parametrization(lib):
    told = []
    for sizes in ((4, 4), (5, 3), (3, 5)):
        for kind in (None, "matrix_exp", "cayley", "householder"):
            for base in (True, False):
                layer = lib.nn.Linear(*sizes).double()
                with lib.no_grad():
                    layer.weight.copy_(given(lib, sizes[1], sizes[0], seed=2))
                layer = lib.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=kind, use_trivialization=base)
                if not (base and sizes[0] != sizes[1]):  # a completed base has drawn its rest at random; QR's float path decides its bits
                    told += [state(layer), layer.weight]
                w = layer.weight
                n = min(sizes)
                gram = w @ w.mT if sizes[1] < sizes[0] else w.mT @ w
                told.append((gram - lib.eye(n, dtype=lib.float64)).abs().max().item() < 1e-9)
                (w * given(lib, *w.shape, seed=5)).sum().backward()
                if not base:
                    told.append(layer.parametrizations.weight.original.grad)
    layer = lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(3, 3).double())
    layer.weight = lib.eye(3, dtype=lib.float64)
    return told + [
        layer.weight,
        refusal(lambda: lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(3, 3), "bias")),
        refusal(lambda: lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(3, 3), orthogonal_map="x")),
        refusal(lambda: lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(3, 3), "nothing")),
    ]


@program
def own_parametrization(lib):
    parametrize = lib.nn.utils.parametrize

    class Symmetric(lib.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

        def right_inverse(self, a):
            return a.triu()

    class Exponential(lib.nn.Module):
        calls = 0

        def forward(self, x):
            Exponential.calls += 1
            return x.exp()

    class Halves(lib.nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, x):
            return x / 2, x / 2

    layer = lib.nn.Linear(3, 3).double()
    told = [parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "weight")]
    parametrize.register_parametrization(layer, "weight", Symmetric())
    told += [
        state(layer),
        layer.weight,
        repr(layer),
        parametrize.is_parametrized(layer, "weight"),
        parametrize.is_parametrized(layer, "bias"),
    ]
    told += [type(layer).__name__, parametrize.type_before_parametrizations(layer).__name__, isinstance(layer, lib.nn.Linear)]
    layer.weight = given(lib, 3, 3)
    told += [layer.weight, layer.parametrizations.weight.original]
    parametrize.register_parametrization(layer, "weight", Exponential())
    told += [layer.weight, layer(given(lib, 2, 3)), repr(layer)]
    told.append(refusal(lambda: setattr(layer, "weight", given(lib, 3, 3))))
    with parametrize.cached():
        before = Exponential.calls
        layer(given(lib, 2, 3)), layer(given(lib, 2, 3))
        told.append(Exponential.calls - before)
    layer(given(lib, 2, 3)).sum().backward()
    told += [layer.parametrizations.weight.original.grad, refusal(lambda: __import__("pickle").dumps(layer))]
    again = copy.deepcopy(layer)
    told += [again.weight, state(again), again.parametrizations.weight.original is layer.parametrizations.weight.original]
    other = lib.nn.Linear(3, 3).double()
    parametrize.register_parametrization(other, "weight", Symmetric())
    parametrize.register_parametrization(other, "weight", Exponential())
    other.load_state_dict(layer.state_dict())
    told += [other.weight]
    original = other.parametrizations.weight.original
    parametrize.remove_parametrizations(other, "weight", leave_parametrized=False)
    told += [state(other), other.weight is original, repr(other), type(other) is lib.nn.Linear]
    parametrize.remove_parametrizations(layer, "weight")
    told += [state(layer), [n for n, _ in layer.named_parameters()]]
    pair = lib.nn.Linear(2, 2).double()
    parametrize.register_parametrization(pair, "weight", Halves())
    told += [state(pair), pair.weight, refusal(lambda: parametrize.remove_parametrizations(pair, "weight", leave_parametrized=False))]
    pair.weight = given(lib, 2, 2)
    told += [state(pair)]
    optimizer = lib.optim.SGD(pair.parameters(), lr=0.1)
    pair(given(lib, 4, 2)).pow(2).sum().backward()
    optimizer.step()
    told += [state(pair)]
    parametrize.remove_parametrizations(pair, "weight")

    class Wrong(lib.nn.Module):
        def forward(self, x):
            return x[:1]

    class Lower(lib.nn.Module):
        def forward(self, x):
            return x.float()

    buffered = lib.nn.BatchNorm1d(3).double()
    parametrize.register_parametrization(buffered, "running_mean", Exponential())
    target = lib.nn.Linear(3, 3).double()
    source = lib.nn.Linear(3, 3).double()
    parametrize.register_parametrization(source, "weight", Symmetric())
    parametrize.transfer_parametrizations_and_params(source, target)
    return told + [
        state(pair), state(buffered), state(target), target.weight,
        refusal(lambda: parametrize.register_parametrization(lib.nn.Linear(2, 2), "weight", Wrong())),
        refusal(lambda: parametrize.register_parametrization(lib.nn.Linear(2, 2).double(), "weight", Lower())),
        refusal(lambda: parametrize.register_parametrization(lib.nn.Linear(2, 2), "nothing", Symmetric())),
        refusal(lambda: parametrize.remove_parametrizations(lib.nn.Linear(2, 2), "weight")),
        parametrize.register_parametrization(lib.nn.Linear(2, 2).double(), "weight", Wrong(), unsafe=True).weight.shape[0],
    ]  # fmt: skip


# -- pruning, fusion, other helpers ---------------------------------------------------------------------------------------------------


@program
def pruning(lib):
    prune = importlib.import_module(f"{lib.__name__}.nn.utils.prune")
    told = []
    for call in (
        lambda m: prune.identity(m, "weight"),
        lambda m: prune.l1_unstructured(m, "weight", 4),
        lambda m: prune.l1_unstructured(m, "weight", 0.3),
        lambda m: prune.l1_unstructured(m, "weight", 3, importance_scores=given(lib, 4, 5, seed=4)),
        lambda m: prune.random_unstructured(m, "weight", 0.4),
        lambda m: prune.random_structured(m, "weight", 2, 0),
        lambda m: prune.ln_structured(m, "weight", 2, 2, 1),
        lambda m: prune.ln_structured(m, "weight", 0.5, float("inf"), 0),
        lambda m: prune.custom_from_mask(m, "bias", lib.tensor([1, 0, 1, 0])),
        lambda m: prune.l1_unstructured(prune.ln_structured(m, "weight", 1, 1, 0), "weight", 3),
        lambda m: prune.ln_structured(prune.l1_unstructured(m, "weight", 3), "weight", 1, 2, 0),
        lambda m: prune.custom_from_mask(prune.random_structured(m, "weight", 1, 1), "weight", lib.ones(4, 5)),
    ):
        layer = lib.nn.Linear(5, 4).double()
        with lib.no_grad():
            layer.weight.copy_(given(lib, 4, 5, seed=1))
        call(layer)
        name = "bias" if "bias_mask" in layer._buffers else "weight"
        x = given(lib, 3, 5)
        layer(x).pow(2).sum().backward()
        told += [state(layer), layer(x), getattr(layer, name + "_orig").grad, prune.is_pruned(layer), repr(layer)]
        prune.remove(layer, name)
        told += [state(layer), prune.is_pruned(layer), isinstance(getattr(layer, name), lib.nn.Parameter)]
    net = lib.nn.Sequential(lib.nn.Linear(4, 5), lib.nn.ReLU(), lib.nn.Linear(5, 3)).double()
    prune.global_unstructured([(net[0], "weight"), (net[2], "weight")], pruning_method=prune.L1Unstructured, amount=0.4)
    told += [state(net), [type(h).__name__ for h in net[0]._forward_pre_hooks.values()]]
    prune.l1_unstructured(net[0], "weight", 2)
    told += [state(net), [len(h) if hasattr(h, "__len__") else 1 for h in net[0]._forward_pre_hooks.values()]]
    method = prune.L1Unstructured(amount=2)
    told.append(method.prune(given(lib, 3, 3)))
    layer = lib.nn.Linear(3, 3)
    return told + [
        refusal(lambda: prune.l1_unstructured(layer, "weight", -1)),
        refusal(lambda: prune.l1_unstructured(layer, "weight", 1.5)),
        refusal(lambda: prune.l1_unstructured(layer, "weight", 100)),
        refusal(lambda: prune.l1_unstructured(layer, "weight", "a")),
        refusal(lambda: prune.ln_structured(layer, "bias", 1, 2, 0)),
        refusal(lambda: prune.ln_structured(lib.nn.Linear(3, 3), "weight", 1, 2, 7)),
        refusal(lambda: prune.remove(lib.nn.Linear(2, 2), "weight")),
        refusal(lambda: prune.global_unstructured([(layer, "weight")], pruning_method=prune.LnStructured, amount=1)),
    ]


@program
def fusion(lib):
    told = []
    for conv, bn, shape, turned in (
        (lib.nn.Conv2d(2, 4, 3), lib.nn.BatchNorm2d(4), (2, 2, 6, 6), False),
        (lib.nn.Conv1d(2, 4, 3, bias=False), lib.nn.BatchNorm1d(4, affine=False), (2, 2, 6), False),
        (lib.nn.ConvTranspose2d(2, 4, 3), lib.nn.BatchNorm2d(4), (2, 2, 6, 6), True),
    ):
        conv, bn = conv.double(), bn.double()
        bn(conv(given(lib, *shape)))
        told.append(refusal(lambda conv=conv, bn=bn: lib.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)))
        fused = lib.nn.utils.fusion.fuse_conv_bn_eval(conv.eval(), bn.eval(), transpose=turned)
        x = given(lib, *shape, seed=2)
        told += [state(fused), fused(x), bn(conv(x)), isinstance(fused.weight, lib.nn.Parameter)]
    linear, bn = lib.nn.Linear(3, 4).double().eval(), lib.nn.BatchNorm1d(4).double().eval()
    bn.running_mean.copy_(given(lib, 4))
    fused = lib.nn.utils.fusion.fuse_linear_bn_eval(linear, bn)
    return told + [state(fused), fused(given(lib, 2, 3))]


@program
def small_helpers(lib):
    lib.manual_seed(1)
    empty = lib.nn.utils.skip_init(lib.nn.Linear, 3, 4)
    told = [tuple(empty.weight.shape), lib.rand(3)]
    told.append(refusal(lambda: lib.nn.utils.skip_init(lib.nn.ReLU)))
    told.append(refusal(lambda: lib.nn.utils.skip_init(int)))
    conv = lib.nn.Conv2d(2, 3, 3).double()
    grads = lib.nn.grad
    for n, f in ((1, lib.nn.functional.conv1d), (2, lib.nn.functional.conv2d), (3, lib.nn.functional.conv3d)):
        x, w = given(lib, 2, 4, *[7] * n, grad=True), given(lib, 6, 2, *[3] * n, grad=True)
        y = f(x, w, None, 2, 1, 1, 2)
        g = given(lib, *y.shape, seed=7)
        told += [
            getattr(grads, f"conv{n}d_input")(x.shape, w, g, 2, 1, 1, 2),
            getattr(grads, f"conv{n}d_weight")(x, w.shape, g, 2, 1, 1, 2),
        ]
    utils = importlib.import_module(f"{lib.__name__}.nn.modules.utils")
    states = {"module.a": 1, "module.b.c": 2, "d": 3}
    utils.consume_prefix_in_state_dict_if_present(states, "module.")
    told += [states, utils._pair(3), utils._pair((1, 2)), utils._ntuple(4)(5), utils._reverse_repeat_tuple((1, 2), 2)]
    for name in ("uniform", "normal", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "orthogonal", "eye"):
        lib.manual_seed(3)
        told += [warned(lambda name=name: getattr(lib.nn.init, name)(conv.weight.detach()[:, 0, 0].clone()))]
        made = getattr(lib.nn.init, name)(lib.empty(4, 5))
        if name != "orthogonal":
            told.append(made)
    net = lib.nn.Linear(2, 2)
    net(lib.ones(1, 2)).sum().backward()
    told += [warned(lambda: lib.nn.utils.clip_grad_norm(net.parameters(), 0.5)), net.weight.grad]
    params = {k: v.detach() * 0 for k, v in net.named_parameters()}
    told.append(lib.nn.utils.stateless.functional_call(net, params, (lib.ones(1, 2),)))
    return told


@program
def functional_variants(lib):
    F = lib.nn.functional
    told = []
    for name, args in (
        ("relu_", ()), ("elu_", (0.5,)), ("celu_", (0.5,)), ("selu_", ()), ("leaky_relu_", (0.2,)), ("hardtanh_", (-0.5, 0.5)),
        ("threshold_", (0.1, 2.0)), ("rrelu_", (0.1, 0.3)),
    ):  # fmt: skip
        x = given(lib, 3, 4)
        y = getattr(F, name)(x, *args)
        told += [y, x, y is x]
    for name, shape, args in (
        ("max_pool1d", (2, 3, 8), (3, 2, 1)), ("max_pool2d", (2, 3, 8, 7), (3, 2, 1)), ("max_pool3d", (1, 2, 6, 6, 6), (2,)),
        ("adaptive_max_pool1d", (2, 3, 8), (3,)), ("adaptive_max_pool2d", (2, 3, 8, 7), ((3, 2),)), ("adaptive_max_pool3d", (1, 2, 5, 5, 5), (2,)),
    ):  # fmt: skip
        told += [getattr(F, name + "_with_indices")(given(lib, *shape), *args)]
    told += [F.conv_tbc(given(lib, 5, 2, 3), given(lib, 3, 3, 4), given(lib, 4), 1)]
    x, w = given(lib, 4, 3, grad=True), given(lib, 5, 3, grad=True)
    loss = F.linear_cross_entropy(x, w, lib.tensor([0, 2, 4, 1]), label_smoothing=0.1, weight=given(lib, 5).abs())
    loss.backward()
    told += [loss, x.grad, w.grad, F.linear_cross_entropy(x, w.reshape(5, 1, 3), lib.zeros(4, 1, dtype=lib.long), reduction="none")]
    told += [F._in_projection_packed(given(lib, 2, 2, 4), given(lib, 2, 2, 4), given(lib, 2, 2, 4), given(lib, 12, 4), given(lib, 12))]
    return told
