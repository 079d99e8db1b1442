"""Whole training steps, engine against PyTorch: an MLP, a CNN, an LSTM, a character GPT. Milliseconds per step, and the same losses.

    python benchmarks/training.py [--rounds 7] [--only mlp cnn lstm gpt] [--json FILE]

Both libraries start from the same seed, and so from the same weights and data; before anything is timed, five steps must give equal losses.
BENCHMARK_THREADS=2 gives each two threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from measure import DEVICE, LIBRARIES, arguments, heading, interleaved, ratio_text, summary, write_json  # isort: skip


def mlp(E: Any) -> tuple:
    """784-256-256-10, batch 128."""
    nn = E.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, E.randn(128, 784), E.randint(0, 10, (128,))


def cnn(E: Any) -> tuple:
    """Two convolutions with pools, two linear layers, on 28 x 28, batch 64."""
    nn = E.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    return model, E.randn(64, 1, 28, 28), E.randint(0, 10, (64,))


def lstm(E: Any) -> tuple:
    """An LSTM of 128 over 32 steps and a linear layer on its last output, batch 32."""

    class Model(E.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = E.nn.LSTM(64, 128, batch_first=True), E.nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Model(), E.randn(32, 32, 64), E.randint(0, 10, (32,))


def gpt(E: Any) -> tuple:
    """A decoder of 4 layers and width 128 on 64 characters of 65, batch 16."""
    nn, width, heads, length, vocabulary = E.nn, 128, 4, 64, 65

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.register_buffer("later", E.ones(length, length, dtype=E.bool).triu(1))

        def attention(self, x: Any) -> Any:
            n, t, _ = x.shape
            q, k, v = (part.view(n, t, heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            scores = (q @ k.transpose(-2, -1) / math.sqrt(width // heads)).masked_fill(self.later, -math.inf)
            return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(E.arange(length, device=x.device))
            return self.head(self.norm(self.blocks(x))).transpose(1, 2)

    text = E.randint(0, vocabulary, (16, length + 1))
    return Model(), text[:, :-1], text[:, 1:]


MODELS: dict[str, Callable[[Any], tuple]] = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "gpt": gpt}


def training(E: Any, make: Callable[[Any], tuple]) -> Callable[[], Any]:
    """One step of Adam on a model, as a function that returns the loss."""
    E.manual_seed(0)
    model, x, y = (part.to(DEVICE) for part in make(E))
    optimizer = E.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = E.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def check(name: str, steps: dict[str, Callable]) -> None:
    """AssertionError unless the first losses are equal in all libraries."""
    losses = {library: [step().item() for _ in range(5)] for library, step in steps.items()}
    expected = next(reversed(losses.values()))
    for found in losses.values():
        if not all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(found, expected, strict=True)):
            raise AssertionError(f"{name}: the losses differ: {losses}")


def main() -> None:
    args = arguments(__doc__, 7, only={"nargs": "*", "default": list(MODELS)})
    print(heading())
    print("ms per step     engine     torch  ratio")
    results = {}
    for name in args.only:
        steps = {library: training(E, MODELS[name]) for library, E in LIBRARIES.items()}
        check(name, steps)
        results[name] = summary(interleaved(steps, args.rounds, 100.0))
        print(f"{name:12} {ratio_text(results[name], 1e3)}", flush=True)
    write_json(args.json, results)


if __name__ == "__main__":
    main()
