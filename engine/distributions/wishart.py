"""The Wishart distribution."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .exp_family import ExponentialFamily
from .multivariate_normal import scale_tril_of
from .utils import holds, lazy_property


class Wishart(ExponentialFamily):
    """Sum of `df` outer products of normal vectors with a covariance, precision or Cholesky factor (..., k, k)."""

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, df: Any, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: m for name, m in given.items() if m is not None}
        if len(given) != 1:
            raise ValueError("Expected exactly one of covariance_matrix or precision_matrix or scale_tril to be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, Tensor) else engine.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape, event_shape = engine.broadcast_shapes(matrix.shape[:-2], df.shape), matrix.shape[-2:]
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        if not holds(~self.df.le(event_shape[-1] - 1)):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        self.arg_constraints = {**type(self).arg_constraints, "df": constraints.greater_than(event_shape[-1] - 1)}
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = scale_tril_of(name, matrix)

    def _parameter_dims(self, name: str) -> int:
        return 0 if name == "df" else 2

    def expand(self, batch_shape: Any, _instance: Any = None) -> Wishart:
        new = self._expanded(_instance, batch_shape, "df", "covariance_matrix", "precision_matrix", "scale_tril")
        new._unbroadcasted_scale_tril, new.arg_constraints = self._unbroadcasted_scale_tril, self.arg_constraints
        return new

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the vectors."""
        L = self._unbroadcasted_scale_tril
        return (L @ L.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return engine.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (V.pow(2) + diagonal[..., :, None] * diagonal[..., None, :])

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Tensor:
        """Sample by Bartlett's decomposition (1933): chi variables on the diagonal, normal ones below."""
        from .chi2 import Chi2

        shape, k = Size(sample_shape), self._event_shape[-1]
        df = self.df.unsqueeze(-1) - engine.arange(k, dtype=self.df.dtype, device=self.df.device)
        chi = Chi2(df, validate_args=False).rsample(shape).clamp(min=engine.finfo(df.dtype).tiny).sqrt()
        below = engine.randn((*shape, *self._batch_shape, k * (k - 1) // 2), dtype=self.df.dtype, device=self.df.device)
        noise = chi.diag_embed(dim1=-2, dim2=-1)
        rows, columns = engine.tril_indices(k, k, offset=-1)
        noise[..., rows, columns] = below
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, k, L = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        solved = engine.cholesky_solve(value, L)
        return (
            -nu * (k * math.log(2) / 2 + L.diagonal(dim1=-2, dim2=-1).log().sum(-1))
            - engine.mvlgamma(nu / 2, p=k)
            + (nu - k - 1) / 2 * engine.linalg.slogdet(value).logabsdet
            - solved.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2
        )

    def entropy(self) -> Tensor:
        nu, k, L = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        digammas = engine.digamma((nu.unsqueeze(-1) - engine.arange(k, dtype=nu.dtype, device=nu.device)) / 2).sum(-1)
        return (
            (k + 1) * (k * math.log(2) / 2 + L.diagonal(dim1=-2, dim2=-1).log().sum(-1))
            + engine.mvlgamma(nu / 2, p=k)
            - (nu - k - 1) / 2 * digammas
            + nu * k / 2
        )

    @property
    def _natural_params(self) -> tuple:
        nu, k = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (nu - k - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Tensor:
        k = self._event_shape[-1]
        return (y + (k + 1) / 2) * (-engine.linalg.slogdet(-2 * x).logabsdet + math.log(2.0) * k) + engine.mvlgamma(y + (k + 1) / 2, p=k)
