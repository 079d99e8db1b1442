"""The programs that the workbench's benchmarks record: graphs of the sizes of real models, with tensors that cost nothing to compute."""

from __future__ import annotations

from typing import Any

import engine
from engine import nn


def small_adds(n: int = 4000) -> Any:
    """A chain of 4x4 additions: the least that an op is; the sum of the last."""
    out = a = engine.ones(4, 4).requires_grad_()
    for _ in range(n):
        out = out + a
    return out.sum()


def lstm(steps: int = 500) -> Any:
    """An LSTM's cell written out, 16 ops a step; the sum of the last state."""
    w, u = (engine.ones(8, 32) * 0.1).requires_grad_(), (engine.ones(8, 32) * 0.1).requires_grad_()
    h = c = engine.zeros(4, 8)
    x = engine.ones(4, 8)
    for _ in range(steps):
        gates = x @ w + h @ u
        c = gates[:, 8:16].sigmoid() * c + gates[:, :8].sigmoid() * gates[:, 24:].tanh()
        h = gates[:, 16:24].sigmoid() * c.tanh()
    return h.sum()


def scalars(n: int = 68_138) -> Any:
    """One long chain of scalar ops, as a network of single numbers makes it."""
    x = engine.tensor(0.5, requires_grad=True)
    for _ in range(n // 2):
        x = x * 0.999 + 0.001
    return x


class Linear(nn.Linear):
    """A linear layer in the ops that PyTorch's autograd has for it: rows flattened, the weight transposed, a product, a sum."""

    def forward(self, input: Any) -> Any:
        rows = input.view(-1, input.shape[-1]) @ self.weight.t() + self.bias
        return rows.view(*input.shape[:-1], self.weight.shape[0])


class Attention(nn.Module):
    """GPT-2's causal self-attention, op for op."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj, self.heads = Linear(width, 3 * width), Linear(width, width), heads

    def forward(self, x: Any) -> Any:
        b, t, width = x.shape
        q, k, v = self.c_attn(x).split(width, 2)
        q, k, v = (part.view(b, t, self.heads, width // self.heads).transpose(1, 2) for part in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        mask = engine.ones(t, t).tril() == 0
        weights = nn.functional.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        return self.c_proj((weights @ v).transpose(1, 2).reshape(b, t, width))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(Linear(width, 4 * width), nn.GELU(), Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """GPT-2's graph, about 2,900 nodes: as many layers and ops as the XL model has, in a width that costs nothing."""

    def __init__(self, layers: int = 48, width: int = 8, heads: int = 2, vocabulary: int = 16) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(8, width)
        self.h = nn.Sequential(*[Layer(width, heads) for _ in range(layers)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Any, targets: Any) -> Any:
        x = self.wte(ids) + self.wpe(engine.arange(ids.shape[1]))
        logits = self.head(self.ln_f(self.h(x)))
        return nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class Gpt2Step:
    """A forward pass of GPT-2 XL's graph on eight tokens."""

    def __init__(self) -> None:
        engine.manual_seed(0)
        self.model = GPT2()
        self.ids = engine.randint(0, 16, (1, 8))

    def __call__(self) -> Any:
        return self.model(self.ids, self.ids)
