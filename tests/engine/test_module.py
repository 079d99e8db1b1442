"""Modules: what is registered in them, walking, modes, copying, casting. Expected texts are torch 2.13's."""

from __future__ import annotations

import copy
import gc
import os
import pickle

import numpy
import pytest
from nets import Net

import engine
from engine import nn
from engine.base import observe
from grouping import grouped


def test_named_members():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.scale"]
    assert [n for n, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [n for n, _ in net.named_children()] == ["first", "rest"]
    assert net.get_submodule("rest.1") is net.rest[1] and net.get_parameter("rest.1.weight") is net.rest[1].weight
    assert net.get_buffer("seen") is net.seen and net.get_submodule("") is net
    assert {"first", "scale", "seen", "forward"} <= set(dir(net))


def test_a_module_that_occurs_twice():
    layer = nn.Linear(2, 2)
    both = nn.Sequential(layer, layer)
    assert len(list(both.parameters())) == 2 and len(list(both.modules())) == 2 and len(list(both.children())) == 1
    assert [n for n, _ in both.named_modules(remove_duplicate=False)] == ["", "0", "1"]
    assert [n for n, _ in both.named_parameters(remove_duplicate=False)] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_attributes_change_their_kind():
    net = nn.Module()
    net.x = 3
    net.x = nn.Parameter(engine.tensor([1.0]))
    assert "x" not in vars(net) and "x" in net._parameters
    net.x = nn.Linear(1, 1)
    assert not net._parameters and "x" in net._modules
    net.x = None
    assert net.x is None and "x" in net._modules
    del net.x
    assert not hasattr(net, "x")
    net.y = nn.Buffer(engine.tensor([1.0]), persistent=False)
    assert "y" in net._buffers and "y" not in net.state_dict()
    net.y = engine.tensor([2.0])
    assert net.y.item() == 2.0 and "y" in net._buffers
    net.z = engine.tensor([1.0])
    assert "z" in vars(net)


@grouped(
    ("act", "error", "message"),
    [
        (lambda m: setattr(m.first, "weight", engine.tensor([1.0])), TypeError, r"cannot assign 'torch.FloatTensor' as parameter 'weight'"),
        (lambda m: setattr(m.first, "weight", "a"), TypeError, r"cannot assign 'str' as parameter 'weight' \(engine.nn.Parameter"),
        (lambda m: setattr(m, "seen", 3), TypeError, "cannot assign 'int' as buffer 'seen'"),
        (lambda m: setattr(m, "first", 3), TypeError, "cannot assign 'int' as child module 'first'"),
        (lambda m: m.register_buffer("", engine.tensor([1.0])), KeyError, "buffer name can.*t be empty"),
        (lambda m: m.register_parameter("a.b", None), KeyError, "parameter name can.*t contain"),
        (lambda m: m.register_buffer("first", engine.tensor([1.0])), KeyError, "attribute 'first' already exists"),
        (lambda m: m.register_parameter(3, None), TypeError, "parameter name should be a string. Got int"),
        (lambda m: m.register_parameter("p", engine.tensor([1.0])), TypeError, "cannot assign 'torch.FloatTensor' object to parameter 'p'"),
        (lambda m: m.add_module("x", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.nothing, AttributeError, "'Net' object has no attribute 'nothing'"),
        (lambda m: m.get_submodule("first.a"), AttributeError, "Linear has no attribute `a`"),
        (lambda m: m.get_parameter("first"), AttributeError, "`first` is not an nn.Parameter"),
        (lambda m: m.get_buffer("first.weight"), AttributeError, "`weight` is not a buffer"),
        (lambda m: nn.Module()(1), NotImplementedError, r'Module \[Module\] is missing the required "forward" function'),
        (lambda m: m.train(3), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(engine.int32), TypeError, "nn.Module.to only accepts floating point or complex dtypes"),
        (lambda m: m.load_state_dict([1]), TypeError, "Expected state_dict to be dict-like, got <class 'list'>."),
    ],
)
def test_mistakes(act, error, message):
    with pytest.raises(error, match=message):
        act(Net())


def test_assigning_before_init():
    class Hasty(nn.Module):
        def __init__(self, value):
            self.a = value

    for value, kind in ((nn.Linear(1, 1), "module"), (nn.Parameter(engine.tensor([1.0])), "parameter")):
        with pytest.raises(AttributeError, match=rf"cannot assign {kind}s? before Module.__init__\(\) call"):
            Hasty(value)


def test_repr():
    assert repr(nn.Module()) == "Module()"
    assert repr(Net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=4, bias=True)\n  (rest): Sequential(\n    (0): ReLU()\n"
        "    (1): Linear(in_features=4, out_features=2, bias=True)\n  )\n)"
    )
    assert repr(nn.ModuleList([nn.Linear(1, 2), nn.Linear(1, 2), nn.ReLU()])) == (
        "ModuleList(\n  (0-1): 2 x Linear(in_features=1, out_features=2, bias=True)\n  (2): ReLU()\n)"
    )
    assert repr(nn.Parameter(engine.tensor([1.0, 2.0]))) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"


def test_modes_and_apply():
    net = Net()
    assert net.eval() is net and not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_zero_grad():
    net = Net()
    net(engine.ones(2, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all((p.grad.array == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_the_observer_hears_of_modules():
    class Scopes(observe.Observer):
        def __init__(self):
            self.heard, self.depth = [], 0

        def enter(self, kind, name, subject):
            if kind == "module":
                self.heard.append((name, subject))
            self.depth += 1

        def leave(self):
            self.depth -= 1

    net = Net()
    with observe.observing(Scopes()) as scopes:
        net(engine.ones(1, 3))
        with pytest.raises(RuntimeError):
            net(engine.ones(1, 7))
    assert [s for _, s in scopes.heard[:5]] == [net, net.first, net.rest, net.rest[0], net.rest[1]]
    assert scopes.heard[0][0] == "Net" and scopes.depth == 0


def test_copies_and_pickles():
    net = Net()
    net(engine.ones(2, 3)).sum().backward()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        for (name, p), (other, q) in zip(net.named_parameters(), twin.named_parameters(), strict=True):
            assert name == other and isinstance(q, nn.Parameter) and q.requires_grad and q is not p
            numpy.testing.assert_array_equal(p.array, q.array)
        twin.first.weight.array[:] = 0
        assert net.first.weight.array.any()


def test_a_module_is_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        from weakref import ref

        net = Net()
        net.register_forward_hook(lambda m, a, o: None)
        gone = ref(net.first.weight)
        net(engine.ones(1, 3)).sum().backward()
        del net
        assert gone() is None
    finally:
        gc.enable()


def test_casting_keeps_the_parameters():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = net[0].weight
    net(engine.ones(3, 2)).sum().backward()
    net.double()
    assert net[0].weight is weight and weight.dtype is engine.float64 and weight.grad.dtype is engine.float64 and weight.requires_grad
    assert net[1].running_mean.dtype is engine.float64 and net[1].num_batches_tracked.dtype is engine.int64
    net(engine.ones(3, 2).double()).sum().backward()
    assert net.to(engine.ones(1)).to("cpu")[0].weight.dtype is engine.float32
    assert net.half()[0].weight.dtype is engine.float16 and net.bfloat16()[0].weight.dtype is engine.bfloat16 and net.float() is net


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_share_memory():
    net = nn.Linear(2, 2).share_memory()
    before = net.weight.array.copy()
    pipe = os.pipe()
    child = os.fork()
    if child == 0:
        net.weight.array[:] = 7
        os.write(pipe[1], b"x")
        os._exit(0)
    os.read(pipe[0], 1)
    os.waitpid(child, 0)
    assert (net.weight.array == 7).all() and not (before == 7).any()
    array = net.weight.array
    assert net.share_memory().weight.array is array


def test_a_buffer_says_anew_whether_it_is_saved():
    net = nn.Module()
    net.seen = nn.Buffer(engine.ones(2))
    assert list(net.state_dict()) == ["seen"]
    net.seen = nn.Buffer(engine.ones(2), persistent=False)
    assert list(net.state_dict()) == [] and [n for n, _ in net.named_buffers()] == ["seen"]
    net.seen = engine.zeros(2)  # a plain tensor changes the value alone
    assert list(net.state_dict()) == []


def test_what_is_no_module_is_refused():
    net = nn.Sequential(nn.ReLU())
    with pytest.raises(ValueError, match="`module` is not an nn.Module, found <class 'int'>"):
        net.set_submodule("0", 3)
    with pytest.raises(TypeError, match=r"ReLU is a class, and a Module object is wanted: write ReLU\(...\)"):
        nn.Sequential(nn.ReLU)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        net.append(3)


def test_types_by_name():
    assert nn.Linear(1, 1).type("torch.DoubleTensor").weight.dtype is engine.float64
    assert nn.LazyLinear(1).type(engine.float64)(engine.ones(1, 2, dtype=engine.float64)).dtype is engine.float64


def test_the_copy_of_a_parameter_starts_without_a_gradient():
    layer = nn.Linear(2, 1)
    layer(engine.ones(1, 2)).sum().backward()
    twin = copy.deepcopy(layer)
    assert twin.weight.grad is None and layer.weight.grad is not None
    assert twin.weight.tolist() == layer.weight.tolist() and twin.weight.array is not layer.weight.array
    tied = nn.Sequential(layer, nn.Linear(2, 1))
    tied[1].weight = layer.weight
    twins = copy.deepcopy(tied)
    assert twins[0].weight is twins[1].weight and type(twins[0].weight) is nn.Parameter
    leaf = engine.ones(2, requires_grad=True)
    leaf.sum().backward()
    assert copy.deepcopy(leaf).grad.tolist() == [1.0, 1.0]  # a plain tensor's copy keeps it


def test_a_lazy_parameter_has_no_shape():
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        _ = nn.LazyLinear(2).weight.shape


def test_a_submodule_is_assigned_without_asking_for_its_name():
    class Through(nn.Module):
        asked = ()

        def __getattr__(self, name):
            type(self).asked += (name,)
            return super().__getattr__(name)

    class Hidden(nn.Module):
        inner = property(lambda self: 3)

    through, hidden = Through(), Hidden()
    through.inner = nn.Linear(1, 1)
    assert Through.asked == () and list(through._modules) == ["inner"]
    hidden.inner = hidden.forward = nn.Identity()
    setattr(hidden, "a.b", nn.Identity())
    assert list(hidden._modules) == ["inner", "forward", "a.b"] and hidden.inner == 3
    with pytest.raises(KeyError, match="attribute 'inner' already exists"):
        Hidden().add_module("inner", nn.Identity())


def test_registration_hooks_hear_of_every_assignment():
    seen = []
    handles = [
        getattr(nn.modules.module, f"register_module_{kind}_registration_hook")(
            lambda m, n, v, kind=kind: seen.append((kind, n, v is None))
        )
        for kind in ("parameter", "module", "buffer")
    ]
    m = nn.Module()
    for name, value in {"p": nn.Parameter(engine.ones(1)), "m": nn.Identity(), "b": nn.Buffer(engine.ones(1))}.items():
        setattr(m, name, value)
        setattr(m, name, value)
        setattr(m, name, None)
    m.b = engine.ones(2)
    for handle in handles:
        handle.remove()
    assert seen == [
        *[("parameter", "p", False)] * 2,
        *[("module", "m", False)] * 2, ("module", "m", True),
        *[("buffer", "b", False)] * 2, ("buffer", "b", True), ("buffer", "b", False),
    ]  # fmt: skip


def test_a_parameter_class_may_take_other_arguments():
    class Tagged(nn.Parameter):
        def __new__(cls, data=None, tag="none", requires_grad=True):
            self = super().__new__(cls, data, requires_grad)
            self.tag = tag
            return self

    class Made(nn.Parameter):
        def __new__(cls, data, tag):
            self = engine.Tensor._make_subclass(cls, data, True)
            self.tag = tag
            return self

    class Initialized(nn.Parameter):
        def __init__(self, data, requires_grad=True, tag="own"):
            super().__init__()
            self.tag = tag

    class Kept(nn.Buffer):
        def __new__(cls, data, tag):
            self = super().__new__(cls, data, persistent=False)
            self.tag = tag
            return self

    data = engine.ones(2)
    made = [Tagged(data, tag="a"), Tagged(data, "b", requires_grad=False), Made(data, tag="c"), Initialized(data, False), Kept(data, "d")]
    assert [(p.tag, p.requires_grad, p.tolist()) for p in made] == [
        (tag, grad, [1.0, 1.0]) for tag, grad in (("a", True), ("b", False), ("c", True), ("own", False), ("d", False))
    ]
    assert isinstance(made[0], nn.Parameter) and not made[4].persistent
    m = nn.Module()
    m.p = made[0]
    assert m.double().p is made[0] and m.p.dtype is engine.float64
    with pytest.raises(TypeError, match="unexpected keyword argument 'tag'"):
        nn.Parameter(data, tag=1)
