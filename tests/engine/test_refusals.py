"""What random programs beside PyTorch 2.13 have found in the core: numbers, writes, hooks, and what is refused with which error."""

from __future__ import annotations

import pytest

import engine as T

NAN = float("nan")


class Cube(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):  # pyright: ignore[reportIncompatibleMethodOverride]
        (x,) = ctx.saved_tensors
        ctx.seen = g
        return 3 * (x * x).conj() * g


def test_a_function_of_complex_numbers_gets_pytorchs_gradient():
    z = T.tensor([1 + 2j, 3 - 1j], dtype=T.complex128, requires_grad=True)
    seed = T.tensor([1 - 1j, 2j], dtype=T.complex128)
    (g,) = T.autograd.grad(Cube.apply(z), z, seed)
    (plain,) = T.autograd.grad(z * z * z, z, seed)
    assert T.equal(g, plain)
    (again,) = T.autograd.grad(Cube.apply(z), z, seed, create_graph=True)
    assert T.equal(again.detach(), plain)


def test_hooks_of_nodes_see_the_same_complex_gradient_as_hooks_of_tensors():
    z = T.tensor([1 + 2j], dtype=T.complex128, requires_grad=True)
    y = z * (2 + 1j)
    seen = []
    y.register_hook(lambda g: seen.append(g))
    y.grad_fn.register_prehook(lambda outer: seen.append(outer[0]))
    y.grad_fn.register_hook(lambda inner, outer: seen.extend((outer[0], inner[0])))
    seed = T.tensor([1 - 3j], dtype=T.complex128)
    y.backward(seed)
    assert all(T.equal(g, seed) for g in seen[:3]) and T.equal(seen[3], z.grad) and T.equal(z.grad, (2 - 1j) * seed)


def test_grad_takes_what_it_passes_before_the_hooks_and_what_it_ends_at_after_them():
    v = T.tensor([2.75], requires_grad=True)
    y = -v
    y.register_hook(lambda g: g * 2)
    seed = T.tensor([-2.0])
    passed, end = T.autograd.grad(y, (y, v), seed, retain_graph=True)
    assert (passed.item(), end.item()) == (-2.0, 4.0)
    assert T.autograd.grad(y, y, seed)[0].item() == -4.0


def test_hooks_of_a_root_see_its_gradient_wherever_it_leads():
    a, b, seen = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True), []
    y = a * 2
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g.tolist()))
    assert T.autograd.grad(y, b, T.ones(2), allow_unused=True) == (None,)
    assert seen == [[1.0, 1.0]] and y.grad.tolist() == [1.0, 1.0] and a.grad is None


@pytest.mark.parametrize(("name", "expected"), [("add", 7.0), ("sub", 1.0), ("mul", 12.0), ("div", 4 / 3), ("floor_divide", 1.0)])
def test_arithmetic_of_two_numbers_is_a_tensor(name, expected):
    found = getattr(T, name)(4, 3.0)
    assert found.dtype is T.float32 and found.item() == pytest.approx(expected)
    with pytest.raises(TypeError):
        T.remainder(4, 3.0)


def test_older_orders_of_a_factor():
    x = T.ones(2)
    assert T.add(x, 1, -1).tolist() == [0, 0] and x.sub(1, 2).tolist() == [-1, -1] and T.rsub(x, 1, 0.5).tolist() == [0.5, 0.5]


def byte() -> T.Tensor:
    return T.tensor([1, 2], dtype=T.uint8)


def test_numbers_that_a_dtype_can_hold_are_written():
    x = byte()
    x[0] = -3
    assert x.tolist() == [253, 2] and byte().fill_(-3).tolist() == [253, 253] and byte().copy_(0.7).tolist() == [0, 0]
    assert byte().copy_(300).tolist() == [44, 44] and byte().masked_fill(byte() == 1, -2).tolist() == [254, 2]
    flags, reals = T.zeros(2, dtype=T.bool), T.zeros(2)
    flags[...] = 2 - 1j
    reals[...] = -0.5 + 0j
    assert flags.tolist() == [True, True] and reals.tolist() == [-0.5, -0.5]


@pytest.mark.parametrize("number", [300, -0.5, NAN, 2j])
def test_numbers_that_a_dtype_cannot_hold_are_refused(number):
    x = byte()
    for write in (lambda: x.fill_(number), lambda: x.__setitem__(0, number), lambda: x.masked_fill_(x == 1, number)):
        with pytest.raises(RuntimeError, match="without overflow"):
            write()
    assert x.tolist() == [1, 2]


def test_half_precision_cannot_hold_a_large_number():
    with pytest.raises(RuntimeError, match="without overflow"):
        T.zeros(2, dtype=T.float16).fill_(70000)


def test_a_scalar_is_its_own_transpose():
    c = T.tensor(1 + 2j)
    assert [x.item() for x in (c.H, c.mH, c.mT)] == [1 - 2j, 1 - 2j, 1 + 2j]


def test_a_write_whose_operand_is_another_view_of_the_same_elements_is_refused():
    x = T.arange(6.0)
    for write in (lambda: x[:3].add_(x[1:4]), lambda: x[1:].mul_(x[:-1])):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    square = T.arange(4.0).reshape(2, 2)
    with pytest.raises(RuntimeError, match="single memory location"):
        square.add_(square.t())
    with pytest.raises(RuntimeError, match="single memory location"):
        x.index_add_(0, T.tensor([0, 1, 2, 3, 4, 5]), x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5] and square.tolist() == [[0, 1], [2, 3]]
    assert x.add_(x).tolist() == [0, 2, 4, 6, 8, 10] and x[:3].add_(x[3:]).tolist() == [6, 10, 14]


def test_shapes_seen_otherwise_in_place_count_as_writes():
    x = T.ones(2, 3)
    x.t_()
    assert x._version == 1 and x.shape == (3, 2)
    with pytest.raises(RuntimeError, match="leaf"):
        T.ones(2, 3, requires_grad=True).t_()


i32, half = T.ones(2, 3, dtype=T.int32), T.ones(3)
REFUSED = {
    "T.bitwise_not(half)": NotImplementedError,
    "~half": TypeError,
    "half & i32[:, :2]": RuntimeError,  # the shapes come before the dtypes
    "T.softmax(i32, 5)": IndexError,
    "i32.bool() @ i32.bool()": RuntimeError,
    "T.nn.functional.layer_norm(i32, (2,))": RuntimeError,
    "i32.bitwise_and_(0.5)": RuntimeError,
    "i32[0].bitwise_xor_(i32)": RuntimeError,
    "T.zeros(2, dtype=T.bool).bitwise_and_(0.5)": RuntimeError,
    "half.is_contiguous(T.channels_last)": TypeError,
    "half.fill_(half)": RuntimeError,
    "T.broadcast_tensors([half])": TypeError,
    "T.polar(1, 1)": TypeError,
    "half.tensor_split(T.tensor(1.5))": RuntimeError,
    "half.tensor_split(None)": TypeError,
    "T.slice_copy(T.tensor(1.0))": IndexError,
    "T.slice_copy(half, step=-1)": RuntimeError,
    "half.index_fill(0, T.tensor([[0]]), 1)": RuntimeError,
    "i32.movedim(-1, [0])": TypeError,
    "T.rsub(1, 2)": TypeError,
    "half.copy_('a')": TypeError,
    "T.channel_shuffle(half, 3, out=half)": TypeError,  # has no out
    "T.flip(half, [0], out=T.zeros(3))": TypeError,
    "T.atan2(T.ones(3, dtype=T.complex64), half, out=T.zeros(3))": RuntimeError,  # what `out` can hold comes before the kernel
    "T.lt(T.ones(3, dtype=T.complex64), half, out=T.zeros(3))": NotImplementedError,
    "T.zeros(3).xlogy_(1j)": RuntimeError,
    "T.sum(half.clone().requires_grad_(), 5, out=T.zeros(3))": RuntimeError,  # so does the gradient, before the dimension
    "T.cat([half], out=T.zeros(3, dtype=T.int64))": TypeError,
    "T.unbind_copy(half, out=half)": TypeError,
}


@pytest.mark.parametrize("call", REFUSED)
def test_the_error_is_of_pytorchs_type(call):
    with pytest.raises(REFUSED[call]) as caught:
        eval(call, {"T": T, "i32": i32, "half": half})
    assert caught.type is REFUSED[call] and str(caught.value)


def test_what_pytorch_takes_is_taken():
    scalar = T.tensor(1.0)
    assert T.movedim(scalar, (), ()).shape == () and scalar.expand((2,), implicit=True).shape == (2,)
    assert half.contiguous(memory_format=T.preserve_format) is half
    assert T.triu_indices(2, 2, dtype=None).dtype is T.int64


def test_losses_of_torch_itself_are_unreduced_by_default():
    x, t = T.tensor([[1.0, 2.0], [3.0, 4.0]]), T.tensor([[1.0, -1.0], [1.0, 1.0]])
    assert T.hinge_embedding_loss(x, t).tolist() == [[1, 0], [3, 4]] and T.hinge_embedding_loss(x, t, reduction=1).item() == 2
    assert T.margin_ranking_loss(x, x + 1, t, reduction=-1).tolist() == [[1, 0], [1, 1]] and T.kl_div(x, x).shape == (2, 2)
    assert T.nn.functional.hinge_embedding_loss(x, t).item() == 2


def test_points_and_heights_of_an_integral_broadcast_after_the_differences():
    y = T.arange(6.0).reshape(2, 3)
    assert T.trapezoid(y, T.ones(1, 3)).tolist() == [0, 0] and T.trapezoid(y, y * 2, dim=0).tolist() == [9, 15, 21]
    assert T.trapezoid(T.zeros(2, 0, dtype=T.int8), T.zeros(2, 0, dtype=T.int8)).dtype is T.int8
    for wrong, error in (((T.tensor(1.0),), IndexError), ((y > 1,), RuntimeError), ((y, T.ones(2)), RuntimeError)):
        for fn in (T.trapezoid, T.cumulative_trapezoid):
            with pytest.raises(error):
                fn(*wrong)
