"""Losses for detection: focal loss and IoU losses."""

from __future__ import annotations

import math

import engine
from engine import Tensor
from engine.nn import functional as F

from .boxes import _upcast


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() else 0.0 * loss.sum()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: 'none', 'mean', 'sum'")


def sigmoid_focal_loss(inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none") -> Tensor:
    """Focal loss (Lin et al. 2017): binary cross entropy of logits times (1 - p_t)^gamma, weighted by `alpha` unless it is -1."""
    if not (0 <= alpha <= 1) and alpha != -1:
        raise ValueError(f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore.")
    p = engine.sigmoid(inputs)
    right = p * targets + (1 - p) * (1 - targets)
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none") * (1 - right) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return _reduced(loss, reduction)


def _pairs(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return IoUs, unions, and the corners of the enclosing boxes, pair by pair."""
    low, high = engine.max(boxes1[..., :2], boxes2[..., :2]), engine.min(boxes1[..., 2:], boxes2[..., 2:])
    inter = (high - low).clamp(min=0).prod(-1)
    areas = [(b[..., 2:] - b[..., :2]).prod(-1) for b in (boxes1, boxes2)]
    union = areas[0] + areas[1] - inter
    start, end = engine.min(boxes1[..., :2], boxes2[..., :2]), engine.max(boxes1[..., 2:], boxes2[..., 2:])
    return inter / (union + eps), union, start, end


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 minus the generalized IoU, pair by pair (Rezatofighi et al. 2019)."""
    boxes1, boxes2 = _upcast(boxes1), _upcast(boxes2)
    iou, union, start, end = _pairs(boxes1, boxes2, eps)
    around = (end - start).prod(-1)
    return _reduced(1 - (iou - (around - union) / (around + eps)), reduction)


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 minus the IoU, plus the squared center distance over the enclosing box's squared diagonal (Zheng et al. 2020)."""
    boxes1, boxes2 = _upcast(boxes1), _upcast(boxes2)
    return _reduced(_distance_loss(boxes1, boxes2, eps)[0], reduction)


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """`distance_box_iou_loss` plus a term for differing aspect ratios, with a detached weight (Zheng et al. 2020)."""
    boxes1, boxes2 = _upcast(boxes1), _upcast(boxes2)
    loss, iou = _distance_loss(boxes1, boxes2, eps)
    angles = [engine.atan((b[..., 2] - b[..., 0]) / (b[..., 3] - b[..., 1])) for b in (boxes1, boxes2)]
    unlike = 4 / math.pi**2 * (angles[1] - angles[0]) ** 2
    with engine.no_grad():
        weight = unlike / (1 - iou + unlike + eps)
    return _reduced(loss + weight * unlike, reduction)


def _distance_loss(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the distance IoU loss and the IoU, pair by pair."""
    iou, _, start, end = _pairs(boxes1, boxes2, eps)
    centres = [(b[..., :2] + b[..., 2:]) / 2 for b in (boxes1, boxes2)]
    distance = ((centres[0] - centres[1]) ** 2).sum(-1) / (((end - start) ** 2).sum(-1) + eps)
    return 1 - iou + distance, iou
