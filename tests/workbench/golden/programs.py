"""Five small programs in small whole numbers, so that every result is exact on every machine; beside each the same in plain NumPy."""

from __future__ import annotations

import numpy

import engine
from engine import nn

W = numpy.array([[1.0, -2.0, 0.5], [0.25, 1.0, -1.0]])
V = numpy.array([[2.0, -1.0]])
X = numpy.array([[1.0, 2.0, -1.0], [0.0, -1.0, 4.0]])
SQUARE = numpy.array([[0.5, 0.25], [1.0, 0.25]])  # no ReLU stands at its kink


def tensor(array, requires_grad=True):
    return engine.tensor(array.tolist(), requires_grad=requires_grad)


def scalars():
    """Karpathy's lecture: L = (a * b + c) * f."""
    a, b, c, f = (engine.tensor(float(x), requires_grad=True) for x in (2, -3, 10, -2))
    d = a * b + c
    L = d * f
    return L, {"a": a, "b": b, "c": c, "f": f}


def network():
    """Two layers with a ReLU between them."""
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    model.load_state_dict({"0.weight": tensor(W, False), "2.weight": tensor(V, False)})
    x = tensor(X, False)
    loss = model(x).square().sum()
    return loss, {"0.weight": model[0].weight, "2.weight": model[2].weight}


def loop():
    """The same weights at each turn."""
    w = tensor(SQUARE)
    h = tensor(X[:, :2], False)
    for _t in range(4):
        h = (h @ w).relu()
    loss = h.sum()
    return loss, {"w": w}


def blocks():
    """Alike modules, which fold."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU()) for _ in range(4)])
    model.load_state_dict({f"{i}.0.weight": tensor(SQUARE, False) for i in range(4)})
    x = tensor(X[:, :2], False)
    loss = model(x).sum()
    return loss, {f"{i}.0.weight": model[i][0].weight for i in range(4)}


def shared():
    """A tensor that is used three times, broadcast, and seen through a view."""
    w = tensor(W)
    row = w[0]
    loss = (w * row).sum() + row.sum() * 2.0
    return loss, {"w": w}


PROGRAMS = {"scalars": scalars, "network": network, "loop": loop, "blocks": blocks, "shared": shared}


def relu(x):
    return numpy.maximum(x, 0.0)


def _chain(h, weights):
    for w in weights:
        h = relu(h @ w)
    return h.sum()


# name -> the parameters' values, and the loss as a function of them
NUMPY = {
    "scalars": ({"a": 2.0, "b": -3.0, "c": 10.0, "f": -2.0}, lambda a, b, c, f: (a * b + c) * f),
    "network": ({"0.weight": W, "2.weight": V}, lambda w, v: (relu(X @ w.T) @ v.T).__pow__(2).sum()),
    "loop": ({"w": SQUARE}, lambda w: _chain(X[:, :2], [w] * 4)),
    "blocks": ({f"{i}.0.weight": SQUARE for i in range(4)}, lambda *ws: _chain(X[:, :2], [w.T for w in ws])),
    "shared": ({"w": W}, lambda w: (w * w[0]).sum() + 2.0 * w[0].sum()),
}
