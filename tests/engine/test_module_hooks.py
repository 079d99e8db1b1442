"""Hooks of modules, forward and backward."""

from __future__ import annotations

import math

import pytest
from nets import Net, close, values

import engine
from engine import Tensor, nn
from engine.nn import functional as F


def test_forward_hooks():
    net, told = nn.Linear(2, 2), []
    net.register_forward_pre_hook(lambda m, args: told.append("before") or (args[0] * 2,))
    net.register_forward_pre_hook(lambda m, args: told.append("first"), prepend=True)
    handle = net.register_forward_hook(lambda m, args, out: told.append(("after", args[0].tolist())) or out + 1)
    out = net(engine.tensor([1.0, 2.0]))
    close(out, values(F.linear(engine.tensor([2.0, 4.0]), net.weight, net.bias)) + 1)
    assert told == ["first", "before", ("after", [2.0, 4.0])]
    handle.remove()
    close(net(engine.tensor([1.0, 2.0])), values(out) - 1)


def test_hooks_with_kwargs_and_always_call():
    net, told = Net(), []
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"shift": kwargs["shift"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kwargs, out: told.append(kwargs), with_kwargs=True)
    net.register_forward_hook(lambda m, args, out: told.append(out), always_call=True)
    net(engine.ones(1, 3), shift=1.0)
    assert told[0] == {"shift": 2.0} and isinstance(told[1], Tensor)
    told.clear()
    with pytest.raises(RuntimeError):
        net(engine.ones(1, 7), shift=1.0)
    assert told == [None]


class TwoByTwo(nn.Module):
    def forward(self, a, b):
        return a * 2, b * 3


def test_full_backward_hooks():
    """The gradients that torch 2.13 shows: None for an output that nobody used, zeros for its input."""
    net, told = TwoByTwo(), []
    net.register_full_backward_pre_hook(lambda m, grad_output: told.append(("pre", grad_output)))
    net.register_full_backward_hook(lambda m, grad_input, grad_output: told.append(("post", grad_input, grad_output)))
    a, b = engine.ones(2).requires_grad_(), engine.ones(2).requires_grad_()
    net(a, b)[0].sum().backward()
    (pre, (used, unused)), (post, (grad_a, grad_b), outputs) = told
    assert (pre, post) == ("pre", "post") and unused is None and outputs[1] is None
    assert used.tolist() == [1, 1] and grad_a.tolist() == [2, 2] and grad_b.tolist() == [0, 0]
    assert a.grad.tolist() == [2, 2]


def test_backward_hooks_can_change_gradients():
    net = TwoByTwo()
    net.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 10, grad_output[1]))
    net.register_full_backward_hook(lambda m, grad_input, grad_output: (grad_input[0] + 1, grad_input[1]))
    a, b = engine.ones(2).requires_grad_(), engine.ones(2).requires_grad_()
    out = net(a, b)
    (out[0] + out[1]).sum().backward()
    assert a.grad.tolist() == [21, 21] and b.grad.tolist() == [3, 3]


def test_backward_hook_without_input_gradients():
    net, told = nn.Linear(2, 2), []
    net.register_full_backward_hook(lambda m, grad_input, grad_output: told.append((grad_input, grad_output[0].tolist())) or grad_input)
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients are computed with respect to module outputs"):
        net(engine.ones(1, 2)).sum().backward()
    assert told == [((None,), [[1.0, 1.0]])] and net.weight.grad is not None
    net.register_full_backward_hook(lambda m, grad_input, grad_output: (grad_output[0],))
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="where no input requires gradient should always return None"):
        net(engine.ones(1, 2)).sum().backward()


def test_the_deprecated_backward_hook_hangs_at_the_last_node():
    net, seen = engine.nn.Linear(2, 3), []
    net.register_backward_hook(lambda module, into, out: seen.append(([tuple(g.shape) for g in into], [tuple(g.shape) for g in out])))
    with pytest.warns(FutureWarning, match="missing some grad_input"):
        net(engine.ones(4, 2, requires_grad=True)).sum().backward()
    assert seen == [([(3,), (4, 2), (2, 3)], [(4, 3)])]
    doubled = engine.nn.Tanh()
    doubled.register_backward_hook(lambda module, into, out: (into[0] * 2,))
    x = engine.tensor([0.5], requires_grad=True)
    doubled(x * 1).backward()
    assert abs(x.grad.item() - 2 * (1 - math.tanh(0.5) ** 2)) < 1e-6
