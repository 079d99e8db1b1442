"""Sequential, lists and dicts of modules and of parameters."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import engine
from engine import nn


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
    params = nn.ParameterList([engine.tensor([1.0]), engine.tensor([2.0])])
    params.append(engine.tensor([3.0]))
    assert [p.item() for p in params] == [1, 2, 3] and all(p.requires_grad for p in params) and len(list(params.parameters())) == 3
    assert params[-1] is params[2] and len(params[1:]) == 2
    table = nn.ParameterDict({"a": engine.tensor([1.0])})
    table["b"] = engine.tensor([2.0])
    assert [n for n, _ in table.named_parameters()] == ["a", "b"] and table.get("c") is None and table.get("a") is table["a"]
    assert table.setdefault("c", engine.tensor([3.0])) is table["c"] and len(table.copy()) == 3 and table.popitem()[0] == "c"
    assert list(nn.ParameterList([1]).state_dict()) == []


def test_parameter_dict_in_pytorchs_order():
    ones = engine.ones(1)
    assert list(nn.ParameterDict({"b": ones, "a": 1})) == ["a", "b"]  # a plain dict by its names
    assert list(nn.ParameterDict(OrderedDict(b=ones, a=1))) == list(nn.ParameterDict([("b", ones), ("a", 1)])) == ["b", "a"]
    kept = nn.ParameterDict(OrderedDict(b=ones, a=1))
    assert list(nn.ParameterDict(kept)) == ["b", "a"] and list(reversed(kept)) == ["a", "b"]


def test_parameter_dict_refuses_and_stays_as_it_was():
    params = nn.ParameterDict({"a": engine.ones(1)})
    with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
        params[3] = engine.ones(1)
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        params["keys"] = engine.ones(1)
    assert list(params) == ["a"] and len(params) == 1
    for missing in (lambda: params["b"], lambda: params.pop("b")):
        with pytest.raises(AttributeError, match="'ParameterDict' object has no attribute 'b'"):
            missing()


def test_parameters_within_parameters_in_text():
    inner = nn.ParameterList([engine.ones(2)])
    assert repr(inner) == "ParameterList(  (0): Parameter containing: [torch.float32 of size 2])"
    assert repr(nn.ParameterList([inner])) == (
        "ParameterList(\n    (0): Object of type: ParameterList\n  (0): ParameterList(  (0): Parameter containing: [torch.float32 of size 2])\n)"
    )
