"""Batching rules for matrix products, decompositions, Fourier transforms and convolutions."""

from __future__ import annotations

import string
from typing import Any

import numpy

from .array import plain, space
from .namespace import Namespace, apply, rule
from .sample import axes_of, fixed, merged, parted, shared, whole

# -- products ------------------------------------------------------------------------------------------------


@rule("matmul")
def matmul(xp: Namespace, a: Any, b: Any) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: both arguments need to be at least 1D")
    if fixed(xp, b):
        b = plain(b) if xp.mine(b) else b
        if b.ndim <= 2:  # one matrix for all samples: a single product
            if a.shape[-1] != b.shape[0]:
                raise ValueError(f"matmul: {a.shape} by {b.shape}")
            return xp.level.wrap(space(a.inner, b).matmul(a.inner, b))
    elif fixed(xp, a) and a.ndim == 2 and b.ndim == 1:
        return matmul(xp, b, a.swapaxes(0, 1))
    one, two = a.ndim == 1, b.ndim == 1
    a = _row(a, (1, a.shape[0])) if one else a
    b = _row(b, (b.shape[0], 1)) if two else b
    x, y = xp.align((a, b))
    out = space(x, y).matmul(x, y)
    if one:
        out = out[..., 0, :]
    return xp.level.wrap(out[..., 0] if two else out)


def _row(x: Any, shape: tuple) -> Any:
    return x.reshape(shape)


@rule("linear")
def linear(xp: Namespace, x: Any, weight: Any, bias: Any = None) -> Any:
    if fixed(xp, weight, bias) and weight.ndim == 2:
        weight, bias = (shared(xp, v) for v in (weight, bias))
        return xp.level.wrap(space(x.inner, weight).linear(x.inner, weight, bias))
    out = xp.matmul(x, weight if weight.ndim == 1 else weight.swapaxes(0, 1))
    return out if bias is None else out + bias


@rule("contract")
def contract(xp: Namespace, operands: Any, equation: str) -> Any:
    terms, out = equation.split("->")
    free = next(c for c in string.ascii_letters if c not in equation)
    names = [free + t if xp.mapped(x) else t for t, x in zip(terms.split(","), operands, strict=True)]
    inner = [shared(xp, x) for x in operands]
    return xp.level.wrap(space(inner).contract(inner, f"{','.join(names)}->{free}{out}"))


@rule("tensordot")
def tensordot(xp: Namespace, a: Any, b: Any, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        axes = range(a.ndim - axes, a.ndim), range(axes)
    summed = [numpy.atleast_1d(v).tolist() for v in axes]
    letters = iter(string.ascii_letters)
    one, two = ([next(letters) for _ in range(x.ndim)] for x in (a, b))
    for i, j in zip(*summed, strict=True):
        two[j] = one[i]
    kept = [c for c in one if c not in two] + [c for c in two if c not in one]
    return contract(xp, (a, b), f"{''.join(one)},{''.join(two)}->{''.join(kept)}")


@rule(
    "cholesky",
    "cholesky_ex",
    "cholesky_inverse",
    "cofactor",
    "det",
    "eig",
    "eigh",
    "inv",
    "lu_factor",
    "matrix_exp",
    "qr",
    "slogdet",
    "svd",
)
def on_matrices(name: str, xp: Namespace, x: Any, *rest: Any, **more: Any) -> Any:
    if name == "qr" and (more.get("mode") or (*rest, "")[0]) == "r":
        return xp.each(lambda one: apply(name, (one, *rest), more), (x,), {})
    found = apply(name, (x.inner, *rest), more)
    return tuple(map(xp.level.wrap, found)) if isinstance(found, tuple) else xp.level.wrap(found)


@rule("fourier", "fourier_back")
def fourier(name: str, xp: Namespace, x: Any, dims: tuple, scale: float = 1.0) -> Any:
    return xp.level.wrap(apply(name, (x.inner, axes_of(dims, x.ndim), scale), {}))


# -- convolution: a batch of weights makes it a grouped convolution ------------------------------------------


@rule("convolution")
def convolution(
    xp: Namespace, x: Any, weight: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None
) -> Any:
    if x.ndim != weight.ndim:
        return xp.each(lambda *a: apply("convolution", (*a[:2], stride, padding, dilation, groups, a[2]), {}), (x, weight, bias), {})
    if fixed(xp, weight, bias):
        weight, bias = shared(xp, weight), shared(xp, bias)
        out = space(x.inner, weight).convolution(merged(x.inner), weight, stride, padding, dilation, groups, bias)
        return xp.level.wrap(parted(out, xp.level.size))
    size, w = xp.level.size, whole(xp, weight)
    channels, w = _channels(whole(xp, x)), w.reshape((-1, *w.shape[2:]))
    out = _unchanneled(space(channels, w).convolution(channels, w, stride, padding, dilation, groups * size), size)
    return xp.level.wrap(out) if bias is None else xp.level.wrap(out) + bias.reshape((-1, *(1,) * (out.ndim - 3)))


@rule("convolution_input")
def convolution_input(
    xp: Namespace, g: Any, weight: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    if g.ndim != weight.ndim:
        return xp.each(lambda *a: apply("convolution_input", (*a, size, stride, padding, dilation, groups), {}), (g, weight), {})
    n, rest = xp.level.size, (stride, padding, dilation)
    if fixed(xp, weight):
        weight = shared(xp, weight)
        out = space(g.inner, weight).convolution_input(merged(g.inner), weight, (n * size[0], *size[1:]), *rest, groups)
        return xp.level.wrap(parted(out, n))
    g, w = _channels(whole(xp, g)), whole(xp, weight)
    size = (size[0], n * size[1], *size[2:])
    return xp.level.wrap(_unchanneled(space(g, w).convolution_input(g, w.reshape((-1, *w.shape[2:])), size, *rest, groups * n), n))


@rule("convolution_weight")
def convolution_weight(
    xp: Namespace, g: Any, x: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    if g.ndim != len(size) or x.ndim != len(size):
        return xp.each(lambda *a: apply("convolution_weight", (*a, size, stride, padding, dilation, groups), {}), (g, x), {})
    n, g, x = xp.level.size, _channels(whole(xp, g)), _channels(whole(xp, x))
    out = space(g, x).convolution_weight(g, x, (n * size[0], *size[1:]), stride, padding, dilation, groups * n)
    return xp.level.wrap(out.reshape((n, *size)))


def _channels(inner: Any) -> Any:
    """Reshape (B, N, C, ...) to (N, B C, ...)."""
    inner = inner.swapaxes(0, 1)
    return inner.reshape((inner.shape[0], inner.shape[1] * inner.shape[2], *inner.shape[3:]))


def _unchanneled(out: Any, size: int) -> Any:
    return out.reshape((out.shape[0], size, out.shape[1] // size, *out.shape[2:])).swapaxes(0, 1)
