"""ONNX: models and ops are exported and run in onnxruntime, on other inputs and sizes than the example's."""

from __future__ import annotations

import io
import math

import numpy
import pytest

import engine
from engine import nn
from grouping import grouped

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
F = nn.functional


def tensors(x):
    if isinstance(x, engine.Tensor):
        return [x]
    return [t for v in (x.values() if isinstance(x, dict) else x) for t in tensors(v)] if isinstance(x, (dict, list, tuple)) else []


def exported(model, *args, **options) -> bytes:
    file = io.BytesIO()
    engine.onnx.export(model, args, file, **options)
    return file.getvalue()


def agree(model, *inputs, tolerance=1e-5, **options):
    """Export with the first tuple of arguments; run with all of them."""
    data = exported(model, *inputs[0], **options)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    if isinstance(model, nn.Module):
        model.eval()
    for args in inputs:
        with engine.no_grad():
            expected = tensors(model(*args))
        found = session.run(None, {i.name: t.numpy() for i, t in zip(session.get_inputs(), tensors(args), strict=True)})
        assert len(expected) == len(found)
        for e, f in zip(expected, found, strict=True):
            assert e.numpy().shape == f.shape and e.numpy().dtype == f.dtype
            numpy.testing.assert_allclose(f, e.numpy(), rtol=tolerance * 10, atol=tolerance)
    return onnx.load_from_string(data)


def images(*shape):
    return engine.randn(*shape)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.avg_pool2d(F.sigmoid(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(x.size(0), -1)
        return F.log_softmax(self.fc3(F.dropout(F.relu(self.fc2(F.relu(self.fc1(x)))), training=self.training)), dim=1)


class Block(nn.Module):
    def __init__(self, n, m, stride):
        super().__init__()
        self.a, self.b = nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.Conv2d(m, m, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(m), nn.BatchNorm2d(m)
        self.down = nn.Sequential(nn.Conv2d(n, m, 1, stride, bias=False), nn.BatchNorm2d(m)) if stride > 1 else None

    def forward(self, x):
        out = self.nb(self.b(F.relu(self.na(self.a(x)), inplace=True)))
        out += x if self.down is None else self.down(x)
        return F.relu(out)


def resnet():
    stages = [Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2)]
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *stages, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(1),
        nn.Linear(32, 5),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.mid = self.two(1, 4), self.two(4, 8), self.two(8, 16)
        self.up2, self.up1 = nn.ConvTranspose2d(16, 8, 2, 2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join2, self.join1, self.last = self.two(16, 8), self.two(12, 4), nn.Conv2d(4, 2, 1)

    @staticmethod
    def two(n, m):
        return nn.Sequential(
            nn.Conv2d(n, m, 3, padding=1), nn.GroupNorm(2, m), nn.LeakyReLU(0.1), nn.Conv2d(m, m, 3, padding=1), nn.InstanceNorm2d(m)
        )

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.join2(engine.cat([self.up2(c), b], 1))
        return engine.sigmoid(self.last(self.join1(engine.cat([self.up1(b), a], dim=1))))


class LanguageModel(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(11, 6), kind(6, 5, 2, batch_first=True, bidirectional=True), nn.Linear(10, 11)

    def forward(self, tokens):
        out, last = self.rnn(self.embed(tokens))
        return self.head(out), last


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.embed, self.layers = nn.Linear(3, 8), nn.TransformerEncoder(layer, 2)
        position = engine.arange(20.0).unsqueeze(1) * engine.exp(engine.arange(0, 8, 2) * (-math.log(100.0) / 8))
        table = engine.zeros(20, 8)
        table[:, 0::2], table[:, 1::2] = engine.sin(position), engine.cos(position)
        self.register_buffer("table", table)

    def forward(self, x):
        return self.layers(self.embed(x) + self.table[: x.size(1)]).mean(1)


class GPT(nn.Module):
    def __init__(self, flash):
        super().__init__()
        self.flash = flash
        self.tokens, self.places, self.qkv, self.out = nn.Embedding(11, 8), nn.Embedding(16, 8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", engine.tril(engine.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, tokens):
        b, t = tokens.size()
        x = self.tokens(tokens) + self.places(engine.arange(t, device=tokens.device))
        q, k, v = (part.view(b, t, 2, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).split(8, dim=2))
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            y = F.softmax(scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1) @ v
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, 8))
        return self.head(x)[:, [-1], :]


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 6), nn.Sigmoid())

    def forward(self, x, noise):
        mean, log_var = self.encode(x).chunk(2, dim=1)
        return {"out": self.decode(mean + engine.exp(0.5 * log_var) * noise), "mean": mean, "log_var": log_var}


def integers(*shape):
    return engine.randint(0, 11, shape)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3), nn.Softmax(-1)), {"input": {0: "batch"}},
            [(images(2, 3, 4),), (images(5, 3, 4),)]),
    "lenet": (LeNet, {"x": {0: "batch"}}, [(images(1, 1, 28, 28),), (images(3, 1, 28, 28),)]),
    "resnet": (resnet, {"input": {0: "batch", 2: "height", 3: "width"}}, [(images(2, 3, 32, 32),), (images(3, 3, 48, 40),)]),
    "unet": (UNet, {"x": {0: "batch", 2: "height", 3: "width"}}, [(images(2, 1, 16, 16),), (images(1, 1, 32, 24),)]),
    "lstm": (lambda: LanguageModel(nn.LSTM), {"tokens": {0: "batch", 1: "time"}}, [(integers(2, 5),), (integers(3, 8),)]),
    "gru": (lambda: LanguageModel(nn.GRU), {"tokens": {0: "batch", 1: "time"}}, [(integers(2, 5),), (integers(3, 8),)]),
    "rnn": (lambda: LanguageModel(nn.RNN), {"tokens": {0: "batch", 1: "time"}}, [(integers(2, 5),), (integers(3, 8),)]),
    "encoder": (Encoder, {"x": {0: "batch", 1: "time"}}, [(images(2, 5, 3),), (images(3, 9, 3),)]),
    "gpt": (lambda: GPT(False), {"tokens": {0: "batch", 1: "time"}}, [(integers(2, 5),), (integers(3, 9),)]),
    "gpt with sdpa": (lambda: GPT(True), {"tokens": {0: "batch", 1: "time"}}, [(integers(2, 5),), (integers(3, 9),)]),
    "vae": (VAE, {"x": {0: "batch"}, "noise": {0: "batch"}}, [(images(3, 6), images(3, 2)), (images(4, 6), images(4, 2))]),
}  # fmt: skip


@pytest.mark.parametrize("opset", [14, 18, 20, 21])
@pytest.mark.parametrize("name", MODELS)
def test_models(name, opset):
    engine.manual_seed(0)
    make, dynamic, inputs = MODELS[name]
    model = make()
    model.train()
    proto = agree(model.eval(), *inputs, dynamic_axes=dynamic, opset_version=opset)
    assert proto.opset_import[0].version == opset and proto.ir_version <= 10
    assert agree(model, *inputs[:1], opset_version=opset).graph.input[0].type.tensor_type.shape.dim[0].dim_value == len(inputs[0][0])


def zeros_at(x):
    x = x.clone()
    x.add_(1)
    x[:, 0] = 0
    row = x[:, 1]
    row.mul_(2)
    F.relu(x, inplace=True)
    x[0, 1, 2:4] = x[1, 2, :2] * 3
    return x, row


def write(x, index, value):
    x = x.clone()
    x[index] = value
    return x


IMAGE = (2, 3, 8, 8)
OPS = {
    "view": lambda x: x.view(2, -1), "split": lambda x: x.split(2, 1), "chunk": lambda x: x.chunk(2, 2), "unbind": lambda x: x.unbind(1),
    "expand": lambda x: x[:, :1].expand(2, 5, -1, 8), "repeat": lambda x: x.repeat(2, 1, 2, 2), "stack": lambda x: engine.stack([x, x + 1], -1),
    "cat of two types": lambda x: engine.cat([x, x.double()], 1), "squeeze": lambda x: x[:1, :, :1].squeeze(), "flatten": lambda x: x.flatten(1).t(),
    "movedim": lambda x: x.movedim(1, 3).permute(0, 2, 1, 3), "flip": lambda x: x.flip(1, 2), "roll": lambda x: x.roll((1, -2), (1, 2)),
    "triu": lambda x: engine.triu(x, 1) + engine.tril(x), "pixel_shuffle": lambda x: F.pixel_shuffle(F.pad(x, (0, 0, 0, 0, 0, 1)), 2),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=3.0), "reflect": lambda x: F.pad(x, (1, 2, 1, 0), "reflect"), "replicate": lambda x: F.pad(x, (2, 1, 1, 0), "replicate"),
    "circular": lambda x: F.pad(x, (1, 1, 1, 1), "circular"), "unfold": lambda x: F.unfold(x, 2, padding=1, stride=2),
    "an index": lambda x: x[:, 0, ::2, -1], "None": lambda x: x[:, None, ..., 3], "a list": lambda x: x[:, [0, 2]], "two lists": lambda x: x[[0, 1], [1, 2]],
    "two lists inside": lambda x: x[:, :, engine.tensor([0, 1]), engine.tensor([1, -2])], "a mask": lambda x: x[x > 0], "a table": lambda x: x[:, engine.tensor([[0, 2], [1, 1]])],
    "an index that is computed": lambda x: x[:, x.mean((0, 2, 3)).argmax(0, keepdim=True)], "gather": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
    "scatter": lambda x: engine.zeros(IMAGE).scatter(1, x.argmax(1, keepdim=True), 9.0), "scatter_add": lambda x: x.scatter_add(1, x.argmax(1, keepdim=True), x[:, :1]),
    "index_select": lambda x: x.index_select(2, engine.tensor([1, 0])), "one_hot": lambda x: F.one_hot(x.long().clamp(0, 3), 4), "writes": zeros_at,
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean((2, 3), keepdim=True), "max": lambda x: x.max(), "max of a dim": lambda x: tuple(x.max(1)), "min": lambda x: tuple(x.min(-1, keepdim=True)),
    "var": lambda x: x.var(1), "std": lambda x: x.std((1, 2), keepdim=True), "norm": lambda x: (x.norm(), x.norm(1, 1), x.norm(3, 1), x.norm(math.inf)), "prod": lambda x: x.prod(1),
    "logsumexp": lambda x: x.logsumexp((1, 2)), "argmax": lambda x: (x.argmax(1), x.argmin(), x.argmax()), "any": lambda x: ((x > 1).any(1), (x > -9).all()), "count": lambda x: (x > 0).sum(1),
    "cumsum": lambda x: x.cumsum(1), "topk": lambda x: tuple(x.topk(2)), "sort": lambda x: tuple(x.sort(1, descending=True)), "amax": lambda x: x.amax((1, 2), True) + x.amin(),
    "arithmetic": lambda x: x / 2 + 1 - x * 3 + 1 / (x + 10), "pow": lambda x: x**2 + 2**x + x.abs() ** 0.5, "remainder": lambda x: (x % 0.7, x.long() % 3, engine.fmod(x, 0.7)),
    "floor_divide": lambda x: (x // 0.3, (x * 9).int() // 4), "rounding": lambda x: x.floor() + x.ceil() + x.round() + x.trunc() + x.frac(), "logic": lambda x: (x > 0) & (x < 1) | ~(x > 0.5) ^ (x != 0),
    "types": lambda x: (x.double(), x.int(), x.half(), (x > 0).float(), x.bool()), "int and float": lambda x: x.long() + x, "int division": lambda x: x.long() / 4,
    "clamp": lambda x: x.clamp(0, 1) + x.clamp(min=-0.5) + x.clamp(max=0.5), "where": lambda x: engine.where(x > 0, x, 0.0), "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "functions": lambda x: x.exp() + x.abs().log1p() + x.tanh() + x.erf() + x.sin() + x.cos() + x.expm1() + x.sigmoid() + (x.abs() + 1).log2() + (x.abs() + 1).rsqrt() + (x.abs() + 1).log10(),
    "activations": lambda x: F.leaky_relu(x) + F.elu(x) + F.silu(x) + F.mish(x) + F.hardswish(x) + F.softplus(x) + F.logsigmoid(x) + F.hardtanh(x) + F.selu(x) + F.softsign(x),
    "more activations": lambda x: F.tanhshrink(x) + F.hardsigmoid(x) + F.relu6(x) + F.gelu(x, approximate="tanh") + F.gelu(x) + F.softshrink(x) + F.hardshrink(x) + F.celu(x, 0.5) + F.softplus(x, 2),
    "glu": lambda x: F.glu(x, 2), "softmax": lambda x: F.softmax(x, 1) + F.log_softmax(x, -1), "normalize": lambda x: F.normalize(x), "rms_norm": lambda x: F.rms_norm(x, (8,)),
    "instance_norm": lambda x: F.instance_norm(x), "layer_norm": lambda x: F.layer_norm(x, (8, 8)), "cosine": lambda x: F.cosine_similarity(x, x + 1),
    "bilinear": lambda x: F.interpolate(x, size=(11, 5), mode="bilinear"), "corners": lambda x: F.interpolate(x, size=(11, 12), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), "nearest": lambda x: F.interpolate(x, scale_factor=(2, 3)), "smaller": lambda x: F.interpolate(x, size=5),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 2)), "ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), "average": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "conv1d": lambda x: F.conv1d(x[0], engine.ones(2, 8, 3), padding="same"), "grouped": lambda x: F.conv2d(x, engine.ones(3, 1, 3, 3), groups=3, dilation=2, padding=2),
    "conv3d": lambda x: F.conv3d(x[None], engine.ones(4, 2, 2, 3, 3)), "transposed": lambda x: F.conv_transpose2d(x, engine.ones(3, 2, 3, 3), stride=2, padding=1, output_padding=1),
    "unbatched": lambda x: F.max_pool2d(F.conv2d(x[0], engine.ones(4, 3, 3, 3)), 2), "matmul": lambda x: x.mT @ x, "einsum": lambda x: engine.einsum("bchw,cd->bdhw", x, engine.ones(3, 3)),
    "addmm": lambda x: engine.addmm(x[0, 0, :5, :4], x[0, 1, :5, :3], x[1, 1, :3, :4]), "linear": lambda x: F.linear(x, engine.ones(3, 8)), "outer": lambda x: engine.outer(x[0, 0, 0], x[0, 0, 1]),
    "nearest-exact": lambda x: (F.interpolate(x, size=(16, 5), mode="nearest-exact"), F.interpolate(x, scale_factor=0.5, mode="nearest-exact"), F.interpolate(x, size=(13, 3), mode="nearest-exact")),
    "adaptive, uneven": lambda x: (F.adaptive_avg_pool2d(x, (3, 5)), F.interpolate(x, size=(3, 12), mode="area"), F.adaptive_avg_pool1d(x[0], 3)), "adaptive max": lambda x: (F.adaptive_max_pool2d(x, (4, 2)), F.adaptive_max_pool2d(x, 1)),
    "index_add": lambda x: (x.index_add(1, engine.tensor([0, 2, 0]), x * 2, alpha=3), x.index_copy(-1, engine.tensor([7, 1]), x[..., :2] * 2)),
    "scatter of more": lambda x: x.scatter(1, x.argmax(1, keepdim=True), engine.cat([x, x], 1) * 2), "scatter_reduce": lambda x: tuple(x.scatter_reduce(1, x.argmax(1, keepdim=True), x[:, :1], r) for r in ("amax", "amin", "prod")),
    "writes at a mask": lambda x: write(x, x > 0, 0.5), "writes at a mask of rows": lambda x: write(x, x.mean((1, 2, 3)) > -9, 2.0),
    "writes at an index": lambda x: (write(x, engine.tensor([1]), 2.0), write(x, engine.tensor([-1, 0]), x[0] * 2), x.index_put((engine.tensor([1, 1]),), x[0], accumulate=True)),
    "losses": lambda x: F.mse_loss(x, x * 2) + F.l1_loss(x, x * 3), "attention": lambda x: F.scaled_dot_product_attention(x, x + 1, x * 2), "new": lambda x: x.new_zeros(2, 3) + x[0, 0, 0, 0],
}  # fmt: skip


@grouped("name", OPS)
def test_ops(name):
    engine.manual_seed(1)
    agree(OPS[name], (images(*IMAGE),), (images(*IMAGE) * 2 + 0.1,), tolerance=1e-3 if name == "types" else 1e-5)


BIG = 2**53 + 1
DIVIDENDS, DIVISORS = [-7, 7, -8, 8, 0, -1, BIG, -BIG, 2**62 + 3, 5], [2, -2, 3, -3, 5, 2, 3, 2, -7, -5]


def test_integers_divide_exactly():
    """Python's own integers say what comes out, also where a float64 could not."""

    def divide(x, y):
        floor = [x // y, engine.div(x, y, rounding_mode="floor"), engine.div(x, y, rounding_mode="trunc"), x % y, engine.fmod(x, y)]
        a, b = x.clamp(-9, 9).to(engine.int8), y.to(engine.int8)
        return *floor, a // b, engine.div(a, b, rounding_mode="trunc"), engine.fmod(a, b), a.to(engine.uint8) // 7

    def truncated(x, y):
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    data = exported(divide, engine.tensor([3] * 10), engine.tensor([2] * 10))
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": numpy.array(DIVIDENDS), "y": numpy.array(DIVISORS)})
    pairs = list(zip(DIVIDENDS, DIVISORS, strict=True))
    floor, trunc = [x // y for x, y in pairs], [truncated(x, y) for x, y in pairs]
    for array, expected in zip(found, [floor, floor, trunc, [x % y for x, y in pairs], [x - truncated(x, y) * y for x, y in pairs]]):
        assert array.dtype == numpy.int64 and array.tolist() == expected
    narrow = [(max(-9, min(9, x)), y) for x, y in pairs]
    expected = [x // y for x, y in narrow], [truncated(x, y) for x, y in narrow], [x - truncated(x, y) * y for x, y in narrow]
    for array, wanted in zip(found[5:8], expected, strict=True):
        assert array.dtype == numpy.int8 and array.tolist() == wanted
    assert found[8].tolist() == [x % 256 // 7 for x, _ in narrow]


@pytest.mark.parametrize("opset", [14, 18, 20])
def test_a_variance_over_a_size_that_changes(opset):
    def spread(x):
        z = (x - x.mean(0)) / x.std(0)
        return z, x.var(), x.var(0, correction=0), x.std((0, 1), keepdim=True), x.std(-2, correction=2), *engine.var_mean(x, 1)

    agree(spread, (images(3, 4),), (images(7, 4),), dynamic_axes={"x": {0: "n"}}, opset_version=opset)


def test_a_dynamic_axis_that_is_not_there():
    with pytest.raises(ValueError, match="the input x has 2 dimensions, got the dynamic axis 5"):
        engine.onnx.export(lambda x: x + 1, images(2, 3), dynamic_axes={"x": {5: "n"}})


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"batch_first": True, "bias": False}])
def test_a_sequence_without_a_batch(kind, options):
    n = 4 if options.get("bidirectional") else 1
    model, state = kind(3, 4, **options), images(n, 4)
    given = (state, images(n, 4)) if kind is nn.LSTM else state
    agree(model, (images(5, 3),), (images(5, 3),))
    agree(model, (images(5, 3), given), (images(5, 3), given))


def test_what_older_opsets_cannot_say():
    with pytest.raises(engine.onnx.OnnxExporterError, match="since opset 16, got opset_version 14"):
        engine.onnx.export(lambda x: x.scatter_add(0, x.long(), x), engine.zeros(2), opset_version=14)
    with pytest.raises(engine.onnx.OnnxExporterError, match="a write at a mask is translated for one number"):
        engine.onnx.export(lambda x: write(x, x > -9, engine.arange(2.0)), engine.zeros(2))


@pytest.mark.parametrize("batch_first", [True, False])
def test_masks_of_attention_are_inputs(batch_first):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.MultiheadAttention(8, 2, batch_first=batch_first)

        def forward(self, x, padding, mask):
            return self.inner(x, x, x, key_padding_mask=padding, attn_mask=mask)

    causal, hidden = engine.ones(3, 3).triu(1).bool(), engine.tensor([[False, False, True]] * 3)
    free = engine.zeros(3, 3).bool()
    agree(Attention(), (images(3, 3, 8), hidden, free), (images(3, 3, 8), free, causal))


def test_names_and_options(tmp_path):
    model, x = nn.Sequential(nn.Linear(3, 2)), engine.ones(4, 3)
    path = tmp_path / "m.onnx"
    program = engine.onnx.export(
        model.train(), x, path, input_names=["data"], output_names=["score"], dynamic_axes={"data": [0]}, do_constant_folding=False, verify=True,
        verbose=False, dynamo=False, training=engine.onnx.TrainingMode.EVAL,
    )  # fmt: skip
    assert model.training and model[0].training
    proto = onnx.load(path)
    assert (
        proto == program.model_proto
        and [i.name for i in proto.graph.input] == ["data"]
        and [o.name for o in proto.graph.output] == ["score"]
    )
    assert {t.name for t in proto.graph.initializer} == {"0.weight", "0.bias"}
    dim = proto.graph.input[0].type.tensor_type.shape.dim
    assert dim[0].dim_param and dim[1].dim_value == 3
    without = engine.onnx.export(model, (x,), export_params=False).model_proto
    assert [i.name for i in without.graph.input] == ["input", "0.weight", "0.bias"] and not without.graph.initializer
    shapes = engine.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},)).model_proto
    assert (
        shapes.graph.input[0].type.tensor_type.shape.dim[0].dim_param
        == "batch"
        == shapes.graph.output[0].type.tensor_type.shape.dim[0].dim_param
    )
    with pytest.raises(ValueError, match="3 input_names were given"):
        engine.onnx.export(model, x, input_names=["a", "b", "c"])
    with pytest.raises(ValueError, match="opset_version 99"):
        engine.onnx.export(model, x, opset_version=99)
    with pytest.raises(ValueError, match="custom_opsets is not supported"):
        engine.onnx.export(model, x, custom_opsets={"a": 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        engine.onnx.export(model, x, nonsense=1)
    with pytest.raises(ValueError, match="at least one tensor"):
        engine.onnx.export(model, ())


def test_an_older_opset():
    proto = agree(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten()), (images(1, 3, 5, 5),), opset_version=13)
    assert proto.opset_import[0].version == 13
    with pytest.warns(UserWarning, match="could not convert to opset 11; the model stays at 13"):
        agree(nn.LayerNorm(3), (images(2, 3),), opset_version=11)


def test_keyword_arguments():
    class Two(nn.Module):
        def forward(self, x, scale=1.0, *, y=None):
            return x * scale + y

    found = engine.onnx.export(Two(), (engine.ones(2), 3.0), kwargs={"y": engine.ones(2)}).model_proto
    assert [i.name for i in found.graph.input] == ["x", "y"]
    (out,) = onnxruntime.InferenceSession(found.SerializeToString()).run(None, {"x": numpy.ones(2, "f4"), "y": numpy.full(2, 5, "f4")})
    assert out.tolist() == [8, 8]
    found = engine.onnx.export(Two(), (engine.ones(2), {"y": engine.ones(2)})).model_proto
    assert [i.name for i in found.graph.input] == ["x", "y"]


def test_states_of_a_recurrent_layer():
    state = (images(2, 3, 4), images(2, 3, 4))
    agree(nn.LSTM(3, 4, 2), (images(5, 3, 3), state), (images(5, 3, 3), (state[1], state[0])))
    agree(nn.GRU(3, 4, bias=False), (images(5, 3, 3), images(1, 3, 4)))
    agree(nn.RNN(3, 4, nonlinearity="relu"), (images(5, 3, 3),), (images(5, 3, 3),))
    agree(nn.LSTMCell(3, 4), (images(2, 3),), (images(2, 3),))


class Asks(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x):
        assert engine.onnx.is_in_onnx_export()
        return self.what(x)


@pytest.mark.parametrize(
    ("what", "match"),
    [
        (lambda x: engine.fft.fft(x), r"the op fourier at test_onnx.py, line \d+, in inner \(Asks\) has no translation"),
        (lambda x: x * x.max().item(), r"the number .* of mul at test_onnx.py, line \d+.*depends on the values of the inputs"),
        (lambda x: x + 1 if x[0] > 0 else x * 2, "the model takes another way for other inputs: add .* was mul in a second run"),
        (lambda x: x + engine.tensor(x.tolist()), "is computed outside of the ops that can be seen"),
        (lambda x: x.reshape(2, 2).roll(1), "roll: name its dims"),
    ],
)
def test_what_cannot_be_exported(what, match):
    model = nn.Sequential()
    model.add_module("inner", Asks(what))
    with pytest.raises(engine.onnx.OnnxExporterError, match=match):
        engine.onnx.export(model, engine.tensor([1.0, -2.0, 3.0, -4.0]))
    assert not engine.onnx.is_in_onnx_export() and model.training


def test_sizes_that_do_not_follow():
    with pytest.raises(engine.onnx.OnnxExporterError, match="changes with the inputs in a way that is not linear|ONNX needs a fixed"):
        engine.onnx.export(
            lambda x: x.reshape(x.shape[0] * x.shape[1], 1).expand(-1, x.shape[0] ** 2), images(2, 3), dynamic_axes={"x": {0: "a", 1: "b"}}
        )
    with pytest.raises(engine.onnx.OnnxExporterError, match="did not run with any other size of n"):
        engine.onnx.export(nn.Linear(3, 2), images(2, 3), dynamic_axes={"input": {1: "n"}})
