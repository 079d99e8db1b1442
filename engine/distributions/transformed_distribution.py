"""`TransformedDistribution`: the distribution of a transformed random variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import engine
from engine import Size, Tensor

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost


class TransformedDistribution(Distribution):
    """Distribution of y = t(x) for x from `base_distribution`, with log p(y) = log p(x) - log |dy/dx|."""

    arg_constraints = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None):
        parts = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(parts, list) or not all(isinstance(t, Transform) for t in parts):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms: list[Transform] = list(parts)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event_dim = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        if len(base_shape) < transform.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {transform.domain.event_dim}, but got {base_shape}."
            )
        forward_shape = transform.forward_shape(base_shape)
        expanded = transform.inverse_shape(forward_shape)
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_event_dim])
        more = transform.domain.event_dim - base_event_dim
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        event_dim = transform.codomain.event_dim + max(base_event_dim - transform.domain.event_dim, 0)
        cut = len(forward_shape) - event_dim
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(_instance, batch_shape)
        shape = Size(batch_shape) + self.event_shape
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return new

    if TYPE_CHECKING:
        support: Any  # subclasses set these as class attributes
        has_rsample: Any
    else:

        @constraints.dependent_property(is_discrete=False)
        def support(self) -> Any:
            if not self.transforms:
                return self.base_dist.support
            support = self.transforms[-1].codomain
            more = len(self.event_shape) - support.event_dim
            return constraints.independent(support, more) if more > 0 else support

        @property
        def has_rsample(self) -> bool:
            return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with engine.no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim, total, y = len(self.event_shape), 0.0, value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            total = total - _sum_rightmost(t.log_abs_det_jacobian(x, y), event_dim - t.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotone(self, value: Any) -> Any:
        """Reflect probabilities for decreasing transforms."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Tensor:
        for t in self.transforms[::-1]:
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Tensor:
        value = self.base_dist.icdf(self._monotone(value))
        for t in self.transforms:
            value = t(value)
        return value
