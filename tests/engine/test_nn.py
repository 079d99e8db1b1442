"""Modules and layers. Expected numbers and texts are torch 2.13's; the whole comparison of all layers is in tests/parity."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
from collections import OrderedDict

import numpy
import pytest

import engine
from engine import Tensor, nn, observe
from engine.nn import functional as F
from engine.nn import init
from engine.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters
from engine.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
)


def values(x):
    return numpy.asarray(x.detach().array)


def close(x, expected, rtol=1e-5, atol=1e-6):
    numpy.testing.assert_allclose(values(x) if isinstance(x, Tensor) else x, expected, rtol=rtol, atol=atol)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(Tensor([2.0]))
        self.register_buffer("seen", Tensor([0.0]))
        self.register_buffer("scratch", Tensor([1.0]), persistent=False)

    def forward(self, x, shift=0.0):
        return self.rest(self.first(x)) * self.scale + shift


# -- registration and walking ------------------------------------------------------------------------------------------


def test_named_members():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.scale"]
    assert [n for n, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [n for n, _ in net.named_children()] == ["first", "rest"]
    assert net.get_submodule("rest.1") is net.rest[1] and net.get_parameter("rest.1.weight") is net.rest[1].weight
    assert net.get_buffer("seen") is net.seen and net.get_submodule("") is net
    assert {"first", "scale", "seen", "forward"} <= set(dir(net))


def test_a_module_that_occurs_twice():
    layer = nn.Linear(2, 2)
    both = nn.Sequential(layer, layer)
    assert len(list(both.parameters())) == 2 and len(list(both.modules())) == 2 and len(list(both.children())) == 1
    assert [n for n, _ in both.named_modules(remove_duplicate=False)] == ["", "0", "1"]
    assert [n for n, _ in both.named_parameters(remove_duplicate=False)] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_attributes_change_their_kind():
    net = nn.Module()
    net.x = 3
    net.x = nn.Parameter(Tensor([1.0]))
    assert "x" not in vars(net) and "x" in net._parameters
    net.x = nn.Linear(1, 1)
    assert not net._parameters and "x" in net._modules
    net.x = None
    assert net.x is None and "x" in net._modules
    del net.x
    assert not hasattr(net, "x")
    net.y = nn.Buffer(Tensor([1.0]), persistent=False)
    assert "y" in net._buffers and "y" not in net.state_dict()
    net.y = Tensor([2.0])
    assert net.y.item() == 2.0 and "y" in net._buffers
    net.z = Tensor([1.0])
    assert "z" in vars(net)


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda m: setattr(m.first, "weight", Tensor([1.0])), TypeError, r"cannot assign 'engine.Tensor' as parameter 'weight'"),
        (lambda m: setattr(m.first, "weight", "a"), TypeError, r"cannot assign 'str' as parameter 'weight' \(engine.nn.Parameter"),
        (lambda m: setattr(m, "seen", 3), TypeError, "cannot assign 'int' as buffer 'seen'"),
        (lambda m: setattr(m, "first", 3), TypeError, "cannot assign 'int' as child module 'first'"),
        (lambda m: m.register_buffer("", Tensor([1.0])), KeyError, "buffer name can.*t be empty"),
        (lambda m: m.register_parameter("a.b", None), KeyError, "parameter name can.*t contain"),
        (lambda m: m.register_buffer("first", Tensor([1.0])), KeyError, "attribute 'first' already exists"),
        (lambda m: m.register_parameter(3, None), TypeError, "parameter name should be a string. Got int"),
        (lambda m: m.register_parameter("p", Tensor([1.0])), TypeError, "cannot assign 'Tensor' object to parameter 'p'"),
        (lambda m: m.add_module("x", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.nothing, AttributeError, "'Net' object has no attribute 'nothing'"),
        (lambda m: m.get_submodule("first.a"), AttributeError, "Linear has no attribute `a`"),
        (lambda m: m.get_parameter("first"), AttributeError, "`first` is not an nn.Parameter"),
        (lambda m: m.get_buffer("first.weight"), AttributeError, "`weight` is not a buffer"),
        (lambda m: nn.Module()(1), NotImplementedError, r'Module \[Module\] is missing the required "forward" function'),
        (lambda m: m.train(3), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(engine.int32), TypeError, "nn.Module.to only accepts floating point or complex dtypes"),
        (lambda m: m.load_state_dict([1]), TypeError, "Expected state_dict to be dict-like, got <class 'list'>."),
    ],
)
def test_mistakes(act, error, message):
    with pytest.raises(error, match=message):
        act(Net())


def test_assigning_before_init():
    class Hasty(nn.Module):
        def __init__(self, value):
            self.a = value

    for value, kind in ((nn.Linear(1, 1), "module"), (nn.Parameter(Tensor([1.0])), "parameter")):
        with pytest.raises(AttributeError, match=rf"cannot assign {kind}s? before Module.__init__\(\) call"):
            Hasty(value)


def test_repr():
    assert repr(nn.Module()) == "Module()"
    assert repr(Net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=4, bias=True)\n  (rest): Sequential(\n    (0): ReLU()\n"
        "    (1): Linear(in_features=4, out_features=2, bias=True)\n  )\n)"
    )
    assert repr(nn.ModuleList([nn.Linear(1, 2), nn.Linear(1, 2), nn.ReLU()])) == (
        "ModuleList(\n  (0-1): 2 x Linear(in_features=1, out_features=2, bias=True)\n  (2): ReLU()\n)"
    )
    assert repr(nn.Parameter(Tensor([1.0, 2.0]))) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"


# -- calling, modes, hooks ---------------------------------------------------------------------------------------------


def test_modes_and_apply():
    net = Net()
    assert net.eval() is net and not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_zero_grad():
    net = Net()
    net(engine.ones(2, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all((p.grad.array == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_forward_hooks():
    net, told = nn.Linear(2, 2), []
    net.register_forward_pre_hook(lambda m, args: told.append("before") or (args[0] * 2,))
    net.register_forward_pre_hook(lambda m, args: told.append("first"), prepend=True)
    handle = net.register_forward_hook(lambda m, args, out: told.append(("after", args[0].tolist())) or out + 1)
    out = net(Tensor([1.0, 2.0]))
    close(out, values(F.linear(Tensor([2.0, 4.0]), net.weight, net.bias)) + 1)
    assert told == ["first", "before", ("after", [2.0, 4.0])]
    handle.remove()
    close(net(Tensor([1.0, 2.0])), values(out) - 1)


def test_hooks_with_kwargs_and_always_call():
    net, told = Net(), []
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"shift": kwargs["shift"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kwargs, out: told.append(kwargs), with_kwargs=True)
    net.register_forward_hook(lambda m, args, out: told.append(out), always_call=True)
    net(engine.ones(1, 3), shift=1.0)
    assert told[0] == {"shift": 2.0} and isinstance(told[1], Tensor)
    told.clear()
    with pytest.raises(RuntimeError):
        net(engine.ones(1, 7), shift=1.0)
    assert told == [None]


class TwoByTwo(nn.Module):
    def forward(self, a, b):
        return a * 2, b * 3


def test_full_backward_hooks():
    """The gradients that torch 2.13 shows: None for an output that nobody used, zeros for its input."""
    net, told = TwoByTwo(), []
    net.register_full_backward_pre_hook(lambda m, grad_output: told.append(("pre", grad_output)))
    net.register_full_backward_hook(lambda m, grad_input, grad_output: told.append(("post", grad_input, grad_output)))
    a, b = engine.ones(2).requires_grad_(), engine.ones(2).requires_grad_()
    net(a, b)[0].sum().backward()
    (pre, (used, unused)), (post, (grad_a, grad_b), outputs) = told
    assert (pre, post) == ("pre", "post") and unused is None and outputs[1] is None
    assert used.tolist() == [1, 1] and grad_a.tolist() == [2, 2] and grad_b.tolist() == [0, 0]
    assert a.grad.tolist() == [2, 2]


def test_backward_hooks_can_change_gradients():
    net = TwoByTwo()
    net.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 10, grad_output[1]))
    net.register_full_backward_hook(lambda m, grad_input, grad_output: (grad_input[0] + 1, grad_input[1]))
    a, b = engine.ones(2).requires_grad_(), engine.ones(2).requires_grad_()
    out = net(a, b)
    (out[0] + out[1]).sum().backward()
    assert a.grad.tolist() == [21, 21] and b.grad.tolist() == [3, 3]


def test_backward_hook_without_input_gradients():
    net, told = nn.Linear(2, 2), []
    net.register_full_backward_hook(lambda m, grad_input, grad_output: told.append((grad_input, grad_output[0].tolist())))
    net(engine.ones(1, 2)).sum().backward()
    assert told == [((None,), [[1.0, 1.0]])] and net.weight.grad is not None


def test_the_observer_hears_of_modules():
    class Scopes(observe.Observer):
        def __init__(self):
            self.heard, self.depth = [], 0

        def enter(self, kind, name, subject):
            if kind == "module":
                self.heard.append((name, subject))
            self.depth += 1

        def leave(self):
            self.depth -= 1

    net = Net()
    with observe.observing(Scopes()) as scopes:
        net(engine.ones(1, 3))
        with pytest.raises(RuntimeError):
            net(engine.ones(1, 7))
    assert [s for _, s in scopes.heard[:5]] == [net, net.first, net.rest, net.rest[0], net.rest[1]]
    assert scopes.heard[0][0] == "Net" and scopes.depth == 0


def test_copies_and_pickles():
    net = Net()
    net(engine.ones(2, 3)).sum().backward()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        for (name, p), (other, q) in zip(net.named_parameters(), twin.named_parameters(), strict=True):
            assert name == other and isinstance(q, nn.Parameter) and q.requires_grad and q is not p
            numpy.testing.assert_array_equal(p.array, q.array)
        twin.first.weight.array[:] = 0
        assert net.first.weight.array.any()


def test_a_module_is_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        from weakref import ref

        net = Net()
        net.register_forward_hook(lambda m, a, o: None)
        gone = ref(net.first.weight)
        net(engine.ones(1, 3)).sum().backward()
        del net
        assert gone() is None
    finally:
        gc.enable()


# -- moving ------------------------------------------------------------------------------------------------------------


def test_casting_keeps_the_parameters():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = net[0].weight
    net(engine.ones(3, 2)).sum().backward()
    net.double()
    assert net[0].weight is weight and weight.dtype is engine.float64 and weight.grad.dtype is engine.float64 and weight.requires_grad
    assert net[1].running_mean.dtype is engine.float64 and net[1].num_batches_tracked.dtype is engine.int64
    net(engine.ones(3, 2).double()).sum().backward()
    assert net.to(engine.ones(1)).to("cpu")[0].weight.dtype is engine.float32
    assert net.half()[0].weight.dtype is engine.float16 and net.bfloat16()[0].weight.dtype is engine.bfloat16 and net.float() is net


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_share_memory():
    net = nn.Linear(2, 2).share_memory()
    before = net.weight.array.copy()
    pipe = os.pipe()
    child = os.fork()
    if child == 0:
        net.weight.array[:] = 7
        os.write(pipe[1], b"x")
        os._exit(0)
    os.read(pipe[0], 1)
    os.waitpid(child, 0)
    assert (net.weight.array == 7).all() and not (before == 7).any()
    array = net.weight.array
    assert net.share_memory().weight.array is array


# -- state -------------------------------------------------------------------------------------------------------------


def test_state_dict():
    net = Net()
    state = net.state_dict()
    assert list(state) == ["scale", "seen", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
    assert state["scale"].array is net.scale.array and not state["scale"].requires_grad
    assert net.state_dict(keep_vars=True)["scale"] is net.scale
    assert state._metadata == {name: {"version": 1} for name in ("", "first", "rest", "rest.0", "rest.1")}
    other = Net()
    assert repr(other.load_state_dict(state)) == "<All keys matched successfully>"
    x = engine.ones(2, 3)
    close(other(x), values(net(x)))


def test_loading_what_does_not_fit_changes_nothing():
    layer = nn.Linear(2, 2)
    before = values(layer.bias).copy(), values(layer.weight).copy()
    with pytest.raises(RuntimeError) as error:
        layer.load_state_dict({"weight": engine.ones(3, 2), "bias": engine.ones(2), "foo": engine.ones(1)})
    assert str(error.value) == (
        'Error(s) in loading state_dict for Linear:\n\tUnexpected key(s) in state_dict: "foo". \n\tsize mismatch for weight: '
        "copying a param with shape engine.Size([3, 2]) from checkpoint, the shape in current model is engine.Size([2, 2])."
    )
    with pytest.raises(RuntimeError, match='Missing key\\(s\\) in state_dict: "bias". '):
        layer.load_state_dict({"weight": engine.ones(2, 2)})
    with pytest.raises(RuntimeError, match="expected engine.Tensor or Tensor-like object from checkpoint but received <class 'list'>"):
        layer.load_state_dict({"weight": [1], "bias": engine.ones(2)})
    with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "a.b", "a".'):
        layer.load_state_dict({"weight": engine.ones(2, 2), "bias": engine.ones(2), "a.b": 1, "a": 2})
    numpy.testing.assert_array_equal(values(layer.bias), before[0])
    numpy.testing.assert_array_equal(values(layer.weight), before[1])


def test_loading_loosely():
    layer = nn.Linear(2, 2)
    told = layer.load_state_dict({"weight": engine.ones(2, 2), "foo": engine.ones(1)}, strict=False)
    assert told.missing_keys == ["bias"] and told.unexpected_keys == ["foo"] and (values(layer.weight) == 1).all()


def test_assign():
    layer = nn.Linear(2, 2)
    weight = engine.ones(2, 2).double()
    layer.load_state_dict({"weight": weight, "bias": engine.ones(2)}, assign=True)
    assert layer.weight.array is weight.array and isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad


def test_state_hooks_and_extra_state():
    class Counted(nn.Linear):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    layer, told = Counted(1, 1), []
    layer.count = 5
    layer.register_state_dict_pre_hook(lambda m, prefix, keep_vars: told.append("pre"))
    layer.register_state_dict_post_hook(lambda m, state, prefix, meta: told.append(sorted(state)))
    state = layer.state_dict()
    assert told == ["pre", ["_extra_state", "bias", "weight"]]
    other = Counted(1, 1)
    other.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: state.pop("old", None))
    other.register_load_state_dict_post_hook(lambda m, keys: told.append(keys))
    other.load_state_dict({**state, "old": 1})
    assert other.count == 5 and told[-1].missing_keys == []


# -- layers, against torch's numbers -----------------------------------------------------------------------------------


def test_layers_start_with_torchs_weights():
    """torch.manual_seed(0); nn.Linear(2, 2), then nn.Conv2d(1, 1, 2)."""
    engine.manual_seed(0)
    layer, conv = nn.Linear(2, 2), nn.Conv2d(1, 1, 2)
    close(layer.weight, EXPECTED["linear.weight"])
    close(layer.bias, EXPECTED["linear.bias"])
    close(conv.weight, EXPECTED["conv.weight"])
    close(conv.bias, EXPECTED["conv.bias"])


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(name):
    engine.manual_seed(0)
    net = getattr(nn, name)(2, 3, num_layers=2, bidirectional=True)
    x = Tensor(numpy.linspace(-1, 1, 12, dtype=numpy.float32).reshape(3, 2, 2))
    out, state = net(x)
    h = state[0] if name == "LSTM" else state
    assert out.shape == (3, 2, 6) and h.shape == (4, 2, 3)
    close(out[:, 0, :2], EXPECTED[f"{name}.out"])
    close(h.sum((1, 2)), EXPECTED[f"{name}.h"])
    out.sum().backward()
    close(net.weight_hh_l0.grad.sum(1), EXPECTED[f"{name}.grad"])


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_packed_sequences_equal_each_alone(name):
    engine.manual_seed(1)
    net = getattr(nn, name)(2, 3, num_layers=2, bidirectional=True).double()
    sequences = [engine.randn(n, 2).double() for n in (2, 5, 1, 4)]
    packed, state = net(pack_sequence(sequences, enforce_sorted=False))
    for i, (sequence, out) in enumerate(zip(sequences, unpack_sequence(packed), strict=True)):
        alone, alone_state = net(sequence)
        close(out, values(alone), rtol=1e-12)
        for s, a in zip(state, alone_state, strict=True) if name == "LSTM" else [(state, alone_state)]:
            close(s[:, i], values(a), rtol=1e-12)


def test_cells_are_one_step():
    engine.manual_seed(0)
    for cell, layer in ((nn.LSTMCell(2, 3), nn.LSTM(2, 3)), (nn.GRUCell(2, 3), nn.GRU(2, 3)), (nn.RNNCell(2, 3), nn.RNN(2, 3))):
        layer.load_state_dict({f"{k}_l0": v for k, v in cell.state_dict().items()})
        x = engine.randn(4, 2)
        expected = layer(x.unsqueeze(0))[0][0]
        got = cell(x)
        close(got[0] if isinstance(got, tuple) else got, values(expected))
        single = cell(x[1])
        close(single[0] if isinstance(single, tuple) else single, values(expected)[1])


def test_recurrent_mistakes():
    net = nn.LSTM(2, 3)
    for args, error, message in (
        ((engine.ones(4, 1, 5),), RuntimeError, r"input.size\(-1\) must be equal to input_size. Expected 2, got 5"),
        ((engine.ones(2),), ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead"),
        ((engine.ones(4, 1, 2), (engine.ones(1, 2, 3), engine.ones(1, 1, 3))), RuntimeError, r"Expected hidden\[0\] size \(1, 1, 3\)"),
        ((engine.ones(4, 1, 2), (engine.ones(1, 3), engine.ones(1, 3))), RuntimeError, "hx should also be 3-D but got 2-D and 2-D tensors"),
    ):
        with pytest.raises(error, match=message):
            net(*args)


def test_padding_and_packing():
    a, b = Tensor([[1.0], [2.0], [3.0]]), Tensor([[4.0]])
    assert pad_sequence([a, b], batch_first=True, padding_value=9).squeeze(-1).tolist() == [[1, 2, 3], [4, 9, 9]]
    assert pad_sequence([a, b], padding_side="left").squeeze(-1).tolist() == [[1, 0], [2, 0], [3, 4]]
    packed = pack_padded_sequence(pad_sequence([b, a]), [1, 3], enforce_sorted=False)
    assert packed.data.squeeze(-1).tolist() == [1, 4, 2, 3] and packed.batch_sizes.tolist() == [2, 1, 1]
    assert packed.sorted_indices.tolist() == [1, 0]
    padded, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=-1, total_length=4)
    assert padded.squeeze(-1).tolist() == [[4, -1, -1, -1], [1, 2, 3, -1]] and lengths.tolist() == [1, 3]
    with pytest.raises(RuntimeError, match="must be sorted in decreasing order"):
        pack_padded_sequence(engine.ones(3, 2, 1), [1, 3])
    with pytest.raises(RuntimeError, match="Length of all samples has to be greater than 0"):
        pack_padded_sequence(engine.ones(3, 2, 1), [3, 0])


def test_attention():
    engine.manual_seed(0)
    net = nn.MultiheadAttention(4, 2)
    x = Tensor(numpy.linspace(-1, 1, 24, dtype=numpy.float32).reshape(3, 2, 4))
    out, weights = net(x, x, x)
    close(out[:, 0], EXPECTED["mha.out"])
    close(weights[0], EXPECTED["mha.weights"])
    padding = Tensor([[False, False, True], [False, True, True]])
    causal = Tensor(numpy.triu(numpy.ones((3, 3), bool), 1))
    masked, weights = net(x, x, x, key_padding_mask=padding, attn_mask=causal)
    close(masked[:, 1], EXPECTED["mha.masked"])
    close(weights[1], EXPECTED["mha.masked_weights"])
    without, none = net(x, x, x, key_padding_mask=padding, attn_mask=causal, need_weights=False)
    close(without, values(masked))
    assert none is None
    assert net(x, x, x, average_attn_weights=False)[1].shape == (2, 2, 3, 3)
    close(net(x[:, 0], x[:, 0], x[:, 0])[0], EXPECTED["mha.out"])


def test_transformer():
    engine.manual_seed(0)
    net = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=True)
    source = Tensor(numpy.linspace(-1, 1, 24, dtype=numpy.float32).reshape(2, 3, 4))
    mask = nn.Transformer.generate_square_subsequent_mask(2)
    assert mask.tolist() == [[0.0, -math.inf], [0.0, 0.0]]
    out = net(source, source[:, :2].flip(2), tgt_mask=mask)
    close(out[0], EXPECTED["transformer.out"], rtol=1e-4)
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_batch_norm_statistics():
    net = nn.BatchNorm1d(2)
    x = Tensor(numpy.array([[1.0, 2.0], [3.0, 6.0]], numpy.float32))
    net(x)
    close(net.running_mean, [0.2, 0.4])
    close(net.running_var, [0.9 + 0.1 * 2.0, 0.9 + 0.1 * 8.0])
    assert net.num_batches_tracked.item() == 1
    net.eval()
    close(net(x), (values(x) - [0.2, 0.4]) / numpy.sqrt(numpy.array([1.1, 1.7]) + 1e-5), rtol=1e-4)
    average = nn.BatchNorm1d(2, momentum=None)
    average(x)
    average(x * 3)
    close(average.running_mean, [4.0, 8.0])
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 4D input\)"):
        net(engine.ones(1, 2, 1, 1))


def test_dropout():
    engine.manual_seed(0)
    net = nn.Dropout(0.25)
    x = engine.ones(200, 200)
    kept = values(net(x))
    close(numpy.unique(kept), [0.0, 1 / 0.75])
    assert abs((kept == 0).mean() - 0.25) < 0.02
    numpy.testing.assert_array_equal(values(net.eval()(x)), values(x))
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        nn.Dropout(2)


def test_embedding():
    net = nn.Embedding(4, 2, padding_idx=-1)
    assert net.padding_idx == 3 and (values(net.weight)[3] == 0).all()
    net(Tensor([[0, 3], [0, 1]])).sum().backward()
    assert net.weight.grad.tolist() == [[2, 2], [1, 1], [0, 0], [0, 0]]
    table = engine.ones(3, 2)
    frozen = nn.Embedding.from_pretrained(table)
    assert not frozen.weight.requires_grad and frozen.weight.array is table.array
    with pytest.raises(IndexError):
        net(Tensor([4]))


def test_lazy_layers():
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    assert isinstance(net[3].weight, nn.UninitializedParameter)
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        net[3].weight + 1
    assert net(engine.ones(2, 3, 5, 5)).shape == (2, 2)
    assert [type(m).__name__ for m in net] == ["Conv2d", "BatchNorm2d", "Flatten", "Linear"]
    assert net[0].weight.shape == (4, 3, 3, 3) and net[3].in_features == 36 and net[3].weight.requires_grad
    fresh = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    fresh.load_state_dict(net.state_dict())
    net.eval(), fresh.eval()
    close(fresh(engine.ones(2, 3, 5, 5)), values(net(engine.ones(2, 3, 5, 5))))


# -- containers --------------------------------------------------------------------------------------------------------


def test_sequential():
    a, b, c = nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)
    net = nn.Sequential(OrderedDict(first=a, act=b))
    assert net.first is a and net[-1] is b and list(net[:1]._modules) == ["first"]
    plain = nn.Sequential(a, b).append(c)
    assert len(plain) == 3 and list(plain) == [a, b, c]
    del plain[1]
    assert list(plain._modules) == ["0", "1"] and plain[1] is c
    plain.insert(0, b)
    assert plain.pop(0) is b and len(plain + plain) == 4 and len(plain * 3) == 6
    plain[0] = b
    assert plain[0] is b
    with pytest.raises(IndexError, match="index 5 is out of range"):
        plain[5]


def test_lists_and_dicts():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers.append(nn.ReLU())
    layers += [nn.Tanh()]
    layers.insert(1, nn.GELU())
    assert (
        [type(m).__name__ for m in layers] == ["Linear", "GELU", "ReLU", "Tanh"]
        and len(layers[1:3]) == 2
        and len(layers + [nn.ReLU()]) == 5
    )
    named = nn.ModuleDict({"a": nn.ReLU()})
    named.update([("b", nn.Linear(1, 1))])
    assert list(named.keys()) == ["a", "b"] and "b" in named and isinstance(named.pop("a"), nn.ReLU) and len(named) == 1
    params = nn.ParameterList([Tensor([1.0]), Tensor([2.0])])
    params.append(Tensor([3.0]))
    assert [p.item() for p in params] == [1, 2, 3] and all(p.requires_grad for p in params) and len(list(params.parameters())) == 3
    assert params[-1] is params[2] and len(params[1:]) == 2
    table = nn.ParameterDict({"a": Tensor([1.0])})
    table["b"] = Tensor([2.0])
    assert [n for n, _ in table.named_parameters()] == ["a", "b"] and table.get("c") is None and table.get("a") is table["a"]
    assert table.setdefault("c", Tensor([3.0])) is table["c"] and len(table.copy()) == 3 and table.popitem()[0] == "c"
    assert list(nn.ParameterList([1]).state_dict()) == []


# -- initializers and helpers ------------------------------------------------------------------------------------------


def test_initializers():
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 1) == 1.0 and init.calculate_gain("conv2d") == 1
    w = engine.empty(30, 20)
    for fn, std in (
        (lambda: init.xavier_uniform_(w), math.sqrt(2 / 50)),
        (lambda: init.xavier_normal_(w, gain=2), 2 * math.sqrt(2 / 50)),
        (lambda: init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(2 / 20)),
        (lambda: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 30)),
        (lambda: init.normal_(w, 0, 3), 3),
        (lambda: init.uniform_(w, -1, 1), math.sqrt(1 / 3)),
    ):
        engine.manual_seed(0)
        assert fn() is w and abs(values(w).std() / std - 1) < 0.1 and abs(values(w).mean()) < std / 5
    init.trunc_normal_(w, std=2.0, a=-1, b=1.5)
    assert values(w).min() >= -1 and values(w).max() <= 1.5
    close(init.eye_(engine.empty(2, 3)), numpy.eye(2, 3))
    q = values(init.orthogonal_(engine.empty(3, 5), gain=2))
    close(q @ q.T, 4 * numpy.eye(3), atol=1e-5)
    assert ((values(init.sparse_(engine.empty(10, 4), 0.35)) == 0).sum(0) == 4).all()
    kernel = init.dirac_(engine.empty(2, 2, 3, 3))
    x = engine.randn(1, 2, 5, 5)
    close(F.conv2d(x, kernel, padding=1), values(x))
    for bad in (lambda: init.xavier_uniform_(engine.empty(3)), lambda: init.eye_(engine.empty(3)), lambda: init.calculate_gain("nothing")):
        with pytest.raises(ValueError):
            bad()


def test_gradient_clipping():
    p, q = (nn.Parameter(Tensor(v)) for v in ([3.0, 0.0], [[4.0]]))
    for norm, expected in ((2.0, 5.0), (1.0, 7.0), (math.inf, 4.0), (3.0, 91 ** (1 / 3))):
        p.grad, q.grad = Tensor([3.0, 0.0]), Tensor([[4.0]])
        close(clip_grad_norm_([p, q], 1.0, norm), expected)
        close(p.grad, numpy.array([3.0, 0.0]) / (expected + 1e-6), rtol=1e-5)
    p.grad = Tensor([3.0, 0.0])
    clip_grad_norm_([p], 10.0)
    assert p.grad.tolist() == [3.0, 0.0]
    clip_grad_value_([p, q], 0.5)
    assert p.grad.tolist() == [0.5, 0.0]
    p.grad = Tensor([math.nan, 0.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert clip_grad_norm_([], 1.0).item() == 0


def test_parameters_as_a_vector():
    net = nn.Linear(2, 1)
    vector = parameters_to_vector(net.parameters())
    assert vector.shape == (3,) and vector.requires_grad
    vector_to_parameters(Tensor([1.0, 2.0, 3.0]), net.parameters())
    assert net.weight.tolist() == [[1, 2]] and net.bias.tolist() == [3] and net.weight.requires_grad


def test_adaptive_softmax():
    engine.manual_seed(0)
    net = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 6], div_value=2.0)
    x, y = engine.randn(5, 8), Tensor([0, 3, 11, 6, 2])
    logs = net.log_prob(x)
    close(logs.exp().sum(1), numpy.ones(5))
    found = net(x, y)
    close(found.output, values(logs)[numpy.arange(5), values(y)])
    close(found.loss, -values(found.output).mean())
    assert net.predict(x).tolist() == values(logs).argmax(1).tolist()
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 11\]"):
        net(x, Tensor([0, 3, 12, 6, 2]))


def test_training_learns():
    """A network of these layers fits xor."""
    engine.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = Tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), Tensor([[0.0], [1], [1], [0]])
    optimizer = engine.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = nn.BCEWithLogitsLoss()(net(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


# written by torch 2.13 with the seeds and inputs of the tests above
EXPECTED = {
    "linear.weight": [[-0.005294, 0.3793229], [-0.5819808, -0.5203875]],
    "linear.bias": [-0.2723452, 0.1896159],
    "conv.weight": [[[[-0.0099066, 0.3964447], [-0.044372, 0.1323063]]]],
    "conv.bias": [-0.1511065],
    "LSTM.out": [[-0.1945755, 0.0206937], [-0.2795466, 0.0294434], [-0.3108786, 0.0357557]],
    "LSTM.h": [-0.4905123, -1.2588058, -0.258393, -1.1081796],
    "LSTM.grad": [-0.0005992, -0.006785, -0.00284, -0.0011626, -0.0011626, -0.0035695, -0.0084706, 0.0499311, 0.0235905, -0.0012095,
        -0.0069223, -0.0066305],
    "GRU.out": [[-0.2545145, -0.4010935], [-0.3866149, -0.5522646], [-0.3001113, -0.4695657]],
    "GRU.h": [1.2205776, -0.3471004, -2.0007799, 0.9815267],
    "GRU.grad": [-0.0368173, 0.0069818, -0.0410822, -0.0794033, 0.0118689, -0.0510326, -0.3783848, 0.0195744, 0.2411929],
    "RNN.out": [[0.3176312, 0.2994594], [0.7517131, 0.2189816], [0.8354951, 0.582179]],
    "RNN.h": [-0.6486306, 0.2532239, 3.4457035, -3.0830159],
    "RNN.grad": [1.1568457, -0.1402364, -0.4046881],
    "mha.out": [[0.0922519, 0.0768659, 0.052227, -0.0072657], [0.1078211, 0.0193135, 0.0483373, 0.027699], [0.1247436, -0.0397281,
        0.0447403, 0.063431]],
    "mha.weights": [[0.3182852, 0.3144008, 0.3673141], [0.3276582, 0.3327164, 0.3396254], [0.3516038, 0.3251408, 0.3232554]],
    "mha.masked": [[0.3198299, 0.0261132, 0.1373269, -0.0073609], [0.3198299, 0.0261132, 0.1373269, -0.0073609], [0.3198299, 0.0261132,
        0.1373269, -0.0073609]],
    "mha.masked_weights": [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
    "transformer.out": [[0.6431868, -0.4084218, 1.1849049, -1.41967], [0.6861257, -0.4017551, 1.1476502, -1.4320208]],
}  # fmt: skip
