"""The multivariate normal distribution with a low-rank plus diagonal covariance."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Tensor

from . import constraints
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv
from .utils import _standard_normal, lazy_property


def _capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """Return the Cholesky factor of I + W^T D^-1 W, of shape (rank, rank), for the Woodbury identity."""
    m = W.size(-1)
    K = engine.matmul(W.mT / D.unsqueeze(-2), W)
    return engine.linalg.cholesky(K + engine.eye(m, dtype=W.dtype, device=W.device))


class LowRankMultivariateNormal(Distribution):
    """Multivariate normal with mean `loc` (..., k), covariance cov_factor cov_factor^T + diag(cov_diag), and `cov_factor` (..., k, m)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        batch_shape = engine.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand((*batch_shape, -1))
        self.cov_diag = cov_diag.expand((*batch_shape, -1))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self.cov_factor = cov_factor.expand((*batch_shape, -1, -1))
        self._capacitance = _capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _parameter_dims(self, name: str) -> int:
        return 2 if name == "cov_factor" else 1

    def expand(self, batch_shape: Any, _instance: Any = None) -> LowRankMultivariateNormal:
        new = self._expanded(_instance, batch_shape, "loc", "cov_diag", "cov_factor")
        new._unbroadcasted_cov_factor, new._unbroadcasted_cov_diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        new._capacitance = self._capacitance
        return new

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        found = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return found.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        W = self._unbroadcasted_cov_factor
        found = engine.matmul(W, W.mT) + engine.diag_embed(self._unbroadcasted_cov_diag)
        return found.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        W, D = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        K = engine.matmul(W, W.mT) / (D.sqrt().unsqueeze(-1) * D.sqrt().unsqueeze(-2))
        K = K + engine.eye(D.shape[-1], dtype=D.dtype, device=D.device)
        found = D.sqrt().unsqueeze(-1) * engine.linalg.cholesky(K)
        return found.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by the Woodbury identity."""
        W, D = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        A = engine.linalg.solve_triangular(self._capacitance, W.mT / D.unsqueeze(-2), upper=False)
        found = engine.diag_embed(D.reciprocal()) - engine.matmul(A.mT, A)
        return found.expand(self._batch_shape + self._event_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eps_W = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc.dtype, self.loc.device)
        eps_D = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, eps_W) + self._unbroadcasted_cov_diag.sqrt() * eps_D

    def _log_det(self) -> Tensor:
        return 2 * self._capacitance.diagonal(dim1=-2, dim2=-1).log().sum(-1) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        W, D, apart = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc
        inner = _batch_mv(W.mT / D.unsqueeze(-2), apart)
        distance = (apart.pow(2) / D).sum(-1) - _batch_mahalanobis(self._capacitance, inner)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        found = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return found if not self._batch_shape else found.expand(self._batch_shape)
