"""torch.nn.parallel's pieces of DataParallel, on one device: together they are the module on the whole batch."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine import nn
from engine.nn import parallel


def test_scatter_replicate_apply_gather_are_the_module():
    engine.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x = engine.randn(6, 3, dtype=engine.float64)
    places = ["cpu", "cpu"]
    copies = parallel.replicate(net, places)
    out = parallel.gather(parallel.parallel_apply(copies, parallel.scatter((x,), places), devices=places), "cpu")
    out.square().sum().backward()
    found = [p.grad.numpy().copy() for p in net.parameters()]
    net.zero_grad()
    whole = net(x)
    whole.square().sum().backward()
    numpy.testing.assert_allclose(out.detach().numpy(), whole.detach().numpy(), rtol=1e-12)
    for a, b in zip(found, net.parameters(), strict=True):
        numpy.testing.assert_allclose(a, b.grad.numpy(), rtol=1e-12)
    assert list(copies[0].parameters()) == [] and type(copies[0][0]) is nn.Linear and len(list(net.parameters())) == 4
    assert not parallel.replicate(net, ["cpu"], detach=True)[0](x).requires_grad


def test_modules_that_share_a_weight_share_it_in_a_copy():
    net = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2)])
    net.append(net[0])
    made = parallel.replicate(net, ["cpu"])[0]
    assert made[0] is made[2] and made[0] is not net[0] and made[1].running_mean.tolist() == [0, 0]


def test_parallel_apply_takes_keywords_and_wants_as_many_inputs_as_modules():
    class Scaled(nn.Module):
        def forward(self, x, by=1):
            return x * by

    found = parallel.parallel_apply([Scaled(), Scaled()], [engine.ones(1), (engine.ones(1),)], [{"by": 3}, {}])
    assert [f.tolist() for f in found] == [[3], [1]]
    with pytest.raises(AssertionError, match="The number of modules 2 is not equal to the number of inputs 1"):
        parallel.parallel_apply([Scaled(), Scaled()], [engine.ones(1)])
