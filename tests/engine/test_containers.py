"""Sequential, lists and dicts of modules and of parameters."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from engine import Tensor, nn


def test_sequential():
    a, b, c = nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)
    net = nn.Sequential(OrderedDict(first=a, act=b))
    assert net.first is a and net[-1] is b and list(net[:1]._modules) == ["first"]
    plain = nn.Sequential(a, b).append(c)
    assert len(plain) == 3 and list(plain) == [a, b, c]
    del plain[1]
    assert list(plain._modules) == ["0", "1"] and plain[1] is c
    plain.insert(0, b)
    assert plain.pop(0) is b and len(plain + plain) == 4 and len(plain * 3) == 6
    plain[0] = b
    assert plain[0] is b
    with pytest.raises(IndexError, match="index 5 is out of range"):
        plain[5]


def test_lists_and_dicts():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers.append(nn.ReLU())
    layers += [nn.Tanh()]
    layers.insert(1, nn.GELU())
    assert (
        [type(m).__name__ for m in layers] == ["Linear", "GELU", "ReLU", "Tanh"]
        and len(layers[1:3]) == 2
        and len(layers + [nn.ReLU()]) == 5
    )
    named = nn.ModuleDict({"a": nn.ReLU()})
    named.update([("b", nn.Linear(1, 1))])
    assert list(named.keys()) == ["a", "b"] and "b" in named and isinstance(named.pop("a"), nn.ReLU) and len(named) == 1
    params = nn.ParameterList([Tensor([1.0]), Tensor([2.0])])
    params.append(Tensor([3.0]))
    assert [p.item() for p in params] == [1, 2, 3] and all(p.requires_grad for p in params) and len(list(params.parameters())) == 3
    assert params[-1] is params[2] and len(params[1:]) == 2
    table = nn.ParameterDict({"a": Tensor([1.0])})
    table["b"] = Tensor([2.0])
    assert [n for n, _ in table.named_parameters()] == ["a", "b"] and table.get("c") is None and table.get("a") is table["a"]
    assert table.setdefault("c", Tensor([3.0])) is table["c"] and len(table.copy()) == 3 and table.popitem()[0] == "c"
    assert list(nn.ParameterList([1]).state_dict()) == []
