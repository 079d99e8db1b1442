"""PyTorch's models in the workbench: what `wb.watch` says of them, against what PyTorch itself says."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from weakref import ref

import numpy
import pytest
import torch
import torch.nn.functional as F
from kernels import Kernel, custom, is_custom, printed
from torch import nn
from torch_programs import MODELS, cnn, inspected, loss_of, mlp, named, nothing_hangs, ops, transformer

import engine
import workbench as wb
from workbench import protocol

pytestmark = pytest.mark.torch


@pytest.fixture(params=MODELS)
def made(request):
    torch.manual_seed(3)
    return MODELS[request.param]


# -- the same numbers ------------------------------------------------------------------------------------------------------------


def trained(made, watched):
    """Two steps of training: losses, gradients and all that the model holds, bit for bit."""
    torch.manual_seed(7)
    model, x, t = made()
    optimizer = torch.optim.Adam(model.parameters())
    told = []

    def steps():
        for _ in range(2):
            optimizer.zero_grad()
            loss = loss_of(model, x, t)
            loss.backward()
            told.append(loss.detach().clone())
            told.extend(p.grad.clone() for p in model.parameters())
            optimizer.step()

    if watched:
        with wb.watch(model):
            steps()
        assert nothing_hangs(model)
    else:
        steps()
    return [*told, *model.state_dict().values(), torch.get_rng_state()]


def test_watching_changes_no_bit(made):
    for plain, watched in zip(trained(made, False), trained(made, True), strict=True):
        assert torch.equal(plain, watched)


def test_every_gradient_of_the_record_is_pytorchs_own(made):
    model, x, t = made()
    kept = {}
    handles = [
        m.register_forward_hook(lambda m, a, out: kept.setdefault(out[0] if isinstance(out, tuple) else out))
        for m in model.modules()
        if not isinstance(m, (nn.MultiheadAttention, nn.Flatten, nn.Dropout))
    ]
    with wb.watch(model) as w:
        loss = loss_of(model, x, t)
        loss.backward(retain_graph=True)
    for handle in handles:
        handle.remove()
    r, stepper = w.session.recording, w.session.stepper
    parameters = dict(model.named_parameters())
    tensors = [h for h in kept if h.requires_grad and r.find(h) >= 0]
    assert len(tensors) >= 2
    expected = torch.autograd.grad(loss, tensors, retain_graph=True)
    for h, g in zip(tensors, expected, strict=True):
        found, missing = stepper.gradient(r.find(h))
        assert missing == ""
        numpy.testing.assert_array_equal(found, g.numpy())
        numpy.testing.assert_array_equal(r.value(r.find(h)), h.detach().numpy())
    for name, p in parameters.items():
        row = named(r, name)
        found, _ = stepper.gradient(row)
        numpy.testing.assert_array_equal(found, p.grad.numpy())
        assert inspected(w.session, row, "grad")["summary"]["norm"] == pytest.approx(p.grad.norm().item(), rel=1e-5)
    assert len([row for row in stepper.plan if r.kind[row] == "parameter"]) == len(parameters)


def test_steps_stand_in_the_order_of_pytorchs_engine(made):
    model, x, t = made()
    with wb.watch(model) as w:
        loss = loss_of(model, x, t)
        order, nodes, todo = [], {}, [loss.grad_fn]
        while todo:
            node = todo.pop()
            if node is not None and node not in nodes:
                nodes[node] = node.register_hook(lambda _, __, node=node: order.append(node))
                todo += [source for source, _ in node.next_functions]
        loss.backward()
    r, stepper = w.session.recording, w.session.stepper
    rows = [r.row_of(node) for node in order]
    assert -1 not in rows
    first = [row for i, row in enumerate(rows) if row not in rows[:i]]
    assert stepper.plan == first
    told = [stepper.step(i + 1) for i in range(stepper.total)]
    assert [step.op == "accumulate" for step in told] == [r.kind[row] == "parameter" for row in first]


def test_contributions_sum_up_where_a_tensor_is_used_twice():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)
    with wb.watch() as w:
        h = x * x
        y = h * b + h
        y.sum().backward()
    r, stepper = w.session.recording, w.session.stepper
    (dh,) = torch.autograd.grad((h0 := (x * x).detach().requires_grad_()).mul(b).add(h0).sum(), h0)
    steps = [stepper.step(i + 1) for i in range(stepper.total)]
    gains = [c for step in steps for c in step.contributions if c.target == named(r, "h")]
    assert [c.addends for c in gains] == [1, 2]
    assert gains[-1].total.values == dh.tolist() == [4.0, 4.0]
    (to_b,) = [c for step in steps for c in step.contributions if c.target == named(r, "b")]
    assert to_b.unbroadcast == [0] and to_b.gradient.values == [5.0] == [b.grad.item()]
    (squared,) = [step for step in steps if step.node == named(r, "h")]
    assert [c.target for c in squared.contributions] == [named(r, "x")] * 2
    assert squared.contributions[-1].total.values == x.grad.tolist()


# -- the graph -------------------------------------------------------------------------------------------------------------------


def test_groups_are_the_modules_that_ran():
    torch.manual_seed(0)
    model, ids, t = transformer()
    with wb.watch(model) as w:
        loss_of(model, ids, t)
    groups = {g.name for g in w.session.graph.message().groups if g.kind in ("module", "function")}
    assert {"embedding", "head", "model", "blocks.0", "blocks.1", "blocks.0.self_attn", "blocks.1.linear2"} <= groups
    assert groups <= {name for name, _ in model.named_modules()} | {"model", "multi_head_attention_forward"}
    r = w.session.recording
    shared = named(r, "embedding.weight")
    users = {r.op_name(target) for target, source in zip(r.target, r.source, strict=True) if source == shared}
    assert users == {"embedding", "linear"}
    assert "scaled_dot_product_attention" in ops(r)  # inside what torch has as one function


def test_calls_of_one_module_are_numbered():
    layer = nn.Linear(3, 3)
    x = torch.ones(2, 3)
    with wb.watch(layer) as w:
        first = layer(x)
        second = torch.relu(first)
        layer(second)
    assert [g.name for g in w.session.graph.message().groups] == ["layer:1", "layer:2"]


def test_rows_have_lines_names_shapes_and_bytes():
    model, x, t = mlp()
    with wb.watch(model) as w:
        hidden = model[1](model[0](x))
        loss = F.cross_entropy(model[2](hidden), t)
    graph, r = w.session.graph, w.session.recording
    row = named(r, "hidden")
    assert (r.op_name(row), r.shape[row], r.dtype[row]) == ("tanh", (5, 8), numpy.float32)
    assert r.saved[row] == hidden.numel() * 4  # tanh keeps its result
    site = graph.sites[graph.site(row)]
    assert site.file == Path(__file__).name and site.text == "hidden = model[1](model[0](x))"
    assert r.names[row + 1].endswith("weight") and r.kind[row + 1] == "parameter"
    assert named(r, "t") >= 0 and named(r, "loss") == r.count - 1
    assert "y = " not in str(w) and "5 parameters" not in str(w) and "4 parameters" in str(w)
    told = inspected(w.session, row)
    facts = {fact["label"]: fact["text"] for fact in told["facts"]}
    assert facts["grad_fn"] == "TanhBackward0" and facts["device"] == "cpu" and facts["leaf"] == "False"
    assert told["forward"] is not None and loss is not None


def test_the_graph_behind_a_tensor():
    torch.manual_seed(1)
    model, x, t = cnn()
    loss = loss_of(model, x, t)
    w = wb.watch(loss)
    r = w.session.recording
    # dropout is a mul, and cross_entropy flattens what it is given
    expected = ["conv2d", "batch_norm", "relu", "max_pool2d", "dropout", "view", "t", "addmm", "log_softmax", "nll_loss"]
    assert [op for op in ops(r) if op != "mul"] == [op for op in expected if op in ops(r)] and len(ops(r)) == 10
    names = {r.names.get(row) for row in range(r.count) if r.kind[row] == "parameter"}
    assert names == {name for name, _ in model.named_parameters()}
    assert named(r, "x") >= 0 and r.names[r.root] == "loss"
    row = next(row for row in range(r.count) if r.op_name(row) == "relu")
    expected = torch.relu(model[1](model[0](x))).detach()
    numpy.testing.assert_allclose(r.value(row), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert r.saved[row] == expected.numel() * 4
    assert w.session.stepper is None
    loss.backward(retain_graph=True)
    assert w.session.stepper.total == len(set(w.session.stepper.plan)) > 0
    numpy.testing.assert_array_equal(w.session.stepper.gradient(named(r, "0.weight"))[0], model[0].weight.grad.numpy())
    w.stop()
    before = w.session.stepper
    loss.backward()
    assert w.session.stepper is before


def test_a_freed_graph_and_a_spoilt_one_are_told():
    x = torch.ones(3, requires_grad=True)
    y = (x * 2).exp().sum()
    y.backward()
    assert "freed by an earlier backward()" in "".join(wb.watch(y).session.recording.note)
    h = (x * 2).exp()
    z = h.sum()
    with torch.no_grad():
        h.add_(1)
    assert "written in place" in "".join(wb.watch(z).session.recording.note)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_ten_thousand_nodes():
    y = x = torch.ones(2, requires_grad=True)
    for _ in range(10_000):
        y = y * 1.0001
    w = wb.watch(y)
    assert len(ops(w.session.recording)) == 10_000
    y.sum().backward()
    w.session.handle({"type": "ready", "v": protocol.VERSION, "id": 1})
    assert w.session.stepper.total == 10_001
    numpy.testing.assert_array_equal(w.session.stepper.gradient(named(w.session.recording, "x"))[0], x.grad.numpy())


def test_an_op_leaves_few_objects_behind():
    """Each one is looked at by every garbage collection, which would cost more than the recording itself."""
    x = torch.ones(2, requires_grad=True)
    with wb.watch():
        y = x * x
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(500):
            y = y * x
        gc.collect()
        tracked = len(gc.get_objects()) - before
    # the tensor and its numbers, their memory (2), the node with its dict and mark, its hooks (3), the watch over the tensor
    assert y.requires_grad and tracked <= 11.5 * 500


# -- nothing is held -------------------------------------------------------------------------------------------------------------


def test_no_tensor_lives_on_beyond_the_budget():
    model, x, t = mlp()
    with wb.watch(model, keep=0) as w:
        hidden = model[0](x)
        gone = ref(hidden)
        loss = model[2](torch.tanh(hidden)).sum()
        node = loss.grad_fn.metadata  # lives as long as the graph
        mark = ref(next(iter(node.values())))
        del hidden, node
        loss.backward()
        del loss
        gc.collect()
        assert gone() is None and mark() is None
    assert w.session.recording.kept_bytes == 0
    row = ops(w.session.recording).index("tanh")
    assert row >= 0 and all(
        w.session.recording.value(at) is None for at in range(w.session.recording.count) if w.session.recording.kind[at] == "op"
    )


def test_memory_of_pytorchs_tensors_is_followed():
    with wb.watch() as w:
        a = torch.ones(1000, requires_grad=True)
        b = a.neg()
        view = b[:10]
        now = w.session.recording.now
        assert now == 8000  # the view lies in b
        del b, view
        assert w.session.recording.now == 4000
        c = a.neg().exp()
        assert w.session.recording.now == 8000  # what neg made is gone, exp keeps its result, which is c
        del c
        assert w.session.recording.now == 4000


def test_names_of_torch_are_not_in_importing_workbench():
    code = "import sys, workbench, workbench.session.surface, workbench.subjects.watching; print('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout == "False\n"


# -- calls of a module, and what cannot be watched ----------------------------------------------------------------------------------


def test_a_module_that_is_watched_at_each_call():
    model, x, t = mlp()
    w = wb.watch(model)
    plain = F.cross_entropy(model(x), t)
    plain.backward()
    r = w.session.recording
    assert ops(r) == ["linear", "tanh", "linear"] and w.session.stepper.done
    numpy.testing.assert_array_equal(w.session.stepper.gradient(named(r, "0.weight"))[0], model[0].weight.grad.numpy())
    model(x[:2])
    assert w.session.recording is not r and w.session.recording.shape[0] == (2, 4)
    again = wb.watch(model)  # takes the place of the first
    before = w.session.recording
    model(x)
    assert w.session.recording is before and again.session.recording.count
    again.stop()
    assert nothing_hangs(model)


def test_the_fast_path_of_a_transformer_is_taken_and_told():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        plain = layer(x)
        with wb.watch(layer) as w:
            watched = layer(x)
    assert torch.equal(plain, watched)
    r = w.session.recording
    assert [r.note[row] for row in range(r.count) if r.kind[row] == "op"][0].startswith("Without gradients and in eval mode")
    assert nothing_hangs(layer)


@pytest.mark.filterwarnings("ignore")
def test_compiled_and_scripted_modules_are_one_op_with_a_sentence():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    plain = inner(x)
    for module, word in ((torch.jit.script(inner), "TorchScript"), (torch.compile(inner, backend="eager"), "torch.compile")):
        model = nn.Sequential(module, nn.Tanh())
        with wb.watch(model) as w:
            out = model(x)
            out.sum().backward()
        assert torch.equal(out, torch.tanh(plain))
        r = w.session.recording
        assert any(word in note for note in r.note)
        numpy.testing.assert_array_equal(w.session.stepper.gradient(r.find(out))[0], numpy.ones((5, 2), numpy.float32))
        assert nothing_hangs(model)


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_runs_inside_a_watch():
    @torch.compile(backend="eager")
    def f(x):
        return torch.sin(x) * 2

    x = torch.ones(3)
    with wb.watch():
        watched = f(x)
    assert torch.equal(watched, torch.sin(x) * 2)


def test_what_cannot_be_watched_is_a_type_error():
    with pytest.raises(TypeError, match="takes a tensor or a module.*got builtins.int"):
        wb.watch(3)
    with pytest.raises(TypeError, match="torch.SGD.*an optimizer"):
        wb.watch(torch.optim.SGD([torch.ones(1)], 0.1))


def test_the_engines_models_are_watched_in_the_same_way():
    model = engine.nn.Sequential(engine.nn.Linear(2, 3), engine.nn.Tanh())
    x = engine.ones(4, 2)
    with wb.watch(model) as w:
        loss = model(x).sum()
        loss.backward()
    assert [w.session.recording.op_name(row) for row in w.session.stepper.plan if w.session.recording.kind[row] == "op"] == [
        "sum",
        "tanh",
        "linear",
    ]
    w = wb.watch(model)
    model(x)
    assert [group.name for group in w.session.graph.message().groups][0] in ("Sequential", "model")
    w.stop()
    before = w.session.recording
    model(x)
    assert w.session.recording is before
    assert "linear" in repr(wb.watch(model(x).sum()))


def test_a_block_shows_whichever_library_ran():
    with wb.watch() as w:
        engine.ones(2) * 2
    assert "mul" in [w.session.recording.op_name(row) for row in range(w.session.recording.count)]
    with wb.watch() as w:
        torch.ones(2) * 2
    assert ops(w.session.recording) == ["mul"] and w.session.recording.dtype[0] == numpy.float32


def test_the_example_of_the_documentation_runs(capsys):
    text = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    exec(compile(text.split("```python\n")[1].split("```")[0], "torch.md", "exec"), {"__name__": "__main__"})
    assert "Sequential: 4 ops, 4 parameters" in capsys.readouterr().out


# -- in a real kernel -----------------------------------------------------------------------------------------------------------

CELLS = """%load_ext workbench
import torch, torch.nn.functional as F
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
x = torch.ones(4, 2)"""


def test_a_notebook_sees_pytorchs_models_in_the_same_view():
    kernel = Kernel()
    try:
        kernel.run(CELLS)
        messages = kernel.run("%%watch\nloss = model(x).sum()\nloss.backward()")
        (final,) = [m["content"]["data"] for m in messages if m["msg_type"] == "update_display_data"]
        assert "linear" in final["text/plain"] and "0: Linear" in final["text/plain"] and "<svg" in final["image/svg+xml"]
        comm = kernel.widget()
        kernel.say(comm, {"type": "ready"})
        kernel.ask(comm, type="step", do="first")
        (graph, *_), (stepper, *_) = kernel.told(comm, "graph"), kernel.told(comm, "stepper")
        assert graph["title"] and len(stepper["plan"]) == 5 and "PyTorch's engine ran this pass itself" in stepper["sentence"]
        assert kernel.ask(comm, type="step", do="next")["index"] == 1
        steps = {step["index"]: step["op"] for message in kernel.told(comm, "stepped") for step in message["steps"]}
        assert [steps[i] for i in range(1, 6)] == ["sum", "relu", "linear", "accumulate", "accumulate"]
        assert "engine" in printed(kernel.run("%%watch\nimport engine\nprint(engine.ones(2) * 2, 'engine')"))

        before = len(kernel.seen)
        shown = kernel.run("w = wb.watch(model)\nw")
        assert any(m["msg_type"] == "execute_result" for m in shown)
        comm = kernel.widget(before)
        kernel.say(comm, {"type": "ready"})
        kernel.run("model(x).sum().backward()")  # another cell: the view follows the calls
        kernel.until(lambda m: is_custom(m, comm) and custom(m)["type"] == "stepper" and len(custom(m)["plan"]) == 4)
        assert printed(kernel.run("w.stop(); print(torch.nn.modules.module._global_forward_hooks)")) == "OrderedDict()\n"

        failed = kernel.run("with wb.watch(model):\n    model(torch.ones(1, 5))")
        assert "RuntimeError" in [m["content"].get("ename") for m in failed] and "<svg" in str(failed)
        assert printed(kernel.run("print(len(torch.nn.modules.module._global_forward_hooks))")) == "0\n"
    finally:
        kernel.close()
