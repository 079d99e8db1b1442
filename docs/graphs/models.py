"""The graphs that are drawn beside Graphviz's: each function records one model's forward pass and gives the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import engine
from engine import nn
from engine.nn import functional as F

with engine.install_as_torch():
    from ten import ResNet18


def mlp() -> Any:
    """A classifier of three layers."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    x, y = engine.randn(16, 64), engine.randint(0, 10, (16,))
    return lambda: F.cross_entropy(model(x), y)


def resnet18() -> Any:
    model = ResNet18()
    x, y = engine.randn(2, 3, 32, 32), engine.randint(0, 10, (2,))
    return lambda: F.cross_entropy(model(x), y)


def lstm20() -> Any:
    """A hand-written LSTM over 20 steps, the loss taken at every step."""
    w, u = engine.randn(8, 64, requires_grad=True), engine.randn(16, 64, requires_grad=True)
    xs = engine.randn(20, 4, 8)

    def run() -> Any:
        h = c = engine.zeros(4, 16)
        total = engine.zeros(())
        for t in range(20):
            i, f, g, o = (xs[t] @ w + h @ u).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            total = total + h.square().mean()
        return total

    return run


class Attention(nn.Module):
    """Causal self-attention written out, as nanoGPT's without the fused kernel."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        q, k, v = (part.reshape(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.c_attn(x).split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        scores = scores.masked_fill(engine.tril(engine.ones(t, t)) == 0, float("-inf"))
        mixed = F.softmax(scores, dim=-1) @ v
        return self.c_proj(mixed.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, blocks: int, width: int = 16, heads: int = 2, tokens: int = 32, length: int = 8) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.h = nn.ModuleList([Block(width, heads) for _ in range(blocks)])
        self.ln_f = nn.LayerNorm(width)

    def forward(self, idx: Any) -> Any:
        x = self.wte(idx) + self.wpe(engine.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def gpt2(blocks: int = 12) -> Any:
    model = GPT(blocks)
    idx, targets = engine.randint(0, 32, (2, 8)), engine.randint(0, 32, (16,))
    return lambda: F.cross_entropy(model(idx).reshape(16, 32), targets)


class Neuron:
    """micrograd's neuron: every weight is a scalar of its own."""

    def __init__(self, inputs: int, nonlinear: bool) -> None:
        self.w = [engine.randn((), requires_grad=True) for _ in range(inputs)]
        self.b = engine.zeros((), requires_grad=True)
        self.nonlinear = nonlinear

    def __call__(self, x: list) -> Any:
        act = self.b
        for w, value in zip(self.w, x, strict=True):
            act = act + w * value
        return act.relu() if self.nonlinear else act


def moons(sizes: tuple[int, ...] = (2, 16, 16, 1)) -> Any:
    """micrograd's net for the two moons, MLP(2, [16, 16, 1]), on one sample and its hinge loss: all scalars."""
    last = len(sizes) - 2
    layers = [[Neuron(sizes[at], at < last) for _ in range(sizes[at + 1])] for at in range(last + 1)]
    sample = [engine.tensor(0.3), engine.tensor(-0.7)]

    def run() -> Any:
        x = sample
        for layer in layers:
            x = [neuron(x) for neuron in layer]
        return (1 - x[0]).relu()

    return run


MODELS: Mapping[str, Callable[[], Any]] = {
    "mlp": mlp,
    "resnet18": resnet18,
    "lstm20": lstm20,
    "gpt2": gpt2,
    "moons": moons,
    "moons-small": lambda: moons((2, 4, 4, 1)),
}
