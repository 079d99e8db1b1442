"""The tape: long chains, the order of a pass, what is kept alive and what is not, the generator of steps, forward mode."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy
import pytest

import engine
from engine.autograd import forward_ad, grad, reverse
from engine.base import observe
from engine.core import tape


def leaf(values):
    return engine.tensor(numpy.asarray(values, float), requires_grad=True)


# -- length ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [lambda y: y * 0.99999, lambda y: y + 1e-6, lambda y: y.tanh(), lambda y: y[:] * 1], ids=["mul", "add", "tanh", "view"]
)
def test_a_chain_of_100_000_ops(step, no_collector):
    """Forward, backward and deallocation without recursion; dropped before backward, too."""
    x = leaf([0.5, 1.0])
    y = x
    for _ in range(100_000):
        y = step(y)
    y.sum().backward()
    assert numpy.isfinite(x.grad.array).all() and (x.grad.array > 0).all()
    del y
    y = x
    for _ in range(100_000):
        y = step(y)
    del y


def test_a_chain_of_views_of_views(no_collector):
    x = leaf([0.5, 1.0])
    y = x * 1
    v = y
    for _ in range(3_000):
        v = v[:]
    v.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_long_chain_forward_mode_and_second_derivative():
    x = leaf(0.5)
    y = x
    for _ in range(3_000):
        y = y * 0.9999 + 1e-5
    pushed = tape.push_forward(y.node, {x.node: numpy.array(1.0)}, numpy)
    (first,) = grad(y * y, x, create_graph=True)
    slope = 0.9999**3000
    assert pushed == pytest.approx(slope) and first.item() == pytest.approx(2 * y.item() * slope)
    assert grad(first, x)[0].item() == pytest.approx(2 * slope * slope)


def test_a_wide_graph():
    xs = [leaf(float(i)) for i in range(2_000)]
    total = xs[0] * 1
    for x in xs[1:]:
        total = total + x * x
    total.backward()
    assert [x.grad.item() for x in xs[1:]] == [2.0 * i for i in range(1, 2_000)]


# -- memory ----------------------------------------------------------------------------------------------------------------


def watched(array, seen):
    weakref.finalize(array, seen.append, 1)
    return array


def test_a_freed_graph_returns_its_memory_without_the_collector(no_collector):
    x, dead = leaf(numpy.ones(1000)), []
    h = x.exp()
    watched(h.array, dead)
    node = weakref.ref(h.node)
    y = (h.tanh() * h).sum()
    del h
    assert dead == [] and node() is not None  # the tape keeps what tanh and mul named
    y.backward()
    assert dead == [1] and x.grad is not None  # saved arrays went with the pass
    del y
    assert node() is None and gc.garbage == []


def test_a_graph_that_never_ran_backward_dies_with_its_last_tensor(no_collector):
    x, dead = leaf(numpy.ones(10)), []
    y = x
    for _ in range(20):
        e = y.exp()  # which the tape keeps
        watched(e.array, dead)
        y = e * 0.1
    z = y.sum()
    del y, e
    assert dead == []
    del z
    assert len(dead) == 20


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[1:].exp(), lambda x: x.reshape(2, 2).sum(0), lambda x: engine.cat((x, x * 2)), lambda x: x.max(0).values,
        lambda x: (x * 2).mul_(x), lambda x: x.softmax(0), lambda x: engine.stack((x, x)).unbind(0)[1],
    ],
    ids=["view", "sum", "cat", "multi", "inplace", "softmax", "unbind"],
)  # fmt: skip
def test_no_op_makes_a_cycle(make, no_collector):
    x = leaf([0.5, 1.0, 1.5, 2.0])
    y = make(x)
    tensor, node = weakref.ref(y), weakref.ref(y.node)
    y.sum().backward()
    del y
    assert tensor() is None and node() is None


def test_a_written_view_makes_no_cycle(no_collector):
    x = leaf([0.5, 1.0, 1.5])
    y = x * 1
    v = y[1:]
    v.mul_(2)
    refs = [weakref.ref(y), weakref.ref(v), weakref.ref(y.node), weakref.ref(v.node)]
    y.sum().backward()
    assert x.grad.tolist() == [1, 2, 2]
    del y, v
    assert [r() for r in refs] == [None] * 4


def test_a_function_makes_no_cycle(no_collector):
    class Exp(engine.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[1]

    x = leaf([1.0])
    y = Exp.apply(x)
    refs = [weakref.ref(y), weakref.ref(y.node), weakref.ref(y.array)]
    y.sum().backward()
    del y
    assert [r() for r in refs] == [None] * 3


def test_a_second_order_graph_makes_no_cycle(no_collector):
    x = leaf([1.0, 2.0])
    y = x.exp().sum()
    (first,) = grad(y, x, create_graph=True)
    refs = [weakref.ref(y.node), weakref.ref(first.node)]
    (second,) = grad(first.sum(), x)
    del y, first
    assert [r() for r in refs] == [None] * 2 and second is not None


def test_a_dead_leaf_is_not_kept_by_the_graph(no_collector):
    x, w = leaf([1.0]), leaf([2.0])
    y = (x * w).sum()
    there = weakref.ref(x)
    del x
    assert there() is None
    y.backward()
    assert w.grad.tolist() == [1.0]


def test_where_a_dead_leaf_was_there_is_no_variable():
    x = engine.ones(1, requires_grad=True)
    y, z = x * 2, engine.ones(1, requires_grad=True).exp()
    assert y.grad_fn.next_functions[0][0].variable is x
    gone = z.grad_fn.next_functions[0][0]
    assert not hasattr(gone, "variable")
    with pytest.raises(AttributeError, match="the tensor was freed"):
        gone.variable  # noqa: B018


def test_the_tape_keeps_only_what_a_live_rule_names():
    x, w = engine.tensor(numpy.ones(3)), leaf(numpy.ones(3))
    node = (x * w).node
    kept = dict(zip(engine.mul.op.slots, node.saved, strict=True))
    assert kept["input"] is x.array and kept["other"] is None and kept["out"] is None  # only d_other will run
    assert (x + w).node.saved == ()
    y = w.exp()
    assert [a is y.array for a in y.node.saved] == [False, True]


def test_saved_arrays_go_as_the_pass_proceeds():
    """Peak memory: the node nearest the loss has let go before the farthest runs."""
    x = leaf([1.0])
    a = x.exp()
    b = a.exp()
    freed = []
    x.register_hook(lambda g: freed.append(b.node.saved is tape.FREED))
    b.sum().backward()
    assert freed == [True]


def test_an_operand_that_the_write_overwrites_is_kept_as_it_was():
    """PyTorch refuses here; d(x * x) = 2 x is as good as any answer."""
    x = leaf([3.0, 4.0])
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    assert y.tolist() == [9.0, 16.0] and x.grad.tolist() == [6.0, 8.0]


def test_a_deep_copy_takes_along_what_the_user_hung_on_it():
    """As PyTorch: attributes and the gradient; memory, views and graph are its own."""
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    x.label, view = ["first"], x[:1]
    y = copy.deepcopy(x)
    assert y.label == ["first"] and y.label is not x.label and y.grad.tolist() == [2, 4] and y.grad is not x.grad
    with engine.no_grad():
        y.zero_()
    assert x.tolist() == [1, 2] and view.tolist() == [1] and y._base is None


# -- order and steps -------------------------------------------------------------------------------------------------------


def names(steps):
    return [node.op.name if node.op else "leaf" for node, _, _ in steps]


def test_backward_is_a_generator_of_steps():
    x = leaf([0.0, 1.0, 2.0])
    loss = ((x * x).exp() + x).sum()
    steps = tape.backward_steps([(loss.node, numpy.ones(()))], numpy)
    assert names(steps) == ["sum", "add", "exp", "mul", "leaf"]
    y = leaf([0.0, 1.0, 2.0])
    ((y * y).exp() + y).sum().backward()
    assert numpy.array_equal(x.grad.array, y.grad.array)


def test_a_leaf_is_done_as_soon_as_its_gradient_is_whole():
    x, w, b = leaf([[1.0, 2.0]]), leaf([[1.0], [2.0]]), leaf([3.0])
    loss = ((x @ w) + b).tanh().sum()
    order = tape.plan([loss.node])
    position = {id(node): i for i, node in enumerate(order)}
    assert [n.op.name if n.op else n for n in order] == ["sum", "tanh", "add", b.node, "matmul", x.node, w.node]
    assert len(position) == len(order)


def test_every_node_comes_after_all_its_users():
    rng = numpy.random.default_rng(0)
    pool = [leaf(rng.normal(size=2)) for _ in range(3)]
    for _ in range(200):
        i, j = rng.integers(len(pool), size=2)
        pool.append(pool[i] * 0.5 + pool[j])
    order = tape.plan([pool[-1].node])
    place = {node: i for i, node in enumerate(order)}
    for node in order:
        assert all(place[source] > place[node] for source in node.inputs if source is not None)


def test_a_half_run_pass_can_be_dropped():
    x = leaf([1.0, 2.0])
    loss = x.exp().tanh().sum()
    steps = tape.backward_steps([(loss.node, numpy.ones(()))], numpy)
    next(steps), next(steps)
    steps.close()
    assert x.grad is None


def test_an_observer_sees_every_step_and_forgets_nothing():
    class Log(observe.Observer):
        def __init__(self):
            self.seen = []

        def op(self, op, inputs, attrs, output):
            self.seen.append(op.name)

        def backward_begins(self, roots, plan):
            self.seen.append(len(plan))

        def backward(self, node, grad, input_grads):
            self.seen.append(node.name())

    x = leaf([1.0])
    with observe.observing(Log()) as log:
        x.exp().sum().backward()
    assert log.seen == ["exp", "sum", 3, "SumBackward0", "ExpBackward0", "torch::autograd::AccumulateGrad"]
    assert observe.current is None


def test_backward_to_chosen_inputs_accumulates_as_every_pass_does():
    """Literals from PyTorch: in place, with the leaf's hooks, and for a non-leaf as if its gradient were retained."""
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * w).sum().backward(inputs=[x])
    first = x.grad
    (x * w).sum().backward(inputs=x)
    assert x.grad is first and seen == [[3, 4], [6, 8]] and w.grad is None
    y = x * 2
    (y * w).sum().backward(inputs=(y, w))
    assert y.grad.tolist() == [3, 4] and y.retains_grad and w.grad.tolist() == [2, 4] and x.grad is first and len(seen) == 2
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        (x * w).sum().backward(inputs=[engine.ones(2)])


def test_what_a_node_hook_returns_replaces_the_gradients_of_the_inputs():
    """Literals from PyTorch."""
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * w
    y.grad_fn.register_hook(lambda into, out: (into[0] * 10, None if into[1] is None else into[1] + out[0]))
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [30, 40] and w.grad.tolist() == [2, 3]
    (second,) = grad(grad(y.sum(), x, create_graph=True)[0].sum(), w)
    assert second.tolist() == [10, 10]
    z = x.exp()
    for given, kind, words in (
        (engine.ones(2), TypeError, "expected tuple"),
        ((engine.ones(3),), RuntimeError, "shape"),
        ((engine.ones(2), None), RuntimeError, "got 2, but expected 1"),
    ):
        with z.grad_fn.register_hook(lambda into, out, given=given: given), pytest.raises(kind, match=words):
            z.sum().backward(retain_graph=True)
    with z.grad_fn.register_hook(lambda into, out: (None,)):
        before = x.grad.tolist()
        z.sum().backward()
    assert x.grad.tolist() == before


def test_a_node_hook_on_one_of_several_results_is_the_op_s():
    x, seen = leaf([1.0, 3.0]), []
    values = x.sort().values
    values.grad_fn.register_hook(lambda into, out: seen.append(([g.tolist() for g in into], out[0].tolist())) or (into[0] * 2,))
    (values * engine.tensor([1.0, 5.0])).sum().backward()
    assert seen == [([[1, 5]], [1, 5])] and x.grad.tolist() == [2, 10]
    values, vectors = engine.linalg.eigh(leaf([[1.0, 0.0], [0.0, 3.0]]))
    vectors.grad_fn.register_hook(lambda into, out: seen.append([None if g is None else g.tolist() for g in out]))
    values.sum().backward()
    assert seen[1:] == [[[1, 1], None]]


def test_a_refusal_says_which_root_it_means():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        engine.autograd.backward([x * 1, engine.ones(1)])
    with pytest.raises(RuntimeError, match=r"grad_output\[1\] has a shape of \(2,\) and output\[1\]"):
        engine.autograd.backward([x * 1, x * 2], [engine.ones(1), engine.ones(2)])


def test_inference_mode_bare_by_keyword_and_within_itself():
    @engine.inference_mode
    def f(x):
        return (x * 2).requires_grad, engine.is_inference_mode_enabled()

    assert f(leaf([1.0])) == (False, True)
    m = engine.inference_mode(mode=True)
    with m, m:
        assert engine.is_inference_mode_enabled()
    assert engine.is_grad_enabled() and not engine.is_inference_mode_enabled()
    with engine.set_grad_enabled(mode=False):
        assert not engine.is_grad_enabled()


# -- forward mode ----------------------------------------------------------------------------------------------------------


def test_push_forward_is_the_jacobian_times_a_vector():
    x, w = leaf([1.0, 2.0]), leaf([[1.0, 0.5], [-1.0, 2.0], [0.0, 1.0]])
    y = (w @ x).tanh()
    t = numpy.array([0.3, -0.7])
    pushed = tape.push_forward(y.node, {x.node: t}, numpy)
    s = 1 - numpy.tanh(w.array @ x.array) ** 2
    assert numpy.allclose(pushed, s * (w.array @ t))
    assert tape.push_forward(y.node, {}, numpy) is None


def test_push_forward_through_several_results():
    x = leaf([[3.0, 1.0], [2.0, 5.0]])
    values = x.max(1).values
    pushed = tape.push_forward(values.node, {x.node: numpy.array([[10.0, 20.0], [30.0, 40.0]])}, numpy)
    assert pushed.tolist() == [10.0, 40.0]


def test_user_functions_have_no_forward_mode():
    class Same(engine.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1.0)
    with pytest.raises(NotImplementedError, match="Same"):
        tape.push_forward(Same.apply(x).node, {x.node: numpy.array(1.0)}, numpy)


def test_a_complex_tangent_of_a_real_primal_is_refused():
    """PyTorch keeps it; here rules compute in the primal's dtype and would drop the imaginary part."""
    with forward_ad.dual_level(), pytest.raises(ValueError, match="expected a real tangent for a primal of torch.float64"):
        forward_ad.make_dual(engine.ones(1, dtype=engine.float64), engine.ones(1, dtype=engine.complex128))


# -- gradients of parts --------------------------------------------------------------------------------------------------------


def _of_parts(x: engine.Tensor) -> tuple[engine.Tensor, engine.Tensor]:
    """A tensor, and a sum over parts of it that overlap, the whole in between."""
    h = x * 2
    a, b, c = h.chunk(3, 1)
    total = (
        (a * b).sum() + (c**2).sum() + (h**2).sum() + (h[1] * 3).sum() + (h[1:3, ::2] ** 2).sum() + h[0, 0] * h[-1, -1] + h[[0, 0, 1]].sum()
    )
    return h, total


def test_gradients_of_parts_are_those_of_a_pass_step_by_step() -> None:
    """A pass that nobody looks at adds them in place."""
    x = engine.arange(24.0).reshape(4, 6).requires_grad_()
    h, total = _of_parts(x)
    steps = list(reverse.start(total, retain_graph=True, accumulate=False, in_place=False))
    wanted = next(grad for node, grad, _ in steps if node is x.node)
    total.backward(retain_graph=True)
    assert numpy.array_equal(x.grad.numpy(), wanted)
    gh, gx = engine.autograd.grad(total, [h, x], retain_graph=True)
    assert numpy.array_equal(gx.numpy(), wanted) and numpy.array_equal(gh.numpy(), wanted / 2)
    seen: list[engine.Tensor] = []
    h.register_hook(seen.append)
    total.backward()
    assert numpy.array_equal(seen[0].numpy(), wanted / 2) and numpy.array_equal(x.grad.numpy(), 2 * wanted)


def test_gradients_of_parts_do_not_overwrite_the_callers_gradient() -> None:
    x = engine.zeros(3, requires_grad=True)
    h = x * 1
    given = engine.ones(3)
    engine.autograd.backward([h, h[0], h[1:]], [given, engine.tensor(5.0), engine.ones(2)])
    assert given.tolist() == [1, 1, 1] and x.grad.tolist() == [6, 2, 2]
