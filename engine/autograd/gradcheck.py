"""`gradcheck` and `gradgradcheck`: compare analytical derivatives with central differences in double precision."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy

from ..base import dtypes
from ..core import devices, tape
from ..core.tensor import Tensor
from .grad_mode import enable_grad, no_grad
from .reverse import grad


class GradcheckError(RuntimeError):
    """An analytical gradient differs from the numerical one."""


def _tuple(x: Any) -> tuple:
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def _checked(inputs: tuple) -> list[Tensor]:
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def _beside(values: Any, x: Tensor) -> Tensor:
    """Return NumPy's values as a tensor on the device of x."""
    return Tensor._wrap(devices.move(numpy.asarray(values), devices.of(x.array)))


def _differentiable(outputs: Any) -> list[Tensor]:
    return [o for o in _tuple(outputs) if isinstance(o, Tensor) and o.requires_grad]


def _numerical(fn: Callable, inputs: tuple, x: Tensor, outputs: int, eps: float) -> list[Any]:
    """Return each output's Jacobian by central differences, (x.numel(), out.numel()); two for a complex input, along Re and along Im."""
    flat = x.array.reshape(-1)
    if not flat.size or devices.address(flat) != devices.address(x.array):
        raise ValueError("gradcheck: inputs must be contiguous, for they are changed in place")
    steps = (eps, 1j * eps) if x.is_complex() else (eps,)

    def values() -> list[numpy.ndarray]:
        with no_grad():
            found = [o for o in _tuple(fn(*inputs)) if isinstance(o, Tensor)]
        return [o._host().reshape(-1).astype(numpy.complex128 if o.is_complex() else numpy.float64) for o in found[:outputs]]

    rows: list[list[list]] = [[] for _ in steps]
    for i in range(flat.size):
        kept = flat[i].copy()
        try:
            for into, step in zip(rows, steps, strict=True):
                flat[i] = kept + step
                up = values()
                flat[i] = kept - step
                into.append([(a - b) / (2 * eps) for a, b in zip(up, values(), strict=True)])
        finally:
            flat[i] = kept
    whole = [[numpy.array([r[k] for r in part]).reshape(flat.size, -1) for part in rows] for k in range(outputs)]
    return [parts if x.is_complex() else parts[0] for parts in whole]


def _pulled(out: Tensor, x: Tensor, seed: numpy.ndarray) -> numpy.ndarray | None:
    (g,) = grad([out], [x], [_beside(seed, out)], retain_graph=True, allow_unused=True)
    return None if g is None else g._host().reshape(-1)


def _analytical(out: Tensor, x: Tensor) -> Any:
    """Return the Jacobian by one backward pass per output element, in the same form as `_numerical`."""
    sides = (1, 1j) if out.is_complex() else (1,)
    columns: list[list] = [[] for _ in sides]
    for j in range(out.numel()):
        for into, side in zip(columns, sides, strict=True):
            seed = numpy.zeros(out.array.shape, out.array.dtype)
            seed.reshape(-1)[j] = side
            g = _pulled(out, x, seed)
            into.append(numpy.zeros(x.numel(), x.array.dtype) if g is None else g)
    parts: list[Any] = [numpy.array(c).reshape(out.numel(), x.numel()).T for c in columns]
    # PyTorch's gradient with respect to a complex tensor is dL/dRe + i dL/dIm, here with L = Re(conj(seed) out)
    if x.is_complex():
        along_re, along_im = [p.real for p in parts], [p.imag for p in parts]
        return [re[0] if len(re) == 1 else re[0] + 1j * re[1] for re in (along_re, along_im)]
    return parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]


def _forward(fn: Callable, inputs: tuple, x: Tensor, outputs: int) -> list[Any]:
    """Return the same Jacobians by forward mode, with one call per input element because a jvp may free what its forward saved."""
    sides = (1, 1j) if x.is_complex() else (1,)
    found: list[list[list]] = [[[] for _ in sides] for _ in range(outputs)]
    for i in range(x.numel()):
        for k, side in enumerate(sides):
            with enable_grad():
                outs = [o for o in _tuple(fn(*inputs)) if isinstance(o, Tensor)][:outputs]
            tangent = numpy.zeros(x.array.shape, x.array.dtype)
            tangent.reshape(-1)[i] = side
            seeds = {x.node: _beside(tangent, x).array}
            for into, o in zip(found, outs, strict=True):
                t = None if o.node is None else tape.push_forward(o.node, seeds, devices.namespace(o.array))
                into[k].append(numpy.zeros(o.numel(), o.array.dtype) if t is None else devices.move(t, devices.CPU).reshape(-1))
    whole = [[numpy.array(part).reshape(x.numel(), -1) for part in parts] for parts in found]
    return [parts if x.is_complex() else parts[0] for parts in whole]


def _same(a: Any, b: Any, rtol: float, atol: float) -> bool:
    pairs = zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]
    return all(numpy.allclose(p, q, rtol=rtol, atol=atol) for p, q in pairs)


def _told(jacobian: Any) -> Tensor:
    return Tensor._wrap(numpy.stack(jacobian) if isinstance(jacobian, list) else jacobian)


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func(*inputs)` with central differences, for every input that requires grad; use float64.

    Outputs that do not require grad are skipped; if none requires grad, none may depend on the inputs. `nondet_tol` bounds the difference
    between two backward passes, `check_batched_grad` compares passes under `vmap` with single ones, and `check_forward_ad` also checks
    forward mode. `check_grad_dtypes` requires gradients with the inputs' dtypes, which the tape always gives. `fast_mode` compares random
    projections of the Jacobians in PyTorch; here they are compared in full, which is stricter. `masked` concerns sparse tensors; True
    raises ValueError. Returns True, or raises GradcheckError naming the input and both Jacobians (returns False with
    `raise_exception=False`).
    """
    if not check_forward_ad and not check_backward_ad:
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    if masked:
        raise ValueError("gradcheck: masked=True, for sparse inputs, is not supported")
    inputs = _tuple(inputs)
    checked = _checked(inputs)
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.")
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad and x.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check will likely fail if all "
                "the inputs are not of double precision floating point or complex. ",
                stacklevel=2,
            )
    try:
        _compare(func, inputs, checked, eps, atol, rtol, nondet_tol, check_backward_ad, check_forward_ad)
        if check_undefined_grad and check_backward_ad:
            _undefined(func, inputs, checked)
        if check_batched_grad:
            _batched(func, inputs, checked)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _compare(
    func: Callable, inputs: tuple, checked: list, eps: float, atol: float, rtol: float, nondet_tol: float, backward: bool, forward: bool
) -> None:
    every = [o for o in _tuple(func(*inputs)) if isinstance(o, Tensor)]
    if not every:
        raise ValueError("gradcheck: the function returned no tensor")
    outputs = [(k, o) for k, o in enumerate(every) if o.requires_grad]
    for i, x in enumerate(checked):
        numerical = _numerical(func, inputs, x, len(every), eps)
        if not outputs:
            for k in range(len(every)):
                if not _same(numerical[k], [numpy.zeros_like(p) for p in numerical[k]] if x.is_complex() else 0 * numerical[k], rtol, atol):
                    raise GradcheckError("Numerical gradient for function expected to be zero")
            continue
        pushed = _forward(func, inputs, x, len(every)) if forward else []
        for k, o in outputs:
            if backward:
                found = _analytical(o, x)
                if not _same(found, _analytical(o, x), 0, nondet_tol):
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
                        "values, although analytical gradient matches numerical gradient. The tolerance for nondeterminism was "
                        f"{nondet_tol}."
                    )
                _agree(found, numerical[k], i, k, rtol, atol, "")
            if forward:
                _agree(pushed[k], numerical[k], i, k, rtol, atol, " with forward mode AD")


def _agree(found: Any, numerical: Any, i: int, k: int, rtol: float, atol: float, how: str) -> None:
    if not _same(found, numerical, rtol, atol):
        parts = zip(found, numerical, strict=True) if isinstance(found, list) else [(found, numerical)]
        raise GradcheckError(
            f"Jacobian{how} mismatch for output {k} with respect to input {i},\nnumerical:{_told(numerical)}\nanalytical:{_told(found)}\n"
            f"largest difference: {max(numpy.abs(a - n).max() for a, n in parts):.3g}"
        )


def _undefined(func: Callable, inputs: tuple, checked: list) -> None:
    """Check that the backward pass accepts outputs without a gradient, as unused outputs have none."""
    outputs = _differentiable(func(*inputs))
    for unused in range(len(outputs) if len(outputs) > 1 else 0):
        some = [o for k, o in enumerate(outputs) if k != unused]
        seeds = [_beside(numpy.ones(o.array.shape, o.array.dtype), o) for o in some]
        try:
            grad(some, checked, seeds, allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. Please look at 'Notes about undefined output gradients' in "
                f'"tools/autograd/derivatives.yaml": {error}'
            ) from error
        outputs = _differentiable(func(*inputs))


def _batched(func: Callable, inputs: tuple, checked: list) -> None:
    """Compare backward passes under vmap with single ones."""
    rng = numpy.random.default_rng(0)
    for o in _differentiable(func(*inputs)):
        seeds = numpy.asarray(rng.normal(size=(2, *o.array.shape))).astype(o.array.dtype)
        together = grad([o], checked, [_beside(seeds, o)], retain_graph=True, is_grads_batched=True, allow_unused=True)
        for b, seed in enumerate(seeds):
            alone = grad([o], checked, [_beside(seed, o)], retain_graph=True, allow_unused=True)
            for i, (one, many) in enumerate(zip(alone, together, strict=True)):
                if one is not None and many is not None and not numpy.allclose(one._host(), many._host()[b], rtol=1e-3, atol=1e-5):
                    raise GradcheckError(
                        f"While computing batched gradients, got: gradients of input {i} that differ from those of single passes.\n"
                        f"Got:\n{many[b]}\n\nExpected:\n{one}"
                    )


def _seed(output: Tensor, rng: numpy.random.Generator) -> Tensor:
    """Return a random gradient for an output."""
    shape, d = output.array.shape, output.array.dtype
    values = rng.normal(size=shape) + 1j * rng.normal(size=shape) if output.is_complex() else rng.normal(size=shape)
    return _beside(numpy.asarray(values).astype(d), output)


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Run `gradcheck` on the gradient itself: second derivatives against central differences of the first.

    `check_rev_over_rev` and `check_fwd_over_rev` select how the second derivatives are computed. `gen_non_contig_grad_outputs` is accepted
    without effect: the differences modify seeds in place, in memory allocated for them.
    """
    if not check_fwd_over_rev and not check_rev_over_rev:
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = _tuple(inputs)
    checked = _checked(inputs)
    n = len(checked)
    if grad_outputs is None:
        rng = numpy.random.default_rng(0)
        grad_outputs = tuple(_seed(o, rng).requires_grad_() for o in _differentiable(func(*inputs)))

    def first(*args: Any) -> tuple:
        # the checked inputs come first, then the seeds
        given = iter(args)
        again = [next(given) if isinstance(x, Tensor) and x.requires_grad else x for x in inputs]
        with enable_grad():
            found = grad(_differentiable(func(*again)), args[:n], args[n:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first,
        (*checked, *_tuple(grad_outputs)),
        eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip
