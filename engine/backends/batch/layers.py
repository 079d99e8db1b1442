"""Batching rules for pooling, resampling, normalization, recurrence and classification losses."""

from __future__ import annotations

from typing import Any

from .. import kernels_lstm, kernels_rnn
from .array import changed, within
from .namespace import Namespace, apply, rule
from .sample import fixed, merged, parted, shared, whole

# -- pooling, resampling: all dimensions before the last ones are a batch ------------------------------------

_WHOLE_SIZE = {"tap_scatter": 2, "avg_pool_back": 1}  # function -> position of its argument with the result's full shape


@rule("im2col", "col2im")
def columns(name: str, xp: Namespace, x: Any, *rest: Any) -> Any:
    """If a sample's array has no sample dimension, the batch becomes that dimension."""
    if x.ndim == (3 if name == "im2col" else 2):
        return xp.level.wrap(apply(name, (x.inner, *rest), {}))
    return folded(name, xp, x, *rest)


@rule("avg_pool", "avg_pool_back", "resample", "resample_back", "adaptive_max", "max_pool")
@rule("tap_gather", "tap_places", "tap_scatter")
def folded(name: str, xp: Namespace, x: Any, *rest: Any, **more: Any) -> Any:
    """Merge the batch with the first dimension: (B, N, C, ...) as (B N, C, ...).

    Runs sample by sample if an array is the same for all samples, has fewer than 2 dimensions, or differs in its first dimension.
    """
    args = (x, *rest)
    mapped = [a for a in within(args) if a.ndim > 1]
    if any(a.ndim < 2 or not xp.mapped(a) or a.shape[0] != mapped[0].shape[0] for a in within(args)):
        return xp.each(lambda *one, **k: apply(name, one, k), args, more)
    n, lead = xp.level.size, x.shape[0]
    if name in _WHOLE_SIZE:
        at = _WHOLE_SIZE[name]
        args = (*args[:at], (n * args[at][0], *args[at][1:]), *args[at + 1 :])
    found = apply(name, changed(args, lambda b: merged(b.inner)), more)
    shaped = lambda a: xp.level.wrap(a.reshape((n, lead, *a.shape[1:])))  # noqa: E731
    return tuple(map(shaped, found)) if isinstance(found, tuple) else shaped(found)


# -- normalization -------------------------------------------------------------------------------------------


@rule("normalize", "normalize_input")
def normalize(name: str, xp: Namespace, x: Any, *rest: Any) -> Any:
    args, at = [x, *rest], 1 if name == "normalize" else 4  # the position of `axes`
    rank = max(a.ndim for a in within(args))
    args[at] = tuple(a + 1 for a in args[at])
    wide = [_ranked(xp, a, rank) if hasattr(a, "dtype") else a for a in args]
    found = apply(name, tuple(wide), {})
    return tuple(map(xp.level.wrap, found)) if isinstance(found, tuple) else xp.level.wrap(found)


@rule("normalize_weight")
def normalize_weight(xp: Namespace, g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Any:
    wide = [_ranked(xp, a, g.ndim) for a in (g, x, mean, rstd)]
    return xp.level.wrap(apply("normalize_weight", (*wide, tuple(a + 1 for a in axes)), {}))


def _ranked(xp: Namespace, x: Any, rank: int) -> Any:
    """Return the whole array with a sample's rank padded to `rank`; an array of lower rank that all samples share is left to broadcast."""
    if x.ndim < rank and fixed(xp, x):
        return shared(xp, x)
    inner = whole(xp, x)
    return inner.reshape((inner.shape[0], *(1,) * (rank - x.ndim), *x.shape))


# -- attention -----------------------------------------------------------------------------------------------


@rule("whole_attention")
def whole_attention(xp: Namespace, *args: Any) -> bool:
    return False


# -- recurrent layers -----------------------------------------------------------------------------------------


@rule("gru", "gru_back", "lstm", "lstm_back", "rnn", "rnn_back")
def recurrent(name: str, xp: Namespace, *args: Any) -> Any:
    return getattr(kernels_lstm if "lstm" in name else kernels_rnn, f"{name}_plainly")(xp, *args)


# -- classification losses -----------------------------------------------------------------------------------


@rule("class_pick", "class_weights", "log_sum_exp")
def by_class(name: str, xp: Namespace, x: Any, *rest: Any) -> Any:
    return _by_class(name, xp, (x, *rest), -1)


@rule("class_spread")
def class_spread(xp: Namespace, g: Any, target: Any, weight: Any, size: tuple, ignore: int = -100) -> Any:
    return _by_class("class_spread", xp, (g, target, weight, tuple(size), ignore), 2)


@rule("softmax_minus")
def softmax_minus(xp: Namespace, x: Any, lse: Any, scale: Any, g: Any, target: Any, ignore: int) -> Any:
    if target.ndim:
        scale, g = (s if s.ndim else xp.broadcast_to(s, target.shape) for s in (scale, g))
    return _by_class("softmax_minus", xp, (x, lse, scale, g, target, ignore), -1)


def _by_class(name: str, xp: Namespace, args: tuple, weight: int) -> Any:
    """Merge the batch into N for inputs (N, C, ...) and targets (N, ...); for (C) and a single target it becomes N.

    `weight` is the position of the class weights; weights that differ between samples are computed sample by sample.
    """
    weight = {"class_pick": 2, "class_weights": 1}.get(name, weight)
    if weight >= 0 and args[weight] is not None and xp.mapped(args[weight]):
        return xp.each(lambda *one: apply(name, one, {}), args, {})
    n = xp.level.size
    single = len(args[3]) == 1 if name == "class_spread" else args[0].ndim == (0 if name == "class_weights" else 1)
    given = []
    for i, a in enumerate(args):
        if i == weight:
            given.append(shared(xp, a) if a is not None else None)
        elif hasattr(a, "dtype") and hasattr(a, "ndim"):
            inner = whole(xp, a)
            given.append(inner if single or not a.ndim else merged(inner))
        else:
            given.append(a)
    if name == "class_spread":
        size = args[3]
        given[3] = (n, *size) if single else (n * size[0], *size[1:])
    found = apply(name, tuple(given), {})
    return xp.level.wrap(found if single else parted(found, n))
