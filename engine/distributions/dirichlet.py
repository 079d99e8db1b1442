"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import engine
from engine import Tensor

from ..autograd.function import once_differentiable
from ..backends import kernels_gamma
from . import constraints
from .exp_family import ExponentialFamily


class _Dirichlet(engine.autograd.Function):
    """Sample normalized gamma variables; the gradient follows from the beta marginals."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        host = concentration.detach().cpu().numpy().astype("float64")
        drawn = kernels_gamma.gamma(engine.random.default_generator, host.reshape(-1)).reshape(host.shape)
        x = engine.as_tensor(drawn / drawn.sum(-1, keepdims=True)).to(concentration.dtype).to(concentration.device)
        tiny = engine.finfo(concentration.dtype).tiny
        x = x.clamp(min=tiny, max=1 - engine.finfo(concentration.dtype).eps / 2)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        x, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        slope = kernels_gamma.beta_slope(*(t.detach().cpu().numpy() for t in (x, concentration, total)))
        return engine.as_tensor(slope).to(grad.dtype).to(grad.device) * (grad - (x * grad).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution with `concentration` (..., k) and density proportional to the product of x_i^(concentration_i - 1)."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def _parameter_dims(self, name: str) -> int:
        return 1

    def expand(self, batch_shape: Any, _instance: Any = None) -> Dirichlet:
        return self._expanded(_instance, batch_shape, "concentration")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return engine.xlogy(a - 1.0, value).sum(-1) + engine.lgamma(a.sum(-1)) - engine.lgamma(a).sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        lone = (self.concentration < 1).all(dim=-1)
        if lone.any():
            mode = mode.clone()
            mode[lone] = engine.nn.functional.one_hot(mode[lone].argmax(dim=-1), less.shape[-1]).to(mode)
        return mode

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (
            engine.lgamma(a).sum(-1) - engine.lgamma(total) - (k - total) * engine.digamma(total) - ((a - 1.0) * engine.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Tensor:
        return x.lgamma().sum(-1) - engine.lgamma(x.sum(-1))
