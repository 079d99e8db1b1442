"""What the tape keeps of a checkpoint: nothing until backward computes it again."""

from __future__ import annotations

from weakref import ref

import pytest

import engine
from engine.autograd.graph import saved_tensors_hooks
from engine.core import tape
from engine.utils.checkpoint import checkpoint


def kept_bytes(loss) -> int:
    """What the tape of the engine keeps for backward."""
    arrays: dict[int, int] = {}
    for node in tape.plan([loss.node]):
        saved = getattr(node, "saved", ())
        for item in saved if isinstance(saved, tuple) else ():
            if hasattr(item, "nbytes"):
                arrays[id(item)] = item.nbytes
    return sum(arrays.values())


def test_the_tape_keeps_less():
    x = engine.ones(100, 100, requires_grad=True)

    def deep(x):
        for _ in range(20):
            x = (x * 0.1).tanh().exp()
        return x

    plain, saving = deep(x).sum(), checkpoint(deep, x, use_reentrant=False).sum()
    assert kept_bytes(plain) >= 40 * x.nbytes and kept_bytes(saving) == 0


@pytest.mark.usefixtures("no_collector")
def test_what_went_into_a_checkpoint_goes_with_its_last_step_and_not_with_the_collector():
    seen = []

    def deep(x):
        seen.append(ref(x))
        return x.tanh().exp()

    x = engine.ones(3, requires_grad=True)
    loss = checkpoint(deep, x * 2, use_reentrant=False).sum()
    loss.backward()
    assert len(seen) == 2 and [held() for held in seen] == [None, None]


@pytest.mark.usefixtures("no_collector")
def test_the_way_back_from_what_a_hook_packed_goes_with_the_graph():
    def unpack(tensor):
        return tensor

    x, kept = engine.ones(3, requires_grad=True), ref(unpack)
    with saved_tensors_hooks(lambda t: t, unpack):
        y = x.exp()
    del unpack
    assert kept() is not None
    del y
    assert kept() is None
