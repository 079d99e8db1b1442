"""`compile` and `jit`: PyTorch's interfaces around programs that run as they are written."""

from __future__ import annotations

import warnings

import pytest

import engine
from engine import nn
from engine.compat import jit


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("scale", engine.tensor(2.0))
        self.blocks = nn.ModuleList([nn.Linear(2, 2)])
        self.times = 3

    def forward(self, x):
        for block in self.blocks:
            x = block(self.layer(x)) * self.scale
        return x * self.times

    @jit.export
    def twice(self, x):
        return self(self.layer.weight.new_tensor(x)) * 2

    @jit.ignore
    def note(self):
        return "noted"


# -- compile -------------------------------------------------------------------------------------------------------------------


def test_a_compiled_module_is_one_around_the_other():
    net, x = Net(), engine.randn(4, 3)
    compiled = engine.compile(net, mode="reduce-overhead", fullgraph=True)
    assert engine.equal(compiled(x), net(x)) and isinstance(compiled, nn.Module) and compiled._orig_mod is net
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in net.state_dict()]
    assert [p is q for p, q in zip(compiled.parameters(), net.parameters(), strict=True)] == [True] * 4
    compiled.load_state_dict({f"_orig_mod.{k}": v + 1 for k, v in net.state_dict().items()})
    assert net.scale.item() == 3
    compiled.eval()
    assert not net.training and compiled.times == 3 and compiled.note() == "noted"
    compiled.times = 5
    assert net.times == 5 and repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Net(")
    compiled(x).sum().backward()
    assert net.layer.weight.grad is not None
    engine.optim.SGD(compiled.parameters(), lr=0.1).step()


def test_a_compiled_function_keeps_its_name():
    def add(x, y=1):
        """One more."""
        return x + y

    assert engine.compile(add)(engine.ones(1), y=2).item() == 3 and engine.compile(add).__name__ == "add"

    @engine.compile
    def double(x):
        return x * 2

    @engine.compile(dynamic=True, backend="eager")
    def triple(x):
        return x * 3

    assert double(engine.ones(1)).item() == 2 and triple(engine.ones(1)).item() == 3
    net = Net()
    assert engine.compile(net, disable=True) is net and not engine.compiler.is_compiling()
    assert engine.compiler.disable(add) is add and engine.compiler.disable()(add) is add


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: engine.compile(len, mode="fast"), RuntimeError, "Unrecognized mode=fast, should be one of: default"),
        (lambda: engine.compile(len, backend="none"), RuntimeError, "Invalid backend: 'none'"),
        (lambda: engine.compile(len, backend=print), NotImplementedError, "PyTorch's graph, which there is not"),
        (lambda: engine.compile(len, mode="default", options={}), RuntimeError, "Either mode or options"),
        (lambda: engine.compile(3), TypeError, "A callable function is expected"),
        (lambda: engine.compile(len, speed=3), TypeError, "unexpected keyword argument"),
    ],
)
def test_what_compile_refuses(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


# -- jit -----------------------------------------------------------------------------------------------------------------------


def test_a_scripted_module_shares_what_it_computes_with():
    net, x = Net(), engine.randn(4, 3)
    scripted = jit.script(net)
    assert isinstance(scripted, jit.ScriptModule) and isinstance(scripted.layer, jit.ScriptModule) and scripted.original_name == "Net"
    assert engine.equal(scripted(x), net(x)) and list(scripted.state_dict()) == list(net.state_dict())
    assert scripted.layer.weight is net.layer.weight and scripted.scale is net.scale and scripted.times == 3
    assert engine.equal(scripted.twice([1.0, 2.0, 3.0]), net.twice([1.0, 2.0, 3.0])) and scripted.note() == "noted"
    net.eval()
    assert scripted.training and scripted.layer.training and not net.layer.training
    assert repr(scripted.layer) == "RecursiveScriptModule(original_name=Linear)" and jit.script(scripted) is scripted
    scripted.layer.weight.data.zero_()
    assert net.layer.weight.abs().sum().item() == 0
    shared = nn.Sequential(net.layer, net.layer)
    assert jit.script(shared)[0] is jit.script(shared)[0] or jit.script(shared)[0].weight is net.layer.weight


def test_a_scripted_function_is_called_as_before():
    @jit.script
    def relu_twice(x: engine.Tensor, times: int = 2) -> engine.Tensor:
        if jit.is_scripting():
            raise AssertionError("this is Python")
        return x.relu() * times

    assert relu_twice(engine.tensor([-1.0, 2.0])).tolist() == [0.0, 4.0] and relu_twice.__name__ == relu_twice.name == "relu_twice"
    assert isinstance(relu_twice, jit.ScriptFunction) and jit.script(relu_twice) is relu_twice
    assert jit.annotate(list[int], []) == [] and jit.isinstance([1], list[int]) and jit.Attribute(3, int).value == 3
    assert jit.ignore(drop=True)(len) is len and jit.unused(len) is len and jit.wait(jit.fork(len, "abc")) == 3
    assert jit.script(Net) is Net


def test_a_trace_runs_and_checks():
    seen = []

    def look(x, y):
        seen.append(jit.is_tracing())
        return x + y, [x]

    traced = jit.trace(look, (engine.ones(2), engine.ones(2)))
    assert seen == [True, True, True] and not jit.is_tracing()
    assert traced(engine.ones(1), engine.ones(1))[0].item() == 2
    net = Net()
    traced = jit.trace(net, engine.ones(1, 3))
    assert isinstance(traced, jit.ScriptModule) and engine.equal(traced(engine.ones(5, 3)), net(engine.ones(5, 3)))
    assert isinstance(jit.trace_module(net, {"forward": engine.ones(1, 3)}), jit.ScriptModule)
    with pytest.warns(jit.TracerWarning, match="Output nr 1. of the traced function does not match a second run"):
        jit.trace(lambda x: x + engine.rand(1), engine.zeros(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit.trace(lambda x: x + engine.rand(1), engine.zeros(1), check_trace=False)
        jit.trace(lambda x: {"a": x}, engine.zeros(1), strict=False)
    with pytest.warns(UserWarning, match="already a ScriptModule"):
        assert jit.trace(traced, engine.ones(1, 3)) is traced


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: jit.trace(lambda x: 3, engine.zeros(1)), RuntimeError, "Only tensors, lists, tuples of tensors"),
        (lambda: jit.trace(lambda x: {"a": x}, engine.zeros(1)), RuntimeError, "use strict=False"),
        (lambda: jit.trace(len), RuntimeError, "expected example_inputs"),
        (lambda: jit.trace(3, engine.zeros(1)), RuntimeError, "expected a module or a function, got int"),
        (lambda: jit.script(3), RuntimeError, "expected a module, a function or a class, got int"),
        (lambda: jit.script(Net()).save("x.pt"), NotImplementedError, r"engine\.save\(module\.state_dict\(\), path\)"),
        (lambda: jit.save(jit.script(Net()), "x.pt"), NotImplementedError, "there is no TorchScript here"),
        (lambda: jit.load("x.pt"), NotImplementedError, "load a state_dict into it"),
        (lambda: jit.script(len).code, NotImplementedError, "the Python source itself"),
        (lambda: jit.freeze(Net()), RuntimeError, "Freezing expects a ScriptModule"),
        (lambda: jit.freeze(jit.script(Net())), RuntimeError, "only implemented for modules in eval mode"),
        (lambda: engine.fx.wrap(3), RuntimeError, "must be either a callable or string name"),
    ],
)
def test_what_jit_refuses(call, kind, message):
    with pytest.raises(kind, match=message.replace("must be", "[Mm]ust be")):
        call()


def test_freezing_gives_the_module_back():
    scripted = jit.script(Net()).eval()
    assert jit.freeze(scripted) is scripted and jit.optimize_for_inference(scripted) is scripted
    assert engine.fx.wrap("len") == "len" and engine.fx.wrap(len) is len
