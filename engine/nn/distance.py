"""Distance layers: `PairwiseDistance` and `CosineSimilarity`."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class PairwiseDistance(Module):
    """p-norm distance over the last dimension, ||x1 - x2 + eps||_p: `(N, D)` and `(N, D)` to `(N)`, or `(N, 1)` with `keepdim`."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Cosine similarity along `dim`: x1 · x2 / max(||x1|| ||x2||, eps)."""

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
