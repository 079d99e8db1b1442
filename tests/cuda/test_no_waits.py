"""Steps of training in which the host never waits for the GPU, one by one and as CUDA graphs.

Expected losses are those of the same training on the CPU, and for a graph those of the steps one by one.
"""

from __future__ import annotations

import contextlib
import importlib
import math

import numpy
import pytest
import syncs
from on_stand_in import installed

import engine
from engine import cuda, nn

F = nn.functional

pytestmark = [
    pytest.mark.filterwarnings("ignore:This instance was constructed with capturable=True"),
    pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step"),  # the first step in float16 is skipped
]


class Attention(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        parts = [part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, 2)]
        return self.out(F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))


class GPT(nn.Module):
    def __init__(self, words=11, length=6, width=8):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.attention, self.before, self.after = Attention(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.word.weight

    def forward(self, tokens):
        x = self.word(tokens) + self.place(engine.arange(tokens.shape[1], device=tokens.device))
        x = x + self.attention(self.before(x))
        return self.head(self.after(x + self.wide(x))).flatten(0, 1)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.a = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.second, self.b = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = F.relu(self.a(self.first(x)))
        return self.head(F.adaptive_avg_pool2d(F.relu(self.b(self.second(x)) + x), 1).flatten(1))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.lstm, self.head = nn.Embedding(11, 4), nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 11)

    def forward(self, tokens):
        return self.head(self.lstm(self.word(tokens))[0]).flatten(0, 1)


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))


def cnn(p=0.0):
    parts = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(p), nn.Flatten(), nn.Linear(36, 5)
    return nn.Sequential(*parts)


MODELS = {"MLP": mlp, "CNN": cnn, "GPT": GPT, "residual block": Residual, "LSTM": Words}


def batch(name):
    rng = numpy.random.default_rng(0)
    if name in ("GPT", "LSTM"):
        return engine.tensor(rng.integers(0, 11, (2, 6))), engine.tensor(rng.integers(0, 11, 12))
    shape = {"MLP": (6, 4), "CNN": (6, 3, 8, 8), "residual block": (6, 3, 5, 5)}[name]
    return engine.tensor(rng.standard_normal(shape), dtype=engine.float32), engine.tensor(rng.integers(0, 5, 6))


OPTIMIZERS = {
    "AdamW": lambda params, **more: engine.optim.AdamW(params, **{"lr": 0.02, **more}),
    "SGD": lambda params, **more: engine.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
}
PRECISIONS = {"float32": None, "float16": engine.float16, "bfloat16": engine.bfloat16}


class Training:
    """A model with all that a step of its training needs; the scale of float16 is such that the first step is skipped."""

    def __init__(self, name, optimizer="AdamW", precision="float32", device="cuda", norm=2.0, **options):
        engine.manual_seed(0)
        self.model = MODELS[name]().to(device)
        self.params = list(self.model.parameters())
        self.x, self.y = (a.to(device) for a in batch(name))
        self.optimizer = OPTIMIZERS[optimizer](self.params, **options)
        self.scaler = engine.amp.GradScaler(device, init_scale=2.0**40, backoff_factor=2.0**-30, enabled=precision == "float16")
        self.cast, self.device, self.norm = PRECISIONS[precision], device, norm
        self.average = [p.detach().clone() for p in self.params]

    def step(self):
        self.optimizer.zero_grad()
        with engine.autocast(self.device, self.cast) if self.cast else contextlib.nullcontext():
            loss = F.cross_entropy(self.model(self.x), self.y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.params, 1.0, self.norm)
        nn.utils.clip_grad_value_(self.params, 0.5)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        with engine.no_grad():
            engine._foreach_lerp_(self.average, self.params, 0.1)
        return loss.detach()


SCHEDULES = {
    "AdamW": lambda optimizer: engine.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=30),
    "SGD": lambda optimizer: engine.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_the_host_does_not_wait(name, optimizer, precision, stand_in):
    losses = {}
    for device in ("cpu", "cuda"):
        training = Training(name, optimizer, precision, device)
        schedule, losses[device] = SCHEDULES[optimizer](training.optimizer), []
        syncs.found.clear()
        for _ in range(4):
            losses[device].append(training.step())
            schedule.step()
        assert syncs.found == []
    found, expected = ([loss.item() for loss in losses[device]] for device in ("cuda", "cpu"))
    close = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}[precision]
    numpy.testing.assert_allclose(found, expected, close, close)
    assert (found[1] == found[0]) == (precision == "float16")  # its first step was skipped


@pytest.mark.parametrize("norm", [1.0, 3.0, math.inf])
def test_other_norms(norm, stand_in):
    training = Training("MLP", norm=norm)
    syncs.found.clear()
    training.step()
    assert syncs.found == []
    training.params[0].grad.fill_(math.inf)
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(training.params, 1.0, norm, error_if_nonfinite=True)


# -- as graphs -----------------------------------------------------------------------------------------------------------------


def captured(step):
    """Capture a step after three on another stream; return the graph and what it computes."""
    side = cuda.Stream()
    with cuda.stream(side):
        for _ in range(3):
            step()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        loss = step()
    return graph, loss


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_of_a_step(name, optimizer, precision, stand_in):
    eager = Training(name, optimizer, precision)
    replays = 8 if precision == "float32" else 5
    expected = [eager.step().item() for _ in range(3 + replays)][3:]
    training = Training(name, optimizer, precision, capturable=True)
    graph, loss = captured(training.step)
    found = []
    for _ in range(replays):
        syncs.found.clear()
        graph.replay()
        assert syncs.found == []
        found.append(loss.item())
    numpy.testing.assert_allclose(found, expected, 1e-5 if precision == "float32" else 1e-3)
    assert found[-1] < found[0] - replays / 100


def test_a_graph_keeps_the_tables_of_its_kernels(stand_in):
    training, graph = Training("MLP", capturable=True), cuda.CUDAGraph()
    training.step()  # on the stream of the arrays below
    with cuda.graph(graph):
        loss = training.step()
    kernels = importlib.import_module("engine.backends.gpu.optim")
    kernels._rows.cache_clear(), kernels._pieces.cache_clear()
    others = [engine.full((n,), 0, dtype=engine.int64, device="cuda") for n in range(1, 64)]  # in the memory of what was freed
    losses = [(graph.replay(), loss.item())[1] for _ in range(10)]
    assert losses[-1] < losses[0] - 0.1 and not any(other.any() for other in others)


def test_random_numbers_of_a_graph_are_those_of_the_steps(stand_in):
    found = []
    for capturable in (False, True):
        engine.manual_seed(1)
        model = cnn(0.5).to("cuda")
        x, y = (a.to("cuda") for a in batch("CNN"))
        optimizer = engine.optim.SGD(model.parameters(), 0.1)

        def step(model=model, optimizer=optimizer, x=x, y=y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        if capturable:
            graph, loss = captured(step)
            found.append([(graph.replay(), loss.item())[1] for _ in range(5)])
        else:
            found.append([step().item() for _ in range(8)][3:])
    numpy.testing.assert_allclose(*found, 1e-6)


def test_a_schedule_changes_the_rate_of_a_graph(stand_in):
    eager = Training("MLP")
    schedule, expected = engine.optim.lr_scheduler.ExponentialLR(eager.optimizer, 0.7), []
    for _ in range(13):
        expected.append(eager.step().item())
        if len(expected) > 3:
            schedule.step()
    training = Training("MLP", capturable=True, lr=engine.tensor(0.02, device="cuda"))
    schedule = engine.optim.lr_scheduler.ExponentialLR(training.optimizer, 0.7)
    graph, loss = captured(training.step)
    found = []
    for _ in range(10):
        syncs.found.clear()
        graph.replay()
        schedule.step()
        assert syncs.found == []
        found.append(loss.item())
    numpy.testing.assert_allclose(found, expected[3:], 1e-5)
    assert abs(training.optimizer.param_groups[0]["lr"].item() - 0.02 * 0.7**10) < 1e-8
    assert schedule.get_last_lr()[0].item() == training.optimizer.param_groups[0]["lr"].item()


RULES = {
    "Adam": {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"lr": 0.1},
    "NAdam": {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    "RAdam": {"lr": 0.1, "betas": (0.8, 0.9)},
    "Adamax": {"lr": 0.1, "weight_decay": 0.1},
    "ASGD": {"lr": 0.1, "lambd": 0.01, "t0": 4},
    "RMSprop": {"lr": 0.01, "momentum": 0.9, "centered": True},
    "Rprop": {"lr": 0.01},
    "Adadelta": {"lr": 1.0},
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("kind", RULES)
def test_every_capturable_optimizer(kind, dtype, stand_in):
    """Ten steps: four one by one, and six in a graph. The rate is a tensor on the GPU."""
    rng = numpy.random.default_rng(0)
    start, gradients = rng.standard_normal((2, 3)), rng.standard_normal((10, 2, 3))
    ends, kept = {}, {}
    for device in ("cpu", "cuda"):
        p, g = (engine.tensor(a).to(device, getattr(engine, dtype)) for a in (start, gradients[0]))
        p.requires_grad_()
        p.grad, options = g, dict(RULES[kind])
        if device == "cuda":
            options |= {"lr": engine.tensor(options["lr"], device="cuda"), "capturable": True}
        optimizer, graph = getattr(engine.optim, kind)([p], **options), cuda.CUDAGraph()
        for k, new in enumerate(gradients):
            g.copy_(engine.tensor(new))
            syncs.found.clear()
            if device == "cuda" and k == 4:
                with cuda.graph(graph):
                    optimizer.step()
            graph.replay() if device == "cuda" and k >= 4 else optimizer.step()
            assert k == 4 or syncs.found == []
        ends[device], kept[device] = p.detach().double().cpu().numpy(), optimizer.state_dict()
    close = {"float32": 1e-5, "float64": 1e-6, "bfloat16": 0.1}[dtype]
    numpy.testing.assert_allclose(ends["cuda"], ends["cpu"], close, close)
    (here,), (there,) = (state["state"].values() for state in (kept["cpu"], kept["cuda"]))
    assert here.keys() == there.keys() and there["step"].is_cuda and there["step"].item() == here["step"].item() == 10
    assert all(value.is_cuda for value in there.values())


def test_counts_on_the_gpu_are_saved_and_loaded(stand_in):
    p = engine.ones(3, device="cuda", requires_grad=True)
    p.grad = engine.ones(3, device="cuda")
    optimizer = engine.optim.Adam([p], lr=0.1, fused=True)
    optimizer.step()
    saved = optimizer.state_dict()
    assert saved["state"][0]["step"].is_cuda
    plain = engine.optim.Adam([p], lr=0.1)
    state = {name: value.cpu() for name, value in saved["state"][0].items()}
    plain.load_state_dict({**saved, "state": {0: state}, "param_groups": plain.state_dict()["param_groups"]})
    assert not plain.state[p]["step"].is_cuda and plain.state[p]["exp_avg"].is_cuda
    plain.step()
    assert plain.state[p]["step"].item() == 2
    optimizer.load_state_dict({**saved, "state": {0: {**state, "step": engine.tensor(5.0, dtype=engine.float64)}}})
    step = optimizer.state[p]["step"]
    assert step.is_cuda and step.dtype is engine.float32
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 6


def test_a_hook_is_not_called_for_a_step_that_is_skipped(stand_in):
    """The host waits to know whether to call it, as PyTorch does."""
    training, called = Training("MLP", precision="float16"), []
    training.optimizer.register_step_post_hook(lambda *_: called.append(1))
    for _ in range(3):
        training.step()
    assert len(called) == 2


def test_an_index_out_of_range_in_a_graph_is_told(stand_in):
    x, y = engine.randn(3, 4, device="cuda"), engine.tensor([0, 1, 3], device="cuda")
    graph, _ = captured(lambda: F.cross_entropy(x, y))
    y[2] = 7
    graph.replay()
    with pytest.raises(IndexError, match="index 7 is out of bounds for a dimension of size 4: cross_entropy"):
        cuda.synchronize()


def test_the_capture_of_a_step_that_is_not_capturable_is_refused():
    with installed():
        training = Training("MLP")
        with pytest.raises(RuntimeError, match="an instance of AdamW but param_groups' capturable is False"):
            captured(training.step)
