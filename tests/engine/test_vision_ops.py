"""torchvision's operators: expected values from NumPy and mathematics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pictures import R, same

import engine

ops = engine.vision.ops


def boxes(n):
    low = R.uniform(0, 50, (n, 2))
    return np.concatenate([low, low + R.uniform(1, 30, (n, 2))], 1)


def overlap(a, b):
    sides = [max(0.0, min(a[k + 2], b[k + 2]) - max(a[k], b[k])) for k in (0, 1)]
    inter = sides[0] * sides[1]
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


def test_boxes():
    a, b = boxes(5), boxes(4)
    expected = [[overlap(x, y) for y in b] for x in a]
    same(ops.box_iou(engine.tensor(a), engine.tensor(b)), expected, 1e-12)
    same(ops.box_area(engine.tensor(a)), (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]), 1e-12)
    for form in ("xywh", "cxcywh"):
        there = ops.box_convert(engine.tensor(a), "xyxy", form)
        same(there[:, 2:], a[:, 2:] - a[:, :2], 1e-12)
        same(ops.box_convert(there, form, "xyxy"), a, 1e-12)
    same(ops.box_convert(engine.tensor(a), "xyxy", "cxcywh")[:, :2], (a[:, :2] + a[:, 2:]) / 2, 1e-12)
    assert ops.clip_boxes_to_image(engine.tensor([[-1.0, 2, 30, 9]]), (8, 20)).tolist() == [[0, 2, 20, 8]]
    assert ops.remove_small_boxes(engine.tensor([[0.0, 0, 1, 9], [0, 0, 4, 4]]), 2).tolist() == [1]
    whole = engine.tensor([[0.0, 0, 4, 4]])
    assert ops.generalized_box_iou(whole, engine.tensor([[4.0, 0, 8, 4], [0, 0, 4, 4], [8, 0, 12, 4]])).tolist() == [
        [0.0, 1.0, pytest.approx(-1 / 3)]
    ]
    assert ops.distance_box_iou(whole, engine.tensor([[4.0, 0, 8, 4]])).item() == pytest.approx(-16 / 80)
    assert ops.complete_box_iou(whole, whole).item() == pytest.approx(1)
    assert ops.generalized_box_iou_loss(whole, engine.tensor([[8.0, 0, 12, 4]]), "mean").item() == pytest.approx(4 / 3)
    assert ops.distance_box_iou_loss(whole, engine.tensor([[4.0, 0, 8, 4]]), "sum").item() == pytest.approx(1.2)
    masks = engine.zeros(2, 5, 6, dtype=engine.bool)
    masks[0, 1:3, 2:5] = True
    masks[1, 4, 0] = True
    assert ops.masks_to_boxes(masks).tolist() == [[2, 1, 4, 2], [0, 4, 0, 4]]
    with pytest.raises(ValueError, match="Unsupported"):
        ops.box_convert(whole, "xyxy", "abc")


def complete_loss(a, b, weight=None):
    """(the loss of two boxes, the weight of its last term), by the paper's equations."""
    iou, eps = overlap(a, b), 1e-7
    apart = ((a[0] + a[2] - b[0] - b[2]) / 2) ** 2 + ((a[1] + a[3] - b[1] - b[3]) / 2) ** 2
    diagonal = (max(a[2], b[2]) - min(a[0], b[0])) ** 2 + (max(a[3], b[3]) - min(a[1], b[1])) ** 2
    unlike = 4 / math.pi**2 * (math.atan((b[2] - b[0]) / (b[3] - b[1])) - math.atan((a[2] - a[0]) / (a[3] - a[1]))) ** 2
    weight = unlike / (1 - iou + unlike + eps) if weight is None else weight
    return 1 - iou + apart / diagonal + weight * unlike, weight


def test_complete_loss():
    a, b = boxes(6), boxes(6)
    b[:3] = a[:3] + R.uniform(-0.4, 0.4, (3, 4))  # some that overlap
    x = engine.tensor(a, requires_grad=True)
    found = ops.complete_box_iou_loss(x, engine.tensor(b))
    expected = [complete_loss(p, q) for p, q in zip(a, b, strict=True)]
    same(found.detach(), [loss for loss, _ in expected], 1e-6)
    found.sum().backward()
    for i, j in np.ndindex(6, 4):  # the weight has no gradient
        step = np.eye(4)[j] * 1e-6
        high, low = (complete_loss(a[i] + sign * step, b[i], expected[i][1])[0] for sign in (1, -1))
        assert float(x.grad[i, j]) == pytest.approx((high - low) / 2e-6, abs=1e-5)
    assert float(ops.complete_box_iou_loss(x, engine.tensor(b), "mean")) == pytest.approx(float(found.mean()))
    same(found.detach(), 1 - np.diag(ops.complete_box_iou(x.detach(), engine.tensor(b)).numpy()), 1e-6)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_nms(threshold):
    a, scores = boxes(40), R.random(40).round(1)
    kept = []
    for i in sorted(range(40), key=lambda i: -scores[i]):
        if all(overlap(a[i], a[j]) <= threshold for j in kept):
            kept.append(i)
    assert ops.nms(engine.tensor(a), engine.tensor(scores), threshold).tolist() == kept
    kinds = R.integers(0, 3, 40)
    apart = sorted(
        (
            i
            for k in range(3)
            for i in np.flatnonzero(kinds == k)[ops.nms(engine.tensor(a[kinds == k]), engine.tensor(scores[kinds == k]), threshold).numpy()]
        ),
        key=lambda i: (-scores[i], i),
    )
    assert ops.batched_nms(engine.tensor(a), engine.tensor(scores), engine.tensor(kinds), threshold).tolist() == apart
    assert ops.nms(engine.zeros(0, 4), engine.zeros(0), 0.5).tolist() == []
    with pytest.raises(RuntimeError, match=r"\(N, 4\)"):
        ops.nms(engine.zeros(3), engine.zeros(3), 0.5)


def test_regions():
    plane = np.add.outer(10.0 * np.arange(8), np.arange(9.0))  # interpolation of a plane is the plane
    x = engine.tensor(np.stack([plane, -plane])[None]).requires_grad_()
    found = ops.roi_align(x, engine.tensor([[0.0, 1, 2, 5, 6]], dtype=engine.float64), (2, 4), aligned=True)
    ys, xs = 2 + np.array([1.0, 3.0]) - 0.5, 1 + np.arange(4) + 0.5 - 0.5
    same(found[0, 0].detach(), np.add.outer(10 * ys, xs), 1e-12)
    same(found[0, 1].detach(), -np.add.outer(10 * ys, xs), 1e-12)
    assert engine.autograd.gradcheck(lambda x: ops.roi_align(x, [engine.tensor([[0.3, 0.7, 6.1, 4.2]])], 3, 0.5, 2), (x,))
    pooled = ops.roi_pool(x, [engine.tensor([[0.0, 0.0, 3.0, 3.0]])], 2)
    assert pooled[0, 0].tolist() == [[11, 13], [31, 33]]
    assert ops.RoIPool(2, 1.0)(x, [engine.zeros(0, 4)]).shape == (0, 2, 2, 2)
    assert repr(ops.RoIAlign(2, 1.0, -1)) == "RoIAlign(output_size=2, spatial_scale=1.0, sampling_ratio=-1, aligned=False)"
    with pytest.raises(ValueError, match=r"Tensor\[K, 5\]"):
        ops.roi_align(x, engine.zeros(2, 4), 2)


def test_layers():
    layer = ops.Conv2dNormActivation(3, 8, kernel_size=5, stride=2)
    assert [type(m).__name__ for m in layer] == ["Conv2d", "BatchNorm2d", "ReLU"] and layer[0].bias is None and layer.out_channels == 8
    assert layer(engine.zeros(1, 3, 9, 9)).shape == (1, 8, 5, 5)
    assert ops.Conv2dNormActivation(3, 8, norm_layer=None)[0].bias is not None
    squeeze = ops.SqueezeExcitation(4, 2)
    assert [name for name, _ in squeeze.named_children()] == ["avgpool", "fc1", "fc2", "activation", "scale_activation"]
    assert squeeze(engine.ones(2, 4, 3, 3)).shape == (2, 4, 3, 3)
    assert [type(m).__name__ for m in ops.MLP(3, [5, 2])] == ["Linear", "ReLU", "Dropout", "Linear", "Dropout"]
    assert ops.Permute([0, 2, 1])(engine.zeros(1, 2, 3)).shape == (1, 3, 2)
    frozen, norm = ops.FrozenBatchNorm2d(3), engine.nn.BatchNorm2d(3)
    norm.running_mean.normal_(), norm.running_var.uniform_(1, 2), norm.weight.data.normal_()
    frozen.load_state_dict(norm.state_dict())
    x = engine.randn(2, 3, 4, 4)
    same(frozen(x), norm.eval()(x).detach().numpy(), 1e-5)
    assert list(frozen.parameters()) == [] and repr(frozen) == "FrozenBatchNorm2d(3, eps=1e-05)"
    depth = ops.StochasticDepth(0.5, "row")
    assert set(np.unique(depth(engine.ones(64, 2)).numpy())) == {0.0, 2.0}
    assert depth.eval()(x) is x
    with pytest.raises(ValueError, match="mode has to be"):
        ops.stochastic_depth(x, 0.5, "column")
    logits, targets = R.standard_normal((4, 3)), R.integers(0, 2, (4, 3)).astype(float)
    p = 1 / (1 + np.exp(-logits))
    right = np.where(targets == 1, p, 1 - p)
    same(
        ops.sigmoid_focal_loss(engine.tensor(logits), engine.tensor(targets), alpha=-1, gamma=3.0),
        -((1 - right) ** 3) * np.log(right),
        1e-12,
    )
