"""A small program with a loss, for the tests of teaching, and a request as a view sends it."""

from __future__ import annotations

import json

import engine
from workbench.protocol import VERSION

HOSTILE = "<img src=x onerror=alert(1)>"


def program():
    """loss = (w · x)², with w used once more: two paths to the loss."""
    x = engine.tensor([1.0, 2.0])
    w = engine.tensor([0.5, 1.0], requires_grad=True)
    z = (w * x).sum()
    loss = z * z + w.sum()
    return x, w, z, loss


def ask(session, kind, **fields):
    """One request as a view sends it; the answers' JSON."""
    return [json.loads(json.dumps(message)) for message, _ in session.handle({"type": kind, "v": VERSION, "id": 7, **fields})]
