"""Subclasses of Tensor that a program defines, and `__torch_function__`: what PyTorch 2.13 does with the same programs."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import subprocess
import sys
import threading

import pytest

import engine
from engine import Tensor
from engine.core import public, subclasses
from engine.core.op import functions
from engine.nn import functional as F


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


KEPT = """
import copy, functools, io, pickle
import engine
from engine import Tensor, absolute, exp, zeros
from engine.nn import TransformerEncoderLayer, functional as F

def layer(x, act=F.relu):
    return act(x)

table = {F.relu: "F.relu", engine.relu: "relu", exp: "exp", engine.linalg.inv: "inv", Tensor.exp: "method", engine.cat: "cat", absolute: "absolute"}
table |= {F.elu_: "elu_", F.conv2d: "conv2d", F.sigmoid: "sigmoid", engine.fft.fft: "fft", zeros: "zeros"}
softmax, pickled, encoder = functools.partial(F.softmax, dim=-1), pickle.dumps([F.relu, exp, zeros, Tensor.exp]), TransformerEncoderLayer(4, 2, 8)
before = list(table)
x = engine.ones(2, 2)
plain = [layer(x).tolist(), exp(x).tolist()]

class Told(Tensor):
    heard = []
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.heard.append(table.get(func))
        return super().__torch_function__(func, types, args, kwargs or {})

s = x.as_subclass(Told)
found = [layer(s), exp(s), engine.linalg.inv(s + engine.eye(2)), s.exp(), engine.cat([x, s]), absolute(s), F.elu_(s.clone()), F.sigmoid(s)]
found += [engine.fft.fft(s), F.conv2d(s[None, None], engine.ones(1, 1, 1, 1)), softmax(s)]
assert all(type(y) is Told for y in found)
assert [n for n in Told.heard if n] == "F.relu exp inv method cat absolute elu_ sigmoid fft conv2d".split(), Told.heard
now = [F.relu, engine.relu, engine.exp, engine.linalg.inv, Tensor.exp, engine.cat, engine.absolute, F.elu_, F.conv2d, F.sigmoid, engine.fft.fft]
assert all(a is b and a == b for a, b in zip(before, [*now, engine.zeros], strict=True))
assert pickle.loads(pickled) == [F.relu, engine.exp, engine.zeros, Tensor.exp]
assert encoder.activation is F.relu and pickle.loads(pickle.dumps(encoder)).activation is F.relu and copy.deepcopy(encoder).activation is F.relu
assert [layer(x).tolist(), exp(x).tolist()] == plain and type(exp(x)) is Tensor
"""


def test_what_was_kept_before_the_first_subclass_asks_and_is_the_same():
    subprocess.run([sys.executable, "-c", KEPT], check=True)


EVERY = [(name, known.function) for name, known in public.named.items()]
EVERY += [(f"Tensor.{name}", known.function) for name, known in subclasses.methods.items()]


def test_public_functions_are_functions_still():
    for name, function in EVERY:
        home, _, short = name.rpartition(".")
        assert functools.reduce(getattr, name.split("."), engine) is function and inspect.isfunction(function)
        assert copy.deepcopy(function) is function and pickle.loads(pickle.dumps(function)) is function
        assert function.__qualname__ == (name if home == "Tensor" else short) and inspect.signature(function)
    assert str(inspect.signature(engine.exp)) == "(input)" and "dtype" in str(inspect.signature(engine.zeros))
    assert "other" in str(inspect.signature(Tensor.add)) and functools.wraps(engine.exp)(lambda x: x).__name__ == "exp"
    assert engine.fft.fft.__name__ == "fft_fft" and engine.linalg.inv.__name__ == "linalg_inv" and engine.absolute.__name__ == "absolute"


def test_a_function_that_asks_has_the_variables_of_the_plain_one():
    """Of a code that takes another's place Python wants as many variables from outside; those who look into closures want their names."""
    for known in (*public.named.values(), *subclasses.methods.values()):
        asking = public._code(known.plain.__code__.co_freevars, print, known.function)
        assert asking.co_freevars == known.plain.__code__.co_freevars and print in asking.co_consts


def test_a_method_is_no_function_and_the_engine_calls_neither():
    """As in PyTorch, where torch.exp and torch.Tensor.exp are two, and aliases are functions of their own."""
    assert len({id(f) for f in (engine.exp, Tensor.exp, functions["exp"], engine.abs, engine.absolute, Tensor.abs, Tensor.absolute)}) == 7
    assert F.conv2d is engine.conv2d and F.relu is not engine.relu and F.tanh is not engine.tanh and F.celu_ is engine.celu_
    assert (
        functions["exp"].__code__ is public.named["exp"].plain.__code__ is not engine.exp.__code__
    )  # which asks: there are subclasses here


def test_functions_are_exchanged_while_another_thread_calls_them():
    """Calls that run meanwhile go on, and give what they give."""
    x, stop, wrong = engine.ones(2), threading.Event(), []

    def work():
        while not stop.is_set():
            if (engine.exp(x) - x.exp()).abs().sum().item() != 0 or x.shape != (2,):
                wrong.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(300):
        with engine.overrides.BaseTorchFunctionMode():
            assert engine.relu(x).tolist() == [1, 1]
    stop.set()
    thread.join()
    assert not wrong


def test_namespaces_that_are_imported_later_dispatch_too():
    """`engine.fft` is imported when a program first names it: here after the class was defined."""
    program = """if True:
        import sys, engine

        class Mine(engine.Tensor):
            pass

        assert not {f"engine.{name}" for name in ("fft", "linalg", "special")} & sys.modules.keys()
        x = engine.ones(3).as_subclass(Mine)
        print(*(type(f(x)).__name__ for f in (engine.fft.fft, engine.linalg.norm, engine.special.erf)))"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == ["Mine"] * 3
