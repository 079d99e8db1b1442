"""Layers by themselves and in training. Expected numbers are torch 2.13's; the whole comparison of all layers is in tests/parity."""

from __future__ import annotations

import math

import numpy
import pytest
from nets import close, values

import engine
from engine import nn
from engine.base import observe


def test_layers_start_with_torchs_weights():
    """torch.manual_seed(0); nn.Linear(2, 2), then nn.Conv2d(1, 1, 2)."""
    engine.manual_seed(0)
    layer, conv = nn.Linear(2, 2), nn.Conv2d(1, 1, 2)
    close(layer.weight, EXPECTED["linear.weight"])
    close(layer.bias, EXPECTED["linear.bias"])
    close(conv.weight, EXPECTED["conv.weight"])
    close(conv.bias, EXPECTED["conv.bias"])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 2, 2), 1)])
def test_a_softmax_without_dim_guesses_and_says_so(name, shape, dim):
    x = engine.rand(shape)
    function = getattr(nn.functional, name)
    with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated") as caught:
        guessed = function(x)
        layered = getattr(nn, {"softmax": "Softmax", "log_softmax": "LogSoftmax", "softmin": "Softmin"}[name])()(x)
    assert [warning.filename for warning in caught] == [__file__] * 2
    assert engine.equal(guessed, function(x, dim=dim)) and engine.equal(layered, guessed)


def test_attention():
    engine.manual_seed(0)
    net = nn.MultiheadAttention(4, 2)
    x = engine.tensor(numpy.linspace(-1, 1, 24, dtype=numpy.float32).reshape(3, 2, 4))
    out, weights = net(x, x, x)
    close(out[:, 0], EXPECTED["mha.out"])
    close(weights[0], EXPECTED["mha.weights"])
    padding = engine.tensor([[False, False, True], [False, True, True]])
    causal = engine.tensor(numpy.triu(numpy.ones((3, 3), bool), 1))
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
    source = engine.tensor(numpy.linspace(-1, 1, 24, dtype=numpy.float32).reshape(2, 3, 4))
    mask = nn.Transformer.generate_square_subsequent_mask(2)
    assert mask.tolist() == [[0.0, -math.inf], [0.0, 0.0]]
    out = net(source, source[:, :2].flip(2), tgt_mask=mask)
    close(out[0], EXPECTED["transformer.out"], rtol=1e-4)
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_batch_norm_statistics():
    net = nn.BatchNorm1d(2)
    x = engine.tensor(numpy.array([[1.0, 2.0], [3.0, 6.0]], numpy.float32))
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
    net(engine.tensor([[0, 3], [0, 1]])).sum().backward()
    assert net.weight.grad.tolist() == [[2, 2], [1, 1], [0, 0], [0, 0]]
    table = engine.ones(3, 2)
    frozen = nn.Embedding.from_pretrained(table)
    assert not frozen.weight.requires_grad and frozen.weight.array is table.array
    with pytest.raises(IndexError):
        net(engine.tensor([4]))


@pytest.mark.parametrize(
    ("lazy", "plain", "shape"),
    [
        (nn.LazyLinear(4), nn.Linear(3, 4), (2, 3)),
        (nn.LazyConv2d(4, 2), nn.Conv2d(3, 4, 2), (2, 3, 5, 5)),
        (nn.LazyConvTranspose1d(4, 2), nn.ConvTranspose1d(3, 4, 2), (3, 5)),
        (nn.LazyBatchNorm1d(), nn.BatchNorm1d(3), (2, 3)),
        (nn.LazyInstanceNorm1d(track_running_stats=False), nn.InstanceNorm1d(3, affine=True), (2, 3, 4)),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_lazy_layer_that_was_loaded_knows_its_size_too(lazy, plain, shape):
    lazy.load_state_dict(plain.state_dict())
    x = engine.randn(shape)
    close(lazy(x), values(plain(x)))
    assert repr(lazy) == repr(plain)


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


def test_adaptive_softmax_leaves_the_tails_alone_that_no_target_lies_in():
    net = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 6], div_value=2.0)
    net(engine.randn(3, 8), engine.tensor([0, 7, 2])).loss.backward()
    assert [p.grad is None for p in net.parameters()] == [False, True, True, False, False]


@pytest.mark.parametrize(("x", "batch_first"), [(engine.randn(4, 3, 8), False), (engine.randn(4, 3, 8), True), (engine.randn(4, 8), False)])
def test_self_attention_projects_once(x, batch_first):
    class Linears(observe.Observer):
        n = 0

        def op(self, op, inputs, attrs, output):
            self.n += op.name == "linear"

    net = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    with observe.observing(Linears()) as once:
        out = net(x, x, x)[0]
    with observe.observing(Linears()) as thrice:
        close(out, values(net(x, x * 1, x * 1)[0]))
    assert (once.n, thrice.n) == (2, 4)


def test_adaptive_softmax():
    engine.manual_seed(0)
    net = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 6], div_value=2.0)
    x, y = engine.randn(5, 8), engine.tensor([0, 3, 11, 6, 2])
    logs = net.log_prob(x)
    close(logs.exp().sum(1), numpy.ones(5))
    found = net(x, y)
    close(found.output, values(logs)[numpy.arange(5), values(y)])
    close(found.loss, -values(found.output).mean())
    assert net.predict(x).tolist() == values(logs).argmax(1).tolist()
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 11\]"):
        net(x, engine.tensor([0, 3, 12, 6, 2]))


def test_training_learns():
    """A network of these layers fits xor."""
    engine.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = engine.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), engine.tensor([[0.0], [1], [1], [0]])
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
    "mha.out": [[0.0922519, 0.0768659, 0.052227, -0.0072657], [0.1078211, 0.0193135, 0.0483373, 0.027699], [0.1247436, -0.0397281,
        0.0447403, 0.063431]],
    "mha.weights": [[0.3182852, 0.3144008, 0.3673141], [0.3276582, 0.3327164, 0.3396254], [0.3516038, 0.3251408, 0.3232554]],
    "mha.masked": [[0.3198299, 0.0261132, 0.1373269, -0.0073609], [0.3198299, 0.0261132, 0.1373269, -0.0073609], [0.3198299, 0.0261132,
        0.1373269, -0.0073609]],
    "mha.masked_weights": [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
    "transformer.out": [[0.6431868, -0.4084218, 1.1849049, -1.41967], [0.6861257, -0.4017551, 1.1476502, -1.4320208]],
}  # fmt: skip


def test_hardtanh_by_its_old_names():
    with pytest.warns(FutureWarning, match="`min_value` is deprecated"), pytest.warns(FutureWarning, match="`max_value` is deprecated"):
        layer = nn.Hardtanh(min_value=-1, max_value=2)
    assert repr(layer) == "Hardtanh(min_val=-1, max_val=2)"


def test_a_program_writes_a_convolution_of_its_own_over_pytorchs():
    class Standardized(nn.Conv2d):  # as in public implementations of weight standardization and of Whisper
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, weight - weight.mean((1, 2, 3), keepdim=True), bias)

    conv = Standardized(2, 3, 3, padding=1, padding_mode="circular")
    x = engine.randn(1, 2, 5, 5)
    centred = conv.weight.detach() - conv.weight.detach().mean((1, 2, 3), keepdim=True)
    expected = nn.functional.conv2d(nn.functional.pad(x, (1, 1, 1, 1), mode="circular"), centred, conv.bias)
    engine.testing.assert_close(conv(x), expected)
    lora = conv._conv_forward(x, conv.weight * 0, None)
    assert tuple(lora.shape) == (1, 3, 5, 5) and not lora.any()


def test_what_programs_read_of_a_convolutions_borders():
    assert list(nn.Conv2d(1, 1, (3, 4), padding="same")._reversed_padding_repeated_twice) == [1, 2, 1, 1]  # PyTorch's
    assert list(nn.Conv2d(1, 1, (3, 4), padding=(1, 2))._reversed_padding_repeated_twice) == [2, 2, 1, 1]
    up = nn.ConvTranspose2d(1, 1, 3, stride=2)
    x, sizes = engine.zeros(1, 1, 4, 4), (up.stride, up.padding, up.kernel_size, 2, up.dilation)
    assert list(up._output_padding(x, [10, 9], *sizes)) == [1, 0] and list(up._output_padding(x, None, *sizes)) == [0, 0]
