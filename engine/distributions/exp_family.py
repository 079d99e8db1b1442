"""Exponential families: entropy from derivatives of the log normalizer."""

from __future__ import annotations

from typing import Any

import engine
from engine import Tensor

from .distribution import Distribution


class ExponentialFamily(Distribution):
    """Distributions with density exp(<t(x), theta> - F(theta) + k(x)), natural parameters theta and log normalizer F."""

    @property
    def _natural_params(self) -> tuple:
        raise NotImplementedError(f"{type(self).__name__}._natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._log_normalizer")

    _mean_carrier_measure: Any = NotImplemented  # E[k(x)]

    def entropy(self) -> Tensor:
        """Return F(theta) - <theta, grad F> - E[k(x)] (Nielsen and Nock, 2010)."""
        if self._mean_carrier_measure is NotImplemented:
            raise NotImplementedError(f"{type(self).__name__}.entropy")
        result = -self._mean_carrier_measure
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        gradients = engine.autograd.grad(normalizer.sum(), natural, create_graph=True)
        result = result + normalizer
        for p, g in zip(natural, gradients, strict=True):
            result = result - (p * g).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
