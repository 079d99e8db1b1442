"""Gamma samples as PyTorch's CPU kernel draws them, and gradients of samples with respect to parameters (implicit reparameterization).

A sample z of a distribution with distribution function F(z; a) and density f has dz/da = -(dF/da) / f (Figurnov et al., 2018). SciPy
has F but not its derivative with respect to the parameter: five-point differences of F, or of 1 - F near 1, are exact to about nine
digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from .kernels_random import normal_pairs, unit


def gamma(source: Any, shapes: numpy.ndarray) -> numpy.ndarray:
    """Draw a standard gamma sample for each shape parameter (flat, float64), by Marsaglia and Tsang's rejection method (2000)."""
    return numpy.array([_gamma(source, a) for a in shapes.tolist()], dtype=numpy.float64)


def _gamma(source: Any, a: float) -> float:
    scale = 1.0
    if a < 1:
        if a == 0:
            return 0.0
        scale, a = (1 - float(unit(source, 1)[0])) ** (1 / a), a + 1
    d = a - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = float(normal_pairs(source, 1)[0])
        y = 1 + c * x
        if y <= 0:
            continue
        v, u, xx = y * y * y, 1 - float(unit(source, 1)[0]), x * x
        if u < 1 - 0.0331 * xx * xx or math.log(u) < 0.5 * xx + d * (1 - v + math.log(v)):
            return scale * d * v


def _by_parameter(cdf: Callable, survival: Callable, a: numpy.ndarray) -> numpy.ndarray:
    """Derivative of a distribution function with respect to the parameter `a`, by five-point differences of the smaller tail."""
    h = numpy.minimum(a, 1 + numpy.sqrt(a)) * 1e-3
    low = cdf(a) <= 0.5
    tail = lambda t: numpy.where(low, cdf(t), -survival(t))  # noqa: E731
    return (8 * (tail(a + h) - tail(a - h)) - (tail(a + 2 * h) - tail(a - 2 * h))) / (12 * h)


def gamma_slope(shapes: numpy.ndarray, z: numpy.ndarray) -> numpy.ndarray:
    """dz/da of standard gamma samples `z` with shape parameters `a`."""
    from scipy import special

    a, z = (numpy.asarray(v, numpy.float64) for v in numpy.broadcast_arrays(shapes, z))
    rise = _by_parameter(lambda t: special.gammainc(t, z), lambda t: special.gammaincc(t, z), a)
    with numpy.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = -rise / numpy.exp((a - 1) * numpy.log(z) - z - special.gammaln(a))
        # where both vanish, F is z^a / (a gamma(a)) up to factors near 1, so log z alone depends on a
        small = z * (special.digamma(a + 1) - numpy.log(z)) / a
    return numpy.where(z < 1e-200, small, slope)


def beta_slope(x: numpy.ndarray, a: numpy.ndarray, total: numpy.ndarray) -> numpy.ndarray:
    """dx/da / (1 - x) of samples `x` of Beta(a, total - a), with the second parameter fixed: a term of a Dirichlet's gradient."""
    from scipy import special

    x, a, total = (numpy.asarray(v, numpy.float64) for v in numpy.broadcast_arrays(x, a, total))
    b = total - a
    rise = _by_parameter(lambda t: special.betainc(t, b, x), lambda t: special.betaincc(t, b, x), a)
    with numpy.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_density = (a - 1) * numpy.log(x) + b * numpy.log1p(-x) - special.betaln(a, b)  # times 1 - x
        slope = -rise / numpy.exp(log_density)
        small = x * (special.digamma(a + 1) - special.digamma(total) - numpy.log(x)) / a
    return numpy.where((x < 1e-200) | (x >= 1), numpy.where(x >= 1, 0, small), slope)
