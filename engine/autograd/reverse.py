"""Reverse mode: `backward` accumulates gradients into leaves, `grad` returns them for chosen inputs."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy

from ..backends.batch import Batched
from ..base import errors
from ..core import devices, tape, xp
from ..core.batching import running, spread
from ..core.tensor import Tensor, define
from .anomaly_mode import is_anomaly_enabled, looked_at
from .graph import GradientEdge


def _roots(tensors: Sequence[Tensor], grads: Any, create_graph: bool) -> list[tuple[Any, Any]]:
    if grads is None:
        grads = [None] * len(tensors)
    elif isinstance(grads, Tensor) or not isinstance(grads, (tuple, list)):
        grads = [grads]
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    roots = []
    for i, (tensor, grad) in enumerate(zip(tensors, grads, strict=True)):
        if isinstance(tensor, GradientEdge):
            if not isinstance(grad, Tensor):
                raise RuntimeError("grad can be implicitly created only for scalar outputs; a GradientEdge needs its gradient as a Tensor")
            roots.append((tensor.node, grad if create_graph else grad.array))
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected a Tensor to differentiate, got {type(tensor).__name__}")
        if tensor.node is None:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn: no leaf it was computed from has "
                f"requires_grad=True, or it was made under no_grad() or after detach(){errors.at_user_line()}"
            )
        if grad is None:
            if tensor.array.size != 1:
                made = f"the result of {tensor.node.op.name}" if tensor.node.op is not None else "this leaf"
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs; {made} has the shape {tuple(tensor.shape)}. "
                    f"Reduce it first, e.g. with .sum() or .mean(), or pass gradient={errors.at_user_line()}"
                )
            if tensor.is_complex():
                raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype!r}")
            with devices.beside(tensor):
                grad = xp.ones_like(tensor)
        else:
            if not isinstance(grad, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
            if grad.array.shape != tensor.array.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {tuple(grad.shape)} and output[{i}] has a shape of "
                    f"{tuple(tensor.shape)}."
                )
            if grad.array.dtype != tensor.array.dtype:
                grad = Tensor._wrap(grad.array.astype(tensor.array.dtype)) if grad.node is None else grad.to(tensor.dtype)
        if tensor.array.__class__ is Batched and grad.array.__class__ is not Batched:
            grad = spread(grad, tensor.array.level)  # in a vmap, all samples have this gradient
        roots.append((tensor.node, grad if create_graph else grad.array))
    return roots


def start(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    captured: dict | None = None,
    accumulate: bool = True,
    in_place: bool = True,
    unseen: bool = False,
) -> Any:
    """Check the arguments and return the steps of a backward pass, which has not started yet (see `tape.backward_steps`)."""
    tensors = (tensors,) if isinstance(tensors, (Tensor, GradientEdge)) else tuple(tensors)
    roots = _roots(tensors, grad_tensors, create_graph)
    retain = create_graph if retain_graph is None else retain_graph
    anomalies = is_anomaly_enabled()
    steps = tape.backward_steps(roots, xp if create_graph else numpy, retain, captured, accumulate, in_place, unseen and not anomalies)
    return looked_at(steps, create_graph) if anomalies else steps


def _exhaust(steps: Any, create_graph: bool, limited: bool) -> None:
    mode = tape.mode
    before, mode.grad, mode.limited = (mode.grad, mode.limited), create_graph, limited
    try:
        deque(steps, maxlen=0)
    finally:
        mode.grad, mode.limited = before


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into `.grad` of the leaves they depend on, or only of `inputs`.

    `grad_tensors` has one gradient per tensor, of its shape; None is allowed for one-element tensors. Raises RuntimeError for a tensor that
    does not require grad.
    """
    if running.levels:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp instead "
            "or call backward() outside of functorch transforms."
        )
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    captured = None
    if inputs is not None:
        inputs, captured = _targets(inputs)
        if not inputs:
            raise RuntimeError("'inputs' argument to backward() cannot be empty.")
        for x in inputs:
            if isinstance(x, Tensor):
                x.retain_grad()
    _exhaust(start(tensors, grad_tensors, retain_graph, create_graph, captured, unseen=True), create_graph, captured is not None)


def _targets(inputs: Any) -> tuple[tuple, dict]:
    """Return the tensors where a pass stops, and a dict that maps their nodes to the gradients to come."""
    inputs = (inputs,) if isinstance(inputs, (Tensor, GradientEdge)) else tuple(inputs)
    for x in inputs:
        if not isinstance(x, (Tensor, GradientEdge)):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(x).__name__}")
    if any(x.node is None for x in inputs):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return inputs, {x.node: None for x in inputs}


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """Return the gradients of the sum of `outputs` with respect to `inputs`, as a tuple; no `.grad` changes.

    Raises RuntimeError if an input was not used, unless `allow_unused` (its gradient is None) or `materialize_grads` (zeros). With
    `is_grads_batched`, the first dimension of `grad_outputs` and of the results is a batch of gradients, computed in one pass.
    """
    if not only_inputs:
        warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True)", FutureWarning, stacklevel=2)
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    if is_grads_batched:
        return _batched(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
    inputs, captured = _targets(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    _exhaust(start(outputs, grad_outputs, retain_graph, create_graph, captured, accumulate=False, unseen=True), create_graph, True)
    found = []
    for i, x in enumerate(inputs):
        g = captured[x.node]
        if g is None:
            if materialize_grads:
                if not isinstance(x, Tensor):
                    raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
                g = xp.zeros_like(x).detach().requires_grad_(create_graph)
            elif not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
        elif not isinstance(g, Tensor):
            g = tape._tensor(g.copy())
        found.append(g)
    return tuple(found)


def _batched(outputs: Any, inputs: Any, grad_outputs: Any, retain: Any, create: bool, allow_unused: Any, materialize: bool) -> tuple:
    """Compute `grad` for a batch of gradients under `vmap`, so that each backward step runs once for all of them."""
    from .mapping import vmap

    given = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs or ())
    if not given or any(g is None for g in given):
        raise RuntimeError("grad: is_grads_batched=True needs grad_outputs, with one more dimension than the outputs")
    unused: list[bool] = []

    def one(*grads: Tensor) -> tuple:
        found = grad(outputs, inputs, grads, retain, create, allow_unused=allow_unused, materialize_grads=materialize)
        unused[:] = [g is None for g in found]
        return tuple(g for g in found if g is not None)

    found = iter(vmap(one)(*given))
    return tuple(None if none else next(found) for none in unused)


def _tensor_backward(
    self: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Accumulate the gradient of this tensor into `.grad` of every leaf it depends on, or only of `inputs`.

    `gradient` has this tensor's shape and is required unless the tensor has one element. `retain_graph` keeps the graph for another pass;
    `create_graph` records the pass itself, for higher derivatives.
    """
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


define("backward", _tensor_backward)
