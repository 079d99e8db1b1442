"""One op by itself: its Jacobian, its rule against finite differences, and the small steps inside it; against mathematics."""

from __future__ import annotations

import numpy
import pytest
from walked import leaf

import engine
import workbench as wb
from engine import nn
from engine.autograd import Function
from workbench.backward.stepper import Stepper
from workbench.graph.graph import Graph
from workbench.recording.recompute import Cannot
from workbench.recording.retrace import retrace
from workbench.session.session import Session
from workbench.whatif.answers import AGAIN
from workbench.whatif.ask import row_of
from workbench.whatif.local import structure
from workbench.whatif.one import one_op
from workbench.whatif.substeps import sub_steps

F = nn.functional


def wide(*shape, seed=0):
    return engine.tensor(numpy.random.default_rng(seed).normal(size=shape)).requires_grad_()


def numerical(forward, x: numpy.ndarray) -> numpy.ndarray:
    """The Jacobian of a NumPy function by central differences."""
    h, columns = 1e-6, []
    for i in range(x.size):
        step = numpy.zeros(x.size)
        step[i] = h
        up, down = forward(x + step.reshape(x.shape)), forward(x - step.reshape(x.shape))
        columns.append((up - down).reshape(-1) / (2 * h))
    return numpy.stack(columns, axis=1)


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# -- Jacobians ----------------------------------------------------------------------------------------------------------------------


def test_a_scalar_has_a_number():
    x = wide()
    (found,) = wb.whatif.local_jacobian(x.sin())
    assert (found.kind, float(found.values)) == ("scalar", pytest.approx(numpy.cos(x.item())))


def test_an_elementwise_op_has_a_diagonal_as_large_as_its_result():
    x, y = wide(4, 3), wide(3, seed=1)
    z = x * y
    of_x, of_y = wb.whatif.local_jacobian(z)
    assert (of_x.kind, of_x.structure, of_y.structure) == ("elementwise", "diagonal", "copy")
    numpy.testing.assert_array_equal(of_x.values, numpy.broadcast_to(y.detach().numpy(), (4, 3)))
    numpy.testing.assert_array_equal(of_y.values, x.detach().numpy())


@pytest.mark.parametrize(
    ("op", "reference", "shape", "kind"),
    [
        (lambda x: x.softmax(-1), softmax, (3, 4), "blocks"),
        (lambda x: x.cumsum(0), lambda x: numpy.cumsum(x, 0), (6,), "triangular"),
        (lambda x: x.t(), lambda x: x.T, (2, 3), "permutation"),
        (lambda x: x.reshape(6), lambda x: x.reshape(6), (2, 3), "identity"),
        (lambda x: x[1:], lambda x: x[1:], (3, 2), "selection"),
        (lambda x: x.sum(1), lambda x: x.sum(1), (3, 4), "sums"),
        (lambda x: x.expand(4, 3), lambda x: numpy.broadcast_to(x, (4, 3)), (3,), "copy"),
        (lambda x: F.layer_norm(x, (5,)), lambda x: (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + 1e-5), (5,), "dense"),
    ],
)  # fmt: skip
def test_a_small_jacobian_is_whole_and_exact(op, reference, shape, kind):
    x = wide(*shape)
    (found,) = wb.whatif.local_jacobian(op(x))
    assert (found.kind, found.structure) == ("matrix", kind)
    numpy.testing.assert_allclose(found.values, numerical(reference, x.detach().numpy()), rtol=1e-6, atol=1e-8)


def test_a_product_has_one_block_for_each_row():
    a, w = wide(3, 4), wide(4, 2, seed=1)
    of_a, of_w = wb.whatif.local_jacobian(a @ w)
    assert (of_a.structure, of_a.blocks) == ("blocks", 3)
    numpy.testing.assert_allclose(of_a.values, numpy.kron(numpy.eye(3), w.detach().numpy().T))
    numpy.testing.assert_allclose(of_w.values, numpy.kron(a.detach().numpy(), numpy.eye(2)))


def test_of_a_large_jacobian_one_row_and_its_structure():
    x = wide(80, 90)
    rows, cols = numpy.unravel_index(500, (80, 90))
    (found,) = wb.whatif.local_jacobian(x.softmax(-1), 500)
    assert (found.kind, found.chosen, found.sampled) == ("row", 500, True)
    p = softmax(x.detach().numpy())[rows]
    expected = numpy.zeros((80, 90))
    expected[rows] = -p * p[cols]
    expected[rows, cols] += p[cols]
    numpy.testing.assert_allclose(found.values, expected, atol=1e-12)
    assert wb.whatif.local_jacobian(wide(100, 100).t())[0].structure == "permutation"
    (conv,) = wb.whatif.local_jacobian(F.conv1d(wide(1, 1, 200), engine.ones(1, 1, 3, dtype=engine.float64)))
    assert conv.structure == "banded"


@pytest.mark.parametrize(
    ("matrix", "name"),
    [
        (numpy.zeros((2, 3)), "zero"), (numpy.eye(3), "identity"), (numpy.diag([1.0, 2, 3]), "diagonal"),
        (numpy.eye(4)[[2, 0, 3, 1]], "permutation"), (numpy.eye(4)[[2, 0]], "selection"), (numpy.eye(3)[[0, 0, 1, 2]], "copy"),
        (numpy.kron(numpy.eye(2), numpy.ones((1, 3))), "sums"), (numpy.kron(numpy.eye(2), numpy.ones((2, 2))), "blocks"),
        (numpy.eye(9) + numpy.eye(9, k=1) + numpy.eye(9, k=-1), "banded"), (numpy.ones((3, 3)), "dense"),
        (numpy.tril(numpy.ones((3, 3)))[:, ::-1] * 1.0, "dense"),
    ],
)  # fmt: skip
def test_structures_are_told_apart(matrix, name):
    assert structure(matrix)[0] == name


def test_several_results_have_each_their_own():
    values, _ = wide(4).topk(2)
    (found,) = wb.whatif.local_jacobian(values)
    assert found.structure == "selection"
    parts = wide(4).split(2)
    numpy.testing.assert_array_equal(wb.whatif.local_jacobian(parts[1])[0].values, numpy.eye(4)[2:])


def test_a_function_that_is_not_complex_differentiable_has_none():
    z = engine.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(Cannot, match="not complex differentiable"):
        wb.whatif.local_jacobian(z.abs())
    (found,) = wb.whatif.local_jacobian(z.square())
    numpy.testing.assert_allclose(found.values, 2 * z.detach().numpy(), rtol=1e-6)


def test_what_has_no_rule_says_so():
    with pytest.raises(Cannot, match="No recorded op made this tensor"):
        wb.whatif.local_jacobian(wide(2))


GENERATOR = numpy.random.default_rng()  # not the engine's: two calls differ
HELD: list = []  # the check computes the op again, so its inputs must be alive


def held(*shape, seed=0):
    HELD.append(leaf(*shape, seed=seed))
    return HELD[-1]


def held_complex():
    HELD.append(engine.tensor([1 + 2j, 0.5j], requires_grad=True))
    return HELD[-1]


# -- finite differences ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        lambda: held(3, 4) @ held(4, 2, seed=1), lambda: held(5).softmax(0), lambda: F.layer_norm(held(3, 4), (4,)),
        lambda: F.conv2d(held(1, 2, 6, 6), held(3, 2, 3, 3, seed=1), held(3, seed=2)), lambda: held(40, 30).tanh(),
        lambda: F.cross_entropy(held(4, 3), engine.tensor([0, 2, 1, 1])), lambda: F.embedding(engine.tensor([1, 1, 0]), held(3, 2)),
        lambda: held(20, 20) @ held(20, 20, seed=1), lambda: engine.cat([held(2), held(3, seed=1)]), lambda: held(3).to(engine.float64),
        lambda: (held_complex() * 2j).abs(), lambda: held(4, 5).topk(2, 1)[0],
        lambda: F.dropout(held(30), 0.5), lambda: held(3).to(engine.bfloat16) * 2,
    ],
)  # fmt: skip
def test_rules_agree_with_their_differences(made):
    state = engine.get_rng_state()
    tensor = made()
    after = engine.get_rng_state()
    check = wb.whatif.check_rule(tensor)
    assert check.passed is True, check
    assert "agrees with central differences" in check.sentence
    assert numpy.array_equal(engine.get_rng_state(), after) and state is not None


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * 3  # wrong: 2 x is the derivative


class Squared(Doubled):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * 2


def test_a_wrong_rule_is_found_and_a_right_one_passes():
    check = wb.whatif.check_rule(Doubled.apply(held(3)))
    assert check.passed is False
    assert "disagrees" in check.sentence and check.inputs[0].relative == pytest.approx(1 / 3, rel=0.01)
    assert wb.whatif.check_rule(Squared.apply(held(3))).passed is True


def test_a_kink_is_no_error_of_the_rule():
    x = engine.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    check = wb.whatif.check_rule(F.relu(x))
    assert check.passed is None
    assert "not differentiable at element [1]" in check.sentence and "1 such element; the others agree" in check.sentence


def test_random_ops_and_missing_inputs_say_why():
    class Noisy(Function):
        @staticmethod
        def forward(ctx, x):
            return x * float(GENERATOR.uniform())

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(Cannot, match="draws random numbers"):
        wb.whatif.check_rule(Noisy.apply(held(3)))
    infinite = engine.tensor([float("inf"), 1.0], requires_grad=True)
    check = wb.whatif.check_rule(infinite.exp())
    assert check.passed is None and "NaN or Inf" in check.sentence
    x = leaf(3)
    with wb.record():
        y = x.sigmoid()
    with engine.no_grad():
        x.mul_(0)
    with pytest.raises(Cannot, match="written in place since"):
        wb.whatif.check_rule(y)


# -- inside a step ---------------------------------------------------------------------------------------------------------------------


def stepped(tensor, *inputs):
    """The sub-steps of the op that made a tensor, for a random gradient: `(op, upstream, contributions, by input)`."""
    recording = retrace([tensor.node], [tensor])
    row = recording.row_of(tensor.node)
    one = one_op(recording, row, {row: tensor.node})
    upstream = numpy.random.default_rng(5).normal(size=one.shape).astype(one.dtype)
    given = one.pull(upstream)
    found = {one.names[i]: sub_steps(one, i, upstream, given[i], "it") for i in one.differentiable()}
    return upstream, {one.names[i]: given[i] for i in one.differentiable()}, found


def test_a_broadcast_input_is_summed_in_a_step_of_its_own():
    upstream, given, found = stepped(leaf(32, 10) + leaf(10, seed=1))
    assert found["input"] == []
    (step,) = found["other"]
    assert (step.kind, step.axes) == ("sum", [0])
    assert step.sentence == "(32, 10) summed over axis 0, because it (10,) was broadcast there"
    assert step.before.shape == (32, 10)
    numpy.testing.assert_allclose(step.after, upstream.sum(0), rtol=1e-5)
    numpy.testing.assert_array_equal(step.after, given["other"])


@pytest.mark.parametrize(
    ("made", "name", "axes", "kind"),
    [
        (lambda: F.linear(leaf(6, 3), leaf(4, 3, seed=1), leaf(4, seed=2)), "bias", [0], "sum"),
        (lambda: F.conv2d(leaf(2, 1, 5, 5), leaf(3, 1, 2, 2, seed=1), leaf(3, seed=2)), "bias", [0, 2, 3], "sum"),
        (lambda: leaf(3, 1).expand(3, 4), "input", [1], "sum"),
        (lambda: leaf(3, 1) * leaf(1, 4, seed=1), "input", [1], "sum"),
        (lambda: leaf(5, 2, 3) @ leaf(3, 4, seed=1), "other", [0], "sum"),
        (lambda: leaf(3, 4).sum(1), "input", [1], "spread"),
        (lambda: leaf(3, 2).sum(1), "input", [1], "spread"),
        (lambda: leaf(2).sum(), "input", [0], "spread"),
        (lambda: leaf(3, 4).mean(), "input", [0, 1], "spread"),
        (lambda: leaf(3, 4).sum(0, keepdim=True), "input", [0], "spread"),
        (lambda: leaf(3, 4).logsumexp(1), "input", [1], "spread"),
    ],
)
def test_each_sum_and_each_spreading_is_told(made, name, axes, kind):
    _, given, found = stepped(made())
    step = found[name][0]
    assert (step.kind, step.axes) == (kind, axes)
    numpy.testing.assert_allclose(step.after, given[name], rtol=1e-4, atol=1e-6)
    if kind == "sum":
        numpy.testing.assert_allclose(
            numpy.asarray(step.before).sum(tuple(axes)).reshape(step.after.shape), step.after, rtol=1e-4, atol=1e-5
        )


def test_a_promoted_input_is_cast_back():
    _, _, found = stepped(leaf(3) * wide(3))
    assert [s.sentence for s in found["input"]] == ["cast from float64 to float32, because it is float32 and was promoted there"]


# -- through the session ---------------------------------------------------------------------------------------------------------------


def walked(loss) -> Session:
    recording = retrace([loss.node], [loss])
    session = Session(recording)
    session.graph.finish({})
    session.step_through(Stepper.of(recording, session.graph, loss))
    session.stepper.prepare()
    return session


def ask(session: Session, type: str, **more) -> tuple[dict, list]:
    ((message, buffers), *_) = session.handle({"type": type, "v": 1, "id": 1, **more})
    return message, buffers


def test_local_derivatives_travel_with_pictures_and_an_equation():
    x, w, b = leaf(3, 4), leaf(4, 2, seed=1), leaf(2, seed=2)
    session = walked(engine.tanh(x @ w + b).sum())
    session.stepper.finish()
    graph = Graph(session.recording)
    assert graph is not None
    for place, row in enumerate(session.stepper.plan, 1):
        if session.recording.ops[row] is None:
            continue
        message, buffers = ask(session, "ask_local", node=row, place=place)
        assert message["missing"] == ""
        for part in message["parts"]:
            for term in part["equation"]:
                cells = term["picture"]["cells"]
                assert len(buffers[cells["index"]]) == 4 * numpy.prod(cells["shape"])
        if session.recording.op_name(row) == "tanh":
            (part,) = message["parts"]
            up, local, given = (numpy.frombuffer(buffers[t["picture"]["cells"]["index"]], "<f4") for t in part["equation"])
            numpy.testing.assert_allclose(up * local, given, rtol=1e-5)
        if session.recording.op_name(row) == "add":
            assert message["parts"][1]["sub_steps"][0]["axes"] == [0]
        if session.recording.op_name(row) == "matmul":
            assert [t["sign"] for t in message["parts"][0]["equation"]] == ["", "@", "="]
            assert [t["picture"]["label"] for t in message["parts"][1]["equation"]] == ["xᵀ", "upstream", "contribution"]


def test_the_numbers_of_an_op_are_what_it_took_and_what_it_made():
    x, w, b = leaf(3, 4), leaf(4, 2, seed=1), leaf(2, seed=2)
    session = walked(engine.tanh(x @ w + b).sum())
    session.stepper.finish()
    made = {"matmul": [x.array, w.array, x.array @ w.array], "add": [x.array @ w.array, b.array, x.array @ w.array + b.array]}
    for place, row in enumerate(session.stepper.plan, 1):
        message, buffers = ask(session, "ask_local", node=row, place=place)
        arrays = [numpy.frombuffer(buffers[t["picture"]["cells"]["index"]], "<f4") for t in message["forward"]]
        signs = [t["sign"] for t in message["forward"]]
        if session.recording.ops[row] is None:  # what its .grad gains
            leaf_of = {(3, 4): x, (4, 2): w, (2,): b}[tuple(session.recording.shape[row])]
            assert signs == ["+="]
            numpy.testing.assert_allclose(arrays[0], leaf_of.grad.array.ravel(), rtol=1e-5)
        elif expected := made.get(session.recording.op_name(row)):
            assert signs == ["", "", "→"]
            for array, one in zip(arrays, expected, strict=True):
                numpy.testing.assert_allclose(array, one.ravel(), rtol=1e-5)


def test_a_value_that_is_gone_leaves_the_numbers_out():
    x = leaf(3)
    session = walked((x.detach() * x).sum())
    row = next(r for r in session.stepper.plan if session.recording.op_name(r) == "mul")
    assert ask(session, "ask_local", node=row)[0]["forward"]
    with engine.no_grad():
        x.add_(1)
    assert ask(session, "ask_local", node=row)[0]["forward"] == []


def test_numbers_that_take_long_to_compute_again_are_left_out():
    """A step stays quick: at most AGAIN ops run again for it."""
    for length, told in ((AGAIN // 2, True), (AGAIN + 50, False)):
        x = leaf(3)
        h = x
        for _ in range(length):
            h = -h  # the tape keeps nothing of it
        session = walked((h + h).sum())
        row = next(r for r in session.stepper.plan if session.recording.op_name(r) == "add")
        del h
        assert bool(ask(session, "ask_local", node=row)[0]["forward"]) == told


def test_a_check_travels():
    x = leaf(3)
    session = walked((x * 2).exp().sum())  # nothing kept x * 2: it is computed again
    row = next(r for r in session.stepper.plan if session.recording.op_name(r) == "exp")
    message, _ = ask(session, "check_rule", node=row)
    assert (message["outcome"], message["inputs"][0]["how"]) == ("agrees", "all 3 elements")
    leaf_row = session.stepper.plan[-1]
    message, _ = ask(session, "check_rule", node=leaf_row)
    assert message["outcome"] == "not told" and "no rule to check" in message["sentence"]


def test_rows_are_found_by_tensor():
    x = leaf(2)
    loss = (x * 2).sum()
    assert row_of(retrace([loss.node], [loss]), x) == 0


def test_every_edge_between_scalars_has_its_number():
    a, b = engine.tensor(2.0, requires_grad=True), engine.tensor(-3.0, requires_grad=True)
    c = a * b
    loss = c * c + a.exp()
    session = walked(loss)
    message, _ = ask(session, "ask_slopes")
    of_a, of_b, of_c = (row_of(session.recording, t) for t in (a, b, c))
    edges = list(zip(message["source"], message["target"], message["value"], strict=True))
    names = {(source, session.recording.op_name(target)): value for source, target, value in edges}
    assert (of_a, of_c, -3) in edges and (of_b, of_c, 2) in edges
    assert [value for source, target, value in edges if source == of_c] == [-6, -6]  # c * c takes c twice
    assert names[of_a, "exp"] == pytest.approx(numpy.exp(2), rel=1e-6)
    assert message["missing"] == ""
    nothing, _ = ask(walked((leaf(3) * 2).sum() * 1), "ask_slopes")
    assert len(nothing["source"]) == 1


def test_edges_that_a_view_asks_for_while_a_cell_runs_get_their_numbers_when_it_ends():
    a = engine.tensor(2.0, requires_grad=True)
    session, sent = walked(a * 3), []
    view = session.connect(lambda message, buffers: sent.append(message))
    gone = session.connect(lambda message, buffers: sent.append(message))
    session.busy = lambda: True
    for client in (view, gone):
        client.receive({"type": "ask_slopes", "v": 1, "id": 7})
    session.disconnect(gone)
    assert sent == []
    session.busy = lambda: False
    session.cell_ended()
    assert [(message["type"], message["re"], message["value"]) for message in sent] == [("slopes", 7, [3.0])]
    session.cell_ended()
    assert len(sent) == 1


def test_a_parameter_that_was_initialised_in_place_counts_as_untouched():
    layer = nn.Linear(3, 2)  # filled by uniform_, which writes in place
    y = layer(leaf(4, 3).detach())
    assert wb.whatif.check_rule(y).passed is True
    assert wb.whatif.rerun(y.sum(), {layer.weight: "x * 2"}).notes == []
    with engine.no_grad():
        layer.weight.mul_(2)
    with pytest.raises(Cannot, match="written in place since"):
        wb.whatif.check_rule(y)
