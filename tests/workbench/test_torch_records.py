"""Backward passes of PyTorch's as records that can be walked through."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch import nn
from torch_programs import ask, loss_of, mlp, named, ops

import workbench as wb

pytestmark = pytest.mark.torch


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


def test_one_call_walks_through_a_pass_that_changes_no_grad():
    model, x, t = mlp()
    loss = loss_of(model, x, t)
    record = wb.step(loss)
    assert (record.index, record.done) == (0, False) and record.total > 3 and "changes no .grad" in record.sentence()
    assert all(p.grad is None for p in model.parameters())
    record.next()
    assert record.step(1).op in record.step(1).sentence
    record.to(record.total)
    loss.backward()  # the graph is still there, and no hook is left in it
    for name, p in model.named_parameters():
        numpy.testing.assert_array_equal(record.gradient(named(record.recording, name))[0], p.grad.numpy())
    assert not record.recording.hooks
    assert wb.step(loss).plan == record.plan  # the graph is freed now, but its record is there
    unseen = loss_of(model, x, t)
    unseen.backward()
    with pytest.raises(RuntimeError, match="freed by an earlier backward"):
        wb.step(unseen)


def test_one_call_knows_the_modules_of_a_watch_and_its_record_of_a_graph_that_is_freed():
    model, x, t = mlp()
    with wb.watch(model) as w:
        loss = loss_of(model, x, t)
    record = wb.step(loss)
    assert record.recording is w.session.recording
    assert wb.step(loss, until="norm > 0").index == 1  # once more
    assert not record.recording.hooks
    with wb.watch(model) as w:
        loss = loss_of(model, x, t)
        loss.backward()
    record = wb.step(loss)
    assert (record.index, w.session.stepper.index) == (0, w.session.stepper.total)
    assert record.plan == w.session.stepper.plan


def test_one_call_beside_a_watch_that_goes_on():
    model, x, t = mlp()
    w = wb.watch(model)
    loss = loss_of(model, x, t)
    record = wb.step(loss)
    loss.backward()
    assert [len(p.taken) > 0 for p in w.session.passes] == [True, True]  # the watch still hears of each pass
    assert w.session.passes[0] is record and model[0].weight.grad is not None
    assert {"module"} <= {group.kind for group in w.session.graph.message().groups} and "nll_loss loss" in repr(w.session)
    w.stop()


def test_one_call_through_checkpoints_failures_and_what_has_no_graph():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    x.grad = held = torch.tensor([5.0, 5.0])
    for reentrant in (True, False):
        y = torch.utils.checkpoint.checkpoint(lambda v: (v * 2).tanh(), x * 1, use_reentrant=reentrant).sum()
        record = wb.step(y)
        record.to(record.total)
        slope = 2 * (1 - numpy.tanh([2.0, 4.0]) ** 2)
        numpy.testing.assert_allclose(record.gradient(record.recording.find(x))[0], slope, rtol=1e-4)
        assert x.grad is held and held.tolist() == [5.0, 5.0]
    y = x.exp()
    z = (y * 2).sum()
    with torch.no_grad():
        y.add_(1)
    record = wb.step(z)  # as far as it goes, and then why it goes no further
    record.to(record.total)
    assert "modified by an inplace operation" in record.sentence()
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        wb.step(x * 2)
    assert wb.step(x * 2, torch.ones(2)).total > 0
    with pytest.raises(RuntimeError, match="does not require grad"):
        wb.step(torch.ones(2))
    with pytest.raises(RuntimeError, match="leaf"):
        wb.step(x)


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


def test_the_newest_pass_has_its_numbers_and_the_oldest_make_room():
    model, x, t = mlp()
    gradients, records = [], []
    with wb.watch(model, keep=3000) as w:  # about four passes
        for _ in range(12):
            model.zero_grad()
            loss_of(model, x, t).backward()
            gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
            x = x * 1.5
            records = w.session.passes
            assert sum(record.kept_bytes for record in records) <= 3000
    assert len(records) == 12
    row = named(w.session.recording, "0.weight")
    held = [record.gradient(row)[0] is not None for record in records]
    assert held[-1] and not held[0] and held == sorted(held)
    for record, wanted in zip(records, gradients, strict=True):
        array, missing = record.gradient(row)
        if array is None:
            assert "no room for this pass" in missing
        else:
            numpy.testing.assert_array_equal(array, wanted["0.weight"].numpy())
        step = next(s for s in (record.step(i + 1) for i in range(record.total)) if s.node == row)
        assert step.upstream.norm == pytest.approx(wanted["0.weight"].norm().item(), rel=1e-5)


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
    assert ask(w.session, "ask_local", node=999)["type"] == "problem"
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


def test_the_numbers_of_a_step_are_those_of_the_record():
    x, a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), torch.tensor([[0.5, -1.0], [2.0, 1.5]], requires_grad=True)
    with wb.watch() as w:
        z = x @ a
        z.square().sum().backward()
    r, stepper = w.session.recording, w.session.stepper

    def told(place):
        (message, buffers), *_ = w.session.handle({"type": "ask_local", "v": 1, "id": 1, "node": stepper.plan[place - 1], "place": place})
        numbers = [[numpy.frombuffer(buffers[term["picture"]["cells"]["index"]], "<f4").reshape(2, 2) for term in terms]
                   for terms in (message["forward"], *(part["equation"] for part in message["parts"]))]  # fmt: skip
        return numbers, [part["input"] for part in message["parts"]]

    place = 1 + next(at for at, row in enumerate(stepper.plan) if r.op_name(row) == "matmul")
    numbers, inputs = told(place)
    up = 2 * z.detach().numpy()
    expected = [(x, a, z), (up, up @ a.detach().numpy().T), (up, x.detach().numpy().T @ up)]
    assert inputs == ["input", "other"]
    for terms, known in zip(numbers, expected, strict=True):
        for term, one in zip(terms, known, strict=True):
            numpy.testing.assert_allclose(term, one.detach().numpy() if hasattr(one, "detach") else one, rtol=1e-6)
    place = 1 + stepper.plan.index(r.find(x))
    numpy.testing.assert_allclose(told(place)[0][0][0], x.grad.numpy())


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


def saved_of(loss) -> dict[int, int]:
    """Address and bytes of every storage that PyTorch's nodes behind the loss keep."""
    found, seen, todo = {}, set(), [loss.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo += [before for before, _ in node.next_functions]
        for name in dir(node):
            tensor = getattr(node, name) if name.startswith("_saved_") else None
            if isinstance(tensor, torch.Tensor):
                found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return found


def test_memory_says_what_pytorchs_nodes_save_and_for_how_long():
    model, x, t = mlp()
    with wb.watch(model) as w:
        loss = loss_of(model, x, t)
    told = ask(w.session, "ask_memory")
    kept = [holding for holding in told["holdings"] if "saved by" in holding["why"]]
    assert sum(holding["bytes"] for holding in kept) == sum(saved_of(loss).values())
    inner = [holding for holding in kept if holding["name"] == "kept by cross_entropy, which made loss"]
    assert inner and all(holding["dtype"] == "" for holding in inner)  # a shape that is not its own is not told
    assert sum(share["saved"] for share in told["lines"]) == sum(saved_of(loss).values())
    loss.backward()
    told = ask(w.session, "ask_memory")
    assert not any("saved by" in holding["why"] or holding["name"].startswith("kept by") for holding in told["holdings"])


def test_whatever_is_asked_about_tensors_and_modules_is_answered():
    model, x, t = mlp()
    with pytest.raises(RuntimeError, match="Sequential has not run under a watch yet"):
        wb.check(model)
    assert "parameters: " in repr(wb.describe(model)) and "No backward() has run yet" in repr(wb.describe(model))
    with wb.watch(model) as w:
        loss = loss_of(model, x, t)
    loss.backward()
    other = torch.nn.functional.cross_entropy(model(x * 2), t)
    for about in (loss, model, model[0], w):
        assert repr(wb.check(about)) == repr(wb.check(loss)) and repr(wb.memory(about)) == repr(wb.memory(loss))
        assert " in 4 ops" in repr(wb.profile(about))
    assert repr(wb.show(model)) == repr(wb.show(model[0])) == repr(wb.show(loss))
    assert "nothing found" in repr(wb.check(other)) and "saved by" in repr(wb.memory(other))
    for name, p in model.named_parameters():
        (line,) = [line for line in repr(wb.describe(model)).splitlines() if line.split()[0] == name]
        assert float(line.split("gradient norm ")[1].split(",")[0].replace("−", "-")) == pytest.approx(float(p.grad.norm()), rel=1e-3)
    assert "only after: addmm" in repr(wb.diff(loss, other))
    with pytest.raises(TypeError, match="Expected a tensor, a module, a view"):
        wb.memory(3)


def test_gradients_of_old_records_make_room_for_a_new_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = torch.nn.Linear(200, 200), torch.randn(50, 200)
    watches = []
    monkeypatch.setattr("workbench.recording.recording.KEEP", 100_000)  # less than one record's gradients
    for _ in range(2):
        with wb.watch(model) as w:
            model(x).tanh().square().mean().backward()
        watches.append(w)
    old, new = (w.session for w in watches)
    assert new.recording.room() > new.recording.kept_bytes > 0  # values, and the gradients of the pass
    assert old.recording.room() == 0
    weight = next(row for row in range(old.recording.count) if old.recording.shape[row] == (200, 200))
    array, why = old.stepper.gradient(weight)
    assert array is None and why
