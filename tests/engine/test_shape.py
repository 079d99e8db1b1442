"""Views, joins and padding: what shares memory, what is refused, and gradients through the rarer ways."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine.autograd import gradcheck, gradgradcheck
from engine.core.op import functions
from grouping import grouped

rng = numpy.random.default_rng(3)
pad = functions["nn.functional.pad"]

VIEWS = {
    "reshape": lambda x: x.reshape(-1, 6),
    "view": lambda x: x.view(-1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, 2),
    "movedim": lambda x: x.movedim(0, -1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "mT": lambda x: x.mT,
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 2),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "select": lambda x: x.select(1, 2),
    "split": lambda x: x.split(2, 2)[1],
    "chunk": lambda x: x.chunk(2, 2)[0],
    "unbind": lambda x: x.unbind(1)[1],
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "tensor_split": lambda x: x.tensor_split(3, 1)[2],
    "expand": lambda x: x.expand(-1, 3, 4),
}


@grouped("name", VIEWS)
def test_a_write_through_a_view_reaches_the_base(name):
    data = rng.normal(size=(2, 3, 4))
    x = engine.tensor(data)
    y = VIEWS[name](x)
    assert y._base is x
    y.fill_(7.0)
    places = VIEWS[name](engine.tensor(numpy.arange(24).reshape(2, 3, 4))).numpy()
    expected = data.copy()
    expected.reshape(-1)[places] = 7.0
    assert numpy.array_equal(x.numpy(), expected)


MADE_TOGETHER = {"split", "chunk", "unbind"}  # no write is allowed where grad is required, as in PyTorch


@grouped("name", sorted(VIEWS.keys() - MADE_TOGETHER))
def test_a_write_through_a_view_has_gradients(name):
    def write(x, v):
        y = x * x
        VIEWS[name](y).mul_(v)
        return y * x

    x, v = (
        engine.tensor(rng.normal(size=(1, 3, 4)), requires_grad=True),
        engine.tensor(rng.normal(), dtype=engine.float64, requires_grad=True),
    )
    assert gradcheck(write, (x, v)) and gradgradcheck(write, (x, v))


def test_a_write_through_a_view_of_a_column_major_base():
    """A copy of such a base is not row-major either, and a step of the path is a view of one but not of the other."""
    array = numpy.asfortranarray(rng.normal(size=(3, 4)))
    leaf = engine.tensor(1.0, dtype=engine.float64, requires_grad=True)
    base = engine.from_numpy(array.copy(order="F"))
    flat = base.t().reshape(-1)
    assert flat._base is base
    flat[1:3] = leaf * 2
    expected = array.copy(order="F")
    expected.T.reshape(-1)[1:3] = 2
    assert numpy.array_equal(base.detach().numpy(), expected)
    weights = rng.normal(size=(3, 4))
    (base * engine.tensor(weights)).sum().backward()
    assert leaf.grad.item() == pytest.approx(2 * weights.T.reshape(-1)[1:3].sum())


def test_view_refuses_what_only_a_copy_can_give():
    x = engine.zeros(3, 4).t()
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size and stride"):
        x.view(12)
    assert x.reshape(12)._base is None
    with pytest.raises(RuntimeError, match=r"shape '\[5, 5\]' is invalid for input of size 12"):
        x.reshape(5, 5)


def test_view_of_another_dtype_shares_bytes():
    x = engine.tensor([1.0, 2.0])
    bits = x.view(engine.int32)
    assert bits.tolist() == [0x3F800000, 0x40000000]
    bits[0] = 0x40400000
    assert x.tolist() == [3.0, 2.0] and x.view(engine.uint8).shape == (8,)


@grouped(
    "call, error, words",
    [
        (lambda x: x.transpose(0, 3), IndexError, r"Dimension out of range \(expected to be in range of \[-3, 2\], but got 3\)"),
        (lambda x: x.permute(0, 1), RuntimeError, "number of dimensions in the tensor input does not match"),
        (
            lambda x: x.expand(2, 3, 5),
            RuntimeError,
            r"The expanded size of the tensor \(5\) must match the existing size \(4\) at non-singleton dimension 2",
        ),
        (lambda x: x.squeeze(3), IndexError, "Dimension out of range"),
        (lambda x: x.t(), RuntimeError, "expects a tensor with <= 2 dimensions"),
        (lambda x: x.split([1, 1], 2), RuntimeError, "split_sizes to sum exactly to 4"),
        (
            lambda x: x.hsplit(2),
            RuntimeError,
            "split along dimension 1, but the size of the dimension 3 is not divisible by the split_size 2",
        ),
        (
            lambda x: x.vsplit(0),
            RuntimeError,
            "split along dimension 0, but the size of the dimension 2 is not divisible by the split_size 0",
        ),
        (
            lambda x: x.dsplit(3),
            RuntimeError,
            "split along dimension 2, but the size of the dimension 4 is not divisible by the split_size 3",
        ),
        (
            lambda x: x[0, 0].vsplit(2),
            RuntimeError,
            "torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with 1 dim",
        ),
        (lambda x: x.chunk(0), RuntimeError, "greater than 0"),
        (lambda x: x.repeat(2, 2), RuntimeError, "can not be smaller than number of dimensions of tensor"),
        (lambda x: x.unfold(2, 5, 1), RuntimeError, "maximum size for tensor at dimension 2 is 4 but size is 5"),
        (lambda x: engine.cat([x, x[:, :2]]), RuntimeError, "Expected size 3 but got size 2 for tensor number 1 in the list"),
        (lambda x: engine.cat([]), ValueError, "non-empty list of Tensors"),
        (lambda x: engine.stack([x, x[0]]), RuntimeError, "equal size"),
        (lambda x: engine.stack([]), RuntimeError, "non-empty TensorList"),
        (lambda x: x.unflatten(2, (3, 2)), RuntimeError, "don't multiply up"),
        (lambda x: pad(x, (4, 0), mode="reflect"), RuntimeError, "less than the corresponding input dimension"),
        (lambda x: x.sum_to_size(5), RuntimeError, "not expandable"),
        (lambda x: x.narrow(2, 3, 2), RuntimeError, "exceeds dimension size"),
        (lambda x: x.select(1, 3), IndexError, "out of range"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(engine.zeros(2, 3, 4))


def test_joining_promotes_and_keeps_views_apart():
    joined = engine.cat([engine.tensor([1, 2]), engine.tensor([0.5])])
    assert joined.dtype is engine.float32 and joined.tolist() == [1, 2, 0.5]
    assert engine.cat([engine.zeros(0), engine.ones(2, 2)]).shape == (2, 2)
    flipped = engine.tensor([1.0, 2.0]).flip(0)
    assert flipped._base is None and flipped.is_contiguous()


@pytest.mark.parametrize("mode, numpy_mode", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding_is_numpys(mode, numpy_mode):
    data = rng.normal(size=(2, 3, 4, 5))
    x = engine.tensor(data, requires_grad=True)
    out = pad(x, (1, 2, 2, 0), mode=mode)
    assert numpy.array_equal(out.detach().numpy(), numpy.pad(data, ((0, 0), (0, 0), (2, 0), (1, 2)), numpy_mode))
    small = engine.tensor(data[:1, :1], requires_grad=True)
    assert gradcheck(lambda x: pad(x, (1, 2, 2, 0), mode=mode) ** 2, (small,))


@pytest.mark.parametrize("ndim, widths", [(1, 2), (2, 4), (3, 0), (3, 6), (4, 2), (5, 4), (5, 8)])
def test_padding_that_torch_has_not(ndim, widths):
    """torch: NotImplementedError "Padding size 2 is not supported for 1D input tensor", and so on."""
    with pytest.raises(NotImplementedError, match=f"padding length {widths} and input of dimension {ndim}"):
        pad(engine.zeros((4,) * ndim), (1,) * widths, mode="reflect")


def test_padding_with_a_number_crops_where_negative():
    data = rng.normal(size=(3, 4))
    x = engine.tensor(data, requires_grad=True)
    out = pad(x, (1, -2, 0, 1), value=9.0)
    expected = numpy.pad(data[:, :2], ((0, 1), (1, 0)), constant_values=9.0)
    assert numpy.array_equal(out.detach().numpy(), expected)
    out.sum().backward()
    assert x.grad.tolist() == [[1, 1, 0, 0]] * 3


def test_grids_products_and_blocks():
    a, b = engine.tensor([1, 2]), engine.tensor([3, 4, 5])
    for ours, numpys in zip(engine.meshgrid(a, b, indexing="xy"), numpy.meshgrid(a.numpy(), b.numpy()), strict=True):
        assert numpy.array_equal(ours.numpy(), numpys)
    assert engine.cartesian_prod(a, b).tolist() == [[1, 3], [1, 4], [1, 5], [2, 3], [2, 4], [2, 5]]
    assert engine.combinations(b).tolist() == [[3, 4], [3, 5], [4, 5]]
    assert engine.block_diag(a, engine.tensor([[7], [8]])).tolist() == [[1, 2, 0], [0, 0, 7], [0, 0, 8]]


def test_pixels_go_there_and_back():
    data = rng.normal(size=(2, 8, 3, 4))
    shuffled = functions["nn.functional.pixel_shuffle"](engine.tensor(data), 2)
    assert shuffled.shape == (2, 2, 6, 8) and shuffled[1, 1, 3, 5].item() == data[1, 4 + 2 * 1 + 1, 1, 2]
    assert numpy.array_equal(functions["nn.functional.pixel_unshuffle"](shuffled, 2).numpy(), data)


def test_one_hot():
    one_hot = functions["nn.functional.one_hot"]
    assert one_hot(engine.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        one_hot(engine.tensor([3]), 3)


@pytest.mark.parametrize(
    "change", [lambda x: x.reshape(3, -2), lambda x: x.reshape([3, -2]), lambda x: x.view((3, -2)), lambda x: x.view(3, -2)]
)
def test_only_minus_one_stands_for_the_rest(change):
    with pytest.raises(RuntimeError, match=r"invalid shape dimension -2 at index 1 of shape \[3, -2\]"):
        change(engine.ones(2, 6))


def test_several_tensors_come_back_as_several():
    number, row = engine.tensor(1.0), engine.ones(3)
    for fn, shapes in (
        (engine.atleast_1d, [(1,), (3,)]),
        (engine.atleast_2d, [(1, 1), (1, 3)]),
        (engine.atleast_3d, [(1, 1, 1), (1, 3, 1)]),
    ):
        for found in (fn(number, row), fn((number, row)), fn([number, row])):
            assert isinstance(found, tuple) and [tuple(t.shape) for t in found] == shapes
        assert tuple(fn(number).shape) == shapes[0]
        assert [tuple(t.shape) for t in fn([number])] == shapes[:1]


def test_ravel_copies_what_is_not_contiguous():
    """As in PyTorch, also where strides would allow a view."""
    x = engine.arange(12.0).reshape(3, 4)
    column = x[:, 1].ravel()
    column.zero_()
    x.ravel()[0] = 7
    assert column.stride() == (1,) and x[:, 1].tolist() == [1, 5, 9] and x[0, 0] == 7
