"""`gradcheck` and `gradgradcheck`: analytical gradients against central differences, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..tensor import Tensor
from .grad_mode import enable_grad, no_grad
from .reverse import grad


class GradcheckError(RuntimeError):
    """An analytical gradient differs from the numerical one."""


def _numerical(fn: Callable, inputs: tuple, x: Tensor, output: int, eps: float) -> numpy.ndarray:
    """d outputs[output] / d x by central differences: shape (x.numel, out.numel)."""
    rows = []
    flat = x.array.reshape(-1)
    if not numpy.shares_memory(flat, x.array):
        raise ValueError("gradcheck: inputs must be contiguous")

    def value() -> numpy.ndarray:
        with no_grad():
            return _tuple(fn(*inputs))[output]._host().astype(numpy.float64).reshape(-1).copy()

    for i in range(flat.size):
        kept = flat[i].copy()
        try:
            flat[i] = kept + eps
            up = value()
            flat[i] = kept - eps
            rows.append((up - value()) / (2 * eps))
        finally:
            flat[i] = kept
    return numpy.array(rows).reshape(flat.size, -1)


def _checked(inputs: tuple) -> list[Tensor]:
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def _tuple(x: Any) -> tuple:
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def gradcheck(
    func: Callable, inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True
) -> bool:
    """Compare the gradients of `func(*inputs)` with central differences for every input that requires grad; these should be float64.

    Outputs that do not require grad are left out; when none does, none may depend on the inputs.
    Returns True, or raises GradcheckError (returns False with `raise_exception=False`) naming the input and both Jacobians.
    """
    inputs = _tuple(inputs)
    checked = _checked(inputs)
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    given = [(k, out) for k, out in enumerate(_tuple(func(*inputs))) if isinstance(out, Tensor)]
    if not given:
        raise ValueError("gradcheck: the function gave no tensor")
    for k, out in [(k, out) for k, out in given if out.requires_grad] or given:
        for i, x in enumerate(checked):
            numerical = _numerical(func, inputs, x, k, eps)
            columns = []
            for j in range(out.array.size):
                seed = numpy.zeros(out.array.shape, out.array.dtype)
                seed.reshape(-1)[j] = 1
                (g,) = grad([out], [x], [Tensor._wrap(seed)], retain_graph=True, allow_unused=True) if out.requires_grad else (None,)
                columns.append(numpy.zeros(x.array.size) if g is None else g._host().reshape(-1))
            analytical = numpy.array(columns).reshape(out.array.size, -1).T
            if not numpy.allclose(analytical, numerical, rtol=rtol, atol=atol):
                if not raise_exception:
                    return False
                raise GradcheckError(
                    f"Jacobian mismatch for output {k} with respect to input {i},\nnumerical:{numerical}\nanalytical:{analytical}\n"
                    f"largest difference: {numpy.abs(analytical - numerical).max():.3g}"
                )
    return True


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """`gradcheck` of the gradient itself: second derivatives against central differences of the first."""
    inputs = _tuple(inputs)
    checked = _checked(inputs)
    n = len(checked)
    if grad_outputs is None:
        rng = numpy.random.default_rng(0)
        outputs = [o for o in _tuple(func(*inputs)) if isinstance(o, Tensor) and o.requires_grad]
        grad_outputs = tuple(Tensor(rng.normal(size=o.array.shape)).requires_grad_() for o in outputs)

    def first(*args: Any) -> tuple:
        # the checked inputs come first, then the seeds
        given = iter(args)
        again = [next(given) if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
        with enable_grad():
            outs = [o for o in _tuple(func(*again)) if isinstance(o, Tensor) and o.requires_grad]
            found = grad(outs, args[:n], args[n:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(first, (*checked, *_tuple(grad_outputs)), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
