"""What `gpu.py` measures: training steps of models, ops on 256 MB, and the host's time for ops on tiny tensors.

A case is a function of a `Setting` that returns its figures, and raises AssertionError if the libraries' results differ.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import statistics
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from measure import interleaved  # isort: skip

import networks  # after `measure`, which comes before NumPy
import numpy
import ops

STEPS = 20  # whose losses are compared
TOLERANCES = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 3e-2}  # of the difference of two losses, relative to the first loss
WARM = 3  # eager steps before a capture


@dataclasses.dataclass
class Setting:
    """The libraries, the device of each, and how often a case is timed. A rehearsal runs everything on small tensors and times nothing."""

    libraries: dict[str, Any]
    devices: dict[str, str]
    rehearsed: bool
    rounds: int
    kept: dict[str, SimpleNamespace] = dataclasses.field(default_factory=dict)  # the 256 MB of each library

    def on_gpu(self, library: str) -> bool:
        return self.devices[library] == "cuda"

    def timed(self, contestants: dict[str, Callable], block_ms: float, launching: bool = False) -> dict[str, list[float]]:
        """Microseconds of each contestant, once for each round."""
        if self.rehearsed:
            for run in contestants.values():
                run()
            return {}
        return interleaved(contestants, self.rounds, block_ms, launching)

    def clear(self) -> None:
        """Give the memory of what is gone back to the driver."""
        gc.collect()
        for name, E in self.libraries.items():
            if self.on_gpu(name):
                E.cuda.empty_cache()


def medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(times) for name, times in found.items()}


def ratio(found: dict[str, list[float]], ours: str, theirs: str) -> float:
    """The median over the rounds of one contestant's time to another's."""
    return statistics.median(a / b for a, b in zip(found[ours], found[theirs], strict=True))


# -- models ------------------------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    """A model in `networks`, its sizes here and in a rehearsal, and how it is trained."""

    make: Callable[..., tuple]
    sizes: dict[str, Any]
    small: dict[str, Any]
    precision: str = "fp32"
    channels_last: bool = False
    optimizer: str = "Adam"
    settings: dict[str, float] = {"lr": 1e-3}


_TINY_GPT = {"batch": 2, "length": 8, "width": 16, "layers": 1, "heads": 2, "vocabulary": 11}
_TINY_RESNET = {"batch": 2, "side": 32, "width": 4, "depths": (1, 1), "classes": 7}
_BABY = {"batch": 64, "length": 256, "width": 384, "layers": 6, "heads": 6, "vocabulary": 65, "fused": True}
_GPT2 = {"batch": 8, "length": 1024, "width": 768, "layers": 12, "heads": 12, "vocabulary": 50304, "fused": True}
_RESNET = functools.partial(Model, networks.resnet, {}, _TINY_RESNET, optimizer="SGD", settings={"lr": 1e-3, "momentum": 0.9})
MODELS = {
    "MLP 784-256-256-10 b128": Model(networks.mlp, {}, {"batch": 4, "width": 8}),
    "CNN of two convolutions b64": Model(networks.cnn, {}, {"batch": 2, "channels": 2}),
    "LSTM 2x256 T64": Model(networks.lstm, {"length": 64, "width": 256, "layers": 2}, {"batch": 2, "length": 4, "width": 8, "layers": 2}),
    "char-GPT 4x128": Model(networks.gpt, {}, _TINY_GPT),
    "baby-GPT 6x384 64x256 bf16": Model(networks.gpt, _BABY, {**_TINY_GPT, "fused": True}, "bf16"),
    "GPT-2 124M 8x1024 bf16": Model(networks.gpt, _GPT2, {**_TINY_GPT, "fused": True}, "bf16", settings={"lr": 1e-4}),
    "ResNet-50 b64 fp32": _RESNET(precision="fp32"),
    "ResNet-50 b64 TF32 NHWC": _RESNET(precision="tf32", channels_last=True),
    "ResNet-50 b64 bf16 NHWC": _RESNET(precision="bf16", channels_last=True),
}


class Graphed:
    """A training step that is run a few times, then captured as a CUDA graph, which is launched from then on."""

    def __init__(self, E: Any, step: Callable[[], Any]) -> None:
        self.E, self.step, self.warm, self.graph = E, step, WARM, None
        self.side = E.cuda.Stream()

    def __call__(self) -> Any:
        cuda = self.E.cuda
        if self.warm:
            self.warm -= 1
            self.side.wait_stream(cuda.current_stream())
            with cuda.stream(self.side):
                self.loss = self.step()
            cuda.current_stream().wait_stream(self.side)
            return self.loss
        if self.graph is None:
            self.loss, self.graph = None, cuda.CUDAGraph()
            with cuda.graph(self.graph):
                self.loss = self.step().detach()
        self.graph.replay()
        return self.loss


def trained(setting: Setting, library: str, case: Model, how: str, weights: dict[str, numpy.ndarray]) -> Callable[[], Any]:
    """One training step of a model in a library: "eager", as a "graph", or "compiled". Fills `weights`, or starts from them."""
    E, place = setting.libraries[library], setting.devices[library]
    with E.device(place):
        model, *batch = case.make(E, **(case.small if setting.rehearsed else case.sizes))
    if not weights:
        weights.update({name: numpy.array(value.cpu()) for name, value in model.state_dict().items()})
    model.load_state_dict({name: E.from_numpy(array) for name, array in weights.items()})
    x, y = (E.from_numpy(array).to(place) for array in batch)
    if case.channels_last:
        model.to(memory_format=E.channels_last)
        x = x.contiguous(memory_format=E.channels_last)
    capturable = {"capturable": True} if how == "graph" and case.optimizer == "Adam" else {}
    optimizer = getattr(E.optim, case.optimizer)(model.parameters(), **case.settings, **capturable)
    casting = functools.partial(E.autocast, place, E.bfloat16) if case.precision == "bf16" else contextlib.nullcontext
    step = networks.stepper(E, E.compile(model) if how == "compiled" else model, x, y, optimizer, casting)
    return Graphed(E, step) if how == "graph" else step


@contextlib.contextmanager
def precision(setting: Setting, tf32: bool) -> Iterator[None]:
    """Whether float32 may be multiplied as TF32, in both libraries."""
    switches = [place for E in setting.libraries.values() for place in (E.backends.cuda.matmul, E.backends.cudnn)]
    before = [one.allow_tf32 for one in switches]
    try:
        for one in switches:
            one.allow_tf32 = tf32
        yield
    finally:
        for one, was in zip(switches, before, strict=True):
            one.allow_tf32 = was


def compare(losses: dict[str, list[float]], tolerance: float) -> float:
    """The largest difference from PyTorch's losses, relative to the first of them. Raises AssertionError if it is above the tolerance."""
    expected = numpy.array(next(iter(losses.values())))
    found = {name: float(abs(numpy.array(one) - expected).max() / expected[0]) for name, one in losses.items()}
    if not all(one <= tolerance for one in found.values()):  # nan is not
        raise AssertionError(f"the losses differ by more than {tolerance}: {found}; {losses}")
    return max(found.values())


def train(setting: Setting, case: Model, hows: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """The model in both libraries, PyTorch's first, each in the ways of `hows`: the same losses, then times and memory."""
    weights: dict[str, numpy.ndarray] = {}
    losses, runs, peaks = {}, {}, {}
    with precision(setting, case.precision != "fp32"):
        for library, how in [(one, how) for one in setting.libraries for how in hows[one]]:
            setting.clear()
            cuda = setting.libraries[library].cuda if setting.on_gpu(library) else None
            if cuda is None and how != "eager":
                continue
            before = cuda.memory_allocated() if cuda else 0
            if cuda:
                cuda.reset_peak_memory_stats()
            name = library if how == "eager" else f"{library} {how}"
            runs[name] = trained(setting, library, case, how, weights)
            losses[name] = [runs[name]().item() for _ in range(STEPS)]
            if cuda:
                peaks[name] = (cuda.max_memory_allocated() - before) / 2**20
        difference = compare(losses, TOLERANCES[case.precision])
        found = setting.timed(runs, 60.0)
    pairs = {"eager": ("engine", "torch"), "graph": ("engine graph", "torch graph"), "compiled": ("engine graph", "torch compiled")}
    ratios = {kind: ratio(found, *pair) for kind, pair in pairs.items() if set(pair) <= set(found)}
    if {"engine", "torch"} <= set(peaks):
        ratios["memory"] = peaks["engine"] / peaks["torch"]
    figures = {name: time / 1e3 for name, time in medians(found).items()}
    return {"ms": figures, "peak_mib": peaks, "loss_difference": difference, "tolerance": TOLERANCES[case.precision], "ratios": ratios}


# -- ops on 256 MB -----------------------------------------------------------------------------------------------------------

ROWS, COLUMNS, WORDS = 65_536, 1024, 32_768
SMALL = (64, 32, 32)
BANDWIDTHS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {  # what is called, and its bytes in units of x
    "add": (ops.OPS["x + y"], 3),
    "mul": (ops.OPS["x * y"], 3),
    "tanh": (ops.OPS["tanh"], 2),
    "gelu": (ops.OPS["gelu tanh"], 2),
    "exact gelu": (ops.OPS["gelu"], 2),
    "sum(-1)": (ops.OPS["sum(-1)"], 1),
    "sum(0)": (ops.OPS["sum(0)"], 1),
    "softmax": (ops.OPS["softmax"], 2),
    "log_softmax": (ops.OPS["log_softmax"], 2),
    "layer_norm": (ops.OPS["layer_norm"], 2),
    "rms_norm": (ops.OPS["rms_norm"], 2),
    "cross_entropy": (ops.OPS["cross_entropy"], 1),
    "cumsum": (ops.OPS["cumsum(1)"], 2),
    "gather": (ops.OPS["gather"], 4),  # indices are twice as wide
    "embedding backward": (lambda E, t: E.autograd.grad(t.embedded, t.words, t.x, retain_graph=True)[0], 1 + WORDS / ROWS),
    "randn": (ops.OPS["randn"], 1),
    "add bf16": (lambda E, t: t.half + t.half, 1.5),
}


@functools.cache
def arrays(rows: int, columns: int, words: int) -> dict[str, numpy.ndarray]:
    """What the ops are called with."""
    rng = networks.draw()
    found = {name: rng.standard_normal((rows, columns), numpy.float32) for name in "xy"}
    found |= {"b": rng.standard_normal(columns, numpy.float32), "classes": rng.integers(0, columns, rows)}
    return found | {"columns": rng.integers(0, columns, (rows, columns)), "rows": rng.integers(0, words, rows)}


def tensors(setting: Setting, library: str) -> SimpleNamespace:
    """The arrays on a library's device, made at the first call."""
    if library not in setting.kept:
        E, place = setting.libraries[library], setting.devices[library]
        sizes = SMALL if setting.rehearsed else (ROWS, COLUMNS, WORDS)
        t = SimpleNamespace(device=place, **{name: E.from_numpy(array).to(place) for name, array in arrays(*sizes).items()})
        t.half, t.words = t.x.to(E.bfloat16), E.zeros(sizes[2], sizes[1], device=place).requires_grad_()
        t.embedded = E.nn.functional.embedding(t.rows, t.words)
        setting.kept[library] = t
    return setting.kept[library]


def bandwidth(setting: Setting, name: str) -> dict[str, Any]:
    """GB/s of an op, without a gradient."""
    call, passes = BANDWIDTHS[name]
    runs = {library: functools.partial(_plain, E, call, tensors(setting, library)) for library, E in setting.libraries.items()}
    heads = [run().reshape(-1)[:4096].float().cpu().numpy() for run in runs.values()]
    scale = max(abs(heads[-1]).max(), 1e-6)
    if name != "randn" and not abs(heads[0] - heads[-1]).max() <= (1e-2 if "bf16" in name else 1e-3) * scale:
        raise AssertionError(f"{name}: the results differ by {abs(heads[0] - heads[-1]).max()}, of {scale}")
    found = setting.timed(runs, 20.0)
    size = passes * next(iter(setting.kept.values())).x.nbytes
    speeds = {library: size / time / 1e3 for library, time in medians(found).items()}
    return {"gb_per_s": speeds, "ratios": {"bandwidth": 1 / ratio(found, "engine", "torch")} if {"engine", "torch"} <= set(found) else {}}


def _plain(E: Any, call: Callable, t: SimpleNamespace) -> Any:
    with E.no_grad():
        return call(E, t)


# -- the host's time ---------------------------------------------------------------------------------------------------------


def chain(E: Any, t: SimpleNamespace) -> Any:
    """The backward pass of 20 products, of which each call is one."""
    x = t.x
    for _ in range(20):
        x = x * t.y
    ones = E.ones(tuple(x.shape), device=t.device)
    return lambda: x.backward(ones, retain_graph=True)


LAUNCHES = {"add": "x + y", "mul scalar": "2 * x", "tanh": "tanh", "matmul": "x @ w"}
HOST = [*LAUNCHES, "backward of 20 muls"]


def launching(setting: Setting, name: str) -> dict[str, Any]:
    """Microseconds of the host for a call on 16 x 16 numbers; forward calls record the tape."""
    given = {library: ops.tensors(E, "1e2", setting.devices[library]) for library, E in setting.libraries.items()}
    if name in LAUNCHES:
        runs = {library: functools.partial(ops.OPS[LAUNCHES[name]], E, given[library]) for library, E in setting.libraries.items()}
    else:
        runs = {library: chain(E, given[library]) for library, E in setting.libraries.items()}
    found = setting.timed(runs, 4.0, launching=True)
    return {"us": medians(found), "ratios": {"host": ratio(found, "engine", "torch")} if {"engine", "torch"} <= set(found) else {}}


# -- all of them -------------------------------------------------------------------------------------------------------------

BOTH = dict.fromkeys(("torch", "engine"), ("eager", "graph"))
COMPILED = {"torch": ("compiled",), "engine": ("graph",)}
QUICK = ("MLP", "char-GPT", "baby-GPT", "host", "256 MB")  # how the names of a quick run begin


def cases() -> dict[str, Callable[[Setting], dict[str, Any]]]:
    """The cases in the order in which they run: those that take long come last, and those that compile at the end."""
    small, large = list(MODELS)[:5], list(MODELS)[5:]
    found: dict[str, Callable] = {name: functools.partial(train, case=MODELS[name], hows=BOTH) for name in small}
    found |= {f"host {name}": functools.partial(launching, name=name) for name in HOST}
    found |= {f"256 MB {name}": functools.partial(bandwidth, name=name) for name in BANDWIDTHS}
    found |= {name: functools.partial(train, case=MODELS[name], hows=BOTH) for name in large}
    return found | {f"compiled {name}": functools.partial(train, case=case, hows=COMPILED) for name, case in MODELS.items()}
