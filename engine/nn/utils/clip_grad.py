"""Gradient clipping by norm or by value, in place."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy

from ...backends.coo import Coo
from ...base import dtypes
from ...base.errors import Refused
from ...core import devices, versions
from ...core.tensor import Tensor


def _listed(parameters: Any) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Return the norm of all tensors taken as one vector: the `norm_type`-norm of their norms.

    With `error_if_nonfinite`, a norm that is nan or infinite raises RuntimeError.
    """
    arrays = [_dense(t) for t in _listed(tensors)]
    if not arrays:
        return Tensor._wrap(numpy.zeros((), numpy.float32))
    real = norm_type > 0 and not any(array.dtype.kind == "c" for array in arrays)
    if (norm_type == 2 or real) and (gpu := devices.list_kernels(arrays)):
        total = gpu.total_norm(arrays, float(norm_type))
    else:
        norms = [_norm(array, float(norm_type)) for array in arrays]
        place, kind, xp = devices.of(norms[0]), numpy.result_type(*{n.dtype for n in norms}), devices.namespace(norms[0])
        total = _norm(xp.stack([xp.astype(devices.move(n, place), kind) for n in norms]), float(norm_type))
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To disable "
            "this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return Tensor._wrap(total)


def _dense(grad: Tensor) -> Any:
    if grad.array.__class__ is Coo:
        raise NotImplementedError("a sparse gradient cannot be clipped, as in PyTorch: set grad = grad.to_dense() first")
    return grad.array


def _norm(array: Any, p: float) -> Any:
    """Return the p-norm of all elements in the array's dtype; half-precision types accumulate in float32."""
    xp, low = devices.namespace(array), array.dtype in dtypes.LOW
    try:
        found = xp.vector_norm(xp.astype(array, dtypes.F32) if low else array, p)
    except Refused as refused:
        raise RuntimeError(str(refused)) from None
    return xp.asarray(found, array.dtype if low else None)


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale the gradients in place by max_norm / (total_norm + 1e-6) if that is below 1."""
    grads = [_dense(param._grad) for param in _listed(parameters) if param._grad is not None]
    if gpu := devices.list_kernels([total_norm.array, *grads]):
        gpu.clip(grads, float(max_norm), total_norm.array)
    else:
        if total_norm.is_cuda or devices.is_traced(total_norm.array):  # the host does not wait for the norm: it applies a factor of 1 too
            xp, total = devices.namespace(total_norm.array), total_norm.array.astype(numpy.float64)
            scale = xp.minimum(float(max_norm) / (total + 1e-6), 1.0)
        else:
            scale = numpy.asarray(float(max_norm) / (float(total_norm.item()) + 1e-6))
            if not scale < 1.0 and not numpy.isnan(scale):
                return
        for grad in grads:
            grad *= devices.move(scale, devices.of(grad)).astype(grad.dtype)
    for grad in grads:
        versions.note_write(grad, "clip_grad_norm_")


def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients in place so that their joint norm is at most `max_norm`; return the norm before clipping."""
    params = _listed(parameters)
    total = get_total_norm([p._grad for p in params if p._grad is not None], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(params, max_norm, total)
    return total


def clip_grad_value_(parameters: Iterable[Tensor] | Tensor, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every gradient element in place to [-clip_value, clip_value]."""
    bound, grads = float(clip_value), [_dense(param._grad) for param in _listed(parameters) if param._grad is not None]
    gpu = None if any(grad.dtype.kind == "c" for grad in grads) else devices.list_kernels(grads)
    if gpu is not None:
        gpu.limit(grads, bound)
    for grad in grads:
        if gpu is None:
            grad.clip(-bound, bound, out=grad)
        versions.note_write(grad, "clip_grad_value_")


def clip_grad_norm(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """PyTorch's deprecated alias of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning, stacklevel=2
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
