"""In-place writes and views, with PyTorch's gradients. tests/parity runs these very functions on torch."""

from __future__ import annotations

import numpy
import pytest

import engine


def leaf(*values):
    return engine.tensor(values if len(values) != 1 else values[0], dtype=engine.float64, requires_grad=True)


def const(*values):
    return engine.tensor(values if len(values) != 1 else values[0], dtype=engine.float64)


# -- values ----------------------------------------------------------------------------------------------------------------


def test_writes_return_their_target():
    x = const(1.0, 2.0)
    assert x.mul_(3) is x and x.tolist() == [3, 6]
    assert x.add_(1).sub_(2).tolist() == [2, 5]
    assert x.fill_(7) is x and x.tolist() == [7, 7]
    assert x.zero_() is x and x.tolist() == [0, 0]
    assert x.copy_(const(5.0, 6.0)) is x and x.tolist() == [5, 6]
    assert x.copy_(const(4.0)).tolist() == [4, 4]


def test_augmented_assignment_keeps_the_object():
    x = const(4.0, 8.0)
    y = x
    x += 1
    x -= 3
    x *= 2
    x /= 4
    x **= 2
    assert y is x and y.tolist() == [1, 9]


def test_dtype_stays():
    x = engine.ones(2, dtype=engine.int64)
    x += 2
    assert x.dtype is engine.int64 and x.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="can't be cast"):
        x += 0.5
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.mul_(const(1.5, 1.5))
    y = engine.ones(2, dtype=engine.float32)
    y.add_(const(0.5, 0.25))
    assert y.dtype is engine.float32 and y.tolist() == [1.5, 1.25]


def test_shape_stays():
    x = const(1.0, 2.0)
    with pytest.raises(RuntimeError, match="shape"):
        x.add_(engine.ones(3, 2, dtype=engine.float64))
    assert x.tolist() == [1, 2]
    assert x.add_(const(1.0)).tolist() == [2, 3]


def test_setitem_values():
    x = engine.zeros(3, 4, dtype=engine.float64)
    x[0] = 1
    x[1, 2] = const(5.0)
    x[2, ::2] = const(7.0, 8.0)
    x[x == 0] = -1
    x[[0, 2], [1, 3]] = const(20.0, 30.0)
    x[..., -1:] = x[..., :1] * 2
    assert x.tolist() == [[1, 20, 1, 2], [-1, -1, 5, -2], [7, -1, 8, 14]]


def test_setitem_refuses_what_does_not_fit():
    x = engine.zeros(3, 4)
    with pytest.raises(RuntimeError):
        x[0] = engine.ones(3)
    with pytest.raises(IndexError):
        x[3] = 1
    with pytest.raises(IndexError):
        x[0, 0, 0] = 1
    assert x.sum().item() == 0


def test_aliasing():
    x = engine.zeros(2, 3, dtype=engine.float64)
    x.reshape(6)[0] = 1
    x.t()[2, 1] = 2
    x.view(3, 2)[1].add_(10)
    x.unsqueeze(0)[0, 0].mul_(3)
    x.detach()[1, 0] += 100
    assert x.tolist() == [[3, 0, 30], [110, 0, 2]]
    x[[0]].fill_(9)  # an index tensor copies
    x.clone().fill_(9)
    x.t().reshape(6).fill_(9)  # this reshape cannot be a view
    assert x.tolist() == [[3, 0, 30], [110, 0, 2]]


def test_overlapping_source_and_target():
    x = const(1.0, 2.0, 3.0, 4.0)
    x[1:] = x[:-1].clone()
    assert x.tolist() == [1, 1, 2, 3]


def test_version_counts_writes_of_the_storage():
    x = const(1.0, 2.0)
    v, d = x[0:1], x.detach()
    before = x._version
    x.add_(1)
    v.mul_(2)
    d.zero_()
    x[0] = 5
    assert x._version == before + 4 == v._version == d._version
    _ = x * 2 + x.exp()
    assert x._version == before + 4
    assert x.clone()._version == 0


# -- gradients -------------------------------------------------------------------------------------------------------------


def test_mul_in_place():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 1
    y.mul_(w)
    (y * y).sum().backward()
    assert x.grad.tolist() == [18, 64] and w.grad.tolist() == [6, 32]


def test_imul_twice_keeps_both_old_values():
    x, w = leaf(2.0), leaf(3.0)
    y = x * 1
    y *= w
    y *= w
    y.backward()
    assert x.grad.item() == 9 and w.grad.item() == 12


def test_exp_in_place():
    x = leaf(0.0, 1.0)
    y = x * 2
    y.exp_()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2, 14.7781121978613])


def test_in_place_on_itself():
    x = leaf(3.0)
    y = x * 1
    y.add_(y)
    y.mul_(y.clone())
    y.backward()
    assert y.item() == 36 and x.grad.item() == 24


def test_a_constant_that_begins_to_need_a_gradient():
    x, y = leaf(2.0, 3.0), engine.zeros(2, dtype=engine.float64)
    y.add_(x * x)
    assert y.requires_grad and not y.is_leaf
    (y * 3).sum().backward()
    assert x.grad.tolist() == [12, 18]


def test_a_write_replaces_the_past():
    x = leaf(2.0, 3.0)
    y = x * 5
    y.zero_()
    assert y.requires_grad
    (y + x).sum().backward()
    assert x.grad.tolist() == [1, 1]
    x.grad = None
    y = x * 5
    y.copy_(x * x)
    y.sum().backward()
    assert x.grad.tolist() == [4, 6]
    x.grad = None
    y = x * 5
    y.fill_(x[0])
    y.sum().backward()
    assert x.grad.tolist() == [2, 0]


def test_copy_between_dtypes():
    x = engine.ones(2, dtype=engine.float32, requires_grad=True)
    y = engine.zeros(2, dtype=engine.float64)
    y.copy_(x)
    (y * 3).sum().backward()
    assert x.grad.dtype is engine.float32 and x.grad.tolist() == [3, 3]


def test_setitem_of_a_constant():
    x = leaf(1.0, 2.0, 3.0)
    y = x * x
    y[1] = 10.0
    y.sum().backward()
    assert x.grad.tolist() == [2, 0, 6]


def test_setitem_of_a_tensor():
    x, w = leaf(1.0, 2.0, 3.0), leaf(5.0)
    y = x * 1
    y[0] = w * w
    y[1:] = y[:-1] * 2
    (y * const(1.0, 10.0, 100.0)).sum().backward()
    assert y.tolist() == [25, 50, 4]
    assert x.grad.tolist() == [0, 200, 0] and w.grad.item() == 10 * (1 + 20)


def test_setitem_broadcasts_its_value():
    x, w = engine.zeros(3, 2, dtype=engine.float64), leaf(1.0, 2.0)
    x[1:] = w
    (x * const([[1.0, 1.0], [2.0, 3.0], [4.0, 5.0]])).sum().backward()
    assert w.grad.tolist() == [6, 8]


def test_setitem_with_a_mask_and_with_an_index_tensor():
    x, w = leaf(1.0, -2.0, 3.0), leaf(10.0, 20.0)
    y = x * 1
    y[y > 0] = w
    y[engine.tensor([1])] = w[:1] * 3
    (y * const(1.0, 2.0, 3.0)).sum().backward()
    assert y.tolist() == [10, 30, 20]
    assert x.grad.tolist() == [0, 0, 0] and w.grad.tolist() == [7, 3]


def test_the_ends_of_a_slice_may_change_after_it_was_used():
    """Tensors that count through a batch are ends of slices, and are added to in place: the gradient goes where the slice was."""
    start, stop, place = engine.tensor(0), engine.tensor(2), numpy.array(3)
    x = engine.ones(4, requires_grad=True)
    out = engine.zeros(4)
    out[start:stop] = x[start:stop] * 2
    out[place:] = x[place:] * 5
    whole, part = out[start:], x.reshape(2, 2)[start:stop, 0]
    start += 2
    stop += 2
    place += 1
    (out.sum() + whole.sum() + part.sum()).backward()
    assert x.grad.tolist() == [5.0, 4.0, 1.0, 10.0]


def test_setitem_twice_at_one_place():
    x = leaf(1.0, 2.0)
    y = engine.zeros(2, dtype=engine.float64)
    y[0] = x[0]
    y[0] = x[1] * 3
    y.sum().backward()
    assert x.grad.tolist() == [0, 3]


def test_write_through_a_view_and_read_the_base():
    x, w = leaf(1.0, 2.0, 3.0), leaf(10.0, 20.0)
    y = x * 2
    v = y[1:]
    v.mul_(w)
    (y * y).sum().backward()
    assert y.tolist() == [2, 40, 120]
    assert x.grad.tolist() == [8, 1600, 9600] and w.grad.tolist() == [320, 1440]


def test_write_to_the_base_and_read_a_view():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    v = y[1:]
    y.mul_(y.clone())
    (v * const(1.0, 10.0)).sum().backward()
    assert v.tolist() == [16, 36] and x.grad.tolist() == [0, 16, 240]


def test_sibling_views():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    a, b = y[:2], y[1:]
    a.mul_(10)
    b.add_(a.clone())
    (y * const(1.0, 10.0, 100.0)).sum().backward()
    assert y.tolist() == [10, 30, 23]
    assert x.grad.tolist() == [110, 1100, 100]


def test_views_of_views():
    x, w = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), leaf(10.0)
    y = x * 1
    v = y.t()[1:]
    u = v[:, 1]
    u.mul_(w)
    v[0].add_(u)
    (y * y).sum().backward()
    assert y.tolist() == [[1, 52, 3], [4, 110, 60]]
    assert x.grad.tolist() == [[2, 104, 6], [8, 3240, 3400]]
    assert w.grad.item() == 104 * 5 + 220 * (5 + 6) + 120 * 6  # y01 = x01 + w x11, y11 = w x11 + w x12, y12 = w x12


def test_view_made_before_the_graph():
    base = engine.zeros(3, dtype=engine.float64)
    v = base[1:]
    x = leaf(2.0, 3.0)
    v.add_(x * x)
    assert base.requires_grad and v.requires_grad
    (base * const(1.0, 10.0, 100.0)).sum().backward()
    assert x.grad.tolist() == [40, 600]


def test_view_of_a_constant_base_written_by_the_base():
    base = engine.zeros(3, dtype=engine.float64)
    v = base[1:]
    x = leaf(2.0, 3.0, 4.0)
    base.copy_(x * x)
    assert v.requires_grad
    v.sum().backward()
    assert x.grad.tolist() == [0, 6, 8]


def test_reshape_transpose_expand_as_places_to_write():
    x, w = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf(5.0, 6.0)
    y = x * 1
    y.t()[0] = w
    y.reshape(4)[3:].mul_(10)
    y.unsqueeze(-1).squeeze(-1)[0].mul_(2)
    (y * const([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
    assert y.tolist() == [[10, 4], [6, 40]]
    assert x.grad.tolist() == [[0, 20], [0, 10000]] and w.grad.tolist() == [2, 100]


def test_a_view_made_after_a_write():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    y[0] = 7.0
    v = y[:2]
    y[1] = 8.0
    (v * v).sum().backward()
    assert v.tolist() == [7, 8] and x.grad.tolist() == [0, 0, 0]


def test_chain_of_writes_through_one_view():
    x = leaf(1.0, 2.0)
    y = x * 1
    v = y[:1]
    for _ in range(3):
        v.mul_(v.clone())
        v.add_(1)
    y.sum().backward()
    # d/dx (((x^2+1)^2+1)^2+1) at 1: 2*5 * 2*2 * 2*1
    assert y.tolist() == [26, 2] and x.grad.tolist() == [80, 1]


def test_second_derivative_through_a_write():
    x = leaf(2.0, 3.0)
    y = x * x
    y[0] = y[1].clone() * x[0]
    (first,) = engine.autograd.grad((y * y).sum(), x, create_graph=True)
    # y = (x1^2 x0, x1^2): L = x1^4 x0^2 + x1^4
    assert first.tolist() == [2 * 81 * 2, 4 * 27 * 4 + 4 * 27]
    first.sum().backward()
    assert x.grad.tolist() == [2 * 81 + 8 * 27 * 2, 8 * 27 * 2 + 12 * 9 * 4 + 12 * 9]


# -- what was spoiled ------------------------------------------------------------------------------------------------------


def test_a_spoiled_saved_value_is_an_error():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y.sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    assert x.grad is None


def test_a_saved_value_may_change_when_nobody_names_it():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y + 1).sum()
    y.add_(1)
    z.backward()
    assert x.grad.tolist() == [2, 2]


def test_spoiled_through_a_view_and_through_detach():
    for write in (lambda y: y[0:1].zero_(), lambda y: y.detach().zero_(), lambda y: y.reshape(1, 2).mul_(2)):
        x = leaf(1.0, 2.0)
        y = x.exp()
        z = (y * 3).sum()
        with engine.no_grad():
            write(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()


def test_a_constant_operand_that_was_spoiled():
    x, c = leaf(1.0, 2.0), const(3.0, 4.0)
    z = (x * c).sum()
    c.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_spoiled_operand_of_an_op_that_takes_a_sequence():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 1
    z = engine.einsum("i,i->", y, w)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


class Square(engine.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


class ExpInPlace(engine.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def test_a_spoiled_tensor_that_a_function_saved():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = Square.apply(y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_function_that_writes_in_place_may_save_what_it_wrote():
    x = leaf(0.0, 1.0)
    y = x * 2
    z = ExpInPlace.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == pytest.approx([2, 14.7781121978613])
    y = x * 2
    z = ExpInPlace.apply(y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_function_that_writes_through_a_view():
    x = leaf(0.0, 1.0)
    y = x * 2
    v, w = y[1:], y[:]
    ExpInPlace.apply(v)
    (y + w).sum().backward()
    assert x.grad.tolist() == pytest.approx([4, 4 * 7.38905609893065])


def test_a_function_may_not_write_a_leaf():
    for target in (leaf(0.0, 1.0), leaf(0.0, 1.0)[:1]):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            ExpInPlace.apply(target)


def test_writing_what_was_saved_before_it_was_saved():
    x, c = leaf(1.0, 2.0), const(3.0, 4.0)
    c.add_(1)
    (x * c).sum().backward()
    assert x.grad.tolist() == [4, 5]


def test_a_result_that_was_overwritten_by_its_own_op():
    x = leaf(0.5, 1.0)
    y = x * 1
    y.tanh_()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([0.7864477329659274, 0.41997434161402614])
    y = x * 1
    y.tanh_()
    z = y.sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


# -- leaves ----------------------------------------------------------------------------------------------------------------


def test_leaves_may_not_be_written_while_recording():
    x = leaf(1.0, 2.0)
    for write in (lambda: x.add_(1), lambda: x.zero_(), lambda: x.__setitem__(0, 5.0), lambda: x.copy_(const(1.0, 1.0))):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            write()
    with pytest.raises(RuntimeError, match="view of a leaf Variable that requires grad"):
        x[0:1].mul_(2)
    with pytest.raises(RuntimeError, match="view of a leaf Variable that requires grad"):
        x.reshape(2, 1)[0] = 3.0
    assert x.tolist() == [1, 2] and x.is_leaf


def test_leaves_may_be_written_without_recording():
    x = leaf(1.0, 2.0)
    v = x[0:1]
    with engine.no_grad():
        x.add_(1)
        x[1] = 10.0
        x[0:1].mul_(3)
    assert x.tolist() == [6, 10] and v.tolist() == [6] and x.is_leaf and x.requires_grad
    (x * x).sum().backward()
    assert x.grad.tolist() == [12, 20]


def test_detach_and_data_share_memory():
    x = leaf(1.0, 2.0)
    x.detach()[0] = 7.0
    x.data.mul_(2)
    assert x.tolist() == [14, 4] and x.requires_grad
    x.data = const(5.0, 6.0)
    assert x.tolist() == [5, 6]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("seen", [lambda y: y.detach(), lambda y: y[1:].detach().detach()[:1], lambda y: y.view(engine.int64)])
def test_views_hear_of_writes_through_a_detached_tensor(seen):
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[1:]
    view.register_hook(lambda g: g * 10)
    before = (view * 3).sum()
    seen(y).zero_()
    given, none = engine.autograd.grad(before, (x, view), allow_unused=True, retain_graph=True)
    assert given.tolist() == [0, 30] and none is None
    given, own = engine.autograd.grad((view * 3).sum(), (x, view))
    assert given.tolist() == [0, 3] and own.tolist() == [3]


def test_views_of_a_detached_tensor_hear_of_writes_to_the_original():
    y = leaf(1.0, 2.0) * 1
    leaf_in_its_memory = y.detach().requires_grad_()
    view = leaf_in_its_memory[1:]
    before = (view * 3).sum()
    y.mul_(2)
    given, none = engine.autograd.grad(before, (leaf_in_its_memory, view), allow_unused=True)
    assert given.tolist() == [0, 3] and none is None and view.tolist() == [4]


def test_hooks_of_a_view_that_is_reshaped_in_place_stay_on_its_way():
    x = leaf(3.0, 4.0)
    y = x * 1
    view = y[1:]
    view.register_hook(lambda g: g * 10)
    view.unsqueeze_(0)
    assert engine.autograd.grad((view * 2).sum(), x, retain_graph=True)[0].tolist() == [0, 20]
    y.mul_(1)  # the view is derived again from the new y
    assert engine.autograd.grad((view * 2).sum(), x, retain_graph=True)[0].tolist() == [0, 2]


def test_data_tells_no_view():
    y = leaf(1.0, 2.0) * 1
    view = y[1:]
    before = (view * view).sum()
    y.data.detach().mul_(2)
    assert engine.autograd.grad(before, view)[0].tolist() == [8] and y._version == 0


def test_a_write_under_no_grad_keeps_the_graph():
    x = leaf(1.0, 2.0)
    y = x + 1
    with engine.no_grad():
        y.mul_(100)
    assert y.requires_grad and y.grad_fn is not None
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


@pytest.mark.parametrize("fill", ["normal_", "uniform_", "bernoulli_", "exponential_", "random_"])
def test_a_random_fill_under_no_grad_keeps_the_graph(fill):
    """An initialization writes into one matrix of a parameter that holds several; the parameter stays a leaf."""
    x = engine.ones(2, 3, requires_grad=True)
    view, made = x[1], x * 3
    with engine.no_grad():
        getattr(view, fill)()
        getattr(made, fill)()
        getattr(made[0], fill)()
    assert x.is_leaf and view.requires_grad and made.grad_fn.name() == "MulBackward0"
    (x.sum() + view.sum() + made.sum()).backward()
    assert x.grad.tolist() == [[4.0] * 3, [5.0] * 3]


@pytest.mark.parametrize("fill", ["normal_", "uniform_", "bernoulli_", "exponential_", "random_"])
def test_a_recorded_random_fill_has_no_gradient_but_requires_one(fill):
    x = engine.ones(2, 3, requires_grad=True)
    made, part = x * 3, x * 3
    view, other = part[1], part[0]
    getattr(made, fill)()
    getattr(view, fill)()
    assert made.requires_grad and view.requires_grad
    made.sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2
    (part.sum() + view.sum() + other.sum()).backward()
    assert x.grad.tolist() == [[6.0] * 3, [0.0] * 3]


def test_writing_into_an_expanded_tensor_is_refused():
    x = engine.zeros(1, 3)
    with pytest.raises(RuntimeError):
        x.expand(4, 3).add_(1)
    assert x.tolist() == [[0, 0, 0]]


def test_requires_grad_in_place_on_a_filled_buffer():
    """A leaf made by hand, filled first."""
    w = engine.zeros(2, dtype=engine.float64).fill_(3.0).requires_grad_()
    (w * w).sum().backward()
    assert w.grad.tolist() == [6, 6]


def test_retain_grad_and_hooks_follow_the_tensor_after_a_write():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.mul_(3)
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [12, 24] and x.grad.tolist() == [72, 144]
    y = x * 2
    y.retain_grad()
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(3)
    (y * y).sum().backward()
    assert y.grad.tolist() == [12, 24] and seen == [[36, 72]]


def test_a_view_made_without_recording_may_not_be_written_with_it():
    y = leaf(1.0, 2.0) * 1
    with engine.no_grad():
        v = y[1:]
        v.mul_(2)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        v.mul_(2)
    assert y.tolist() == [1, 4]


def test_gradients_of_nothing_are_refused():
    with pytest.raises(RuntimeError, match="cannot be empty"):
        engine.autograd.grad(leaf(1.0) * 2, [])


def test_data_is_apart_from_the_graph():
    """What is written through `.data`, or through a view of it, autograd does not know of: PyTorch's way, right or wrong."""
    x = const(1.0, 2.0).requires_grad_()
    y = x * 2
    z = y * y
    y.data.mul_(3)
    y.data[0] = 7.0
    assert y.tolist() == [7, 12] and y.data.grad_fn is None and not y.data.requires_grad
    z.sum().backward()
    assert x.grad.tolist() == [28, 48]  # 2 y of what y is now, times 2
    w = (x * 2).tanh()
    w.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w.sum().backward()


def test_a_view_of_a_single_number_is_written():
    x = leaf(3.0)
    y = x * 2
    y[...] = 5.0
    (y * y).backward()
    assert x.grad.item() == 0  # nothing of x is left
    x = leaf(3.0)
    y, w = x * 2, leaf(4.0)
    y.view(1)[0] *= w
    (y * y).backward()
    assert x.grad.item() == 2 * 24 * 8 and w.grad.item() == 2 * 24 * 6
    x = leaf(3.0)
    y = x * 2
    y[None] *= 3
    y.backward()
    assert x.grad.item() == 6


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda x: x.chunk(2)[1], "Output 1 of Split "),
        (lambda x: x.split([1, 1])[0], "Output 0 of SplitWithSizes "),
        (lambda x: x.unbind(1)[2], "Output 2 of Unbind "),
        (lambda x: list(x)[1], "Output 1 of Unbind "),
        (lambda x: x.chunk(2)[0][:, 1:].T, r"Output 0 of \w+ "),  # PyTorch names the last view of it, the engine the one of several
    ],
)
def test_one_view_of_several_cannot_be_written_where_grad_is_required(made, told):
    plain = engine.arange(6.0).reshape(2, 3)
    made(plain).mul_(0)
    assert plain.sum().item() < 15  # without a gradient they can
    x = engine.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1
    part = made(y)
    with pytest.raises(RuntimeError, match=f"{told}is a view and is being modified inplace") as refused:
        part.mul_(2)
    assert "function that returns multiple views" in str(refused.value)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        part[...] = 1.0
    assert y.tolist() == x.tolist() and y._version == 0
    with engine.no_grad():
        part.mul_(0)
    assert y.sum().item() < 15


def test_pieces_that_can_be_written():
    x = engine.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1
    y.tensor_split(2)[0].mul_(2)  # PyTorch makes these one by one
    y.narrow(0, 1, 1).mul_(3)
    y.unsafe_split_with_sizes([1, 1])[0].mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == [[2, 2, 2], [3, 3, 3]]


def test_a_view_of_a_leaf_that_is_itself_a_view():
    x = engine.arange(6.0).reshape(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="view of a leaf Variable that requires grad"):
        x[0].mul_(2)
    with pytest.raises(RuntimeError, match="view of a leaf Variable that requires grad"):
        x[0] = 1.0
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_numbers_are_not_drawn_into_shared_places():
    x = engine.zeros(1, 2)
    for name in ("normal_", "uniform_", "exponential_", "random_", "bernoulli_"):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"):
            getattr(x.expand(3, 2), name)()
    assert x.tolist() == [[0, 0]] and x._version == 0
    x.expand(1, 2).normal_()
    assert x.abs().sum().item() > 0


# -- plain arithmetic, which takes a short way ---------------------------------------------------------------------------------


def test_plain_arithmetic_in_place_counts_versions_and_is_noticed():
    x, y = engine.ones(3), engine.full((3,), 2.0)
    assert x.add_(y).mul_(3).sub_(y).div_(2) is x and x.tolist() == [3.5] * 3 and x._version == 4
    w = engine.ones(3, requires_grad=True)
    out = (w * x).sum()
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
    x.data.add_(1.0)
    assert x._version == 5 and x.tolist() == [5.5] * 3


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_a_number_beyond_all_floats_is_refused_and_nothing_is_written(number):
    x = engine.ones(3)
    with pytest.raises((OverflowError, RuntimeError)):
        x.add_(number)
    assert x.tolist() == [1, 1, 1]
