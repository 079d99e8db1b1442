"""The ops of everyday models, engine against PyTorch, at 1e2, 1e4 and 1e6 elements: microseconds and their ratio, the worst first.

    python benchmarks/ops.py [--rounds 9] [--only NAME ...] [--sizes 1e2 1e4 1e6] [--json benchmarks/results/ops.json]

The figures are those of the op and `backward` with a gradient of ones, or of the op alone where it has no gradient. BENCHMARK_THREADS=2
gives each library two threads; BENCHMARK_CLOCK=thread counts the processor time of one thread, for a machine that does other things too.
The JSON file also has the forward pass alone, which records the tape, and for convolutions the ratio to PyTorch without oneDNN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from measure import DEVICE, LIBRARIES, arguments, heading, interleaved, numpy_only, ratio_text, summary, write_json  # isort: skip

import numpy

SIZES = {  # shapes of about as many elements: a matrix, images, a sequence (T, N, H), and attention's queries (N, heads, L, E)
    "1e2": ((10, 10), (2, 4, 4, 4), (4, 2, 12), (1, 2, 8, 8)),
    "1e4": ((100, 100), (4, 16, 12, 12), (16, 10, 64), (2, 4, 20, 64)),
    "1e6": ((1000, 1000), (16, 64, 32, 32), (64, 64, 256), (8, 8, 256, 64)),
}

OPS: dict[str, Callable[[Any, Any], Any]] = {  # (library, tensors) -> result
    "reshape": lambda E, t: t.x.reshape(-1, 4),
    "view": lambda E, t: t.x.view(-1),
    "transpose": lambda E, t: t.x.transpose(0, 1),
    ".T": lambda E, t: t.x.T,
    "permute": lambda E, t: t.x.permute(1, 0),
    "expand": lambda E, t: t.row.expand(t.x.shape[0], -1),
    "unsqueeze": lambda E, t: t.x.unsqueeze(1),
    "squeeze": lambda E, t: t.row.squeeze(0),
    "flatten": lambda E, t: t.image.flatten(1),
    "cat": lambda E, t: E.cat([t.x, t.y], 1),
    "stack": lambda E, t: E.stack([t.x, t.y]),
    "chunk": lambda E, t: t.x.chunk(2, 1)[0],
    "split": lambda E, t: t.x.split(4, 1)[0],
    "x[0]": lambda E, t: t.x[0],
    "x[:, -1]": lambda E, t: t.x[:, -1],
    "x[index]": lambda E, t: t.x[t.rows],
    "clone": lambda E, t: t.x.clone(),
    "sum": lambda E, t: t.x.sum(),
    "sum(0)": lambda E, t: t.x.sum(0),
    "sum(-1)": lambda E, t: t.x.sum(-1),
    "mean": lambda E, t: t.x.mean(),
    "mean(1, keepdim)": lambda E, t: t.x.mean(1, keepdim=True),
    "var": lambda E, t: t.x.var(),
    "var(-1)": lambda E, t: t.x.var(-1),
    "std(0)": lambda E, t: t.x.std(0),
    "norm": lambda E, t: t.x.norm(),
    "logsumexp": lambda E, t: t.x.logsumexp(-1),
    "max": lambda E, t: t.x.max(),
    "max(1)": lambda E, t: t.x.max(1)[0],
    "argmax(1)": lambda E, t: t.x.argmax(1),
    "cumsum(1)": lambda E, t: t.x.cumsum(1),
    "gather": lambda E, t: t.x.gather(1, t.columns),
    "softmax": lambda E, t: t.x.softmax(-1),
    "softmax(0)": lambda E, t: t.x.softmax(0),
    "log_softmax": lambda E, t: t.x.log_softmax(-1),
    "relu": lambda E, t: t.x.relu(),
    "sigmoid": lambda E, t: t.x.sigmoid(),
    "tanh": lambda E, t: t.x.tanh(),
    "gelu": lambda E, t: E.nn.functional.gelu(t.x),
    "gelu tanh": lambda E, t: E.nn.functional.gelu(t.x, approximate="tanh"),
    "silu": lambda E, t: E.nn.functional.silu(t.x),
    "softplus": lambda E, t: E.nn.functional.softplus(t.x),
    "leaky_relu": lambda E, t: E.nn.functional.leaky_relu(t.x),
    "elu": lambda E, t: E.nn.functional.elu(t.x),
    "erf": lambda E, t: t.x.erf(),
    "exp": lambda E, t: t.x.exp(),
    "log": lambda E, t: t.positive.log(),
    "sqrt": lambda E, t: t.positive.sqrt(),
    "abs": lambda E, t: t.x.abs(),
    "clamp": lambda E, t: t.x.clamp(-0.5, 0.5),
    "clamp(min=)": lambda E, t: t.x.clamp(min=0.0),
    "x ** 2": lambda E, t: t.x**2,
    "-x": lambda E, t: -t.x,
    "x + y": lambda E, t: t.x + t.y,
    "x * y": lambda E, t: t.x * t.y,
    "x / y": lambda E, t: t.x / t.positive,
    "x + row": lambda E, t: t.x + t.row,
    "x / 3.0": lambda E, t: t.x / 3.0,
    "2 * x": lambda E, t: 2 * t.x,
    "1 - x": lambda E, t: 1 - t.x,
    "1 / x": lambda E, t: 1 / t.positive,
    "x > 0": lambda E, t: t.x > 0,
    "x == y": lambda E, t: t.x == t.y,
    "where": lambda E, t: E.where(t.mask, t.x, t.y),
    "masked_fill": lambda E, t: t.x.masked_fill(t.mask, 0.0),
    "tril": lambda E, t: t.x.tril(),
    "x @ w": lambda E, t: t.x @ t.w,
    "linear": lambda E, t: E.nn.functional.linear(t.x, t.w, t.b),
    "einsum": lambda E, t: E.einsum("ij,jk->ik", t.x, t.w),
    "layer_norm": lambda E, t: E.nn.functional.layer_norm(t.x, t.b.shape, t.b, t.b),
    "rms_norm": lambda E, t: E.nn.functional.rms_norm(t.x, t.b.shape, t.b),
    "batch_norm": lambda E, t: E.nn.functional.batch_norm(t.image, None, None, training=True),
    "group_norm": lambda E, t: E.nn.functional.group_norm(t.image, 2, t.kernel_bias, t.kernel_bias),
    "conv2d": lambda E, t: E.nn.functional.conv2d(t.image, t.kernel, t.kernel_bias, padding=1),
    "conv2d depthwise": lambda E, t: E.nn.functional.conv2d(t.image, t.depthwise, padding=1, groups=t.depthwise.shape[0]),
    "max_pool2d": lambda E, t: E.nn.functional.max_pool2d(t.image, 2),
    "avg_pool2d": lambda E, t: E.nn.functional.avg_pool2d(t.image, 2),
    "dropout": lambda E, t: E.nn.functional.dropout(t.x, 0.5),
    "embedding": lambda E, t: E.nn.functional.embedding(t.rows, t.x),
    "cross_entropy": lambda E, t: E.nn.functional.cross_entropy(t.x, t.classes),
    "mse_loss": lambda E, t: E.nn.functional.mse_loss(t.x, t.y),
    "bce_with_logits": lambda E, t: E.nn.functional.binary_cross_entropy_with_logits(t.x, t.constant),
    "lstm": lambda E, t: t.lstm(t.sequence)[0],
    "gru": lambda E, t: t.gru(t.sequence)[0],
    "attention": lambda E, t: E.nn.functional.scaled_dot_product_attention(t.query, t.query, t.query, is_causal=True),
    "SGD momentum": lambda E, t: t.sgd.step(),
    "Adam": lambda E, t: t.adam.step(),
    "AdamW": lambda E, t: t.adamw.step(),
    "no_grad": lambda E, t: _without_grad(E),
    "item": lambda E, t: t.scalar.item(),
    "randn": lambda E, t: E.randn(t.x.shape, device=t.device),
    "rand": lambda E, t: E.rand(t.x.shape, device=t.device),
    "zeros": lambda E, t: E.zeros(t.x.shape, device=t.device),
    "x.add_(y)": lambda E, t: t.free.add_(t.constant),
    "x[0] = 1": lambda E, t: t.free.__setitem__(0, 1.0),
}


def _without_grad(E: Any) -> None:
    with E.no_grad():
        pass


@functools.cache
def tensors(E: Any, size: str, device: str = DEVICE) -> SimpleNamespace:
    """The same inputs in either library."""
    rng = numpy.random.default_rng(0)
    E.manual_seed(0)
    (n, m), image, sequence, query = SIZES[size]

    def make(a: numpy.ndarray) -> Any:
        return E.from_numpy(a.astype("float32") if a.dtype.kind == "f" else a).to(device)

    def wanted(*shape: int) -> Any:
        return make(rng.normal(size=shape)).requires_grad_()

    def optimizer(name: str, **options: float) -> Any:
        """An optimizer of ten parameters with gradients."""
        parameters = [wanted(max(1, n // 10), m) for _ in range(10)]
        for p in parameters:
            p.grad = make(rng.normal(size=p.shape))
        return getattr(E.optim, name)(parameters, lr=1e-3, **options)

    channels, width = image[1], sequence[-1]
    return SimpleNamespace(
        x=wanted(n, m), y=wanted(n, m), row=wanted(1, m), w=wanted(m, m), b=wanted(m),
        positive=make(rng.uniform(0.5, 2, (n, m))).requires_grad_(), mask=make(rng.normal(size=(n, m)) > 0),
        image=wanted(*image), kernel=wanted(channels, channels, 3, 3), kernel_bias=wanted(channels),
        depthwise=wanted(channels, 1, 3, 3), rows=make(rng.integers(0, n, (n,))), classes=make(rng.integers(0, m, (n,))),
        columns=make(rng.integers(0, m, (n, m))), scalar=make(numpy.array(1.5)), device=device,
        free=make(rng.normal(size=(n, m))), constant=make(rng.uniform(size=(n, m))),
        sequence=wanted(*sequence), lstm=E.nn.LSTM(width, width).to(device), gru=E.nn.GRU(width, width).to(device), query=wanted(*query),
        sgd=optimizer("SGD", momentum=0.9), adam=optimizer("Adam"), adamw=optimizer("AdamW"),
    )  # fmt: skip


def contestants(name: str, size: str) -> list[dict[str, Callable]]:
    """One op in each library: the op alone, and if it has a gradient the op with backward."""
    forward, both = {}, {}
    for library, E in LIBRARIES.items():
        t = tensors(E, size)

        def run(E: Any = E, t: SimpleNamespace = t) -> Any:
            return OPS[name](E, t)

        forward[library] = run
        out = run()
        if getattr(out, "requires_grad", False):
            ones = E.ones(tuple(out.shape), device=DEVICE)
            both[library] = lambda run=run, ones=ones: run().backward(ones)
    if "conv" in name and DEVICE == "cpu":
        for calls in (forward, both):
            calls["NumPy only"] = numpy_only(calls["engine"])
    return [forward, both] if both else [forward]


def measured(calls: dict[str, Callable], rounds: int) -> dict[str, list[float]]:
    """NumPy only by itself: the threads of its BLAS spin on into the next block."""
    plainly = {name: calls.pop(name) for name in ("NumPy only",) if name in calls}
    return interleaved(calls, rounds, 2.0) | interleaved(plainly, rounds, 2.0)


def whole(row: dict) -> dict[str, float]:
    """The figures of an op with its gradient, if it has one."""
    return row.get("both", row["forward"])


def main() -> None:
    args = arguments(__doc__, 9, only={"nargs": "*", "default": list(OPS)}, sizes={"nargs": "*", "default": list(SIZES)})
    results: dict[str, dict[str, dict]] = {}
    for name in args.only:
        results[name] = {}
        for size in args.sizes:
            rows = [summary(measured(c, args.rounds)) for c in contestants(name, size)]
            results[name][size] = dict(zip(("forward", "both"), rows, strict=False))
    print(heading())
    print(f"{'us':20}", *[f"{size:>9} {'torch':>9} {'ratio':>6}" for size in args.sizes], sep=" | ")
    for name, sizes in sorted(results.items(), key=lambda found: -max(whole(row).get("ratio", 0) for row in found[1].values())):
        print(f"{name:20}", *[ratio_text(whole(row)) for row in sizes.values()], sep=" | ")
    write_json(args.json, results)


if __name__ == "__main__":
    main()
