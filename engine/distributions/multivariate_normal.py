"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Tensor

from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Batched matrix-vector product."""
    return engine.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(L: Tensor, x: Tensor) -> Tensor:
    """Return |L^-1 x|^2 for lower triangular L and vectors x; batches broadcast."""
    shape = engine.broadcast_shapes(L.shape[:-2], x.shape[:-1])
    L, x = L.expand((*shape, *L.shape[-2:])), x.expand((*shape, x.shape[-1]))
    return engine.linalg.solve_triangular(L, x.unsqueeze(-1), upper=False).squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """Return the lower Cholesky factor of a precision matrix's inverse, without forming the inverse."""
    Lf = engine.linalg.cholesky(engine.flip(P, (-2, -1)))
    L_inv = engine.transpose(engine.flip(Lf, (-2, -1)), -2, -1)
    eye = engine.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return engine.linalg.solve_triangular(L_inv, eye.expand(L_inv.shape), upper=False)


def scale_tril_of(name: str, matrix: Tensor) -> Tensor:
    """Return the Cholesky factor of a covariance given as the parameter `name`: the covariance, its inverse or its factor."""
    if name == "covariance_matrix":
        return engine.linalg.cholesky(matrix)
    return matrix if name == "scale_tril" else _precision_to_scale_tril(matrix)


class MultivariateNormal(Distribution):
    """Multivariate normal with mean `loc` (..., k), and a covariance, precision or lower Cholesky factor (..., k, k)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ):  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: m for name, m in given.items() if m is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = engine.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = scale_tril_of(name, matrix)

    def _parameter_dims(self, name: str) -> int:
        return 1 if name == "loc" else 2

    def expand(self, batch_shape: Any, _instance: Any = None) -> MultivariateNormal:
        new = self._expanded(_instance, batch_shape, "loc", "covariance_matrix", "precision_matrix", "scale_tril")
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        L = self._unbroadcasted_scale_tril
        return engine.matmul(L, L.mT).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return engine.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        L = self._unbroadcasted_scale_tril
        distance = _batch_mahalanobis(L, value - self.loc)
        half_log_det = L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - half_log_det

    def entropy(self) -> Tensor:
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        found = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half_log_det
        return found if not self._batch_shape else found.expand(self._batch_shape)
