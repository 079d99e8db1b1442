"""Dropout under a seed: PyTorch draws in the order in which the input lies in memory, whatever its strides."""

from __future__ import annotations

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engine

pytestmark = pytest.mark.torch
axes = st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.sampled_from([1, 1, 2])), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(axes, st.randoms(use_true_random=False), st.integers(0, 99))
def test_any_strides(sizes, rng, seed):
    """`sizes`: of each axis its length, whether it is expanded from 1, and the step of a slice."""
    order = rng.sample(range(len(sizes)), len(sizes))

    def dropped(E):
        E.manual_seed(seed)
        x = E.ones(*[1 if expanded else n for n, expanded, _ in sizes])[tuple(slice(None, None, step) for *_, step in sizes)]
        x = x.expand(*[3 if expanded else -1 for _, expanded, _ in sizes]).permute(order)
        return E.nn.functional.dropout(x, 0.5).numpy()

    assert numpy.array_equal(dropped(torch), dropped(engine))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_transformer_under_a_seed(batch_first, norm_first):
    """Attention gives PyTorch's strides, in whose order the dropout behind it draws."""

    def losses(E):
        E.manual_seed(3)
        layer = E.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=batch_first, norm_first=norm_first)
        net, x, found = E.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), E.randn(3, 5, 8), []
        optimizer = E.optim.SGD(net.parameters(), 0.1)
        for _ in range(5):
            loss = (net(x) ** 2 * E.arange(8)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    assert numpy.allclose(losses(torch), losses(engine), rtol=1e-5)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("shape", [(5, 8), (3, 5, 8)])
@pytest.mark.parametrize("batch_first", [False, True])
def test_attention_lies_as_in_pytorch(batch_first, shape, need_weights):
    def attended(E):
        E.manual_seed(5)
        attention, x = E.nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=batch_first), E.randn(*shape)
        out, _ = attention(x, x, x, need_weights=need_weights)
        return tuple(out.stride()), E.nn.functional.dropout(out, 0.5).detach().numpy()

    (their_stride, theirs), (stride, ours) = attended(torch), attended(engine)
    assert stride == their_stride
    assert numpy.allclose(theirs, ours, atol=1e-5)
