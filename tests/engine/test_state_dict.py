"""State of modules: saved, loaded, refused. Expected texts are torch 2.13's."""

from __future__ import annotations

import collections

import numpy
import pytest
from nets import Net, close, values

import engine
from engine import nn


def test_state_dict():
    net = Net()
    state = net.state_dict()
    assert list(state) == ["scale", "seen", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
    assert state["scale"].array is net.scale.array and not state["scale"].requires_grad
    assert net.state_dict(keep_vars=True)["scale"] is net.scale
    assert state._metadata == {name: {"version": 1} for name in ("", "first", "rest", "rest.0", "rest.1")}
    other = Net()
    assert repr(other.load_state_dict(state)) == "<All keys matched successfully>"
    x = engine.ones(2, 3)
    close(other(x), values(net(x)))


def test_loading_what_does_not_fit_changes_nothing():
    layer = nn.Linear(2, 2)
    before = values(layer.bias).copy(), values(layer.weight).copy()
    with pytest.raises(RuntimeError) as error:
        layer.load_state_dict({"weight": engine.ones(3, 2), "bias": engine.ones(2), "foo": engine.ones(1)})
    assert str(error.value) == (
        'Error(s) in loading state_dict for Linear:\n\tUnexpected key(s) in state_dict: "foo". \n\tsize mismatch for weight: '
        "copying a param with shape torch.Size([3, 2]) from checkpoint, the shape in current model is torch.Size([2, 2])."
    )
    with pytest.raises(RuntimeError, match='Missing key\\(s\\) in state_dict: "bias". '):
        layer.load_state_dict({"weight": engine.ones(2, 2)})
    with pytest.raises(RuntimeError, match="expected engine.Tensor or Tensor-like object from checkpoint but received <class 'list'>"):
        layer.load_state_dict({"weight": [1], "bias": engine.ones(2)})
    with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "a.b", "a".'):
        layer.load_state_dict({"weight": engine.ones(2, 2), "bias": engine.ones(2), "a.b": 1, "a": 2})
    numpy.testing.assert_array_equal(values(layer.bias), before[0])
    numpy.testing.assert_array_equal(values(layer.weight), before[1])


def test_loading_loosely():
    layer = nn.Linear(2, 2)
    told = layer.load_state_dict({"weight": engine.ones(2, 2), "foo": engine.ones(1)}, strict=False)
    assert told.missing_keys == ["bias"] and told.unexpected_keys == ["foo"] and (values(layer.weight) == 1).all()


def test_a_destination_is_filled():
    state = collections.OrderedDict(before=1)
    empty = collections.OrderedDict()
    assert nn.Linear(2, 2).state_dict(destination=state, prefix="a.") is state and list(state) == ["before", "a.weight", "a.bias"]
    assert nn.Linear(2, 2).state_dict(destination=empty) is empty and list(empty) == ["weight", "bias"]


def test_a_hook_forgives_missing_keys():
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    assert repr(layer.load_state_dict({"weight": engine.ones(2, 2)})) == "<All keys matched successfully>"
    assert (values(layer.weight) == 1).all()
    with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "foo"'):
        layer.load_state_dict({"weight": engine.ones(2, 2), "foo": engine.ones(1)})


def test_assign():
    layer = nn.Linear(2, 2)
    weight = engine.ones(2, 2).double()
    layer.load_state_dict({"weight": weight, "bias": engine.ones(2)}, assign=True)
    assert layer.weight.array is weight.array and isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad


def test_state_hooks_and_extra_state():
    class Counted(nn.Linear):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    layer, told = Counted(1, 1), []
    layer.count = 5
    layer.register_state_dict_pre_hook(lambda m, prefix, keep_vars: told.append("pre"))
    layer.register_state_dict_post_hook(lambda m, state, prefix, meta: told.append(sorted(state)))
    state = layer.state_dict()
    assert told == ["pre", ["_extra_state", "bias", "weight"]]
    other = Counted(1, 1)
    other.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: state.pop("old", None))
    other.register_load_state_dict_post_hook(lambda m, keys: told.append(keys))
    other.load_state_dict({**state, "old": 1})
    assert other.count == 5 and told[-1].missing_keys == []


def test_the_state_may_be_given_by_name():
    layer = nn.Linear(2, 2)
    assert repr(layer.load_state_dict(state_dict=nn.Linear(2, 2).state_dict(), strict=True)) == "<All keys matched successfully>"


def test_a_vector_of_one_loads_into_a_number():
    net = Net()
    net.scale = nn.Parameter(engine.tensor(1.0))
    net.load_state_dict({**net.state_dict(), "scale": engine.tensor([3.0])})
    assert net.scale.shape == () and net.scale.item() == 3.0
    with pytest.raises(RuntimeError, match="size mismatch for first.bias"):
        net.load_state_dict({**net.state_dict(), "first.bias": engine.tensor(4.0)})


@pytest.mark.parametrize("metadata", [{}, {"version": 1}])
def test_a_program_loads_module_by_module(metadata):
    """The loop that many programs write around `_load_from_state_dict`: what fits is there when it returns."""
    layer, state = nn.Linear(1, 2), {"a.weight": engine.tensor([[2.0], [3.0]]), "a.bias": engine.ones(3), "a.odd": engine.ones(1)}
    missing, unexpected, errors = [], [], []
    layer._load_from_state_dict(state, "a.", metadata, True, missing, unexpected, errors)
    assert layer.weight.tolist() == [[2.0], [3.0]] and layer.weight.is_leaf
    assert (missing, unexpected) == ([], ["a.odd"]) and len(errors) == 1 and "size mismatch for a.bias" in errors[0]


def test_hooks_before_loading_see_the_metadata_alone():
    layer, told = nn.Linear(1, 1), []
    layer.register_load_state_dict_pre_hook(lambda module, state, prefix, local, *rest: told.append(dict(local)))
    layer.load_state_dict(layer.state_dict())
    layer.load_state_dict(layer.state_dict(), assign=True)
    assert told == [{"version": 1}, {"version": 1, "assign_to_params_buffers": True}]
