"""What once gave a wrong number without a word, and what is like it. Expected values are derived by hand, or are PyTorch 2.13's."""

from __future__ import annotations

import threading

import numpy
import pytest

import engine
from engine import nn
from engine.autograd import Function, grad
from engine.autograd.graph import save_on_cpu, saved_tensors_hooks
from engine.nn import functional as F
from engine.utils.checkpoint import checkpoint
from grouping import grouped


def leaf(*values, **more):
    return engine.tensor(values or (2.0, 3.0), requires_grad=True, **more)


# -- a leaf owns its gradient ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True])
def test_leaves_of_one_pass_do_not_share_their_gradients(recorded):
    a, b = leaf(1.0, 1.0), leaf(1.0, 1.0)
    (a + b).sum().backward(create_graph=recorded)
    (a * 5).sum().backward()
    assert a.grad.tolist() == [6, 6] and b.grad.tolist() == [1, 1]


@pytest.mark.parametrize("recorded", [False, True])
def test_the_callers_gradient_stays_as_it_is(recorded):
    a, g = leaf(1.0, 1.0), engine.ones(2)
    a.backward(g, create_graph=recorded)
    (a * 5).sum().backward()
    assert g.tolist() == [1, 1] and a.grad.tolist() == [6, 6]


def test_recorded_gradients_are_clipped_once():
    a, b = leaf(1.0, 1.0), leaf(1.0, 1.0)
    ((a + b) * 3).sum().backward(create_graph=True)
    nn.utils.clip_grad_norm_([a, b], 1.0)
    numpy.testing.assert_allclose(numpy.stack([a.grad.detach(), b.grad.detach()]), 0.5, rtol=1e-6)  # four numbers of norm 1


def test_a_kept_gradient_is_no_part_of_another():
    a = leaf(1.0, 1.0)
    h = a * 1
    h.retain_grad()
    h.sum().backward(create_graph=True)
    with engine.no_grad():
        h.grad.mul_(7)
    assert a.grad.tolist() == [1, 1]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    ("made", "strides"),
    [
        (lambda: engine.randn(2, 3).t(), (1, 3)),
        (lambda: engine.randn(2, 3, 4, 5).permute(0, 2, 3, 1), (60, 5, 1, 20)),
        (lambda: engine.randn(2, 1).expand(2, 3), (3, 1)),  # has overlaps: row by row
        (lambda: engine.randn(4, 6)[:, ::2], (3, 1)),  # has gaps
    ],
)
def test_a_gradient_lies_as_its_leaf_does(made, strides, recorded):
    w = made().requires_grad_()
    w.sum().backward(create_graph=recorded)
    assert w.grad.stride() == strides


def test_two_threads_lose_no_gradient():
    for _ in range(40):
        a = engine.ones(1000, requires_grad=True)

        def passes(a=a):
            for _ in range(5):
                (a * 1).sum().backward()

        threads = [threading.Thread(target=passes) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert a.grad[0] == 10


# -- views that are written ------------------------------------------------------------------------------------------------


def written():
    """`a`, `h = a * 1`, and its first element after it was tripled: v = 3 a0."""
    a = leaf()
    h = a * 1
    v = h[:1]
    v.mul_(3)
    return a, h, v


def test_the_gradient_of_a_base_counts_what_its_written_view_went_into():
    a, h, v = written()
    assert grad((v * v).sum() + h.sum(), h)[0].tolist() == [13, 1]  # 2 h0 + 1, h0 = 6
    a, h, v = written()
    h.retain_grad()
    ((v * v).sum() + h.sum()).backward()
    assert h.grad.tolist() == [13, 1] and a.grad.tolist() == [39, 1]


def test_a_hook_on_the_base_sees_the_whole_gradient():
    a, h, v = written()
    h.register_hook(lambda g: g * 10)
    ((v * v).sum() + h.sum()).backward()
    assert a.grad.tolist() == [390, 10]


def test_a_view_keeps_its_gradient_after_its_base_was_written():
    a = leaf()
    h = a * 1
    v = h[:1]
    v.retain_grad()
    h.mul_(3)
    ((v * v).sum() + h.sum()).backward()
    assert v.grad.tolist() == [12] and a.grad.tolist() == [39, 3]


def test_a_leaf_that_is_a_view_stays_one():
    x = engine.ones(3)
    v = x[:1]
    v.requires_grad_()
    x.mul_(2)
    assert v.is_leaf and v.requires_grad and v.tolist() == [2]


class Hundred(Function):
    """The identity, as a view, with a hundred times its gradient."""

    @staticmethod
    def forward(ctx, x, seen):
        return seen(x)

    @staticmethod
    def backward(ctx, g):
        return g.reshape(2) * 100, None


SEEN = {"a view": lambda x: x.view(2, 1), "itself": lambda x: x}


@pytest.mark.parametrize("seen", SEEN.values(), ids=list(SEEN))
@pytest.mark.parametrize("recording", [True, False])
def test_a_functions_view_has_no_gradient_once_its_base_is_written(seen, recording):
    a = leaf()
    h = a * 1
    y = Hundred.apply(h, seen)
    before = y.sum()
    with engine.set_grad_enabled(recording):
        h.mul_(2)
    assert grad(before, a, retain_graph=True)[0].tolist() == [100, 100]  # computed before the write
    with pytest.raises(RuntimeError, match="Output 0 of Hundred is a view and its base or another view of its base has been modified"):
        y.sum().backward()


@pytest.mark.parametrize("seen", SEEN.values(), ids=list(SEEN))
def test_a_functions_view_may_not_be_written(seen):
    y = Hundred.apply(leaf() * 1, seen)
    with pytest.raises(RuntimeError, match="Output 0 of Hundred is a view and is being modified inplace"):
        y.mul_(2)


def test_of_several_views_none_has_a_gradient_once_the_base_is_written():
    h = leaf() * 1
    first, second = h.unbind(0)
    h.mul_(2)
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and its base"):
        first.backward()


def test_a_view_made_in_no_grad_mode_has_no_gradient_once_its_base_is_written():
    h = leaf() * 1
    with engine.no_grad():
        v = h[:1]
    h.mul_(2)
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        v.sum().backward()


# -- double backward through what was packed ---------------------------------------------------------------------------------


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


def packed(fn):
    def run(a):
        with saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
            return fn(a)

    return run


def on_cpu(fn):
    def run(a):
        with save_on_cpu():
            return fn(a)

    return run


WAYS = {"hooks": packed, "save_on_cpu": on_cpu, "checkpoint": lambda fn: lambda a: checkpoint(fn, a, use_reentrant=False)}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_double_backward_through_packed_tensors_of_a_function(way):
    a = leaf()
    (g,) = grad(way(lambda a: Square.apply(a * 1) * a)(a).sum(), a, create_graph=True)
    assert g.tolist() == [12, 27]  # 3 a^2
    assert grad((g * g).sum(), a)[0].tolist() == [288, 972]  # 2 (3 a^2) (6 a)


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_double_backward_through_a_packed_output_of_a_function(way):
    a = leaf(0.5, 1.0, dtype=engine.float64)
    (g,) = grad(way(lambda a: Exp.apply(a * 2))(a).sum(), a, create_graph=True)
    numpy.testing.assert_allclose(grad(g.sum(), a)[0], 4 * numpy.exp([1.0, 2.0]), rtol=1e-12)


# -- a row that is no number -------------------------------------------------------------------------------------------------

BAD = [[numpy.nan, 1.0], [2.0, 3.0], [4.0, numpy.inf]]
READ = {
    "embedding": lambda w, at: F.embedding(at, w),
    "getitem": lambda w, at: w[at],
    "index_select": lambda w, at: w.index_select(0, at),
}


@pytest.mark.parametrize("read", READ.values(), ids=list(READ))
@pytest.mark.parametrize("rows", [4, 200_000])
def test_a_nan_in_a_row_stays_in_its_row(read, rows):
    w = engine.zeros(rows, 2, requires_grad=True)
    read(w, engine.tensor([0, 1, 1])).backward(engine.tensor(BAD))
    numpy.testing.assert_array_equal(w.grad[:3], [[numpy.nan, 1], [6, numpy.inf], [0, 0]])


def test_a_nan_for_the_padding_goes_nowhere():
    w = engine.zeros(4, 2, requires_grad=True)
    F.embedding(engine.tensor([0, 1, 1]), w, padding_idx=0).backward(engine.tensor(BAD))
    numpy.testing.assert_array_equal(w.grad, [[0, 0], [6, numpy.inf], [0, 0], [0, 0]])


# -- a checkpoint's input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_notices_that_its_input_was_overwritten(reentrant):
    a = leaf()
    h = a * 1
    y = checkpoint(lambda t: (t * t).exp(), h, use_reentrant=reentrant)
    h.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# -- numbers -----------------------------------------------------------------------------------------------------------------


def test_the_gradient_of_acosh_in_all_quadrants():
    z = numpy.array([-1.5 + 0.3j, 1.5 - 0.2j, -0.3 - 1j, 0.2 + 0.1j])
    x = engine.tensor(z, requires_grad=True)
    x.acosh().backward(engine.ones(4, dtype=x.dtype))
    step = 1e-6  # the derivative by central differences; PyTorch's gradient is its conjugate
    numpy.testing.assert_allclose(x.grad, ((numpy.arccosh(z + step) - numpy.arccosh(z - step)) / (2 * step)).conj(), rtol=1e-8)


def test_a_refused_out_is_as_it_was():
    for out in (engine.zeros(0, dtype=engine.int64), engine.zeros(2, dtype=engine.int64)):
        shape = out.shape
        with pytest.raises(RuntimeError, match="can't be cast"):
            engine.add(engine.ones(3), 1.5, out=out)
        assert out.shape == shape and not out.any()


@pytest.mark.parametrize("dtype", [engine.uint8, engine.bool, engine.float64])
def test_soft_margin_loss_takes_targets_of_any_dtype(dtype):
    loss = F.soft_margin_loss(engine.tensor([1.0, -2.0]), engine.tensor([1, 1]).to(dtype))
    assert loss.dtype is engine.float32
    numpy.testing.assert_allclose(loss, numpy.log1p(numpy.exp([-1.0, 2.0])).mean(), rtol=1e-6)


def test_a_factor_is_one_of_the_results_dtype():
    x, at, one = engine.tensor([1, 2, 3]), engine.tensor([0]), engine.tensor([5])
    assert x.index_add(0, at, one, alpha=-0.5).tolist() == [1, 2, 3]  # cut off towards zero
    assert x.index_add(0, at, one, alpha=2.5).tolist() == [11, 2, 3]
    assert engine.addcmul(x, x, x, value=2.5).tolist() == [3, 10, 21]
    assert engine.addcmul(x, x, x, value=2.5).dtype is engine.int64
    true = engine.ones(2, dtype=engine.bool)
    assert engine.add(true, true, alpha=2).dtype is engine.bool
    for refused in (
        lambda: x.to(engine.uint8).index_add(0, at, one.to(engine.uint8), alpha=-0.5),
        lambda: engine.addmm(*[engine.ones(2, 2, dtype=engine.uint8)] * 3, alpha=-0.5),
        lambda: engine.add(x, x, alpha=True),
        lambda: engine.sub(x.float(), x.float(), alpha=1j),
        lambda: engine.addr(engine.ones(1, 1, dtype=engine.int64), one, one, alpha=0.5),
        lambda: engine.full((1,), -1.0, dtype=engine.uint8),
    ):
        with pytest.raises(RuntimeError):
            refused()
    assert engine.full((1,), -1, dtype=engine.uint8).tolist() == [255]


@pytest.mark.parametrize("loss", [F.multi_margin_loss, F.multilabel_margin_loss])
def test_class_numbers_are_long(loss):
    target = engine.tensor([1, 0], dtype=engine.uint8)
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Byte"):
        loss(engine.randn(2, 2), target if loss is F.multi_margin_loss else target.expand(2, 2))


# -- what a rule keeps (the table for every op: tests/engine/test_ops.py, test_overwritten) ------------------------------------


def test_what_was_standardised_may_be_scaled_in_place():
    x = leaf(1.0, 2.0, 4.0, dtype=engine.float64)
    s = (x - x.mean()) / x.std()
    s *= 2
    s.pow(3).sum().backward()
    found = x.grad.clone()
    step = numpy.eye(3) * 1e-6

    def value(v):
        return ((v - v.mean()) / v.std(ddof=1) * 2) ** 3

    v = x.detach().numpy()
    numpy.testing.assert_allclose(found, [(value(v + e).sum() - value(v - e).sum()) / 2e-6 for e in step], rtol=1e-6, atol=1e-8)


def test_an_expanded_tensor_may_be_filled():
    x = engine.ones(1).expand(3)
    assert x.fill_(2).tolist() == [2, 2, 2] and x.zero_().tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)


# -- what random programs found: expected values are PyTorch 2.13's ---------------------------------------------------------------------


def test_elements_that_share_memory_share_a_gradient():
    x = engine.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x.expand(3, 2, 2).as_strided((2,), (1,)).square().sum().backward()
    assert x.grad.tolist() == [[2, 4], [0, 0]]
    x.grad = None
    x.as_strided((2, 2), (1, 1)).as_strided((2, 2), (1, 1)).square().sum().backward()  # 1, 2 and 2, 3 of the memory
    assert x.grad.tolist() == [[2, 8], [6, 0]]


def test_a_recorded_gradient_in_half_precision_is_as_exact_as_another():
    rows = [[0.035, 1.102, -0.524, 1.25], [0.506, 1.234, -0.5, -0.511]]
    x = engine.tensor(rows, dtype=engine.bfloat16, requires_grad=True)
    y = F.rms_norm(x, (4,))
    plain, recorded = (grad(y.square().sum(), x, create_graph=c, retain_graph=True)[0] for c in (False, True))
    assert plain.tolist() == recorded.tolist()


def test_tangents_have_the_dtype_of_the_result():
    x = engine.tensor([[2.75], [1.25]], dtype=engine.bfloat16)
    assert engine.func.jacfwd(lambda x: x.log10())(x).dtype is engine.bfloat16


def test_a_leaf_that_changes_its_shape_in_no_grad_stays_one():
    p = engine.ones(2, 3, requires_grad=True)
    with engine.no_grad():
        p.t_()
    (p * engine.arange(6.0).reshape(3, 2)).sum().backward()
    assert p.is_leaf and p.grad.tolist() == [[0, 1], [2, 3], [4, 5]]
    h = p * 2
    with engine.no_grad():
        h.unsqueeze_(0)
    assert grad(h.sum(), p)[0].tolist() == [[2, 2]] * 3


def test_hooks_of_a_view_end_with_a_write_to_what_it_shows():
    w = engine.ones(2, 2, requires_grad=True)
    v = w[0]
    v.register_hook(lambda g: g * 10)
    with engine.no_grad():
        w.mul_(2)
    v.sum().backward()
    assert w.grad.tolist() == [[1, 1], [0, 0]]


def test_results_do_not_share_memory_where_nothing_had_to_move():
    x = engine.ones(1, 2, 2)
    for y in (F.pixel_shuffle(x, 1), F.pixel_unshuffle(x, 1), F.channel_shuffle(x[None], 1)):
        y.zero_()
    assert x.sum() == 4


def test_matrices_that_are_not_positive_definite_are_factored_as_far_as_it_goes():
    a = engine.tensor([[4.0, 1.0, 1.0], [1.0, -3.0, 2.0], [1.0, 2.0, 9.0]], dtype=engine.float64)
    L, info = engine.linalg.cholesky_ex(a)
    assert info == 2 and L[0].tolist() == [2, 0, 0] and L[:, 0].tolist() == [2, 0.5, 0.5]


@grouped(
    "dtype,made",
    [
        ("uint8", lambda: engine.hinge_embedding_loss(engine.tensor([3, 2]).byte(), engine.tensor([0, 1]))),
        ("int64", lambda: F.l1_loss(engine.tensor([3, 2]).byte(), engine.tensor([1, 1]).byte(), reduction="sum")),
        ("float16", lambda: F.poisson_nll_loss(engine.ones(2).half(), engine.tensor([2, 3]), full=True)),
        ("float16", lambda: F.cosine_similarity(engine.ones(2).half(), engine.tensor([2, 3]), 0)),
        ("float64", lambda: F.cosine_similarity(engine.ones(2).half(), engine.tensor(2.0, dtype=engine.float64), 0)),
    ],
)
def test_losses_of_mixed_dtypes(dtype, made):
    assert made().dtype.name == dtype


def test_vectors_shorter_than_eps_have_the_slope_of_their_norm():
    x = engine.tensor([0.9999, 0.8928, -0.3824], requires_grad=True)
    F.cosine_similarity(x, engine.tensor([5.5, 5.5, 5.5]), dim=0, eps=3).backward()
    length, eps, other = numpy.linalg.norm(x.detach()), 3, numpy.full(3, 1 / numpy.sqrt(3))  # the norm is cut off, its slope is not
    slope = other / eps - x.detach().numpy() * (x.detach().numpy() @ other) / (eps * eps * length)
    numpy.testing.assert_allclose(x.grad, slope, rtol=1e-5)


def test_alpha_scales_in_the_dtype_of_the_result():
    assert engine.sub(engine.zeros(1), engine.tensor([-(2**63)]), alpha=-3).item() == -3 * 2.0**63
    half, wide = engine.tensor([4.827]).half(), engine.tensor([0.0], dtype=engine.float64)
    assert engine.rsub(half, wide, alpha=3.125).item() == -3.125 * half.item()


@pytest.mark.parametrize("dtype", [engine.float16, engine.bfloat16])
def test_infinities_in_half_precision_become_its_largest_number(dtype):
    x = engine.tensor([numpy.inf, -numpy.inf, numpy.nan, 1.5], dtype=dtype)
    most = engine.finfo(dtype).max
    assert engine.nan_to_num(x, 2.0).tolist() == [most, -most, 2, 1.5] == x.nan_to_num_(2.0).tolist()


def test_copies_of_views_have_derivatives_of_derivatives():
    x = engine.arange(6.0).reshape(2, 3)
    found = engine.func.hessian(lambda x: engine.transpose_copy(x, 0, 1).square().sum())(x)
    assert found.reshape(6, 6).tolist() == (2 * engine.eye(6)).tolist()
    assert engine.func.jacfwd(lambda x: x.narrow_copy(0, 1, 1))(x).sum() == 3


@pytest.mark.parametrize("dtype", [engine.float16, engine.bfloat16])
def test_the_next_number_is_one_of_the_dtype(dtype):
    step = engine.finfo(dtype).eps
    x = engine.ones(1, dtype=dtype)
    assert engine.nextafter(x, x * 2).item() == 1 + step and engine.nextafter(x, x * 0).item() == 1 - step / 2


def test_complex_infinities_keep_their_parts():
    inf = engine.tensor([numpy.inf])
    assert engine.complex(inf, inf).real.item() == engine.complex(inf, inf).imag.item() == numpy.inf


def test_one_complex_number_seen_as_two_real_ones_has_a_gradient():
    x = engine.tensor([[0.5, 2.0], [1.0, 3.0]], requires_grad=True)
    z = engine.view_as_complex(x.sum(0))  # no dimensions are left: NumPy's conjugate of it is a scalar, without memory to look into
    assert grad(z, x, engine.tensor(3 + 2j))[0].tolist() == [[3, 2], [3, 2]]


def test_what_is_written_into_memory_seen_as_another_dtype_has_its_gradient():
    x = engine.tensor([-1.25, 3.0], dtype=engine.float16)
    y = engine.tensor(2.0, dtype=engine.bfloat16, requires_grad=True)
    seen = x.view(engine.bfloat16)
    seen.zero_().add_(y)
    seen.sum().backward()
    assert y.grad == 2 and not x.requires_grad and not x.view(engine.int16)._is_view()
    h = engine.ones(2, requires_grad=True) * 1
    again = h.view(engine.int32).view(engine.float32)
    h.mul_(2)
    assert not again.requires_grad and again.tolist() == [2, 2]


def test_forward_mode_of_xlogy_with_a_number():
    x, t = engine.tensor([20.0, 8.75]), engine.tensor([1.0, 0.0])
    found = engine.func.jvp(lambda x: engine.xlogy(x, -3), (x,), (t,))[1]
    assert found.dtype is engine.float32 and found[0].isnan() and found[1] == 0


def test_a_range_from_a_float_zero_is_one_of_floats():
    assert engine.arange(0.0, 4, step=2).dtype is engine.arange(0.0, 4, 2).dtype is engine.float32
    assert engine.arange(0, 4).dtype is engine.arange(None, 4).dtype is engine.int64


def test_a_score_that_is_at_the_margin_has_no_gradient():
    x = engine.tensor([[1.25, 1.75, 2.75], [0.5, 0.5, 1.5]], requires_grad=True)
    for p in (1, 2):
        assert grad(F.multi_margin_loss(x, engine.tensor([2, 2]), p=p), x)[0].tolist() == [[0] * 3] * 2
    (g,) = grad(F.multilabel_margin_loss(x, engine.tensor([[2, -1, -1], [2, 0, -1]])), x)
    assert engine.allclose(g, engine.tensor([[0, 0, 0], [-1 / 6, 1 / 6, 0]]))


@pytest.mark.parametrize("reshape", [lambda x: x.t_(), lambda x: x.unsqueeze_(1), lambda x: x.swapaxes_(0, 1)])
def test_what_used_a_leaf_before_it_was_reshaped_in_place_sends_its_gradient_to_the_same_elements(reshape):
    x, w = engine.ones(2, 3, requires_grad=True), engine.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    seen = []
    x.register_hook(lambda g: seen.append(tuple(g.shape)))
    loss = (x * w).sum() + 10 * x[0].sum()
    with engine.no_grad():
        reshape(x)
    (g,) = grad(loss, x, retain_graph=True)
    loss.backward()
    expected = engine.tensor([[11.0, 12.0, 13.0], [4.0, 5.0, 6.0]])
    with engine.no_grad():
        reshape(expected)
    assert x.is_leaf and engine.equal(x.grad, expected) and engine.equal(g, expected) and seen == [tuple(x.shape)] * 2


# -- views of what got another size ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_view_that_is_resized_has_the_gradient_of_its_new_elements():
    x = leaf(5.0, -1.0, -2.0, 1.0)
    view = engine.zeros(3, 2, 2)[..., ::2]
    engine.quantile(x, 0.1, out=view)  # 0.7 * -2 + 0.3 * -1
    assert grad(view, x)[0].tolist() == pytest.approx([0, 0.3, 0.7, 0])
    base, x = engine.zeros(6), leaf(1.0, 2.0, 3.0)
    view = base[2:4]
    view.resize_(3).add_(x)
    assert grad((base * engine.arange(6.0)).sum(), x)[0].tolist() == [2, 3, 4]


def test_views_of_a_base_that_is_resized_show_the_elements_that_they_showed():
    base, x = engine.zeros(4), leaf(1.0, 2.0, 3.0)
    view = base[1:3]
    base.resize_(2, 2)
    view.add_(x[:2])
    base.mul_(x[2])
    assert view.tolist() == [3, 6] and grad(view.sum(), x)[0].tolist() == [3, 3, 3]


def test_what_a_function_has_written_under_vmap_before_it_fails_has_its_gradient():
    x = leaf(1.0, 2.0)
    h = x * 1

    def fails(sample):
        sample.mul_(3)
        raise KeyError("after the write")

    with pytest.raises(KeyError):
        engine.vmap(fails)(h)
    assert h.tolist() == [3, 6] and grad((h * h).sum(), x)[0].tolist() == [18, 36]


@pytest.mark.parametrize("low", [False, True])
def test_a_product_that_is_taken_no_times_is_not_read_where_blas_multiplies(low):
    one, nan = engine.ones(2, 2), engine.full((2, 2), float("nan"))
    one, nan = (one.half(), nan.half()) if low else (one, nan)
    assert engine.addmm(one, nan, one, alpha=0).isnan().all().item() is low
    assert engine.baddbmm(one[None], nan[None], one[None], alpha=0).isnan().all()
