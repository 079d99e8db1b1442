"""The gamma distribution, on which beta, chi-squared, Dirichlet, Student's t and others are based."""

from __future__ import annotations

from typing import Any

import engine
from engine import Size, Tensor

from ..autograd.function import once_differentiable
from ..backends import kernels_gamma
from ..core.batching import randomly
from . import constraints
from .exp_family import ExponentialFamily
from .utils import at_least_tiny, broadcast_all


class _StandardGamma(engine.autograd.Function):
    """Sample with rate 1, differentiably in the shape parameter."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: Any) -> Tensor:
        host = concentration.detach().cpu().numpy()
        drawn = kernels_gamma.gamma(generator or engine.random.default_generator, host.astype("float64").reshape(-1))
        tiny = engine.finfo(concentration.dtype).tiny
        z = engine.as_tensor(drawn.reshape(host.shape)).to(concentration.dtype).clamp(min=tiny).to(concentration.device)
        ctx.save_for_backward(concentration, z)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        concentration, z = (t.detach().cpu().numpy() for t in ctx.saved_tensors)
        return grad * engine.as_tensor(kernels_gamma.gamma_slope(concentration, z)).to(grad.dtype).to(grad.device), None


@randomly
def _standard_gamma(input: Tensor, generator: Any = None) -> Tensor:
    """Draw a sample of rate 1 per element, differentiable by implicit reparameterization (Figurnov et al., 2018)."""
    return _StandardGamma.apply(input, generator)


class Gamma(ExponentialFamily):
    """Gamma distribution with density proportional to x^(concentration - 1) exp(-rate x) for x > 0."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        numbers = not isinstance(concentration, Tensor) and not isinstance(rate, Tensor)
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(Size() if numbers else self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(_instance, batch_shape, "concentration", "rate")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return at_least_tiny(value)

    def log_prob(self, value: Any) -> Tensor:
        value = engine.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return engine.xlogy(a, self.rate) + engine.xlogy(a - 1, value) - self.rate * value - engine.lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - engine.log(self.rate) + engine.lgamma(a) + (1.0 - a) * engine.digamma(a)

    @property
    def _natural_params(self) -> tuple:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Tensor:
        return engine.lgamma(x + 1) + (x + 1) * engine.log(-y.reciprocal())

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return engine.special.gammainc(self.concentration, self.rate * value)
