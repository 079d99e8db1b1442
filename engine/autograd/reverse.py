"""`backward` and `grad`: a reverse pass from some outputs to leaves, or to chosen inputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy

from .. import errors, tape, xp
from ..tensor import Tensor


def _roots(tensors: Sequence[Tensor], grads: Any, create_graph: bool) -> list[tuple[Any, Any]]:
    if grads is None:
        grads = [None] * len(tensors)
    elif isinstance(grads, Tensor) or not isinstance(grads, (tuple, list)):
        grads = [grads]
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    roots = []
    for i, (tensor, grad) in enumerate(zip(tensors, grads, strict=True)):
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
) -> Any:
    """The steps of a backward pass, not yet taken: `tape.backward_steps` with PyTorch's arguments checked and filled in."""
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    roots = _roots(tensors, grad_tensors, create_graph)
    retain = create_graph if retain_graph is None else retain_graph
    return tape.backward_steps(roots, xp if create_graph else numpy, retain, captured, accumulate, in_place)


def _exhaust(steps: Any, create_graph: bool) -> None:
    before, tape.mode.grad = tape.mode.grad, create_graph
    try:
        deque(steps, maxlen=0)
    finally:
        tape.mode.grad = before


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Sum the gradients of `tensors` into `.grad` of the leaves they depend on, or of `inputs` only."""
    captured = None
    if inputs is not None:
        inputs, captured = _targets(inputs)
        if not inputs:
            raise RuntimeError("'inputs' argument to backward() cannot be empty.")
        for x in inputs:
            x.retain_grad()
    _exhaust(start(tensors, grad_tensors, retain_graph, create_graph, captured), create_graph)


def _targets(inputs: Any) -> tuple[tuple, dict]:
    """The tensors that a pass is to stop at, and a place for what arrives at each."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if any(x.node is None for x in inputs):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return inputs, {x.node: None for x in inputs}


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """The gradients of the sum of `outputs` with respect to `inputs`, as a tuple; no `.grad` changes.

    RuntimeError when an input was not used, unless `allow_unused` (None in its place) or `materialize_grads` (zeros).
    """
    if is_grads_batched:
        raise NotImplementedError("grad: is_grads_batched=True is not supported; call grad once for each gradient")
    inputs, captured = _targets(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    _exhaust(start(outputs, grad_outputs, retain_graph, create_graph, captured, accumulate=False), create_graph)
    found = []
    for x in inputs:
        g = captured[x.node]
        if g is None:
            if materialize_grads:
                g = xp.zeros_like(x)
            elif not allow_unused:
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
        elif not isinstance(g, Tensor):
            g = Tensor._wrap(g.copy())
        found.append(g)
    return tuple(found)
