"""Mixtures of distributions of the same type."""

from __future__ import annotations

from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .categorical import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """Mixture over the last batch dimension of `component_distribution`, with weights from a Categorical `mixture_distribution`."""

    arg_constraints = {}
    has_rsample = False

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None):
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        mixture_batch, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(tuple(mixture_batch)), reversed(tuple(batch)), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_batch}) is not compatible with "
                    f"`component_distribution.batch_shape[:-1]`({batch})"
                )
        k, parts = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if k != parts:
            raise ValueError(f"`mixture_distribution component` ({k}) does not equal `component_distribution.batch_shape[-1]` ({parts})")
        self._num_component = parts
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape=batch, event_shape=event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MixtureSameFamily:
        new = self._expanded(_instance, batch_shape)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return new

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The variance, by the law of total variance."""
        at, weights = -1 - self._event_ndims, self._weights()
        within = (weights * self.component_distribution.variance).sum(dim=at)
        between = (weights * (self.component_distribution.mean - self.mean.unsqueeze(at)).pow(2.0)).sum(dim=at)
        return within + between

    def cdf(self, x: Tensor) -> Tensor:
        return (self.component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims)) * self.mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, x: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self.component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        return engine.logsumexp(log_prob + engine.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with engine.no_grad():
            at = len(Size(sample_shape)) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1)).repeat(
                (1,) * (chosen.dim() + 1) + tuple(self.event_shape)
            )
            return engine.gather(drawn, at, chosen).squeeze(at)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
