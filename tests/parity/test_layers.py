"""Every layer on the engine and on torch, from the same seed: text, weights, output, gradients, state; then whole trainings."""

from __future__ import annotations

import inspect

import numpy
import pytest

import engine

torch = pytest.importorskip("torch", reason="torch is not installed: make parity")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
R = numpy.random.default_rng(0)
CASES = []


def normal(*shape):
    return R.standard_normal(shape).astype(numpy.float32)


def uniform(*shape):
    return R.uniform(0.05, 0.95, shape).astype(numpy.float32)


def integers(high, *shape):
    return R.integers(0, high, shape)


def log_softmax(*shape):
    x = normal(*shape)
    return x - numpy.log(numpy.exp(x).sum(-1, keepdims=True))


def add(name, args=(), options=None, inputs=None):
    text = ", ".join([*map(str, args), *(f"{k}={v}" for k, v in (options or {}).items())])
    CASES.append(pytest.param(name, args, options or {}, inputs, id=f"{name}({text})"))


add("Identity", (1,), {}, (normal(2, 3),))
add("Linear", (3, 4), {}, (normal(2, 3),))
add("Linear", (3, 4), {"bias": False}, (normal(5, 2, 3),))
add("Bilinear", (3, 4, 5), {}, (normal(2, 3), normal(2, 4)))
for d, s in ((1, (8,)), (2, (8, 7)), (3, (6, 5, 7))):
    add(f"Conv{d}d", (4, 6, 3), {}, (normal(2, 4, *s),))
    add(f"Conv{d}d", (4, 6, 3), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2, "bias": False}, (normal(2, 4, *s),))
    add(f"Conv{d}d", (4, 6, 3), {"padding": "same"}, (normal(4, *s),))
    for m in ("reflect", "replicate", "circular"):
        add(f"Conv{d}d", (4, 6, 3), {"padding": 1, "padding_mode": m}, (normal(2, 4, *s),))
    add(f"Conv{d}d", (4, 6, 4), {"padding": "same", "padding_mode": "circular"}, (normal(2, 4, *s),))
    add(f"ConvTranspose{d}d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}, (normal(2, 4, *s),))
    add(f"MaxPool{d}d", (2,), {}, (normal(2, 4, *s),))
    add(f"MaxPool{d}d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, (normal(2, 4, *s),))
    add(f"AvgPool{d}d", (2,), {}, (normal(2, 4, *s),))
    add(f"AvgPool{d}d", (3, 2, 1), {"ceil_mode": True, "count_include_pad": False}, (normal(2, 4, *s),))
    add(f"AdaptiveAvgPool{d}d", (3,), {}, (normal(2, 4, *s),))
    add(f"AdaptiveMaxPool{d}d", (3,), {}, (normal(2, 4, *s),))
    add(f"LPPool{d}d", (2, 2), {}, (uniform(2, 4, *s),))
    add(f"BatchNorm{d}d", (4,), {}, (normal(2, 4, *s),))
    add(f"BatchNorm{d}d", (4,), {"momentum": None, "affine": False}, (normal(2, 4, *s),))
    add(f"BatchNorm{d}d", (4,), {"track_running_stats": False}, (normal(2, 4, *s),))
    add(f"InstanceNorm{d}d", (4,), {}, (normal(2, 4, *s),))
    add(f"InstanceNorm{d}d", (4,), {"affine": True, "track_running_stats": True}, (normal(4, *s),))
    for p in ("ConstantPad", "ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):
        add(f"{p}{d}d", (1,) + ((2.5,) if p == "ConstantPad" else ()), {}, (normal(2, 4, *s),))
        add(
            f"{p}{d}d",
            (tuple(range(2 * d)) if d < 3 else (1, 2, 1, 0, 2, 1),) + ((2.5,) if p == "ConstantPad" else ()),
            {},
            (normal(2, 4, *s),),
        )
    add(f"Dropout{d}d", (), {}, None)
    add(f"LazyConv{d}d", (6, 3), {"padding": 1}, (normal(2, 4, *s),))
    add(f"LazyConvTranspose{d}d", (6, 3), {}, (normal(2, 4, *s),))
    add(f"LazyBatchNorm{d}d", (), {}, (normal(2, 4, *s),))
    add(f"LazyInstanceNorm{d}d", (), {"affine": True}, (normal(2, 4, *s),))
    add(f"MaxUnpool{d}d", (2,), {}, None)
add("BatchNorm1d", (4,), {}, (normal(5, 4),))
add("LazyLinear", (5,), {}, (normal(2, 3),))
add("LayerNorm", (4,), {}, (normal(2, 3, 4),))
add("LayerNorm", ((3, 4),), {"bias": False}, (normal(2, 3, 4),))
add("LayerNorm", (4,), {"elementwise_affine": False}, (normal(2, 3, 4),))
add("GroupNorm", (2, 4), {}, (normal(2, 4, 5),))
add("RMSNorm", (4,), {}, (normal(2, 4),))
add("RMSNorm", (4,), {"eps": 1e-3}, (normal(2, 4),))
add("LocalResponseNorm", (3,), {}, (normal(2, 6, 4),))
for n in [
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Mish",
    "Hardswish",
    "Hardsigmoid",
    "Sigmoid",
    "Tanh",
    "LogSigmoid",
    "Softsign",
    "Tanhshrink",
    "Hardshrink",
    "Softshrink",
    "Hardtanh",
    "ELU",
    "CELU",
    "LeakyReLU",
    "PReLU",
    "Softplus",
    "GELU",
]:
    add(n, (), {}, (normal(3, 4),))
for n in ["ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "Hardtanh", "ELU", "CELU", "LeakyReLU"]:
    add(n, (), {"inplace": True}, "copy")
add("GELU", (), {"approximate": "tanh"}, (normal(3, 4),))
add("Threshold", (0.1, 20), {}, (normal(3, 4),))
add("PReLU", (4,), {}, (normal(3, 4),))
add("GLU", (), {}, (normal(3, 4),))
add("RReLU", (), {}, "eval")
for n in ("Softmax", "LogSoftmax", "Softmin"):
    add(n, (1,), {}, (normal(3, 4),))
add("Softmax2d", (), {}, (normal(2, 3, 4, 5),))
add("Flatten", (), {}, (normal(2, 3, 4),))
add("Unflatten", (1, (2, 3)), {}, (normal(2, 6),))
add("PairwiseDistance", (), {}, (normal(3, 4), normal(3, 4)))
add("CosineSimilarity", (), {}, (normal(3, 4), normal(3, 4)))
add("PixelShuffle", (2,), {}, (normal(1, 8, 3, 3),))
add("PixelUnshuffle", (2,), {}, (normal(1, 2, 4, 4),))
add("ChannelShuffle", (2,), {}, (normal(1, 4, 3, 3),))
add("Fold", ((4, 5), (2, 2)), {}, (normal(2, 12, 12),))
add("Unfold", ((2, 2),), {}, (normal(2, 3, 4, 5),))
add("Upsample", (), {"scale_factor": 2}, (normal(1, 2, 3, 3),))
add("Upsample", ((5, 7),), {"mode": "bilinear"}, (normal(1, 2, 3, 3),))
add("UpsamplingNearest2d", (), {"scale_factor": 2}, (normal(1, 2, 3, 3),))
add("UpsamplingBilinear2d", (), {"scale_factor": 2}, (normal(1, 2, 3, 3),))
add("Embedding", (10, 3), {"padding_idx": 2}, (integers(10, 2, 4),))
add("Embedding", (10, 3), {"max_norm": 1.0}, (integers(10, 2, 4),))
add("EmbeddingBag", (10, 3), {}, (integers(10, 2, 4),))
add("EmbeddingBag", (10, 3), {"mode": "max"}, (integers(10, 7), numpy.array([0, 3, 5])))
add("EmbeddingBag", (10, 3), {"mode": "sum", "padding_idx": 1}, (integers(10, 7), numpy.array([0, 3, 5])))
for n in ("RNN", "LSTM", "GRU"):
    add(n, (3, 5), {}, (normal(4, 2, 3),))
    add(n, (3, 5), {"num_layers": 2, "bidirectional": True, "batch_first": True}, (normal(4, 2, 3),))
    add(n, (3, 5), {"bias": False}, (normal(4, 3),))
    add(n + "Cell", (3, 5), {}, (normal(4, 3),))
    add(n + "Cell", (3, 5), {"bias": False}, (normal(3),))
add("RNN", (3, 5), {"nonlinearity": "relu"}, (normal(4, 2, 3),))
add("LSTM", (3, 5, 2), {"proj_size": 2, "bidirectional": True}, (normal(4, 2, 3),))
add("MultiheadAttention", (8, 2), {}, (normal(4, 2, 8),) * 3)
add(
    "MultiheadAttention",
    (8, 2),
    {"kdim": 3, "vdim": 5, "batch_first": True, "add_bias_kv": True, "add_zero_attn": True},
    (normal(2, 4, 8), normal(2, 6, 3), normal(2, 6, 5)),
)
add("MultiheadAttention", (8, 2), {"bias": False}, (normal(4, 8), normal(5, 8), normal(5, 8)))
add("TransformerEncoderLayer", (8, 2, 16), {"dropout": 0.0}, (normal(4, 2, 8),))
add(
    "TransformerDecoderLayer",
    (8, 2, 16),
    {"dropout": 0.0, "norm_first": True, "activation": "gelu", "batch_first": True},
    (normal(2, 4, 8), normal(2, 5, 8)),
)
add("Transformer", (8, 2, 2, 2, 16), {"dropout": 0.0}, (normal(4, 2, 8), normal(3, 2, 8)))
for n in ["L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss"]:
    add(n, (), {}, (normal(3, 4), normal(3, 4)))
    add(n, (), {"reduction": "sum"}, (normal(3, 4), normal(3, 4)))
    add(n, (), {"reduction": "none"}, (normal(3, 4), normal(3, 4)))
add("NLLLoss", (), {}, (normal(3, 4), integers(4, 3)))
add("CrossEntropyLoss", (), {"label_smoothing": 0.1}, (normal(3, 4), integers(4, 3)))
add("CrossEntropyLoss", (), {}, (normal(3, 4, 5), integers(4, 3, 5)))
add("KLDivLoss", (), {"reduction": "batchmean"}, (normal(3, 4), uniform(3, 4)))
add("BCELoss", (), {}, (uniform(3, 4), uniform(3, 4)))
add("BCEWithLogitsLoss", (), {}, (normal(3, 4), uniform(3, 4)))
add("PoissonNLLLoss", (), {"full": True}, (normal(3, 4), uniform(3, 4) * 5))
add("GaussianNLLLoss", (), {"full": True}, (normal(3, 4), normal(3, 4), uniform(3, 4)))
s = numpy.sign(normal(3, 4))
s1 = numpy.sign(normal(3))
add("HingeEmbeddingLoss", (), {}, (normal(3, 4), s))
add("MultiLabelMarginLoss", (), {}, (normal(2, 4), numpy.array([[1, 2, -1, 0], [3, -1, 0, 0]])))
add("MultiLabelSoftMarginLoss", (), {}, (normal(3, 4), (s > 0).astype(numpy.float32)))
add("MultiMarginLoss", (), {"p": 2}, (normal(3, 4), integers(4, 3)))
add("CosineEmbeddingLoss", (), {}, (normal(3, 4), normal(3, 4), s1))
add("MarginRankingLoss", (), {"margin": 0.2}, (normal(3), normal(3), s1))
add("TripletMarginLoss", (), {}, (normal(3, 4), normal(3, 4), normal(3, 4)))
add("TripletMarginWithDistanceLoss", (), {}, (normal(3, 4), normal(3, 4), normal(3, 4)))
add("CTCLoss", (), {}, (log_softmax(6, 2, 5), integers(4, 2, 3) + 1, numpy.array([6, 5]), numpy.array([3, 2])))
add("AdaptiveLogSoftmaxWithLoss", (8, 20, [4, 10]), {"div_value": 2.0}, (normal(5, 8), integers(20, 5)))
for n in ("Dropout", "AlphaDropout", "FeatureAlphaDropout"):
    add(n, (0.3,), {}, "eval")
add("FractionalMaxPool2d", (2,), {"output_size": 3}, None)
add("FractionalMaxPool3d", (2,), {"output_size": 3}, None)


def flat(out):
    if isinstance(out, (tuple, list)):
        return [x for part in out for x in flat(part)]
    return [] if out is None else [out]


def same_state(t, e):
    expected, got = t.state_dict(), e.state_dict()
    assert list(expected) == list(got)
    for name, value in expected.items():
        numpy.testing.assert_allclose(got[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("name", "args", "options", "inputs"), CASES)
def test_layer(name, args, options, inputs):
    torch.manual_seed(1)
    engine.manual_seed(1)
    t, e = getattr(torch.nn, name)(*args, **options), getattr(engine.nn, name)(*args, **options)
    assert repr(t) == repr(e)
    lazy = "Lazy" in name
    if not lazy:
        same_state(t, e)
    if inputs is None:
        return
    if inputs == "eval":
        t.eval()
        e.eval()
    inputs = (normal(3, 4),) if isinstance(inputs, str) else inputs
    wanted = [x.dtype == numpy.float32 and not options.get("inplace") for x in inputs]
    given_t = [torch.tensor(x, requires_grad=w) for x, w in zip(inputs, wanted, strict=True)]
    given_e = [engine.tensor(x).requires_grad_(w) for x, w in zip(inputs, wanted, strict=True)]
    torch.manual_seed(2)
    engine.manual_seed(2)
    out_t, out_e = flat(t(*given_t)), flat(e(*given_e))
    assert len(out_t) == len(out_e)
    for x, y in zip(out_t, out_e, strict=True):
        assert str(x.dtype) == f"torch.{y.dtype.name}" and x.requires_grad == y.requires_grad
        numpy.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), rtol=2e-4, atol=2e-5)
    pairs = [(x, y) for x, y in zip(out_t, out_e, strict=True) if x.requires_grad]
    for x, y in pairs:
        weights = numpy.linspace(0.5, 1.5, x.numel(), dtype=numpy.float32).reshape(tuple(x.shape))
        (x * torch.tensor(weights)).sum().backward(retain_graph=True)
        (y * engine.tensor(weights)).sum().backward(retain_graph=True)
    for x, y in zip([*t.parameters(), *given_t], [*e.parameters(), *given_e], strict=True):
        assert (x.grad is None) == (y.grad is None)
        if x.grad is not None:
            numpy.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-3, atol=1e-4)
    same_state(t, e)
    assert repr(t) == repr(e)


def test_no_layer_is_missing():
    theirs = {n for n, c in vars(torch.nn).items() if inspect.isclass(c) and issubclass(c, torch.nn.Module)}
    assert {n for n in theirs if not hasattr(engine.nn, n)} == set()


def networks(library, kind):
    n = library.nn

    class Convolutional(n.Module):
        def __init__(self):
            super().__init__()
            self.body = n.Sequential(n.Conv2d(1, 8, 3, padding=1), n.BatchNorm2d(8), n.ReLU(), n.Conv2d(8, 16, 3, stride=2), n.MaxPool2d(2))
            self.head = n.Linear(144, 10)

        def forward(self, x):
            return self.head(self.body(x).flatten(1))

    class Recurrent(n.Module):
        def __init__(self, cell):
            super().__init__()
            self.cell, self.head = cell(6, 16, num_layers=2, bidirectional=True, batch_first=True), n.Linear(32, 10)

        def forward(self, x):
            out, _ = self.cell(x)
            return self.head(out[:, -1] + out.mean(1))

    class Attending(n.Module):
        def __init__(self):
            super().__init__()
            layer = n.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, activation="gelu")
            self.table, self.encoder, self.head = n.Embedding(20, 16), n.TransformerEncoder(layer, 2), n.Linear(16, 10)

        def forward(self, x):
            return self.head(self.encoder(self.table(x)).mean(1))

    if kind == "mlp":
        return n.Sequential(n.Linear(20, 32), n.Tanh(), n.LayerNorm(32), n.Linear(32, 32), n.GELU(), n.Linear(32, 10))
    if kind == "transformer":
        return Attending()
    return Convolutional() if kind == "cnn" else Recurrent({"lstm": n.LSTM, "gru": n.GRU}[kind])


SHAPES = {"mlp": (16, 20), "cnn": (16, 1, 16, 16), "lstm": (8, 12, 6), "gru": (8, 12, 6), "transformer": (8, 7)}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-4)])
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("kind", SHAPES)
def test_twenty_steps(kind, optimizer, dtype, tolerance):
    t = networks(torch, kind).to(getattr(torch, dtype))
    e = networks(engine, kind).to(getattr(engine, dtype))
    e.load_state_dict({k: engine.tensor(v.numpy()) for k, v in t.state_dict().items()})
    options = {"lr": 0.05, "momentum": 0.9} if optimizer == "SGD" else {"lr": 0.01}
    draw = (lambda: integers(20, *SHAPES[kind])) if kind == "transformer" else (lambda: normal(*SHAPES[kind]).astype(dtype))
    batches = [(draw(), integers(10, SHAPES[kind][0])) for _ in range(20)]

    def losses(library, net, tensor):
        opt = getattr(library.optim, optimizer)(net.parameters(), **options)
        found = []
        for x, y in batches:
            opt.zero_grad()
            loss = library.nn.functional.cross_entropy(net(tensor(x)), tensor(y))
            loss.backward()
            library.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            found.append(loss.item())
        return found

    numpy.testing.assert_allclose(losses(engine, e, engine.tensor), losses(torch, t, torch.tensor), rtol=tolerance)
