"""Nodes and edges, hooks on what is saved, forward mode, anomalies, batches of gradients, Functions. tests/parity runs this on torch itself."""

from __future__ import annotations

import warnings

import pytest
from leaf import leaf

import engine
from engine.autograd import Function, forward_ad, graph
from engine.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap


def values(t):
    return [round(v, 5) for v in t.detach().flatten().tolist()]


def numbers(*v):
    return engine.tensor(v, dtype=engine.float64)


# -- nodes and edges ---------------------------------------------------------------------------------------------------------


def test_edges_lead_from_node_to_node():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    node = (x * y).sin().sum().grad_fn
    assert node.name() == "SumBackward0"
    ((product, _),) = node.next_functions[0][0].next_functions
    assert product.name() == "MulBackward0" and [i for _, i in product.next_functions] == [0, 0]
    assert [n.variable is t for (n, _), t in zip(product.next_functions, (x, y), strict=True)] == [True, True]
    assert isinstance(product, graph.Node) and isinstance(product.next_functions[0][0], graph.Node)
    assert (x * 2 + engine.ones(2)).grad_fn.next_functions[1] == (None, 0)


def test_a_result_among_several_is_an_edge_of_its_number():
    values_, _ = engine.sort(leaf(2.0, 1.0).exp())
    assert values_.grad_fn.next_functions[0][0].name() == "ExpBackward0"
    u, s, _ = engine.linalg.svd(leaf(2.0, 1.0).reshape(1, 2))
    assert (u.sum() + s.sum()).grad_fn.next_functions[1][0].next_functions[0][1] == 1


def test_names_as_pytorch_prints_them():
    x, w, b = leaf(1.0, 2.0), leaf(1.0, 2.0), leaf(1.0)
    named = {
        "AddBackward0": x + 1, "PowBackward0": x**2, "PowBackward1": x**w, "DotBackward0": x @ w, "SelectBackward0": x[0],
        "SliceBackward0": x[:1], "IndexBackward0": x[x > 1], "UnsqueezeBackward0": x[None], "MeanBackward0": x.mean(),
        "MeanBackward1": x.mean(0), "ViewBackward0": x.view(2, 1), "Log1PBackward0": x.log1p(),
        "AddmmBackward0": engine.nn.functional.linear(engine.ones(1, 2, dtype=engine.float64), w[None], b),
        "NllLossBackward0": engine.nn.functional.cross_entropy(x[None], engine.tensor([0])),
    }  # fmt: skip
    assert {t.grad_fn.name(): None for t in named.values()}.keys() == named.keys()
    assert repr(x).endswith("requires_grad=True)") and repr(x + 1).endswith("grad_fn=<AddBackward0>)")
    assert repr((x + 1).grad_fn).startswith("<AddBackward0 object at 0x")


def test_metadata_and_saved_values():
    y = leaf(1.0, 2.0).exp()
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1}
    assert y.grad_fn._saved_result.tolist() == y.tolist()
    x = leaf(3.0)
    assert (x * x).grad_fn._saved_self.item() == 3.0
    assert [name for name in dir((x * x).grad_fn) if name.startswith("_saved_")] == ["_saved_other", "_saved_self"]
    assert not hasattr(type(x.exp().grad_fn), "__getattr__")  # it would make every step of a backward pass a tenth slower
    with pytest.raises(AttributeError):
        (x + x).grad_fn._saved_self  # noqa: B018
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn._saved_result  # noqa: B018


def test_hooks_before_and_after_a_step():
    x, seen = leaf(1.0, 2.0), []
    y = x * 3
    y.grad_fn.register_prehook(lambda g: (g[0] * 2,))
    y.grad_fn.register_hook(lambda into, out: seen.append((into[0].tolist(), out[0].tolist())))
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and seen == [([6.0, 6.0], [2.0, 2.0])]


def test_hooks_where_gradients_come_to_rest():
    x, seen = leaf(1.0), []
    rest = x.view_as(x).grad_fn.next_functions[0][0]
    rest.register_hook(lambda into, out: seen.append(("after", x.grad.item())))
    rest.register_prehook(lambda out: seen.append(("before", out[0].item(), x.grad)))
    (x * 4).sum().backward()
    assert seen == [("before", 4.0, None), ("after", 4.0)]


def test_gradient_edges_stand_for_tensors():
    x = leaf(1.0, 2.0)
    middle = x * 2
    edge = graph.get_gradient_edge(middle)
    out = (middle * middle).sum()
    assert engine.autograd.grad(out, edge, retain_graph=True)[0].tolist() == [4.0, 8.0]
    assert engine.autograd.grad(edge, x, numbers(1.0, 1.0), retain_graph=True)[0].tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        graph.get_gradient_edge(numbers(1.0))


@pytest.mark.parametrize("mode", ["all", "any"])
def test_one_hook_on_several_tensors(mode):
    x, seen = leaf(1.0), []
    a, b = x * 2, x * 3
    told = lambda g: seen.append(g.item() if mode == "any" else [v if v is None else v.item() for v in g])  # noqa: E731
    handle = graph.register_multi_grad_hook((a, b), told, mode=mode)
    (a + b).sum().backward(retain_graph=True)
    a.sum().backward(retain_graph=True)
    handle.remove()
    (a + b).sum().backward()
    assert seen == ([[1.0, 1.0], [1.0, None]] if mode == "all" else [1.0, 1.0])
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((a,), print, mode="some")


# -- what is saved -------------------------------------------------------------------------------------------------------------


def test_what_is_saved_goes_through_hooks():
    x, log = leaf(1.0, 2.0), []

    def pack(t):
        log.append(tuple(t.shape))
        return t.detach().clone() * 10

    with graph.saved_tensors_hooks(pack, lambda t: t / 10):
        out = (x * x).exp().sum()
    out.backward()
    assert log == [(2,), (2,), (2,)] and x.grad.tolist() == pytest.approx([2 * 2.718281828, 4 * 54.59815])


def test_saved_tensors_of_functions_go_through_hooks():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(3.0)
    with graph.saved_tensors_hooks(lambda t: t.detach() + 1, lambda t: t):
        out = Square.apply(x)
    assert engine.autograd.grad(out.sum(), x)[0].item() == 8.0


def test_hooks_that_do_wrong():
    x = leaf(1.0, 2.0)
    with graph.saved_tensors_hooks(lambda t: 1, lambda t: 3):
        out = (x * x).sum()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor"):
        out.backward()
    with pytest.raises(RuntimeError, match="modifying its input in place"), graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        x * numbers(1.0, 2.0)
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()


def test_saved_on_the_host():
    x = leaf(1.0, 2.0)
    with graph.save_on_cpu():
        out = (x * x).sin().sum()
    assert values(engine.autograd.grad(out, x)[0]) == [1.0806, -2.61457]


def test_saved_tensors_may_be_written_where_that_is_allowed():
    x = leaf(1.0, 2.0)
    with graph.allow_mutation_on_saved_tensors():
        a = x.clone()
        b = a * a
        a.mul_(0)
        assert engine.autograd.grad(b.sum(), x, retain_graph=True)[0].tolist() == [2.0, 4.0]
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        b.sum().backward()


def test_a_version_can_be_counted_up():
    a = leaf(1.0).clone()
    b = a * a
    graph.increment_version(a)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


# -- forward mode ----------------------------------------------------------------------------------------------------------------


def test_dual_numbers():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(numbers(1.0, 2.0), numbers(1.0, 10.0))
        primal, tangent = forward_ad.unpack_dual(dual * dual)
        assert (primal.tolist(), tangent.tolist()) == ([1.0, 4.0], [2.0, 40.0])
        assert forward_ad.unpack_dual(numbers(1.0)).tangent is None
    assert forward_ad.unpack_dual(dual).tangent is None


def test_a_module_on_dual_numbers():
    layer = engine.nn.Linear(2, 1).double()
    with forward_ad.dual_level():
        given = {n: forward_ad.make_dual(p, engine.ones_like(p)) for n, p in layer.named_parameters()}
        out = functional_call(layer, given, numbers(1.0, 2.0))
        assert forward_ad.unpack_dual(out).tangent.item() == 4.0


def test_forward_over_reverse_through_dual_numbers():
    x = leaf(2.0)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, engine.ones_like(x)) ** 3).tangent
        assert engine.autograd.grad(tangent.sum(), x)[0].item() == 12.0


def test_a_tangent_has_gradients_of_what_the_function_closes_over():
    w, x = leaf(0.5, 2.0), numbers(1.0, 3.0)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, numbers(1.0, -1.0))
        out = (w * dual).sin()
        tangent = forward_ad.unpack_dual(out).tangent
        assert values(tangent) == values(w * (w * x).cos() * numbers(1.0, -1.0))
        (found,) = engine.autograd.grad(tangent.sum(), w, retain_graph=True)
        assert values(found) == values(((w * x).cos() - w * x * (w * x).sin()) * numbers(1.0, -1.0))
        out.sum().backward()
    assert values(w.grad) == values(x * (w * x).cos())


class FreeingExp(Function):
    """Its `jvp` lets go of what forward kept, so it can run once for each forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.result = x.exp()
        return ctx.result * 1

    @staticmethod
    def jvp(ctx, tangent):
        out = tangent * ctx.result
        del ctx.result
        return out


def test_a_tangent_is_computed_once():
    with forward_ad.dual_level():
        y = FreeingExp.apply(forward_ad.make_dual(numbers(0.0), numbers(3.0)))
        assert [values(forward_ad.unpack_dual(t).tangent) for t in (y, y, y * 2, y + 1)] == [[3.0], [3.0], [6.0], [3.0]]


def test_gradcheck_in_forward_mode_calls_the_function_for_each_direction():
    checks = {"check_backward_ad": False, "check_undefined_grad": False}
    assert engine.autograd.gradcheck(FreeingExp.apply, leaf(0.5, 1.0), check_forward_ad=True, **checks)


def test_dual_numbers_refuse():
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(numbers(1.0), numbers(1.0))
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="different size"):
            forward_ad.make_dual(numbers(1.0), numbers(1.0, 2.0))
        with pytest.raises(RuntimeError, match="Nested"):
            forward_ad.enter_dual_level()


def test_a_dual_tensor_is_written_in_place():
    x = numbers(-1.0, 2.0)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, numbers(3.0, 5.0))
        engine.relu_(dual)
        primal, tangent = forward_ad.unpack_dual(dual * dual)
        assert x.tolist() == [0.0, 2.0] and primal.tolist() == [0.0, 4.0] and tangent.tolist() == [0.0, 20.0]


def test_a_dual_tensor_is_made_once():
    x = leaf(1.0, 2.0).detach()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        for t in (dual, dual * 2):
            with pytest.raises(RuntimeError, match="already has a forward gradient at the same level 0"):
                forward_ad.make_dual(t, x)


# -- anomalies ---------------------------------------------------------------------------------------------------------------------


def test_the_op_that_made_nan_is_named_with_its_line():
    x = leaf(0.0, 4.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with engine.autograd.detect_anomaly():
            y = engine.sqrt(x) * 0  # this line is told
            with pytest.raises(RuntimeError, match=r"Function 'SqrtBackward0' returned nan values in its 0th output\."):
                y.sum().backward()
    text = "".join(str(w.message) for w in told)
    assert "Anomaly Detection has been enabled" in text and "Error detected in SqrtBackward0" in text and "this line is told" in text


def test_a_step_that_fails_is_named_with_its_line():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("broken")

    with engine.autograd.set_detect_anomaly(True):
        y = Broken.apply(leaf(1.0))  # made here
        with (
            pytest.warns(UserWarning, match=r"(?s)Error detected in BrokenBackward.*made here"),
            pytest.raises(RuntimeError, match="broken"),
        ):
            y.sum().backward()


def test_nan_is_left_alone_where_nobody_looks():
    x = leaf(0.0)
    with engine.autograd.set_detect_anomaly(True, check_nan=False):
        assert engine.is_anomaly_enabled() and not engine.is_anomaly_check_nan_enabled()
        (engine.sqrt(x) * 0).sum().backward()
    assert x.grad.isnan().all()
    assert not engine.is_anomaly_enabled()


# -- batches of gradients --------------------------------------------------------------------------------------------------------------


def test_gradients_in_a_batch():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    eye = engine.eye(2, dtype=engine.float64)
    gx, gy = engine.autograd.grad(x * y, (x, y), eye, is_grads_batched=True)
    assert gx.tolist() == [[3.0, 0.0], [0.0, 4.0]] and gy.tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert engine.autograd.grad(x * 2, (x, y), eye, is_grads_batched=True, allow_unused=True)[1] is None


def test_zeros_for_what_was_not_used():
    x, y = leaf(1.0), leaf(1.0, 2.0)
    assert engine.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True)[1].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="allow_unused"):
        engine.autograd.grad((x * 2).sum(), (x, y), allow_unused=False, materialize_grads=True)


# -- Functions ---------------------------------------------------------------------------------------------------------------------------


class Cube(Function):
    """Both directions, and a way for whole batches."""

    @staticmethod
    def forward(x):
        return x**3, x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2 + h * 2

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * t, 2 * t

    @staticmethod
    def vmap(info, in_dims, x):
        assert info.batch_size == 2 and info.randomness == "error"
        return Cube.apply(x), (in_dims[0], in_dims[0])


class Scaled(Function):
    """Its forward and backward run on samples."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x.exp() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * x.exp() * y, g * x.exp()


def test_functions_in_forward_mode():
    x = numbers(1.0, 2.0)
    assert [values(t) for t in jvp(Cube.apply, (x,), (engine.ones_like(x),))[1]] == [[3.0, 12.0], [2.0, 2.0]]
    assert values(jacfwd(lambda v: Cube.apply(v)[0])(x)) == values(jacrev(lambda v: Cube.apply(v)[0])(x)) == [3.0, 0.0, 0.0, 12.0]
    assert values(hessian(lambda v: Cube.apply(v)[0].sum())(x)) == [6.0, 0.0, 0.0, 12.0]


def test_functions_on_batches():
    x = numbers(1.0, 2.0)
    assert [values(t) for t in vmap(Cube.apply)(x)] == [[1.0, 8.0], [2.0, 4.0]]
    assert values(vmap(grad(lambda v: Cube.apply(v)[0]))(x)) == [3.0, 12.0]


def test_functions_on_samples():
    x, y = numbers(0.0, 1.0), numbers(1.0, 3.0)
    assert values(vmap(Scaled.apply, (0, None))(x, y)) == [1.0, 3.0, 2.71828, 8.15485]
    by_sample = vmap(grad(lambda a, b: Scaled.apply(a, b).sum(), (0, 1)), (0, None))(x, y)
    assert [values(g) for g in by_sample] == [[4.0, 10.87313], [1.0, 1.0, 2.71828, 2.71828]]
    assert values(grad(lambda b: vmap(lambda a: Scaled.apply(a, b))(x).sum())(y)) == [3.71828, 3.71828]


def test_functions_that_cannot():
    class Plain(Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="does not have vmap support"):
        vmap(Plain.apply)(numbers(1.0, 2.0))
    with pytest.raises(NotImplementedError, match="jvp function"):
        jvp(Plain.apply, (numbers(1.0),), (numbers(1.0),))

    class Saves(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x

    with pytest.raises(TypeError, match="can only save variables"):
        Saves.apply(leaf(1.0))


def test_a_function_s_node_has_its_name():
    y = Scaled.apply(leaf(1.0), leaf(2.0))
    assert y.grad_fn.name() == "ScaledBackward" and repr(y).endswith("grad_fn=<ScaledBackward>)")
    assert repr(y.grad_fn).startswith("<torch.autograd.function.ScaledBackward object at 0x")


def test_a_tangent_of_another_dtype():
    """The slope of exp at 0, 1 along (1, 2): a program may give a float32 direction for a float64 point, as PyTorch's page on forward mode does."""
    with forward_ad.dual_level():
        x = forward_ad.make_dual(engine.tensor([0.0, 1.0], dtype=engine.float64), engine.tensor([1.0, 2.0]))
        assert forward_ad.unpack_dual(x.exp()).tangent.tolist() == pytest.approx([1.0, 2 * 2.718281828459045], rel=1e-12)
