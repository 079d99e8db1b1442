"""Small programs about modules themselves, run under PyTorch and the engine: hooks, state, walking, refusals and their words."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
from collections import OrderedDict
from typing import Any

import pytest
import torch
from test_nn_programs import compared, flat, given, refusal, state, warned

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
PROGRAMS: list = []


def program(fn: Any) -> Any:
    PROGRAMS.append(pytest.param(fn, id=fn.__name__))
    return fn


@pytest.mark.parametrize("run", PROGRAMS)
def test_program(run):
    torch.manual_seed(0)
    theirs = run(torch)
    engine.manual_seed(0)
    compared(theirs, run(engine))


def words(call: Any) -> str:
    """The error's type and text, the library's name left out."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: " + re.sub(r"\b(torch|engine)(\.\w+)*\.", "", str(error))
    return "nothing"


def net(lib: Any) -> Any:
    return lib.nn.Sequential(
        OrderedDict(a=lib.nn.Linear(3, 4), b=lib.nn.Sequential(lib.nn.ReLU(), lib.nn.BatchNorm1d(4)), c=lib.nn.Linear(4, 2))
    )


@program
def loading(lib):
    told = []
    m = net(lib)
    good = m.state_dict()
    for change in (
        lambda d: d.pop("a.weight"),
        lambda d: d.update(extra=lib.ones(1)),
        lambda d: d.update({"a.weight": lib.ones(2, 2), "b.1.weight": lib.ones(7)}),
        lambda d: (d.pop("c.bias"), d.pop("a.bias"), d.update({"x.y": lib.ones(1), "b.z": lib.ones(2)})),
        lambda d: d.update({"a.weight": 3}),
        lambda d: d.update({"a.bias": lib.ones(())}),
    ):
        bad = OrderedDict(good)
        change(bad)
        told += [words(lambda bad=bad: net(lib).load_state_dict(bad))]
        other = net(lib)
        try:
            told += [repr(other.load_state_dict(bad, strict=False))]
        except RuntimeError as error:
            told += [str(error)[:60]]
    told += [words(lambda: m.load_state_dict(3)), repr(m.load_state_dict(good)), list(good), sorted(good._metadata)]
    kept = m.state_dict(keep_vars=True)
    told += [kept["a.weight"] is m.a.weight, m.state_dict(prefix="p.").keys().__len__(), list(m.state_dict(prefix="p."))[:2]]
    other = net(lib)
    given_ = OrderedDict((k, v.double() if v.is_floating_point() else v) for k, v in good.items())
    other.load_state_dict(given_)
    told += [other.a.weight.dtype == lib.float32]
    other.load_state_dict(given_, assign=True)
    told += [other.a.weight.dtype == lib.float64, isinstance(other.a.weight, lib.nn.Parameter), other.a.weight.requires_grad]
    told += [warned(lambda: m.state_dict(OrderedDict(), "q."))]
    part = lib.nn.Linear(2, 2)
    told += [words(lambda: part.load_state_dict({"weight": lib.ones(3, 3)}))]
    return told


@program
def own_state(lib):
    class Own(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = lib.nn.Parameter(lib.ones(2))
            self.register_buffer("kept", lib.zeros(2))
            self.register_buffer("hidden", lib.zeros(3), persistent=False)
            self.more = {"steps": 0}
            self.buffer = lib.nn.Buffer(lib.ones(1))

        def get_extra_state(self):
            return self.more

        def set_extra_state(self, state):
            self.more = state

        def _load_from_state_dict(self, state_dict, prefix, *rest):
            if prefix + "old" in state_dict:
                state_dict[prefix + "w"] = state_dict.pop(prefix + "old")
            super()._load_from_state_dict(state_dict, prefix, *rest)

    m = Own()
    m.more["steps"] = 3
    saved = m.state_dict()
    told = [list(saved), saved["_extra_state"], [n for n, _ in m.named_buffers()], sorted(m._non_persistent_buffers_set)]
    other = Own()
    saved["old"] = saved.pop("w") * 5
    told += [repr(other.load_state_dict(saved)), other.w, other.more]
    events = []
    m._register_state_dict_hook(lambda module, d, prefix, meta: d.update({prefix + "added": lib.ones(1)}))
    m.register_state_dict_pre_hook(lambda module, prefix, keep: events.append(("before", prefix, keep)))
    m.register_state_dict_post_hook(lambda module, d, prefix, meta: events.append(("after", prefix, sorted(meta))))
    told += [list(m.state_dict()), events]
    other.register_load_state_dict_pre_hook(lambda module, d, prefix, meta, strict, missing, unexpected, errors: d.pop("added", None))
    other._register_load_state_dict_pre_hook(
        lambda d, prefix, meta, strict, missing, unexpected, errors: events.append(("load", prefix, strict))
    )
    other.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    told += [repr(other.load_state_dict(m.state_dict())), repr(other.load_state_dict({}, strict=True)), events]
    return told


@program
def hooks_in_order(lib):
    events = []
    m = lib.nn.Linear(3, 2).double()
    handles = [
        m.register_forward_pre_hook(lambda mod, args: events.append("pre1")),
        m.register_forward_pre_hook(lambda mod, args: (args[0] * 2,), prepend=True),
        m.register_forward_pre_hook(lambda mod, args, kwargs: events.append(sorted(kwargs)), with_kwargs=True),
        m.register_forward_hook(lambda mod, args, out: out + 1),
        m.register_forward_hook(lambda mod, args, kwargs, out: events.append(("out", len(kwargs))), with_kwargs=True),
        m.register_full_backward_hook(lambda mod, gi, go: events.append(("back", len(gi), go[0].shape[0]))),
        m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 3,)),
    ]
    x = given(lib, 4, 3, grad=True)
    y = m(x)
    y.sum().backward()
    told = [y, x.grad, m.weight.grad, list(events)]
    told += [len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks), len(m._backward_pre_hooks)]
    for handle in handles:
        handle.remove()
    told += [m(x), len(m._forward_hooks), len(m._forward_pre_hooks)]
    failing = lib.nn.Linear(3, 2)
    failing.register_forward_hook(lambda mod, args, out: events.append(("failed", out is None)), always_call=True)
    told += [refusal(lambda: failing(lib.ones(2, 7))), events[-1]]
    told += [refusal(lambda: (m.register_full_backward_hook(print), m.register_backward_hook(print)))]
    with lib.nn.Linear(1, 1).register_forward_hook(lambda *a: None) as handle:
        told.append(handle is None or True)
    module = importlib.import_module(f"{lib.__name__}.nn.modules.module")
    seen = []
    everywhere = [
        module.register_module_forward_pre_hook(lambda mod, args: seen.append(("pre", type(mod).__name__))),
        module.register_module_forward_hook(lambda mod, args, out: seen.append(("out", type(mod).__name__))),
        module.register_module_full_backward_hook(lambda mod, gi, go: seen.append(("back", type(mod).__name__))),
        module.register_module_parameter_registration_hook(lambda mod, name, p: seen.append(("param", name))),
        module.register_module_module_registration_hook(lambda mod, name, p: seen.append(("module", name))),
        module.register_module_buffer_registration_hook(lambda mod, name, p: seen.append(("buffer", name))),
    ]
    try:
        small = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
        small(lib.ones(3, 2, requires_grad=True)).sum().backward()
    finally:
        for handle in everywhere:
            handle.remove()
    small(lib.ones(3, 2))
    return [*told, seen]


@program
def refusals(lib):
    nn = lib.nn

    class NoInit(nn.Module):
        def __init__(self):
            self.x = nn.Linear(1, 1)

    class NoForward(nn.Module):
        pass

    m = net(lib)
    return [
        words(NoInit), words(lambda: NoForward()(1)), words(lambda: NoForward(1)), words(lambda: NoForward(a=1)),
        words(lambda: m.register_parameter("a.b", None)), words(lambda: m.register_parameter("", None)),
        words(lambda: m.register_parameter("train", None)), words(lambda: m.register_parameter(3, None)),
        words(lambda: m.register_buffer("a", lib.ones(1))), words(lambda: m.register_buffer("x.y", None)),
        words(lambda: m.add_module("x.y", None)), words(lambda: m.add_module("", nn.ReLU())), words(lambda: m.add_module("forward", nn.ReLU())),
        words(lambda: m.get_submodule("b.7")), words(lambda: m.get_submodule("a.weight")), words(lambda: m.get_parameter("a.nothing")),
        words(lambda: m.get_parameter("b.1.running_mean")), words(lambda: m.get_buffer("a.weight")),
        words(lambda: m.nothing), words(lambda: m.train("yes")), words(lambda: m.to(lib.int64)), words(lambda: setattr(m, "a", 3)),
        words(lambda: setattr(m.a, "weight", 3)), words(lambda: setattr(m.a, "weight", lib.ones(1))), words(lambda: delattr(m, "zzz")),
        words(lambda: m.set_submodule("", nn.ReLU())), refusal(lambda: m.half().a(lib.ones(1, 3))),
        words(lambda: nn.Linear(3, 3).register_parameter("w", lib.ones(1))), refusal(lambda: nn.Linear(3, 3).register_buffer("w", 3)),
        words(lambda: nn.ModuleDict({"a.b": nn.ReLU()})), words(lambda: nn.ModuleList([3])), words(lambda: nn.Sequential(3)),
        words(lambda: nn.ModuleList([nn.ReLU()])[5]), words(lambda: nn.ModuleDict()["x"]), words(lambda: nn.ParameterList([nn.Parameter(lib.ones(1))])[3]),
    ]  # fmt: skip


@program
def walking(lib):
    m = net(lib)
    shared = lib.nn.Linear(2, 2)
    twice = lib.nn.ModuleList([shared, shared, lib.nn.ModuleDict({"x": shared})])
    tied = lib.nn.Linear(2, 2)
    tied.again = tied.weight
    m.set_submodule("b.0", lib.nn.Tanh())
    calls = []
    m.apply(lambda mod: calls.append(type(mod).__name__))
    told = [
        [n for n, _ in m.named_modules()], [n for n, _ in m.named_children()], [n for n, _ in m.named_parameters()],
        [n for n, _ in m.named_parameters("p", False)], [n for n, _ in m.named_buffers()], [n for n, _ in twice.named_modules()],
        [n for n, _ in twice.named_modules(remove_duplicate=False)], [n for n, _ in twice.named_parameters()],
        [n for n, _ in twice.named_parameters(remove_duplicate=False)], [n for n, _ in tied.named_parameters()],
        [n for n, _ in tied.named_parameters(remove_duplicate=False)], len(list(m.modules())), len(list(m.children())), calls, repr(m),
        [t.training for t in m.eval().modules()], sum(p.numel() for p in m.parameters()), "a" in dir(m), m.extra_repr(),
        len(list(m.buffers())), [p.requires_grad for p in m.requires_grad_(False).parameters()],
    ]  # fmt: skip
    m.requires_grad_()
    m(given(lib, 3, 3).float()).sum().backward()
    m.zero_grad(set_to_none=False)
    told += [m.a.weight.grad]
    m.zero_grad()
    told += [m.a.weight.grad is None, state(copy.deepcopy(m)), state(pickle.loads(pickle.dumps(m)))]
    told += [m.double().a.weight.dtype == lib.float64, m.to(lib.float32).b[1].num_batches_tracked.dtype == lib.int64]
    told += [m.type(lib.float64).a.bias.dtype == lib.float64, m.to_empty(device="cpu").a.weight.shape[0], m.share_memory() is m]
    m.compile()
    return [*told, m.eval()(given(lib, 1, 3)).shape[0]]


@program
def containers(lib):
    nn = lib.nn
    row = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 3))
    told = [repr(row[1:]), repr(row + nn.Sequential(nn.Tanh())), repr(row * 2), len(row), repr(row[-1])]
    row.insert(1, nn.Sigmoid())
    row.append(nn.ELU()).extend([nn.Tanh(), nn.GELU()])
    del row[0]
    told += [repr(row), repr(row.pop(1)), repr(row)]
    row += nn.Sequential(nn.ReLU6())
    told += [repr(row), repr(nn.ModuleList([nn.ReLU()] * 5 + [nn.Linear(1, 1)] * 2))]
    table = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Linear(1, 1)})
    table.update({"c": nn.Tanh()})
    table["d"] = nn.ELU()
    told += [list(table), list(table.keys()), [type(v).__name__ for v in table.values()], "b" in table, repr(table.pop("b")), repr(table)]
    items = nn.ParameterList([nn.Parameter(lib.ones(2)), nn.Parameter(lib.zeros(2, 3))])
    items.append(nn.Parameter(lib.ones(1)))
    items += [nn.Parameter(lib.ones(4))]
    named = nn.ParameterDict({"x": nn.Parameter(lib.ones(2)), "y": lib.zeros(2)})
    named["z"] = nn.Parameter(lib.ones(3))
    told += [repr(items), len(items), state(items), repr(named), list(named), state(named), named.pop("x"), list(named.items())[0][0]]
    told += [list(named.copy()), named.get("q", 5), list(named | {"w": nn.Parameter(lib.ones(1))})]
    return told + [warned(lambda: nn.Container(a=nn.ReLU())), warned(lambda: nn.NLLLoss2d())]


@program
def rarer_layers(lib):
    nn = lib.nn
    x = given(lib, 2, 7, 4, 3, grad=True)
    told = []
    for size in (3, 4, 5):  # PyTorch fails at 1 and 2
        layer = nn.CrossMapLRN2d(size, 0.5, 0.6, 1.5)
        y = layer(x)
        told += [y, repr(layer)]  # the gradient that PyTorch wrote by hand for it is not that of what it computes
    sync = nn.SyncBatchNorm.convert_sync_batchnorm(
        nn.Sequential(nn.Conv2d(7, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(3)))
    ).double()
    told += [repr(sync), sync(x), state(sync), sync.eval()(x), refusal(lambda: nn.SyncBatchNorm(3)(lib.ones(3)))]
    parallel = nn.DataParallel(nn.Linear(3, 2).double())
    told += [parallel(x), list(parallel.state_dict()), repr(parallel)]
    loss = nn.LinearCrossEntropyLoss(4, 5, bias=True).double()
    told += [repr(loss), loss(given(lib, 3, 4), lib.tensor([0, 1, 4])), refusal(lambda: nn.LinearCrossEntropyOptions(batch_chunk_size=0))]
    for name in ("batchnorm._BatchNorm", "conv._ConvNd", "loss._Loss", "loss._WeightedLoss", "dropout._DropoutNd", "batchnorm._NormBase", "lazy.LazyModuleMixin",
                 "instancenorm._InstanceNorm", "pooling._MaxPoolNd", "linear.NonDynamicallyQuantizableLinear", "sparse.Embedding", "padding._ReflectionPadNd", "conv._ConvTransposeNd",
                 "pooling._AvgPoolNd", "adaptive.AdaptiveLogSoftmaxWithLoss", "rnn.RNNBase", "transformer._get_clones", "activation.MultiheadAttention", "module._addindent"):  # fmt: skip
        home, _, kind = name.partition(".")
        found = getattr(importlib.import_module(f"{lib.__name__}.nn.modules.{home}"), kind)
        told.append(getattr(found, "__name__", kind))
    bases = importlib.import_module(f"{lib.__name__}.nn.modules.batchnorm")
    told += [isinstance(nn.BatchNorm2d(1), bases._BatchNorm), isinstance(nn.InstanceNorm2d(1), bases._BatchNorm)]
    conv = importlib.import_module(f"{lib.__name__}.nn.modules.conv")
    told += [
        isinstance(nn.Conv2d(1, 1, 1), conv._ConvNd),
        isinstance(nn.ConvTranspose2d(1, 1, 1), conv._ConvNd),
        isinstance(nn.Linear(1, 1), conv._ConvNd),
    ]
    return told


@program
def attention_by_functions(lib):
    flex = importlib.import_module(f"{lib.__name__}.nn.attention.flex_attention")
    bias = importlib.import_module(f"{lib.__name__}.nn.attention.bias")
    q, k, v = (given(lib, 2, 4, 6, 8, seed=i) for i in range(3))  # PyTorch has no gradients of it on a CPU
    slopes = given(lib, 4, seed=8)
    documents = lib.tensor([0, 0, 1, 1, 1, 2])

    def causal(b, h, i, j):
        return i >= j

    def near(b, h, i, j):
        return (i - j).abs() <= 2

    def same(b, h, i, j):
        return documents[i] == documents[j]

    told = []
    for score, mask, scale in (
        (None, None, None), (None, causal, 0.3), (lambda s, b, h, i, j: s + slopes[h] * (j - i), causal, None),
        (lambda s, b, h, i, j: lib.tanh(s / 5) * 5, near, None), (lambda s, b, h, i, j: lib.where(i >= j, s, -float("inf")), None, None),
        (None, same, None), (None, flex.and_masks(causal, same), None), (None, flex.or_masks(near, same), None), (None, lambda b, h, i, j: i > j + 1, None),
    ):  # fmt: skip
        block = None if mask is None else flex.create_block_mask(mask, None, None, 6, 6, device="cpu")
        y = flex.flex_attention(q, k, v, score, block, scale)
        told += [y]
        told += [flex.flex_attention(q, k, v, score, block, scale, return_lse=True)[1]]
    few = given(lib, 2, 2, 6, 8, seed=4)
    told += [flex.flex_attention(q, few, few, enable_gqa=True), refusal(lambda: flex.flex_attention(q, few, few))]
    block = flex.create_block_mask(causal, 2, None, 300, 260, device="cpu")
    told += [
        block.shape,
        block.kv_num_blocks,
        block.kv_indices,
        block.full_kv_num_blocks,
        block.full_kv_indices,
        block.q_num_blocks,
        block.q_indices,
    ]
    told += [block.full_q_num_blocks, block.full_q_indices, block.sparsity(), block.numel(), block.to_dense(), block.BLOCK_SIZE]
    told += [
        flex.create_block_mask(near, 1, 1, 64, 64, device="cpu", BLOCK_SIZE=16).to_dense(),
        flex.create_mask(causal, 1, 2, 3, 4, device="cpu"),
    ]
    F = lib.nn.functional
    told += [F.scaled_dot_product_attention(q, k[:, :, :4], v[:, :, :4], attn_mask=bias.causal_upper_left(6, 4))]
    told += [F.scaled_dot_product_attention(q[:, :, :4], k, v, attn_mask=bias.causal_lower_right(4, 6))]
    with lib.nn.attention.sdpa_kernel(lib.nn.attention.SDPBackend.MATH):
        told += [F.scaled_dot_product_attention(q, k, v)]
    with lib.nn.attention.sdpa_kernel([lib.nn.attention.SDPBackend.MATH, lib.nn.attention.SDPBackend.FLASH_ATTENTION]):
        told += [F.scaled_dot_product_attention(q, k, v)]
    return told


def test_flat_keeps_everything():
    assert flat([1, (2, {"a": [3]})]) == [1, 2, "a", 3]
