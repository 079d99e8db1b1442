"""Transforms of vectors and matrices to the simplex, Cholesky factors and positive definite matrices."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Size, Tensor
from engine.nn import functional as F

from .. import constraints
from ..utils import tril_matrix_to_vec, vec_to_tril_matrix
from .base import Transform, _OfItsKind


class CorrCholeskyTransform(Transform):
    """Map vectors of length D (D - 1) / 2 to Cholesky factors of D x D correlation matrices (Stan Reference Manual, 10.12)."""

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _call(self, x: Any) -> Any:
        eps = engine.finfo(x.dtype).eps
        r = vec_to_tril_matrix(engine.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r * r).sqrt().cumprod(-1)  # remaining length of each unit row
        r = r + engine.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = 1 - engine.cumsum(y * y, dim=-1)
        left = F.pad(left[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Tensor:
        left = 1 - (y * y).cumsum(dim=-1)
        stick = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return stick + tanh

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], d, d))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class SoftmaxTransform(_OfItsKind):
    """Map vectors to the simplex by softmax. Not bijective: the inverse is the logarithm."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Any) -> Any:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_OfItsKind):
    """Map vectors of length k - 1 to the simplex of k parts; each element sets the fraction broken off the rest."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    def _offset(self, n: int, beside: Tensor) -> Tensor:
        return n + 1 - beside.new_ones(n).cumsum(-1)

    def _call(self, x: Any) -> Any:
        z = _clipped_sigmoid(x - self._offset(x.shape[-1], x).log())
        return F.pad(z, [0, 1], value=1) * F.pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        crop = y[..., :-1]
        left = (1 - crop.cumsum(-1)).clamp(min=engine.finfo(y.dtype).tiny)
        return crop.log() - left.log() + self._offset(crop.shape[-1], y).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        x = x - self._offset(x.shape[-1], x).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


def _clipped_sigmoid(x: Tensor) -> Tensor:
    limits = engine.finfo(x.dtype)
    return engine.clamp(engine.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)


class LowerCholeskyTransform(_OfItsKind):
    """Map square matrices to lower triangular ones by taking the exponential of the diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_OfItsKind):
    """Map square matrices to positive definite ones through a Cholesky factor."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Any) -> Any:
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(engine.linalg.cholesky(y))
