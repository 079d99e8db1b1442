"""Boxes (N, 4), by default (x1, y1, x2, y2): areas, overlaps, format conversions and non-maximum suppression."""

from __future__ import annotations

import math
from typing import Any

import numpy

import engine
from engine import Tensor

_FORMATS = ("xyxy", "xywh", "cxcywh")


def _upcast(x: Tensor) -> Tensor:
    """Cast to a dtype in which products do not overflow."""
    if x.is_floating_point():
        return x if x.dtype in (engine.float32, engine.float64) else x.float()
    return x if x.dtype in (engine.int32, engine.int64) else x.int()


def box_area(boxes: Tensor) -> Tensor:
    """Return the area (N,) of each box."""
    boxes = _upcast(boxes)
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Convert boxes between "xyxy" (two corners), "xywh" (corner and size) and "cxcywh" (center and size)."""
    if in_fmt not in _FORMATS or out_fmt not in _FORMATS:
        raise ValueError(f"Unsupported Bounding Box Conversions for given in_fmt and out_fmt: {in_fmt}, {out_fmt}; known: {_FORMATS}")
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        c, d = a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return engine.stack((a, b, c, d), dim=-1)


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Clip boxes to an image of size (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return engine.stack((x, y), dim=boxes.dim()).reshape(boxes.shape)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """Return the indices of the boxes with both sides at least `min_size`."""
    sides = boxes[:, 2:] - boxes[:, :2]
    return engine.where((sides >= min_size).all(dim=1))[0]


def _inter_union(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    low = engine.max(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = engine.min(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    sides = _upcast(high - low).clamp(min=0)
    inter = sides[..., 0] * sides[..., 1]
    return inter, box_area(boxes1)[..., :, None] + box_area(boxes2)[..., None, :] - inter


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection over union (N, M) of all pairs of boxes."""
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    inter, union = _inter_union(boxes1, boxes2)
    return inter / union


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Generalized IoU (N, M) of all pairs of boxes (Rezatofighi et al. 2019)."""
    inter, union = _inter_union(boxes1, boxes2)
    around = box_area(_around(boxes1, boxes2))
    return inter / union - (around - union) / around


def _around(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    low = engine.min(boxes1[:, None, :2], boxes2[:, :2])
    return engine.cat([low, engine.max(boxes1[:, None, 2:], boxes2[:, 2:])], dim=-1)


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """Distance IoU (N, M): IoU minus the squared center distance over the enclosing box's squared diagonal (Zheng et al. 2020)."""
    boxes1, boxes2 = _upcast(boxes1), _upcast(boxes2)
    around = _around(boxes1, boxes2)
    diagonal = ((around[..., 2:] - around[..., :2]) ** 2).sum(-1) + eps
    centres = [(boxes[:, :2] + boxes[:, 2:]) / 2 for boxes in (boxes1, boxes2)]
    return box_iou(boxes1, boxes2) - ((centres[0][:, None] - centres[1]) ** 2).sum(-1) / diagonal


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """Complete IoU (N, M): `distance_box_iou` minus a term for differing aspect ratios (Zheng et al. 2020)."""
    boxes1, boxes2 = _upcast(boxes1), _upcast(boxes2)
    angles = [engine.atan((b[:, 2] - b[:, 0]) / (b[:, 3] - b[:, 1])) for b in (boxes1, boxes2)]
    unlike = 4 / math.pi**2 * (angles[0][:, None] - angles[1]) ** 2
    with engine.no_grad():
        weight = unlike / (1 - box_iou(boxes1, boxes2) + unlike + eps)
    return distance_box_iou(boxes1, boxes2, eps) - weight * unlike


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices, by descending score, of boxes that do not overlap a better kept one by an IoU above the threshold."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of shape (N, 4), got {tuple(boxes.shape)}")
    if scores.ndim != 1 or len(scores) != len(boxes):
        raise RuntimeError(f"scores should be a 1d tensor with as many elements as boxes ({len(boxes)}), got {tuple(scores.shape)}")
    corners = _upcast(boxes.detach()).cpu().numpy()
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    order = numpy.argsort(-scores.detach().cpu().numpy(), kind="stable")
    kept = []
    while len(order):
        best, order = order[0], order[1:]
        kept.append(int(best))
        low, high = numpy.maximum(corners[best, :2], corners[order, :2]), numpy.minimum(corners[best, 2:], corners[order, 2:])
        inter = numpy.maximum(high - low, 0).prod(1)
        with numpy.errstate(invalid="ignore", divide="ignore"):
            overlaps = inter / (areas[best] + areas[order] - inter) > iou_threshold
        order = order[~overlaps]
    return engine.tensor(kept, dtype=engine.int64, device=boxes.device)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Apply `nms` within each category of `idxs`; returns the indices of all kept boxes by descending score."""
    if boxes.numel() == 0:
        return engine.empty((0,), dtype=engine.int64, device=boxes.device)
    apart = idxs.to(boxes.dtype) * (boxes.max() + 1)  # shift categories apart so that they cannot overlap
    return nms(boxes + apart[:, None], scores, iou_threshold)


def masks_to_boxes(masks: Tensor) -> Tensor:
    """Return the bounding boxes (N, 4) of the non-zero pixels of masks (N, H, W), as float32."""
    if masks.numel() == 0:
        return engine.zeros((0, 4), dtype=engine.float32, device=masks.device)
    found: list[Any] = []
    for mask in masks:
        y, x = engine.where(mask != 0)
        found.append(engine.stack([x.min(), y.min(), x.max(), y.max()]))
    return engine.stack(found).to(engine.float32)
