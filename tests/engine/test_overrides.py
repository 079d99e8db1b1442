"""`engine.overrides`: modes hear of every call, and the questions about `__torch_function__` that libraries ask. As PyTorch 2.13 does."""

from __future__ import annotations

import pytest

import engine
from engine import Tensor, nn
from engine.compat import overrides


class Heard(overrides.TorchFunctionMode):
    def __init__(self, told=None):
        self.told = [] if told is None else told

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.told.append(overrides.resolve_name(func) or func.__name__)
        return func(*args, **(kwargs or {}))


class Duck:
    """Like a tensor, without being one."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, types


class Doubled(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        return out * 2 if func is engine.neg or func is Tensor.neg else out


def test_a_mode_hears_of_plain_tensors():
    layer = nn.Linear(3, 2)
    with Heard() as mode:
        x = engine.randn(4, 3)
        y = layer(x)
        (y + 1), (1 + y), y[0], (y == y), (y < y), -y
        z = x.clone()
        z += 1
        z[0] = 0
        assert x.shape == (4, 3) and x.grad is None and len(x) == 4 and bool(x.any())
        y.sum().backward()
        engine.tensor(1.0), engine.is_tensor(x)
    assert mode.told == [
        *("torch.randn", "torch.nn.functional.linear", "torch.Tensor.add", "torch.Tensor.add", "torch.Tensor.__getitem__"),
        *("torch.Tensor.__eq__", "torch.Tensor.lt", "torch.Tensor.neg", "torch.Tensor.clone", "torch.Tensor.add_"),
        "torch.Tensor.__setitem__",
        *("torch.Tensor.shape.__get__", "torch.Tensor.grad.__get__", "torch.Tensor.__len__", "torch.Tensor.any", "torch.Tensor.__bool__"),
        *("torch.Tensor.sum", "torch.Tensor.backward", "torch.tensor"),
    ]
    assert layer.weight.grad is not None


def test_nothing_is_left_of_a_mode():
    seen = (Tensor.exp, Tensor.backward, Tensor.__add__, Tensor.shape.fget)
    before, codes = dict(vars(Tensor)), [f.__code__ for f in seen]
    with pytest.raises(ValueError, match="out"), Heard(), Heard():
        assert dict(vars(Tensor)) == before and not any(f.__code__ is code for f, code in zip(seen, codes, strict=True))
        raise ValueError("out")
    assert (
        dict(vars(Tensor)) == before
        and all(f.__code__ is code for f, code in zip(seen, codes, strict=True))
        and not overrides.has_torch_function((engine.ones(1),))
    )
    mode = Heard()
    with mode:
        pass
    engine.ones(2) + 1
    assert mode.told == []


def test_a_mode_hears_of_what_was_kept_before():
    """Functions, methods and properties that a program has in tables and variables are those of which a mode hears."""
    table = {
        engine.exp: 1,
        Tensor.exp: 2,
        nn.functional.relu: 3,
        Tensor.add: 4,
        Tensor.shape.__get__: 5,
        Tensor.__getitem__: 6,
        engine.zeros: 7,
    }
    table |= {Tensor.matmul: 8, Tensor.backward: 9, Tensor.requires_grad.__set__: 10, nn.functional.sigmoid: 11, nn.functional.elu_: 12}
    exp, add, shape, relu, elu_ = engine.exp, Tensor.add, Tensor.shape.__get__, nn.functional.relu, nn.functional.elu_

    class Listed(overrides.TorchFunctionMode):
        told: list = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.told.append(table.get(func))
            assert engine.exp is exp and Tensor.add is add and Tensor.shape.__get__ == shape
            return func(*args, **(kwargs or {}))

    x = engine.ones(2, 2)
    with Listed() as outer:
        exp(x), x.exp(), relu(x), add(x, 1), x + 1, shape(x), x[0], engine.zeros(1), x @ x
        x.requires_grad = True
        x.sum().backward()
        nn.functional.sigmoid(x), elu_(engine.ones(1))
    assert [n for n in outer.told if n is not None] == [1, 2, 3, 4, 4, 5, 6, 7, 8, 10, 9, 11, 12]
    with Listed(), Listed():  # the inner one's call is heard by the outer one
        Listed.told.clear()
        assert add(x, 1).tolist() == [[2, 2], [2, 2]] and Listed.told[:2] == [4, 4]


def test_modes_nest_the_innermost_hears_first():
    told: list = []

    class Named(overrides.TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            told.append(self.name)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"), overrides.BaseTorchFunctionMode():
        assert engine.exp(engine.zeros(1)).item() == 1
    assert told == ["inner", "outer"] * 3


def test_a_mode_gives_the_result():
    class Constant(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 7 if func in (engine.add, Tensor.add, Tensor.shape.__get__) else NotImplemented if func is engine.exp else func(*args)

    x = engine.ones(2)
    with Constant():
        assert (x + 1, x.add(1), engine.add(x, 1), x.shape) == (7, 7, 7, 7) and engine.mul(x, 2).tolist() == [2, 2]
        with pytest.raises(TypeError, match="no implementation found for 'exp'.*Constant"):
            engine.exp(x)
    with pytest.raises(NotImplementedError), overrides.TorchFunctionMode():
        engine.exp(x)
    assert (x + 1).tolist() == [2, 2] and x.shape == (2,)


def test_a_mode_comes_before_a_subclass():
    x = Doubled([1.0])
    with Heard() as mode:
        assert (-x).tolist() == [-2] and type(x.exp()) is Doubled
    assert mode.told[0] == "torch.Tensor.neg" and (-x).tolist() == [-2]


def test_what_is_like_a_tensor_hears():
    assert engine.add(Duck(), 1) == ("add", (Duck,)) and engine.stack([engine.ones(1), Duck()]) == ("stack", (Duck,))
    assert overrides.is_tensor_like(Duck()) and overrides.is_tensor_like(engine.ones(1)) and not overrides.is_tensor_like([1.0])
    assert overrides.has_torch_function((1, Duck())) and overrides.has_torch_function_unary(Doubled([1.0]))
    assert not overrides.has_torch_function_variadic(1, engine.ones(1), nn.Parameter(engine.ones(1)))


def test_functions_of_a_program_ask_too():
    def norm(x, scale=1):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(norm, (x,), x, scale=scale)
        return x.norm() * scale

    assert norm(Duck()) == ("norm", (Duck,)) and norm(engine.ones(4), scale=2).item() == 4

    @overrides.wrap_torch_function(lambda x: (x,))
    def twice(x):
        return x * 2

    assert twice(Duck()) == ("twice", (Duck,)) and twice(engine.ones(1)).item() == 2


def test_names_and_lists():
    functions = overrides.get_overridable_functions()
    assert engine.add in functions[engine] and Tensor.add in functions[Tensor] and nn.functional.relu in functions[nn.functional]
    assert engine.tensor in overrides.get_ignored_functions() and engine.add not in overrides.get_ignored_functions()
    stand_ins = overrides.get_testing_overrides()
    assert stand_ins[engine.add](1, 2) == -1 and len(stand_ins) > 1000
    names = {engine.add: "torch.add", Tensor.add: "torch.Tensor.add", nn.functional.relu: "torch.nn.functional.relu"}
    names |= {
        nn.functional.conv2d: "torch.nn.functional.conv2d",
        engine.absolute: "torch.absolute",
        Tensor.absolute: "torch.Tensor.absolute",
    }
    names |= {engine.einsum: "torch.functional.einsum", engine.zeros: "torch.zeros", engine.special.expit: "torch.special.expit"}
    names |= {engine.linalg.inv: "torch.linalg.inv", Tensor.grad.__get__: "torch.Tensor.grad.__get__", len: None}
    assert {f: overrides.resolve_name(f) for f in names} == names
    asked = {Tensor.add: True, Tensor.grad.__get__: True, engine.add: False}
    assert {f: overrides.is_tensor_method_or_property(f) for f in asked} == asked
    assert all(f in overrides.get_overridable_functions()[Tensor] for f in overrides.get_default_nowrap_functions())


def test_the_calls_inside_a_call_are_heard_of_when_it_is_redispatched():
    told: list = []

    class Inner(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append(func.__name__)
            if func is outer:
                return overrides.redispatch_function(func, types, args, kwargs)
            return super().__torch_function__(func, types, args, kwargs or {})

    @overrides.wrap_torch_function(lambda x: (x,))
    def outer(x):
        return engine.exp(x)

    assert type(outer(Inner([0.0]))) is Inner and told == ["outer", "exp"]
