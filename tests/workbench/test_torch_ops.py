"""What PyTorch runs as rows of a recording: writes in place, failures, tensors of all kinds, and what the inspector says of them."""

from __future__ import annotations

import warnings
from functools import partial

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_programs import ask, inspected, mlp, named, nothing_hangs, ops

import engine
import workbench as wb
from workbench.inspector import summary
from workbench.torch_models import arrays

pytestmark = pytest.mark.torch

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


IN_PLACE = [
    nn.ReLU,
    nn.ReLU6,
    nn.Hardswish,
    nn.Hardsigmoid,
    nn.SiLU,
    nn.Mish,
    nn.ELU,
    nn.CELU,
    nn.SELU,
    nn.LeakyReLU,
    nn.Dropout,
    nn.Dropout1d,
]


@pytest.mark.parametrize("layer", IN_PLACE)
def test_a_layer_with_inplace_is_a_row_of_the_model_s_own(layer):
    model = nn.Sequential(nn.Linear(3, 4), layer(inplace=True), nn.Linear(4, 4))
    with wb.watch() as w:
        model(torch.randn(2, 5, 3)).sum().backward()
    r = w.session.recording
    rows = [row for row in range(r.count) if r.kind[row] == "op"]
    assert [r.note[row] for row in rows] == ["", "in place", "", ""]
    assert [r.scopes[r.scope[row]].name for row in rows[:3]] == ["0", "1", "2"]
    assert [r.inputs(row)[0][0] for row in rows[1:]] == rows[:-1]


def test_an_inplace_dropout_that_does_nothing_is_no_row():
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(inplace=True)).eval()
    with wb.watch() as w:
        model(torch.randn(2, 3)).sum().backward()
    assert ops(w.session.recording) == ["linear", "sum"]


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


class Called:
    def __init__(self, function):
        self.function = function

    def __call__(self):
        return self.function()


@pytest.mark.parametrize("wrapped", [lambda f: f, partial, Called, lambda f: partial(Called(f))])
def test_the_model_in_the_closure_of_a_step_is_recorded(wrapped):
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
        optimizer.step(wrapped(closure))  # Lightning's is a partial of an object
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


def test_a_look_at_numbers_leaves_the_grad_mode_alone(monkeypatch):
    """An interrupt in the midst of `torch.no_grad()` would leave it off for good."""
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True)
    forbidden = lambda *args: pytest.fail("the grad mode was changed")  # noqa: E731
    monkeypatch.setattr(torch, "set_grad_enabled", forbidden)
    for tensor in (x, x.to_sparse(), x.bfloat16()):
        assert numpy.isclose(arrays.numpy_of(tensor).astype("float32"), 2.0).any()


def unusual():
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "Sparse", dense.to_sparse(), dense
        yield "Sparse", dense.to_sparse_csr(), dense
        yield "Quantized", torch.quantize_per_tensor(dense, 0.5, 0, torch.qint8), dense
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
            assert told["summary"] is None and "no values" in told["missing"]
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
    told = wb.describe(x)
    assert "No backward() has run yet." in repr(told) and "requires_grad: True" in repr(told)
    (x * 2).sum().backward()
    told = wb.describe(x)
    assert told.grad is not None and told.grad.values == x.grad.tolist() and told.summary.negative == 1
    assert "2 ops" in repr(wb.show((x * 2).sum()))
    layer = nn.Linear(3, 1)
    with wb.watch(layer):
        y = layer(x)
    assert "linear" in repr(wb.show(y)) and "in layer" in repr(wb.show(y))  # as it was recorded
