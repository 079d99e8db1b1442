"""`engine.masked`: reductions and normalizations over the unmasked elements, under PyTorch's names.

A mask is boolean, True for the elements to include, and broadcasts to the input. Excluded elements are replaced by the identity of the
operation: 0 in a sum, 1 in a product, minus infinity in a softmax. PyTorch's prototype MaskedTensor is not included.
"""

from __future__ import annotations

import math
from typing import Any

from .base import dtypes
from .core.op import functions as _f
from .core.tensor import Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median", "norm", "normalize",
    "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


def _cast(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None else input.to(dtypes.as_dtype(dtype))


def _mask(input: Tensor, mask: Tensor | None) -> Tensor | None:
    """Return the mask expanded to the input's shape."""
    if mask is None:
        return None
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return mask.to(dtypes.bool_).expand(tuple(input.shape))


def _filled(input: Tensor, mask: Tensor | None, fill: Any) -> Tensor:
    mask = _mask(input, mask)
    return input if mask is None else _f["where"](mask, input, input.new_full((), fill))


def _dims(input: Tensor, dim: Any) -> tuple[int, ...]:
    """Return the dimensions to reduce; None and () mean all."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or range(input.ndim))
    for d in dims:
        if not -max(input.ndim, 1) <= d < max(input.ndim, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(input.ndim, 1)}, {max(input.ndim, 1) - 1}], but got {d})"
            )
    dims = tuple(d % max(input.ndim, 1) for d in dims)
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"dim={dims[0]} appears multiple times in the list of dims")
    return dims if input.ndim else ()


def _floating(input: Tensor, name: str) -> None:
    if input.dtype.rank < dtypes.FLOAT:
        raise ValueError(f"{name}: dtype must be floating point or complex for an input of {input.dtype.name}; pass dtype=")


def _limits(d: dtypes.dtype) -> tuple[Any, Any]:
    """Return the lowest and highest values of a dtype."""
    if d is dtypes.bool_:
        return False, True
    return (-math.inf, math.inf) if d.is_floating_point else (dtypes.iinfo(d).min, dtypes.iinfo(d).max)


def _count(input: Tensor, mask: Tensor | None, dims: Any, keepdim: bool) -> Tensor:
    """Count the unmasked elements."""
    found = _mask(input, mask)
    ones = input.detach().new_ones(tuple(input.shape), dtype=dtypes.int64) if found is None else found.long()
    return ones.sum(dims, keepdim)


def sum(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Sum of the unmasked elements; 0 if there are none."""
    return _filled(_cast(input, dtype), mask, 0).sum(_dims(input, dim), bool(keepdim), dtype=dtype)


def prod(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Product of the unmasked elements; 1 if there are none."""
    out = _filled(_cast(input, dtype), mask, 1)
    dims = _dims(input, dim)
    if not dims:
        return out.prod(dtype=dtype)
    for d in sorted(dims, reverse=True):
        out = out.prod(d, bool(keepdim), dtype=dtype)
    return out


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Cumulative sum of the unmasked elements along `dim`."""
    return _filled(_cast(input, dtype), mask, 0).cumsum(dim, dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Cumulative product of the unmasked elements along `dim`."""
    return _filled(_cast(input, dtype), mask, 1).cumprod(dim, dtype=dtype)


def amax(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Maximum of the unmasked elements; the dtype's lowest value if there are none."""
    x = _cast(input, dtype)
    return _filled(x, mask, _limits(x.dtype)[0]).amax(_dims(x, dim), bool(keepdim))


def amin(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Minimum of the unmasked elements; the dtype's highest value if there are none."""
    x = _cast(input, dtype)
    return _filled(x, mask, _limits(x.dtype)[1]).amin(_dims(x, dim), bool(keepdim))


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Index of the first maximum of the unmasked elements, along `dim` or overall; in the input's dtype, as in PyTorch."""
    x = _cast(input, dtype)
    return _filled(x, mask, _limits(x.dtype)[0]).argmax(dim, bool(keepdim)).to(x.dtype)


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Index of the first minimum of the unmasked elements, along `dim` or overall; in the input's dtype, as in PyTorch."""
    x = _cast(input, dtype)
    return _filled(x, mask, _limits(x.dtype)[1]).argmin(dim, bool(keepdim)).to(x.dtype)


def mean(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Mean of the unmasked elements; nan if there are none."""
    x = _cast(input, dtype)
    _floating(x, "mean")
    return sum(x, dim, keepdim=keepdim, mask=mask) / _count(x, mask, _dims(x, dim), bool(keepdim))


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Lower median of the unmasked non-nan elements along `dim`; nan if there are none. Keeps integer dtypes, as in PyTorch."""
    x = _cast(input, dtype)
    wide = x if x.dtype.is_floating_point else x.to(dtypes.float64)
    filled = _filled(wide, mask, math.nan)
    found = (filled if x.ndim else filled.reshape(1)).nanmedian(dim, keepdim).values.to(x.dtype)
    return found if x.ndim else found.reshape(())


def logsumexp(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """log(sum(exp(x))) over the unmasked elements; -inf if there are none."""
    x = _cast(input, dtype)
    out = _f["logsumexp"](_filled(x, mask, -math.inf if x.is_complex() else _limits(x.dtype)[0]), _dims(x, dim), keepdim)
    return out.to(x.dtype)  # also for integers, as in PyTorch


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None, other_mask: Tensor | None = None
) -> Tensor:
    """log(exp(input) + exp(other)), with masked elements taken as -inf."""
    out = _f["logaddexp"](_filled(input, input_mask, -math.inf), _filled(other, other_mask, -math.inf))
    return _cast(out, input.dtype if dtype is None else dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Vector norm of the unmasked elements."""
    x, p = _cast(input, dtype), 2.0 if ord is None else ord
    return _f["linalg.vector_norm"](_filled(x, mask, math.inf if p < 0 else 0), p, _dims(x, dim), bool(keepdim))


def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None, keepdim: bool | None = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Variance of the unmasked elements, dividing by their count minus `correction` (1 by default)."""
    if unbiased is not None and correction is not None:
        raise RuntimeError("Only one of unbiased and correction may be given")
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    x = _cast(input, dtype)
    x = x if x.dtype.rank >= dtypes.FLOAT else x.to(dtypes.default)
    dims = _dims(x, dim)
    count = _count(x, mask, dims, True)
    apart = _filled(x - _filled(x, mask, 0).sum(dims, True) / count, mask, 0)
    squares = (apart * apart.conj()).real if x.is_complex() else apart * apart
    total = squares.sum(dims, bool(keepdim))
    number = (count if keepdim else count.reshape(tuple(total.shape))) - less
    return (total / number.clamp(min=0)).to(x.dtype)


def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None, keepdim: bool | None = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Standard deviation of the unmasked elements: the square root of `var`."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def _first(input: Tensor, dim: Any) -> int:
    """Return the dimension, or the first of several."""
    return (_dims(input, dim) or (0,))[0]


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax over the unmasked elements, 0 elsewhere; nan if all are masked."""
    return _f["softmax"](_filled(_cast(input, dtype), mask, -math.inf), _first(input, dim))


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of `softmax`."""
    return _f["log_softmax"](_filled(_cast(input, dtype), mask, -math.inf), _first(input, dim))


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negated unmasked elements."""
    return _f["softmax"](-_filled(_cast(input, dtype), mask, math.inf), _first(input, dim))


def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Divide the unmasked elements by their norm along `dim`, clamped to at least `eps`; 0 elsewhere."""
    x = _cast(input, dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return _filled(x, mask, 0) / size.clamp(min=eps)
