"""Subclasses of Tensor that a program defines, and `__torch_function__`: what PyTorch 2.13 does with the same programs."""

from __future__ import annotations

import copy
import pickle

import pytest

import engine
from engine import Tensor


class Plain(Tensor):
    pass


class Logged(Tensor):
    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Described(Tensor):
    @staticmethod
    def __new__(cls, data, unit=None):
        return super().__new__(cls, data)

    def __init__(self, data, unit=None):
        self.unit = unit


def test_results_are_of_the_subclass():
    x = Plain([1.0, 2.0])
    results = (
        x + 1,
        1 + x,
        engine.ones(2) + x,
        x.sum(),
        engine.exp(x),
        x[0],
        x.mT if x.ndim > 1 else x.T,
        x.clone(),
        x.detach(),
        engine.stack([x, x]),
    )
    assert all(type(r) is Plain for r in results)
    assert type(x.max(0).values) is Plain and type(x.numpy()).__name__ == "ndarray"
    assert type(engine.exp(engine.ones(2))) is Tensor and not isinstance(engine.ones(1), Plain)
    assert repr(x) == "Plain([1., 2.])" and (x + 1).tolist() == [2.0, 3.0]


def test_every_call_is_heard():
    y = Logged([1.0, 2.0])
    Logged.calls.clear()
    total = (y * 2).sum()
    engine.mean(y), y.relu(), engine.nn.functional.relu(y), y[0], y.reshape(2, 1)
    assert Logged.calls == ["mul", "sum", "mean", "relu", "relu", "__getitem__", "reshape"]  # PyTorch's list
    assert type(total) is Logged and total.item() == 6.0


def test_data_of_its_own():
    a = Described([1.0, 2.0], unit="m")
    assert type(a) is Described and a.unit == "m" and a.dtype is engine.float32


def test_gradients_flow_through():
    leaf = engine.tensor([1.0, 2.0], requires_grad=True)
    x = leaf.as_subclass(Plain)
    assert type(x) is Plain and not x.is_leaf and x.requires_grad
    (x * x).sum().backward()
    assert leaf.grad.tolist() == [2.0, 4.0]
    own = Plain([3.0]).requires_grad_()
    (own * own).sum().backward()
    assert own.grad.tolist() == [6.0]


def test_in_place_is_the_same_object():
    x = Plain([1.0, 2.0])
    assert x.add_(1) is x and x.tolist() == [2.0, 3.0]
    x[0] = 7
    x += 1
    assert type(x) is Plain and x.tolist() == [8.0, 4.0]


def test_a_refusal_is_pytorchs():
    class Refusing(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="no implementation found for 'add' on types that implement __torch_function__"):
        Refusing([1.0]) + 1


def test_parameters_are_no_subclass_of_this_kind():
    class Own(engine.nn.Parameter):
        pass

    p = Own(engine.ones(2))
    assert type(p + 1) is Tensor and p.requires_grad
    assert type(Tensor._make_subclass(Plain, engine.ones(2), True)) is Plain
    with pytest.raises(TypeError, match="expected a subclass of Tensor"):
        engine.ones(2).as_subclass(int)


def test_copies_keep_the_class():
    x = Plain([1.0, 2.0])
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(twin) is Plain and twin.tolist() == [1.0, 2.0] and twin.data_ptr() != x.data_ptr()


def test_classes_stay_classes():
    """Once a program has defined a subclass, functions look for it; what is no function is left alone."""

    class Own(engine.Tensor):
        pass

    assert type(engine.ones(1).as_subclass(Own) + 1) is Own
    assert isinstance(engine.Generator, type) and isinstance(engine.default_generator, engine.Generator)
    assert engine.default_generator.initial_seed() == engine.initial_seed()
