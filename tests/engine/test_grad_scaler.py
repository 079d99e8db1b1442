"""GradScaler: how the scale moves, which steps are left out, what is refused, and its state."""

from __future__ import annotations

import copy
import math
import pickle

import numpy
import pytest

import engine
from engine import nn, optim
from engine.amp import GradScaler
from engine.amp.grad_scaler import OptState


def made(**options):
    w = nn.Parameter(engine.ones(2))
    return w, optim.SGD([w], lr=0.125), GradScaler("cpu", **{"init_scale": 8.0, "growth_interval": 2, **options})


def iterate(w, optimizer, scaler, bad=False):
    optimizer.zero_grad()
    scaler.scale((w * (math.inf if bad else 1.0)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale()


def test_the_scale_grows_and_shrinks_and_bad_steps_are_left_out():
    w, optimizer, scaler = made(growth_factor=4.0, backoff_factor=0.25)
    seen = [(iterate(w, optimizer, scaler, bad), scaler._get_growth_tracker(), float(w[0])) for bad in (0, 0, 1, 0, 1, 1, 0, 0)]
    scales, trackers, weights = zip(*seen, strict=True)
    assert scales == (8, 32, 8, 8, 2, 0.5, 0.5, 2) and trackers == (1, 0, 0, 1, 0, 0, 1, 0)
    assert weights == (0.875, 0.75, 0.75, 0.625, 0.625, 0.625, 0.5, 0.375)


def test_a_scale_that_would_leave_float32_stays():
    w, optimizer, scaler = made(init_scale=2.0**127, growth_interval=1)
    optimizer.zero_grad()
    scaler.scale((w * 2.0**-120).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_gradients_are_unscaled_once_and_can_be_clipped():
    w, optimizer, scaler = made()
    scaler.scale((w * 3).sum()).backward()
    assert w.grad.tolist() == [24.0, 24.0]
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [3.0, 3.0]
    nn.utils.clip_grad_norm_([w], 1.0)
    clipped = w.grad.clone()
    with pytest.raises(RuntimeError, match="already been called on this optimizer since the last update"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    numpy.testing.assert_allclose(w.detach().numpy(), 1 - 0.125 * clipped.numpy())
    with pytest.raises(RuntimeError, match="step\\(\\) has already been called since the last update"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="being called after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    scaler.unscale_(optimizer)


def test_of_several_optimizers_only_the_bad_one_waits():
    a, b = nn.Parameter(engine.ones(2)), nn.Parameter(engine.ones(2))
    first, second = optim.SGD([a], lr=0.5), optim.Adam([b], lr=0.5)
    scaler = GradScaler("cpu", init_scale=4.0)
    one, two = scaler.scale([a.sum(), (b * math.nan).sum()])
    one.backward()
    two.backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert a.tolist() == [0.5, 0.5] and b.tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0


def test_what_can_be_scaled():
    scaler = GradScaler("cpu", init_scale=2.0)
    x = engine.tensor([1.0, 2.0])
    assert scaler.scale(x).tolist() == [2.0, 4.0]
    found = scaler.scale((x, [x, (x,)]))
    assert type(found) is tuple and type(found[1]) is list and found[1][1][0].tolist() == [2.0, 4.0]
    assert [y.tolist() for y in scaler.scale(x * k for k in (1, 2))] == [[2.0, 4.0], [4.0, 8.0]]
    with pytest.raises(ValueError, match="must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_what_is_refused():
    w, optimizer, scaler = made()
    for do in (lambda: scaler.step(optimizer), scaler.update, lambda: scaler.unscale_(optimizer)):
        with pytest.raises(AssertionError, match="_scale is None"):
            do()
    scaler.scale(w.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(optimizer, closure=lambda: 0)
    w.grad = None
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    for options in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(AssertionError):
            GradScaler("cpu", **options)
    half = nn.Parameter(engine.ones(2, dtype=engine.float16))
    scaler.scale(half.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(optim.SGD([half], lr=0.1))


def test_a_scale_of_ones_own():
    w, optimizer, scaler = made()
    iterate(w, optimizer, scaler)
    scaler.update(3.0)
    assert scaler.get_scale() == 3.0
    scaler.update(engine.tensor([5.0]))
    assert scaler.get_scale() == 5.0
    with pytest.raises(AssertionError):
        scaler.update(engine.ones(2))


def test_switched_off_it_does_nothing():
    w, optimizer, scaler = made(enabled=False)
    loss = w.sum()
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {} and not scaler.is_enabled()
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    assert w.tolist() == [0.875, 0.875]
    if not engine.cuda.is_available():
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert not GradScaler().is_enabled()
        with pytest.warns(FutureWarning), pytest.warns(UserWarning):
            assert not engine.cuda.amp.GradScaler().is_enabled()
    with pytest.warns(FutureWarning, match="torch.cpu.amp.GradScaler"):
        assert engine.cpu.amp.GradScaler(2.0).get_scale() == 2.0


def test_its_state_travels():
    w, optimizer, scaler = made()
    for _ in range(3):
        iterate(w, optimizer, scaler)
    state = scaler.state_dict()
    assert state == {"scale": 16.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 1}
    other = GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert iterate(w, optimizer, other) == 32.0
    scaler.load_state_dict({**state, "scale": 2.0, "_growth_tracker": 0})
    assert scaler.get_scale() == 2.0 and scaler._get_growth_tracker() == 0
    for copied in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)):
        assert copied.state_dict() == scaler.state_dict()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled"):
        pickle.dumps(scaler)
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        scaler.load_state_dict({})
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.1)
    scaler.set_growth_interval(7)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (3.0, 0.1, 7)


def test_an_optimizer_that_unscales_by_itself():
    class Own(optim.SGD):
        _step_supports_amp_scaling = True
        seen: list

        def step(self, closure=None):
            self.seen = [float(self.grad_scale), float(self.found_inf)]

    w = nn.Parameter(engine.ones(2))
    optimizer, scaler = Own([w], lr=0.1), GradScaler("cpu", init_scale=8.0)
    scaler.scale(w.sum()).backward()
    scaler.step(optimizer)
    assert optimizer.seen == [8.0, 0.0] and w.grad.tolist() == [8.0, 8.0] and not hasattr(optimizer, "grad_scale")
    assert scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.STEPPED
    scaler.update()


def test_sparse_gradients():
    table = nn.Embedding(4, 2, sparse=True)
    optimizer, scaler = optim.SGD(table.parameters(), lr=1.0), GradScaler("cpu", init_scale=4.0)
    before = table.weight.detach().clone()
    scaler.scale(table(engine.tensor([1, 1, 3])).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    numpy.testing.assert_allclose((before - table.weight.detach()).numpy(), [[0, 0], [2, 2], [0, 0], [1, 1]], atol=1e-6)
