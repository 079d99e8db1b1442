"""Which calls of layers' functions are refused, and with which error: what PyTorch 2.13 says of them, shapes before dtypes, types before both."""

from __future__ import annotations

import pytest

import engine as T
from grouping import grouped

F = T.nn.functional
zero, row, matrix, images = T.tensor(1.0), T.ones(3), T.ones(2, 3), T.ones(2, 4, 4, 4)
whole, rows, yes = T.ones(2, 3, dtype=T.int64), T.tensor([0, 1]), T.tensor(True)
needs = T.ones(2, 3, requires_grad=True)
REFUSED = {
    # what the argument parser says
    "T.convolution(images, images, None, [1, 1], 0, [1, 1], False, [0, 0], 1)": TypeError,
    "T.layer_norm(matrix, 3)": TypeError,
    "T.layer_norm(matrix, [3.0])": TypeError,
    "T.group_norm(images, True)": TypeError,
    "T.constant_pad_nd(matrix, 1)": TypeError,
    "T.batch_norm(matrix, None, None, None, None, 1, 0.1, 0.1, True)": TypeError,
    "T.embedding(matrix, 1)": TypeError,
    "T.ctc_loss(T.ones(2, 2, 2), rows, [2, 2], rows)": TypeError,
    "F.ctc_loss(T.ones(2, 2, 2), rows, 2, 2)": TypeError,
    "T.cdist(matrix, matrix, 2.0, 1)": ValueError,
    "T.conv1d(row[None], row[None, None], 1)": TypeError,
    "F.conv_transpose1d(matrix[None], matrix[None], stride=0.5)": TypeError,
    "F.max_pool2d(images, 'a')": TypeError,
    "F.avg_pool1d(matrix, 2, ceil_mode=1)": TypeError,
    "F.adaptive_avg_pool1d(matrix, True)": TypeError,
    "F.interpolate(images, (2.0, 2))": TypeError,
    "F.interpolate(images, 2, mode='bilinear', align_corners='a')": TypeError,
    "F.pad(matrix, (1, 1), 5)": TypeError,
    "F.pixel_shuffle(images, 2.0)": TypeError,
    "F.hardshrink(matrix, lambd=[])": TypeError,
    "F.threshold(matrix, (0,), 1)": TypeError,
    "F.cosine_similarity(matrix, matrix, dim=(0,))": TypeError,
    "T.softmax(matrix, [0])": TypeError,
    "T.softmax(matrix, True)": TypeError,
    "T.softmax(matrix, 0, dtype=1)": TypeError,
    "F.kl_div(matrix, matrix, log_target=1)": TypeError,
    "F.nll_loss(matrix, rows, ignore_index=False)": TypeError,
    "F.gaussian_nll_loss(matrix, matrix, True)": TypeError,
    "F.poisson_nll_loss(matrix, matrix, full=0)": TypeError,
    "F.one_hot(rows, 2.0)": TypeError,
    "T.special.softmax(matrix, 0, out=matrix)": TypeError,
    "F.conv2d(1, images)": TypeError,
    # what Python says before
    "F.softmin(1.5, 0)": AttributeError,
    "F.binary_cross_entropy(matrix, 1)": AttributeError,
    "F.adaptive_avg_pool2d(1, 5)": AttributeError,
    "F.interpolate(whole, (3, 2, 4))": ValueError,
    "F.interpolate(images, 2, mode='nearest', align_corners=True)": ValueError,
    "F.embedding_bag(rows, zero, mode='no')": ValueError,
    "F.embedding_bag(rows[None], matrix, mode='max', sparse=True)": ValueError,
    "F.embedding(rows, matrix, 7)": AssertionError,
    "F.max_unpool1d(row[None, None], rows[None, None], 2, padding=[])": IndexError,
    "F.max_unpool1d(matrix, whole, 2, output_size=(100,))": ValueError,
    "F.soft_margin_loss(matrix, row[:2], reduction='no')": ValueError,
    "F.binary_cross_entropy(matrix, row.double())": ValueError,
    "F.nll_loss(row, rows)": ValueError,
    "F.cross_entropy(matrix, T.ones(4, 3))": ValueError,
    "T.masked.softmax(matrix, 2)": IndexError,
    "T.func.jvp(lambda x: x * 2, (rows,), (rows,))": ValueError,
    # dimensions that are not there
    "T.group_norm(zero, 1)": IndexError,
    "T.group_norm(row, 1)": IndexError,
    "T.instance_norm(row, None, None, None, None, True, 0.1, 0.1, True)": IndexError,
    "T.batch_norm(row, None, None, None, None, True, 0.1, 0.1, True)": IndexError,
    "T.batch_norm(zero, None, None, None, None, True, 0.1, 0.1, True)": RuntimeError,
    "T.grid_sampler(zero, zero, 0, 0, True)": IndexError,
    "T.grid_sampler_2d(row, row, 0, 0, True)": RuntimeError,
    "T.affine_grid_generator(row, (1, 1, 2, 2), True)": IndexError,
    "T.affine_grid_generator(row, (1, 1), True)": RuntimeError,
    "T.bilinear(row, row, row)": IndexError,
    "T.ctc_loss(zero, rows, [1], [1])": IndexError,
    "T.rms_norm(row, (2, 3))": ValueError,
    "T.embedding(zero.clone().requires_grad_(), rows)": IndexError,
    "T.embedding(row, rows)": RuntimeError,
    "T.convolution(row, row, None, [1], [0], [1], False, [0], 1)": RuntimeError,
    # shapes before dtypes
    "T.group_norm(whole, 2)": RuntimeError,
    "T.group_norm(whole, 3)": NotImplementedError,
    "T.batch_norm(whole, row[:2], None, None, None, True, 0.1, 0.1, True)": RuntimeError,
    "T.batch_norm(whole, None, None, None, None, True, 0.1, 0.1, True)": NotImplementedError,
    "T.grid_sampler(images.long(), images, 0, 0, True)": RuntimeError,
    "T.ctc_loss(whole, rows, [5], [1])": NotImplementedError,
    "T.adaptive_avg_pool1d(whole, [1, 1])": RuntimeError,
    "T.adaptive_avg_pool1d(whole, 1)": RuntimeError,
    "T.adaptive_avg_pool1d(whole, 2)": NotImplementedError,
    "T.bilinear(row, row.double(), row)": RuntimeError,
    "T.cdist(matrix, matrix.double())": RuntimeError,
    "T.celu(whole, 0)": RuntimeError,
    "T.celu(whole, 1.0)": NotImplementedError,
    "T.threshold(whole.bool(), 0, 1)": NotImplementedError,
    "F.cross_entropy(whole, rows)": NotImplementedError,
    "F.avg_pool1d(whole.int(), 2)": NotImplementedError,
    "F.relu(yes)": RuntimeError,
    "F.hardtanh(yes)": RuntimeError,
    "F.tanhshrink(yes)": RuntimeError,
    "F.batch_norm(matrix, row.double(), row.double())": RuntimeError,
    "F.prelu(matrix, row[:1].double())": RuntimeError,
    "F.prelu(whole, rows[:1])": NotImplementedError,
    "T.hardshrink(matrix.cfloat().requires_grad_(), out=T.zeros(2, 3))": RuntimeError,
    "T.softmax(whole, 0, out=matrix)": RuntimeError,
    "F.soft_margin_loss(whole, matrix)": RuntimeError,
    "T.func.jacrev(lambda x: x.abs())(matrix.cfloat())": RuntimeError,
    "T.func.jacfwd(lambda x: x * 1j)(matrix)": RuntimeError,
    "T.func.vjp(lambda x: (x, x.argmax()), matrix)": RuntimeError,
    "F.embedding(rows, needs.cfloat())": RuntimeError,
    "F.soft_margin_loss(needs.cfloat(), matrix)": RuntimeError,
    "F.bilinear(matrix.cfloat(), needs.cfloat(), T.ones(1, 3, 3).cfloat())": RuntimeError,
    "T.embedding_bag(matrix, matrix, rows)": RuntimeError,
    "T.embedding_bag(matrix, whole, zero.long())": IndexError,
    "F.layer_norm(whole, (3,), row)": RuntimeError,
    "F.linear(matrix.bool(), matrix)": RuntimeError,
    "F.linear(matrix.bool(), matrix.bool())": NotImplementedError,
    "F.glu(whole.char(), 5)": IndexError,
    # what would have been taken
    "F.max_pool1d(matrix, True)": TypeError,
    "F.glu(matrix, False)": TypeError,
    "F.unfold(images, [2])": RuntimeError,
    "F.fold(T.ones(1, 4, 4), [3], 2)": RuntimeError,
    "F.pad(images[:0, :, 0], (1, 1, 1, 1), 'reflect')": RuntimeError,
    "F.pad(matrix, (-2, -1), 'replicate')": RuntimeError,
    "F.binary_cross_entropy(matrix, matrix, matrix[None])": RuntimeError,
    "F.soft_margin_loss(T.ones(3, 1), T.ones(5))": RuntimeError,
    "F.pdist(matrix, -1.0)": RuntimeError,
    "F.cosine_similarity(matrix, matrix, eps=-1)": RuntimeError,
    "F.softplus(matrix, 2j)": RuntimeError,
    "T.threshold(whole.byte(), -0.5, 1)": RuntimeError,
    "T.constant_pad_nd(whole, (1, 1), 1.5j)": RuntimeError,
    "T.grid_sampler_3d(images, T.ones(2, 1, 1, 2), 0, 0, True)": RuntimeError,
    "T.constant_pad_nd(matrix, [1])": RuntimeError,
    "T.bilinear(matrix, matrix, T.ones(1, 3, 2))": RuntimeError,
    "T.adaptive_avg_pool1d(matrix, -1)": RuntimeError,
    "T.cosine_embedding_loss(images, images, T.ones(2, 4, 4))": RuntimeError,
    "T.hinge_embedding_loss(whole, whole, reduction=1)": RuntimeError,
    "F.binary_cross_entropy_with_logits(matrix, matrix, needs)": RuntimeError,
    "F.binary_cross_entropy_with_logits(matrix, matrix, pos_weight=needs)": RuntimeError,
    "F.binary_cross_entropy(matrix, matrix, needs)": RuntimeError,
    "F.nll_loss(matrix, rows, needs[0])": RuntimeError,
    "F.soft_margin_loss(matrix, needs)": RuntimeError,
    "F.multi_margin_loss(matrix, rows, weight=needs[0])": RuntimeError,
    "F.batch_norm(matrix, needs[0], needs[1])": RuntimeError,
}
TAKEN = {
    "T.batch_norm(T.ones(1, 2), None, None, None, None, True, 0.1, 0.1, True).shape": (1, 2),
    "T.batch_norm(T.ones(3, 0), row, None, None, None, True, 0.1, 0.1, True).shape": (3, 0),
    "T.instance_norm(T.ones(1, 2), None, None, None, None, True, 0.1, 0.1, True).tolist()": [[0, 0]],
    "T.margin_ranking_loss(row, zero, rows[:1]).shape": (3,),
    "T.embedding(matrix, rows, 5).shape": (2, 3),
    "T.adaptive_avg_pool1d(matrix, 0).shape": (2, 0),
    "[x.shape for x in T.adaptive_max_pool1d(matrix, 0)]": [(2, 0), (2, 0)],
    "T.hinge_embedding_loss(whole, whole, 1.5, 0).tolist()": [[1, 1, 1], [1, 1, 1]],
    "T.triplet_margin_loss(whole, whole, whole).dtype": T.float32,
    "T.triplet_margin_loss(matrix, matrix, matrix, -1.0).tolist()": [0, 0],
    "T.binary_cross_entropy_with_logits(zero * 0, matrix).shape": (2, 3),
    "F.cross_entropy(matrix, matrix, needs[0]).requires_grad": True,
    "T.softmax(whole[:0], 1).dtype": T.int64,
    "T.masked.softmax(matrix, [1]).shape": (2, 3),
    "F.nll_loss(row, rows[1:]).item()": -1,
    "F.binary_cross_entropy(matrix, matrix, whole).item()": 0,
}


@grouped("call", REFUSED)
def test_the_error_is_of_pytorchs_type(call):
    try:
        eval(call, globals())
    except Exception as error:
        assert type(error) is REFUSED[call], f"{type(error).__name__}: {error}"
    else:
        raise AssertionError("taken")


@grouped("call", TAKEN)
def test_what_pytorch_takes_is_taken(call):
    assert eval(call, globals()) == TAKEN[call]


def test_the_old_order_of_embedding_bag():
    with pytest.warns(UserWarning, match="order"):
        assert F.embedding_bag(matrix, rows, offsets=rows).shape == (2, 3)


@pytest.mark.parametrize("name", ["hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss", "kl_div"])
def test_losses_take_the_old_flags(name):
    loss = getattr(F, name)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        found = loss(matrix, matrix, size_average=False)
    assert found.item() == loss(matrix, matrix, reduction="sum").item()


def test_running_statistics_of_functions_of_torch_move():
    mean, var = T.zeros(2), T.ones(2)
    T.instance_norm(T.arange(12.0).reshape(2, 2, 3), None, None, mean, var, True, 0.5, 1e-5, True)
    assert mean.tolist() == [2, 3.5] and var.tolist() == [1, 1]
