"""The ops of everyday models, engine against PyTorch: microseconds on small tensors (8 x 16), milliseconds on a million elements.

    python benchmarks/ops.py [--rounds 9] [--only NAME ...] [--sizes small large] [--json FILE]

"forward" records the tape; "both" is the op and `backward` with a gradient of ones. Convolutions have a fourth column, the ratio to PyTorch
without oneDNN.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from measure import DEVICE, LIBRARIES, arguments, heading, interleaved, numpy_only, ratio_text, summary, write_json  # isort: skip

import numpy

SIZES = {"small": (8, 16), "large": (1000, 1000)}

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
    "var(-1)": lambda E, t: t.x.var(-1),
    "max": lambda E, t: t.x.max(),
    "max(1)": lambda E, t: t.x.max(1)[0],
    "argmax(1)": lambda E, t: t.x.argmax(1),
    "cumsum(1)": lambda E, t: t.x.cumsum(1),
    "gather": lambda E, t: t.x.gather(1, t.columns),
    "softmax": lambda E, t: t.x.softmax(-1),
    "log_softmax": lambda E, t: t.x.log_softmax(-1),
    "relu": lambda E, t: t.x.relu(),
    "sigmoid": lambda E, t: t.x.sigmoid(),
    "tanh": lambda E, t: t.x.tanh(),
    "gelu": lambda E, t: E.nn.functional.gelu(t.x),
    "gelu tanh": lambda E, t: E.nn.functional.gelu(t.x, approximate="tanh"),
    "silu": lambda E, t: E.nn.functional.silu(t.x),
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
    "conv2d": lambda E, t: E.nn.functional.conv2d(t.image, t.kernel, t.kernel_bias, padding=1),
    "conv2d depthwise": lambda E, t: E.nn.functional.conv2d(t.image, t.depthwise, padding=1, groups=t.depthwise.shape[0]),
    "max_pool2d": lambda E, t: E.nn.functional.max_pool2d(t.image, 2),
    "avg_pool2d": lambda E, t: E.nn.functional.avg_pool2d(t.image, 2),
    "dropout": lambda E, t: E.nn.functional.dropout(t.x, 0.5),
    "embedding": lambda E, t: E.nn.functional.embedding(t.rows, t.x),
    "cross_entropy": lambda E, t: E.nn.functional.cross_entropy(t.x, t.classes),
    "mse_loss": lambda E, t: E.nn.functional.mse_loss(t.x, t.y),
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


def tensors(E: Any, n: int, m: int, device: str = DEVICE) -> SimpleNamespace:
    """The same inputs in either library."""
    rng = numpy.random.default_rng(0)

    def make(a: numpy.ndarray) -> Any:
        return E.tensor(a.tolist(), dtype=E.float32 if a.dtype.kind == "f" else None, device=device)

    def wanted(*shape: int) -> Any:
        return make(rng.normal(size=shape)).requires_grad_()

    channels, side = (4, 8) if n < 100 else (64, 32)
    batch = 2 if n < 100 else 16
    return SimpleNamespace(
        x=wanted(n, m), y=wanted(n, m), row=wanted(1, m), w=wanted(m, m), b=wanted(m),
        positive=make(rng.uniform(0.5, 2, (n, m))).requires_grad_(), mask=make(rng.normal(size=(n, m)) > 0),
        image=wanted(batch, channels, side, side), kernel=wanted(channels, channels, 3, 3), kernel_bias=wanted(channels),
        depthwise=wanted(channels, 1, 3, 3), rows=make(rng.integers(0, n, (n,))), classes=make(rng.integers(0, m, (n,))),
        columns=make(rng.integers(0, m, (n, m))), scalar=make(numpy.array(1.5)), device=device,
        free=make(rng.normal(size=(n, m))), constant=make(rng.normal(size=(n, m))),
    )  # fmt: skip


def contestants(name: str, n: int, m: int) -> tuple[dict, dict]:
    """One op in each library: forward, and forward with backward (empty for what has no gradient)."""
    forward, both = {}, {}
    for library, E in LIBRARIES.items():
        t = tensors(E, n, m)

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
    return forward, both


def main() -> None:
    args = arguments(__doc__, 9, only={"nargs": "*", "default": list(OPS)}, sizes={"nargs": "*", "default": list(SIZES)})
    print(heading())
    results: dict[str, dict] = {}
    for size in args.sizes:
        unit, word = (1.0, "us") if size == "small" else (1e3, "ms")
        print(f"\n{size}, {word}{'':14} forward     torch  ratio  NumPy |      both     torch  ratio  NumPy")
        for name in args.only:
            rows = [summary(interleaved(c, args.rounds, 2.0)) for c in contestants(name, *SIZES[size]) if c]
            results[f"{name}, {size}"] = dict(zip(("forward", "both"), rows, strict=False))
            print(f"{name:20} {' | '.join(ratio_text(row, unit) for row in rows)}", flush=True)
    write_json(args.json, results)


if __name__ == "__main__":
    main()
