"""The von Mises distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property


def _log_bessel(order: int, x: Tensor) -> Tensor:
    """log I_order(x) for order 0 or 1, from the exponentially scaled functions."""
    return x + (engine.special.i0e(x) if order == 0 else engine.special.i1e(x)).log()


class VonMises(Distribution):
    """Density proportional to exp(concentration cos(x - loc)) on the circle, x in [-pi, pi)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(), validate_args)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.concentration * engine.cos(value - self.loc) - math.log(2 * math.pi) - _log_bessel(0, self.concentration)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        wide = (1 + rho**2) / (2 * rho)
        return engine.where(kappa < 1e-5, 1 / kappa + kappa, wide)  # a series where the quotient loses precision

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Sample by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979)."""
        shape = self._extended_shape(sample_shape)
        with engine.no_grad():
            x = engine.empty(shape, dtype=engine.float64, device=self.loc.device)
            loc, kappa, r = self.loc.double(), self.concentration.double().expand(shape), self._proposal_r.expand(shape)
            done = engine.zeros(shape, dtype=engine.bool, device=self.loc.device)
            while not done.all():
                u1, u2, u3 = engine.rand((3, *shape), dtype=engine.float64, device=self.loc.device).unbind()
                z = engine.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                if accept.any():
                    x = engine.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                    done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def expand(self, batch_shape: Any, _instance: Any = None) -> VonMises:
        return type(self)(self.loc.expand(batch_shape), self.concentration.expand(batch_shape), validate_args=False)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The circular variance, 1 - I1(concentration) / I0(concentration)."""
        return 1 - (_log_bessel(1, self.concentration) - _log_bessel(0, self.concentration)).exp()
