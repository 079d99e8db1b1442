"""Element by element."""

from __future__ import annotations

import functools

import numpy as np
import scipy.special


def same(names):
    return {name: getattr(np, name) for name in names.split()}


def scipys(names):
    return {name: getattr(scipy.special, name) for name in names.split()}


def bessels(**families):
    """SciPy's function of any order at the orders 0 and 1: the engine takes those of one order each."""
    return {
        name: functools.partial(getattr(scipy.special, family), order)
        for family, names in families.items() for order, name in enumerate(names.split())
    }  # fmt: skip


def _igamma(input, other):
    """The lower incomplete gamma function by its hypergeometric series."""
    series = scipy.special.hyp1f1(1, input + 1, other)
    return other**input * np.exp(-other) / scipy.special.gamma(input + 1) * series


def _chebu(n):
    return np.poly1d(scipy.special.chebyu(n).coef if n >= 0 else [0.0])


_FAMILIES = {
    "chebyshev_t": scipy.special.chebyt,
    "hermite_he": scipy.special.hermitenorm,
    "laguerre_l": scipy.special.laguerre,
    "legendre_p": scipy.special.legendre,
    "shifted_chebyshev_w": lambda n: (_chebu(n) + _chebu(n - 1))(np.poly1d([2, -1])),
}


def _orthogonal(input, n, family="chebyshev_t", order=0):
    """SciPy's coefficients, differentiated and evaluated, degree by degree."""
    out = np.zeros(np.broadcast_shapes(np.shape(input), np.shape(n)))
    for place, x, degree in zip(np.ndindex(out.shape), *(np.broadcast_to(a, out.shape).flat for a in (input, n)), strict=True):
        poly = np.poly1d(_FAMILIES[family](int(degree)).coef)
        out[place] = (poly.deriv(order) if order else poly)(x)
    return out


def _gelu(input, approximate="none"):
    if approximate == "tanh":
        return input / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (input + 0.044715 * input**3)))
    return input * scipy.special.ndtr(input)


ELEMENTWISE = (
    same("exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal hypot logaddexp logaddexp2 fmod sign abs sin cos tan sinh cosh tanh")
    | same("ceil floor trunc deg2rad rad2deg real imag conj isnan isinf isfinite isposinf isneginf isreal signbit isclose")
    | same("logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not")
    | same("maximum minimum fmax fmin copysign heaviside sinc floor_divide remainder angle gcd lcm frexp")
    | scipys("erf erfc erfinv digamma xlogy xlog1py logit entr ndtri log_ndtr ndtr erfcx")
    | bessels(iv="i0 i1", ive="i0e i1e", jv="bessel_j0 bessel_j1", yv="bessel_y0 bessel_y1")
    | bessels(kv="modified_bessel_k0 modified_bessel_k1", kve="scaled_modified_bessel_k0 scaled_modified_bessel_k1")
    | {
        "add": np.add,
        "exponent_added": lambda input, other: input * 2.0**other,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "trunc_divide": lambda input, other: np.trunc(input / other),
        "neg": np.negative,
        "sgn": lambda input: input / np.abs(input),
        "pow": np.power,
        "rsqrt": lambda input: input**-0.5,
        "lerp": lambda input, end, weight: (1 - weight) * input + weight * end,
        "addcmul": lambda input, tensor1, tensor2, value=1: input + value * tensor1 * tensor2,
        "addcdiv": lambda input, tensor1, tensor2, value=1: input + value * tensor1 / tensor2,
        "round": lambda input, decimals=0: np.rint(input * 10.0**decimals) / 10.0**decimals,
        "frac": lambda input: np.fmod(input, 1),
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "bitwise_left_shift": np.left_shift,
        "bitwise_right_shift": np.right_shift,
        "where": np.where,
        "clamp": lambda input, min=None, max=None: np.array(
            [np.clip(x, low, high) for x, low, high in np.broadcast(input, min, max)]
        ).reshape(np.broadcast(input, min, max).shape),
        "clamp_min": np.maximum,
        "clamp_max": np.minimum,
        "nan_to_num": np.nan_to_num,
        "asin": np.arcsin,
        "acos": np.arccos,
        "atan": np.arctan,
        "atan2": np.arctan2,
        "asinh": np.arcsinh,
        "acosh": np.arccosh,
        "atanh": np.arctanh,
        "lgamma": scipy.special.gammaln,
        "polygamma": lambda input, n=1: scipy.special.polygamma(n, input),
        "polynomial": _orthogonal,
        "airy_ai": lambda input: scipy.special.airy(input)[0],
        "airy_ai_slope": lambda input: scipy.special.airy(input)[1],
        "spherical_bessel_j0": lambda input: scipy.special.spherical_jn(0, input),
        "zeta": lambda input, other: scipy.special.zeta(input.astype(float), other),
        "igamma": _igamma,
        "igammac": lambda input, other: 1 - _igamma(input, other),
        "sigmoid": scipy.special.expit,
        "relu": lambda input: np.where(input > 0, input, 0),
        "gelu": _gelu,
        "silu": lambda input: input * scipy.special.expit(input),
        "mish": lambda input: input * np.tanh(np.log1p(np.exp(input))),
        "softplus": lambda input, beta=1, threshold=20: np.log1p(np.exp(beta * input)) / beta,
        "elu": lambda input, alpha=1.0: np.where(input > 0, input, alpha * np.expm1(input)),
        "leaky_relu": lambda input, negative_slope=0.01: np.maximum(input, 0) + negative_slope * np.minimum(input, 0),
        "hardtanh": lambda input, min_val=-1.0, max_val=1.0: np.clip(input, min_val, max_val),
        "relu6": lambda input: np.clip(input, 0, 6),
        "logsigmoid": lambda input: -np.logaddexp(0, -input),
        "gelu_slope": lambda input, approximate="none": scipy.special.ndtr(input) + input * np.exp(-input * input / 2) / np.sqrt(2 * np.pi),
        "threshold": lambda input, threshold=0.0, value=0.0: np.where(input > threshold, input, value),
        "celu": lambda input, alpha=1.0: np.maximum(input, 0) + np.minimum(0, alpha * np.expm1(input / alpha)),
        "selu": lambda input: 1.0507009873554804934 * np.where(input > 0, input, 1.6732632423543772848 * np.expm1(input)),
        "hardsigmoid": lambda input: np.clip(input / 6 + 0.5, 0, 1),
        "hardswish": lambda input: input * np.clip(input / 6 + 0.5, 0, 1),
        "softsign": lambda input: input / (1 + np.abs(input)),
        "tanhshrink": lambda input: input - np.tanh(input),
        "softshrink": lambda input, lambd=0.5: np.sign(input) * np.maximum(np.abs(input) - lambd, 0),
        "hardshrink": lambda input, lambd=0.5: input * (np.abs(input) > lambd),
        "prelu_kernel": lambda input, weight: np.maximum(input, 0) + weight * np.minimum(input, 0),
        "masked_scale": lambda input, mask, scale: input * mask * scale,
        "sampled": lambda input, parameter: input,
    }
)
