"""PyTorch's models in the workbench: what `wb.watch` says of them, against what PyTorch itself says."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from pathlib import Path
from weakref import ref

import numpy
import pytest
import torch
import torch.nn.functional as F
from kernels import Kernel, custom, is_custom, printed
from torch import nn

import engine
import workbench as wb
from workbench import protocol
from workbench.inspector import summary
from workbench.torch_models import arrays

pytestmark = pytest.mark.torch


class Tiny(nn.Module):
    """A small causal transformer whose head is its embedding."""

    def __init__(self, words=11, width=8):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        h = self.embedding(ids)
        for block in self.blocks:
            h = block(h, src_mask=nn.Transformer.generate_square_subsequent_mask(ids.shape[1]), is_causal=True)
        return self.head(h)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 5, num_layers=2, batch_first=True)
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        h, _ = self.lstm(x)
        return self.out(h[:, -1])


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])


def cnn():
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, 3)
    )
    return model, torch.randn(3, 2, 8, 8), torch.tensor([0, 2, 1])


def lstm():
    return Recurrent(), torch.randn(4, 6, 3), torch.tensor([0, 1, 1, 0])


def transformer():
    return Tiny(), torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), torch.tensor([[2, 3, 4, 5], [6, 7, 8, 9]])


MODELS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "transformer": transformer}


@pytest.fixture(params=MODELS)
def made(request):
    torch.manual_seed(3)
    return MODELS[request.param]


def loss_of(model, x, t):
    return F.cross_entropy(model(x).flatten(0, -2), t.flatten())


def ask(session, kind, **fields):
    (message, _), *_ = session.handle({"type": kind, "v": protocol.VERSION, "id": 1, **fields})
    return message


def inspected(session, row, what="value"):
    return ask(session, "inspect", node=row, what=what)


def ops(recording):
    return [recording.op_name(row) for row in range(recording.count) if recording.kind[row] == "op"]


def named(recording, name):
    (row,) = [row for row, text in recording.names.items() if text == name]
    return row


def nothing_hangs(model):
    """No hook of ours is left in torch's tables."""
    tables = torch.nn.modules.module
    found = (tables._global_forward_hooks, tables._global_forward_pre_hooks, tables._global_forward_hooks_always_called)
    own = [m._forward_hooks or m._forward_pre_hooks for m in model.modules()]
    return not any(map(len, found)) and not any(map(len, own)) and torch._C._len_torch_function_stack() == 0


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


# -- the record ------------------------------------------------------------------------------------------------------------------


def test_going_back_changes_nothing_and_says_so():
    model, x, t = mlp()
    with wb.watch(model) as w:
        loss_of(model, x, t).backward()
    grads = [p.grad.clone() for p in model.parameters()]
    same = [p.grad for p in model.parameters()]
    stepper = w.session.stepper
    assert stepper.done and "PyTorch's engine ran this pass itself" in stepper.sentence()
    answer = ask(w.session, "step", do="first")
    assert answer["index"] == 0 and "changes no .grad" in answer["sentence"]
    for do in ("next", "next", "previous", "last"):
        answer = ask(w.session, "step", do=do)
        assert answer["type"] == "stepped"
    assert answer["done"] and len(answer["steps"]) > 0
    for p, tensor, value in zip(model.parameters(), same, grads, strict=True):
        assert p.grad is tensor and torch.equal(p.grad, value)


def test_a_second_pass_adds_to_grad():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with wb.watch() as w:
        (x * 3).sum().backward()
        (x * 5).sum().backward()
    last = w.session.stepper.step(w.session.stepper.total)
    assert "is added to x.grad" in last.sentence and last.upstream.values == [5.0, 5.0]
    assert x.grad.tolist() == [8.0, 8.0] and w.session.recording.passes == 2
    assert ask(w.session, "step", do="pass", to=0)["type"] == "stepped"  # the first pass is there too
    first = w.session.stepper
    assert first.step(first.total).upstream.values == [3.0, 3.0] and "is stored in x.grad" in first.step(first.total).sentence


def test_the_record_keeps_its_numbers_when_pytorch_writes_over_them():
    model, x, t = mlp()
    with wb.watch(model) as w:
        loss = loss_of(model, x, t)
        loss.backward()
    first = {name: p.grad.clone() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad.mul_(0)
    for name, g in first.items():
        numpy.testing.assert_array_equal(w.session.stepper.gradient(named(w.session.recording, name))[0], g.numpy())


def test_a_small_budget_keeps_no_gradients_but_tells_their_size():
    model, x, t = mlp()
    with wb.watch(model, keep=0) as w:
        loss_of(model, x, t).backward()
    r, stepper = w.session.recording, w.session.stepper
    assert stepper.total == 8 and stepper.kept_bytes == 0  # four ops, four parameters
    array, missing = stepper.gradient(named(r, "0.weight"))
    assert array is None and "not kept" in missing
    steps = [stepper.step(i + 1) for i in range(stepper.total)]
    norms = {r.names[step.node]: step.upstream.norm for step in steps if step.op == "accumulate"}
    assert norms == {name: pytest.approx(p.grad.norm().item(), rel=1e-5) for name, p in model.named_parameters()}
    stepper.to(0)
    stepper.run_until("norm > 0")
    assert stepper.index == 1


def test_grad_and_create_graph():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with wb.watch() as w:
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        z = (g * g).sum()
        z.backward()
    r = w.session.recording
    assert "backward" in {group.name for group in w.session.graph.message().groups}
    assert r.row_of(g.grad_fn) >= 0 and named(r, "g") >= 0
    expected = torch.autograd.grad((3 * (x0 := x.detach().requires_grad_()) ** 2).square().sum(), x0)[0]
    assert torch.equal(x.grad, expected)
    numpy.testing.assert_array_equal(w.session.stepper.gradient(named(r, "x"))[0], expected.numpy())


def test_a_pass_that_fails_is_a_record_up_to_there():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no way back")

    x = torch.ones(2, requires_grad=True)
    with wb.watch() as w, pytest.raises(ValueError, match="no way back"):
        (Bad.apply(x) * 3).sum().backward()
    stepper = w.session.stepper
    assert stepper.failed and "no way back" in stepper.sentence()
    assert [w.session.recording.op_name(row) for row in stepper.plan] == ["sum", "mul"]
    assert "Bad" in ops(w.session.recording)


def test_checkpointing_is_one_pass():
    from torch.utils.checkpoint import checkpoint

    layer = nn.Linear(3, 3)
    x = torch.randn(2, 3, requires_grad=True)
    for reentrant in (False, True):
        layer.zero_grad()
        with wb.watch(layer) as w:
            checkpoint(lambda h: torch.tanh(layer(h)), x, use_reentrant=reentrant).sum().backward()
        assert w.session.stepper.done and layer.weight.grad is not None
        assert w.session.recording.passes == 1


def test_what_only_the_engine_can_answer_is_refused_in_a_sentence():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with wb.watch() as w:
        h = x * x
        (h + h.exp()).sum().backward()
    row = named(w.session.recording, "h")
    # what a view asks by itself gets a quiet sentence, what the user wants done is a problem on the screen
    assert "PyTorch's engine" in ask(w.session, "ask_local", node=row, place=1)["missing"]
    assert "PyTorch's engine" in ask(w.session, "ask_edit", node=row)["missing"]
    assert "PyTorch's engine" in ask(w.session, "ask_paths", node=row)["sentence"]
    assert ask(w.session, "fork", do="list")["forks"] == []
    for kind, fields in {"fork": {"do": "make", "node": row, "text": "g * 0"}, "check_rule": {"node": row}}.items():
        answer = ask(w.session, kind, **fields)
        assert answer["type"] == "problem" and "PyTorch's engine" in answer["sentence"]
    told = ask(w.session, "ask_fan_out", node=row)
    assert "the sum of 2 addends" in told["sentence"] and told["total"] is not None
    for kind, fields in {"ask_model": {}, "ask_memory": {}, "ask_timing": {}, "ask_norms": {"first": 1, "last": 9}}.items():
        assert ask(w.session, kind, **fields)["type"] != "problem"
    for metric in ("activation", "gradient", "ratio", "bad", "time"):
        assert ask(w.session, "ask_metric", metric=metric)["type"] != "problem"


def test_a_breakpoint_stops_in_the_record():
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    with wb.watch() as w:
        (x.exp() * 1000).sum().backward()
    stepper = w.session.stepper
    stepper.to(0)
    stepper.run_until("norm > 1e3")
    assert w.session.recording.op_name(stepper.plan[stepper.index - 1]) == "mul"
    assert "1,414" in stepper.stopped or "1414" in stepper.stopped  # 1000 * sqrt(2)


def test_memory_names_parameters_gradients_and_variables():
    model, x, t = mlp()
    with wb.watch(model) as w:
        loss = loss_of(model, x, t)
        loss.backward()
    told = ask(w.session, "ask_memory")
    totals = {total["category"]: total["now"] for total in told["totals"]}
    assert totals["parameter"] == totals["gradient"] == sum(p.numel() * 4 for p in model.parameters())
    assert totals["saved"] == 0  # backward freed it
    why = {holding["name"]: holding["why"] for holding in told["holdings"]}
    assert why["0.weight"].startswith("a parameter") and "held by the variable x" in why["x"]


# -- writes ----------------------------------------------------------------------------------------------------------------------


def test_writes_in_place_make_rows_and_keep_gradients_right():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with wb.watch() as w:
        h = x * 2
        h.add_(1)
        h[0].mul_(5)
        table = torch.zeros(2, 3)
        table[1] = h
        table.square().sum().backward()
    r, stepper = w.session.recording, w.session.stepper
    notes = [note for note in r.note if note]
    assert notes.count("in place") == 3 and any(note.startswith("written through its view") for note in notes)
    assert x.grad.tolist() == (8 * torch.tensor([1.0, 2, 3]) + 4).mul(torch.tensor([25.0, 1, 1])).tolist()
    numpy.testing.assert_array_equal(stepper.gradient(named(r, "x"))[0], x.grad.numpy())
    assert [row for row in stepper.plan if row < 0] == []


def test_an_op_that_fails_is_shown_on_the_partial_graph():
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(4, 5)
    with wb.watch() as w, pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        h = a * 2
        h @ b
    r = w.session.recording
    assert r.op_name(r.failure) == "matmul" and "(2x3 and 4x5)" in r.note[r.failure]
    assert [r.shape[source] for source, _ in r.inputs(r.failure)] == [(2, 3), (4, 5)]
    assert nothing_hangs(nn.Identity())


def test_an_exception_in_a_module_leaves_no_scope_open():
    class Picky(nn.Module):
        def forward(self, x):
            raise KeyError("no")

    model = nn.Sequential(Picky())
    after = nn.Linear(1, 1)
    with wb.watch() as w:
        with pytest.raises(KeyError):
            model(torch.ones(1))
        after(torch.ones(1))
    assert [group.name for group in w.session.graph.message().groups] == ["after"]
    assert nothing_hangs(model)


def test_a_training_loop_is_its_model_not_its_data_loader_and_optimizer():
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(4, 2)
    loader = DataLoader(TensorDataset(torch.randn(12, 4), torch.randint(2, (12,))), batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with wb.watch(model) as w:
        for x, t in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), t).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    r = w.session.recording
    assert [op for op in ops(r) if op in ("linear", "cross_entropy", "stack", "getitem", "sub")] == ["linear", "cross_entropy"] * 3
    assert r.passes == 3 and [group.kind for group in w.session.graph.message().groups].count("loop") == 1
    row = named(r, "weight")
    facts = inspected(w.session, row)["facts"]
    assert any("written in place" in fact["text"] for fact in facts)


class Refusing(torch.optim.SGD):
    def step(self, closure=None):
        for group in self.param_groups:
            torch.stack([p.grad.norm() for p in group["params"]])
        raise RuntimeError("no step today")


@pytest.mark.parametrize("kind", [Refusing, torch.optim.SGD])
def test_after_a_step_that_raises_recording_goes_on(kind):
    model, x, t = mlp()
    optimizer = kind(model.parameters(), 0.1)
    with wb.watch(model) as w:
        for _ in range(2):
            loss = F.cross_entropy(model(x), t)
            loss.backward()
            optimizer.param_groups[0]["lr"] = "a tenth"  # a TypeError in SGD
            with pytest.raises((RuntimeError, TypeError)):
                optimizer.step()
            optimizer.zero_grad()
    r = w.session.recording
    assert [op for op in ops(r) if op in ("linear", "cross_entropy")] == ["linear", "linear", "cross_entropy"] * 2
    assert r.passes == 2 and "stack" not in ops(r)
    assert [s.name for s in r.scopes if s.parent < 0 and s.kind == "module"] == ["Sequential"] * 2


def test_the_model_in_the_closure_of_a_step_is_recorded():
    model, x, t = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=3)
    runs = []

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        runs.append(loss.item())
        return loss

    with wb.watch(model) as w:
        optimizer.step(closure)
        model(x)
    r = w.session.recording
    assert len(runs) > 1 and r.passes == len(runs)
    assert set(ops(r)) == {"linear", "tanh", "cross_entropy"} and ops(r).count("cross_entropy") == len(runs)
    assert ops(r)[-3:] == ["linear", "tanh", "linear"]


def test_inference_mode():
    layer = nn.Linear(2, 2)
    with wb.watch(layer) as w, torch.inference_mode():
        y = layer(torch.ones(1, 2))
        y[0].mul_(2)
    row = next(row for row in range(w.session.recording.count) if w.session.recording.op_name(row) == "linear")
    assert inspected(w.session, row)["summary"] is not None
    assert "inference_mode" in inspected(w.session, w.session.recording.find(y), "grad")["missing"]


# -- the inspector ---------------------------------------------------------------------------------------------------------------


def test_why_grad_is_none():
    w0 = torch.ones(2, requires_grad=True)
    unused = torch.ones(2, requires_grad=True)
    with wb.watch() as w:
        data = torch.ones(2)
        h = w0 * data
        kept = h + 1
        kept.retain_grad()
        cut = h.detach() * 2  # noqa: F841 - the watch names rows after variables
        with torch.no_grad():
            hidden = h * 2  # noqa: F841
        ids = torch.tensor([0, 1]) + 1  # noqa: F841
        side = unused * 2  # noqa: F841
        loss = kept.sum()
        waits = inspected(w.session, w.session.recording.find(w0), "grad")["missing"]
        loss.backward()
    assert waits == "No backward() has run yet."
    told = {name: inspected(w.session, named(w.session.recording, name), "grad") for name in ("data", "h", "cut", "hidden", "ids", "side")}
    w.session.stepper.to(0)  # as if no record were there
    w.session.stepper = None
    plain = {name: inspected(w.session, named(w.session.recording, name), "grad")["missing"] for name in told}
    assert "requires_grad is False" in plain["data"]
    assert "leaf" in plain["h"] and "retain_grad()" in plain["h"]
    assert "None of the tensors" in plain["cut"]
    assert "no_grad()" in plain["hidden"]
    assert "int64" in plain["ids"]
    assert "does not depend on it" in plain["side"]
    assert inspected(w.session, named(w.session.recording, "kept"), "grad")["summary"]["values"] == [1.0, 1.0]
    assert told["h"]["summary"]["values"] == [1.0, 1.0]  # the record has what PyTorch let go


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64", "int8", "bool", "float8_e4m3fn"])
def test_dtypes(dtype):
    kind = getattr(torch, dtype)
    x = torch.tensor([0.5, -2.0, 3.0, 0.0]).to(kind)
    found = arrays.numpy_of(x)
    assert found.dtype.name == dtype and found.shape == (4,)
    wide = x.to(torch.complex128 if x.is_complex() else torch.float64).numpy()
    numpy.testing.assert_array_equal(found.astype(wide.dtype), wide)
    told = summary(found)
    assert told.dtype == dtype and told.zero == int((x.to(torch.complex64) == 0).sum())


def test_no_copy_where_numpy_can_share():
    x = torch.zeros(3, 4).T
    found = arrays.numpy_of(x)
    x[0, 0] = 7
    assert found[0, 0] == 7 and found.shape == (4, 3)
    assert arrays.numpy_of(x.to(torch.bfloat16)).shape == (4, 3)
    assert arrays.numpy_of(torch.tensor([1 + 2j]).conj())[0] == 1 - 2j


def unusual():
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "Sparse", dense.to_sparse(), dense
        yield "Sparse", dense.to_sparse_csr(), dense
        yield "Quantised", torch.quantize_per_tensor(dense, 0.5, 0, torch.qint8), dense
        yield "nested", torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)]), torch.tensor([1.0, 1, 0, 0, 0])
        yield "nested", torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)], layout=torch.jagged), torch.tensor([1.0, 1, 0, 0, 0])
        yield "meta", torch.ones(2, 2, device="meta"), None


@pytest.mark.filterwarnings("ignore")
def test_tensors_of_other_kinds_are_said_plainly():
    for word, tensor, expected in unusual():
        assert word in arrays.unusual(tensor)
        session = wb.watch(tensor).session
        told = inspected(session, 0)
        if expected is None:
            assert told["summary"] is None and "no numbers" in told["missing"]
        else:
            assert told["summary"]["norm"] == pytest.approx(expected.norm().item())
            assert any(word in fact["text"] for fact in told["facts"])


@pytest.mark.filterwarnings("ignore")
def test_ops_on_tensors_of_other_kinds_are_recorded():
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    weight = torch.ones(2, 2, requires_grad=True)
    with wb.watch() as w:
        torch.sparse.mm(dense.to_sparse(), weight).sum().backward()
        torch.func.vmap(lambda row: row * 2)(dense)
        torch.ones(2, 2, device="meta") @ torch.ones(2, 2, device="meta")
        (torch.tensor([1 + 1j], requires_grad=True) * 2j).abs().sum().backward()
        torch.tensor([1.0], dtype=torch.bfloat16) * 2
    assert weight.grad.tolist() == (dense.T @ torch.ones(2, 2)).tolist()
    for row in range(w.session.recording.count):
        for what in ("value", "grad"):
            assert inspected(w.session, row, what)["type"] == "inspected"
    assert ask(w.session, "ask_memory")["type"] == "memory"


def test_formulas_are_our_own_where_the_op_is_the_same():
    from workbench.formulas.typeset import as_text

    x = torch.tensor([0.5, -1.0], requires_grad=True)
    with wb.watch() as w:
        F.normalize(torch.tanh(x * 3), dim=0).sum().backward()
    r, stepper = w.session.recording, w.session.stepper
    step = next(s for s in (stepper.step(i + 1) for i in range(stepper.total)) if s.op == "tanh")
    ours = engine.tensor([0.5, -1.0], requires_grad=True)
    told = wb.step(engine.tanh(ours * 3).sum())
    told.finish()
    same = next(s for s in told.steps(set()) if s.op == "tanh")
    assert as_text(step.contributions[0].rule.symbols).split("=")[1:] == as_text(same.contributions[0].rule.symbols).split("=")[1:]
    unknown = next(s for s in (stepper.step(i + 1) for i in range(stepper.total)) if s.op == "normalize")
    assert as_text(unknown.forward.shapes) == "z_2 = normalize(y_2; dim = 0)"  # x is another tensor of the program
    assert ops(r) == ["mul", "tanh", "normalize", "sum"]


def test_one_tensor_is_inspected():
    x = torch.tensor([1.0, -2.0, 0.0], requires_grad=True)
    told = wb.inspect(x)
    assert "No backward() has run yet." in repr(told) and "requires_grad: True" in repr(told)
    (x * 2).sum().backward()
    told = wb.inspect(x)
    assert told.grad is not None and told.grad.values == x.grad.tolist() and told.summary.negative == 1
    assert "2 ops" in repr(wb.show((x * 2).sum()))
    layer = nn.Linear(3, 1)
    with wb.watch(layer):
        y = layer(x)
    assert "linear" in repr(wb.show(y)) and "in layer" in repr(wb.show(y))  # as it was recorded
    with pytest.raises(TypeError, match="cannot be stepped"):
        wb.step((x * 2).sum())


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
    code = "import sys, workbench, workbench.surface, workbench.watching; print('torch' in sys.modules)"
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
