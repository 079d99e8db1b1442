"""`wb.why_alive`: every holder that there is in a notebook is found in a real kernel, and the line that is told lets go of the memory."""

from __future__ import annotations

import gc
import re
import sys
import types
import weakref
from collections.abc import Iterator

import pytest
from kernels import Kernel, printed

import engine
import workbench as wb
from workbench.memory_use import alive
from workbench.memory_use.alive import roots
from workbench.session.session import Session

SETUP = """%load_ext workbench
import engine, gc, weakref, functools, threading, types, sys
from engine import nn, optim
gc.disable()  # what is freed is freed by reference counts alone
class Box: pass
def fresh():
    global R
    t = engine.ones(300, 300) + 1
    R = weakref.ref(t.array)
    return t
def saved():
    "A loss whose graph saves memory that nothing else has."
    global R
    x = engine.ones(300, 300, requires_grad=True)
    h = x.exp()
    R = weakref.ref(h.array)
    return h.sum()"""

# what holds it: (the cell that makes it so, what the chain says, the line that lets go of it)
HOLDERS = {
    "a variable": ("h = fresh()", "the variable h\n", "del h"),
    "a list": ("hs = [1, fresh()]", "the variable hs[1]\n", "del hs[1]"),
    "a dict": ("cache = {'a': {3: fresh()}}", "the variable cache['a'][3]\n", "del cache['a'][3]"),
    "an attribute": ("model = Box(); model.cache = fresh()", "the variable model.cache\n", "model.cache = None"),
    "a list in an attribute": ("model = Box(); model.cache = [0, 0, 0, fresh()]", "the variable model.cache[3]\n", "del model.cache[3]"),
    "slots": (
        "class Slotted:\n    __slots__ = ('x',)\ns = Slotted(); s.x = fresh()", "the variable s.x\n", "s.x = None",
    ),
    "a parameter": (
        "net = nn.Sequential(nn.Linear(300, 300), nn.Tanh())\nR = weakref.ref(net[0].weight.array)", "the variable net[0].weight\n", "del net",
    ),
    "a buffer": ("net = nn.BatchNorm1d(300)\nR = weakref.ref(net.running_mean.array)", "the variable net.running_mean\n", "net.running_mean = None"),
    "a view": ("v = fresh()[3:5]", "the variable v\n", "del v"),
    "an array of NumPy": ("n = fresh().numpy()", "the variable n\n", "del n"),
    "an output": ("fresh()", "Out[", 'wb.release("outputs")'),
    "an older output": ("fresh()\n", "Out[", 'wb.release("outputs")'),
    "the last error": (
        "def forward():\n    hidden = fresh()\n    raise ValueError('no')\nforward()",
        ": hidden in forward(), line 3\n", 'wb.release("error")',
    ),
    "a graph": ("loss = saved()", "the variable loss → its graph → saved by exp for d_input\n", "loss = loss.item()"),
    "losses in a list": (
        "losses = [0, saved()]", "the variable losses[1] → its graph → saved by exp for d_input\n", "losses[1] = losses[1].item()",
    ),
    "a graph under a tensor": (
        "h = saved() * engine.ones(3)", "the variable h → its graph → saved by exp for d_input\n", "h = h.detach()",
    ),
    "a gradient": (
        "p = engine.ones(300, requires_grad=True)\n(p * 2).sum().backward()\nR = weakref.ref(p.grad.array)", "the variable p.grad\n",
        "p.grad = None",
    ),
    "an optimizer": (
        "net = nn.Linear(3, 3); opt = optim.Adam(net.parameters())\nnet(engine.ones(1, 3)).sum().backward(); opt.step()\n"
        "R = weakref.ref(opt.state[net.weight]['exp_avg'].array)", "the variable opt.state[a Parameter]['exp_avg']\n", "del opt",
    ),
    "a closure": (
        "def make():\n    inner = fresh()\n    return lambda: inner\nf = make()", "the variable f (its closure: inner)\n", "del f",
    ),
    "a default": ("def f(x=fresh()): return x", "the variable f.__defaults__[0]\n", "del f"),
    "a method": ("b = Box(); b.t = fresh(); m = types.MethodType(len, b); del b", "the variable m.__self__.t\n", "m.__self__.t = None"),
    "a partial": ("p = functools.partial(print, fresh())", "the variable p.args[0]\n", "del p"),
    "a generator": ("def gen():\n    held = fresh()\n    yield 1\ng = gen(); next(g)", "the variable g (gen(): held)\n", "del g"),
    "a module": (
        "train = types.ModuleType('train'); train.__file__ = '/projects/train.py'; train.cache = {'x': fresh()}\n"
        "sys.modules['train'] = train; del train",
        "train.cache, a variable of that module['x']\n", "import train; train.cache = None",
    ),
    "a hook": (
        "t = engine.ones(3, requires_grad=True) * 2\nhandle = t.register_hook(lambda g, kept=fresh(): None); del handle", "the variable t (its hooks)", "del t",
    ),
    "a widget": (
        "import ipywidgets\nw = ipywidgets.Label(); w.payload = fresh(); del w", "a widget, Label.payload\n",
        "import ipywidgets; ipywidgets.Widget.close_all()",
    ),
    "what the collector alone knows": (
        "cached = functools.lru_cache(lambda: fresh()); k = cached()\ndel k", "_lru_cache_wrapper that no name leads to", "cached.cache_clear()",
    ),
    "a cycle": ("a = []; a.append(a); a.append(fresh()); del a", "a list →", "import gc; gc.collect()"),
}  # fmt: skip


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    errors = [m["content"]["traceback"] for m in kernel.run(SETUP) if m["msg_type"] == "error"]
    assert errors == []
    yield kernel
    kernel.close()


@pytest.mark.slow
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_holder_is_found_and_the_line_lets_go(kernel, holder):
    make, chain, fix = HOLDERS[holder]
    kernel.run(make)
    if holder == "an older output":
        kernel.run("1"), kernel.run("2"), kernel.run("3"), kernel.run("4")
    assert printed(kernel.run("print(R() is not None)")) == "True\n"
    told = printed(kernel.run("print(wb.why_alive(R()))"))
    assert chain in told, told
    assert "kept alive by 1 chain:" in told, told
    assert fix in told or holder == "what the collector alone knows", told
    kernel.run(fix)
    assert printed(kernel.run("print(R() is None)")) == "True\n", told


def test_all_holders_are_told_and_only_cutting_all_frees(kernel):
    kernel.run("h = fresh(); cache = [h]; best = cache\nh")
    told = printed(kernel.run("print(wb.why_alive(h))"))
    assert "by 4 chains" in told, told
    for text in ("the variable h\n", "the variable cache[0]\n", "the variable best[0]\n", "Out["):
        assert text in told, told
    for line in ("del h", "del cache[0]", 'wb.release("outputs")'):
        assert printed(kernel.run("print(R() is None)")) == "False\n"
        kernel.run(line)
    assert printed(kernel.run("print(R() is None)")) == "True\n"


def test_a_pass_that_is_stepped_through_is_told_as_the_workbenchs_own(kernel):
    kernel.run("s = wb.step(saved())")
    told = printed(kernel.run("print(wb.why_alive(R()))"))
    assert "the variable s (the workbench's View) → its graph → saved by exp 300×300 for d_input" in told, told
    assert "by 2 chains:" in told and "a widget, View (the workbench's View)" in told  # ipywidgets holds each until it is closed
    assert 'The workbench keeps it too, to show it: wb.release("view", "recordings") frees it.' in told
    kernel.run("del s")


def test_what_the_workbench_alone_keeps_is_no_chain(kernel):
    kernel.run("%%watch\nh = fresh()\ndel h")
    told = printed(kernel.run("print(wb.why_alive(R()))"))
    assert "nothing of yours was found that keeps it alive" in told
    assert 'The workbench keeps it, to show it: wb.release("recordings") frees it.' in told
    kernel.run('wb.release("recordings")')
    assert printed(kernel.run("print(R() is None)")) == "True\n", told


def test_a_function_that_runs_in_another_thread_is_told(kernel):
    kernel.run(
        "go, ready = threading.Event(), threading.Event()\n"
        "def work():\n    mine = fresh()\n    ready.set()\n    go.wait()\n"
        "thread = threading.Thread(target=work); thread.start(); ready.wait()"
    )
    told = printed(kernel.run("print(wb.why_alive(R()))"))
    kernel.run("go.set(); thread.join()")
    assert "work(), which is running" in told and "it ends when work() returns" in told
    assert printed(kernel.run("print(R() is None)")) == "True\n"


# -- without a notebook ----------------------------------------------------------------------------------------------------


def asked(x, names):
    """What keeps `x` alive, but the test that asks."""
    return alive.why(x, names, hide=(sys._getframe(), sys._getframe(1)))


class Trap:
    """Tells when anybody runs its code."""

    ran: list[str] = []

    def __init__(self, inside):
        self.inside = inside

    def __getattribute__(self, name):
        Trap.ran.append(name)
        return super().__getattribute__(name)

    @property
    def shown(self):
        Trap.ran.append("property")

    def __iter__(self):
        Trap.ran.append("iter")
        return iter(())

    def __eq__(self, other):
        Trap.ran.append("eq")
        return True

    def __hash__(self):
        Trap.ran.append("hash")
        return 1


class Lists(list):
    def __iter__(self):
        Trap.ran.append("list")
        return super().__iter__()


@pytest.mark.slow
def test_no_code_of_the_user_runs():
    x = engine.ones(10)
    trap = Trap(Lists([x]))
    Trap.ran.clear()
    told = asked(x, {"trap": trap})
    assert [str(chain) for chain in told.chains] == ["the variable trap.inside[0]"]
    assert Trap.ran == []


@pytest.mark.slow
def test_a_weak_reference_keeps_nothing_and_is_no_chain():
    x = engine.ones(10) + 1
    weak = weakref.WeakValueDictionary({1: x})
    told = asked(x, {"weak": weak, "x": x})
    assert [str(chain) for chain in told.chains] == ["the variable x"]


@pytest.mark.slow
def test_the_search_and_its_answer_keep_nothing():
    gc.disable()
    try:

        def local():
            kept = engine.ones(1000) + 1
            return alive.why(kept, {}), weakref.ref(kept.array), sum(1 for _ in range(3))

        told, weak, _ = local()
        assert weak() is None and "local(), which is running" in repr(told)
        x = engine.ones(1000) + 1
        first, weak = asked(x, {"x": x}), weakref.ref(x.array)
        del x
        assert weak() is None and "del x" in repr(first)
    finally:
        gc.enable()


@pytest.mark.slow
def test_locals_of_a_running_function_stay_its_own():
    """The dict that `locals()` gave to the user is not emptied by a look at the frame."""
    x = engine.ones(10) + 1
    before = locals()
    alive.why(x, {})
    assert before["x"] is x


@pytest.mark.slow
def test_a_long_graph_is_searched_without_recursion():
    x = engine.ones(10, requires_grad=True)
    h = x.exp()
    owner = h.array
    for _ in range(30_000):
        h = h + 1
    losses = [h, h + 1, h + 2]
    told = asked(owner, {"losses": losses})
    assert [chain.links[0] for chain in told.chains][:3] == ["the variable losses[0]", "the variable losses[1]", "the variable losses[2]"]
    assert told.chains[0].links[1:] == ("its graph", "saved by exp for d_input")
    assert told.complete


def test_a_search_has_an_end(monkeypatch):
    monkeypatch.setattr("workbench.memory_use.alive.search.MOST_OBJECTS", 50)
    x = engine.ones(10)
    told = alive.why(x, {"many": [[i] for i in range(200)], "x": x})
    assert not told.complete and "may be more" in told.sentence


def test_why_wants_a_tensor():
    with pytest.raises(TypeError, match="wb.why_alive takes a tensor of the engine or an array, got builtins.str"):
        wb.why_alive("x")  # type: ignore[arg-type]


def test_release_wants_a_word_that_it_knows():
    with pytest.raises(ValueError, match="'recordings', 'error', 'outputs', 'view', got 'all'"):
        wb.release("all")


@pytest.mark.slow
def test_a_view_asks_about_a_block_by_its_number(monkeypatch):
    with wb.record() as r:
        x = engine.ones(100, requires_grad=True)
        h = x.exp()
        loss = h.sum()
    names = {"h": h, "loss": loss}
    monkeypatch.setattr(roots, "_namespace", lambda: names)
    session: Session = r
    ((memory, _),) = session.handle({"v": 1, "id": 1, "type": "ask_memory"})
    block = next(held["block"] for held in memory["holdings"] if held["name"] == "h")
    ((told, _),) = session.handle({"v": 1, "id": 2, "type": "ask_why", "block": block})
    assert told["type"] == "why" and told["name"] == "h" and told["bytes"] == 400
    links = [chain["links"] for chain in told["chains"]]
    assert ["the variable h"] in links
    assert ["the variable loss", "its graph", "saved by exp, which made h, for d_input"] in links
    ((gone, _),) = session.handle({"v": 1, "id": 3, "type": "ask_why", "block": -5})
    assert gone["type"] == "problem" and "not there any more" in gone["sentence"]


@pytest.mark.slow
def test_a_parameter_without_a_shape_holds_nothing():
    h = engine.ones(5)
    (chain,) = asked(h, {"lazy": engine.nn.LazyLinear(3), "h": h}).chains
    assert chain.fix == "del h"


@pytest.mark.slow
def test_a_module_of_the_users_is_a_root(monkeypatch):
    module = types.ModuleType("train")
    module.__file__ = "/projects/train.py"
    module.kept = [engine.ones(5)]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "train", module)
    (chain,) = asked(module.kept[0], {}).chains  # type: ignore[attr-defined]
    assert str(chain) == "train.kept, a variable of that module[0]" and chain.fix == "import train; train.kept = None"


@pytest.mark.slow
def test_the_last_error_of_a_python_without_jupyter_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward() -> None:
        hidden = engine.ones(300, 300)
        monkeypatch.setattr(sys, "last_value", None, raising=False)
        found.append(weakref.ref(hidden.array))
        raise ValueError("no")

    found: list[weakref.ref] = []
    try:
        forward()
    except ValueError as error:
        monkeypatch.setattr(sys, "last_value", error)
    told = repr(wb.why_alive(found[0]()))
    assert re.search(r"the last error, sys\.last_value.*: hidden in forward\(\)", told), told
