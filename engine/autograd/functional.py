"""Whole derivatives of functions: `jacobian`, `hessian`, `vjp`, `jvp`, `vhp`, `hvp`, with PyTorch's signatures.

`jvp` uses forward mode (one walk of the tape from the inputs on), the others reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from .. import devices, tape, xp
from ..tensor import Tensor
from .grad_mode import enable_grad
from .reverse import grad


def _tuple(x: Any, what: str) -> tuple[bool, tuple]:
    """Whether it came as a tuple, and as one."""
    whole = tuple(x) if isinstance(x, (tuple, list)) else (x,)
    for i, t in enumerate(whole):
        if not isinstance(t, Tensor):
            raise TypeError(f"{what} must be a Tensor or a tuple of Tensors, but {what}[{i}] is a {type(t).__name__}")
    return isinstance(x, (tuple, list)), whole


def _fresh(inputs: tuple, create_graph: bool) -> tuple:
    """The inputs as new tensors that require grad; tied to the caller's graph only when the result is to be differentiated."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _vector(v: Any, like: tuple, what: str) -> tuple:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {what} is a single tensor with one element")
        return (xp.ones_like(like[0]),)
    vs = _tuple(v, "v")[1]
    if len(vs) != len(like):
        raise RuntimeError(f"v has {len(vs)} tensors and the {what} has {len(like)}")
    for i, (a, b) in enumerate(zip(vs, like, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(f"v[{i}] has the shape {tuple(a.shape)}, and the {what} it belongs to {tuple(b.shape)}")
    return vs


def _given(found: tuple, inputs: tuple, strict: bool, name: str) -> tuple:
    if strict and any(g is None for g in found):
        raise RuntimeError(
            f"{name}: an output is independent of input {[g is None for g in found].index(True)}, which strict=True does not allow"
        )
    return tuple(xp.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True))


def _shaped(many: bool, values: tuple) -> Any:
    return values if many else values[0]


def _pulled(outputs: tuple, xs: tuple, vs: tuple, create_graph: bool) -> tuple:
    """One reverse pass from all outputs that depend on anything; None for an input that none of them depends on."""
    live = [(o, v) for o, v in zip(outputs, vs, strict=True) if o.requires_grad]
    if not live:
        return (None,) * len(xs)
    return grad([o for o, _ in live], xs, [v for _, v in live], create_graph=create_graph, allow_unused=True)


def _pushed(o: Tensor, seeds: dict, create_graph: bool, strict: bool, name: str) -> Tensor:
    """The output's derivative along `seeds` (input's node -> tangent), where what is found on the way is kept for further outputs."""
    t = None if o.node is None else tape.push_forward(o.node, seeds, xp if create_graph else numpy)
    if t is None and strict:
        raise RuntimeError(f"{name}: an output is independent of the inputs, which strict=True does not allow")
    return xp.zeros_like(o) if t is None else t if isinstance(t, Tensor) else Tensor._wrap(t)


def _unit(x: Tensor, j: int) -> Any:
    """An array like the tensor's, zero but for a 1 at element `j`."""
    array = devices.namespace(x.array).zeros(x.array.shape, dtype=x.array.dtype)  # not zeros_like: a transposed one has no flat view
    array.reshape(-1)[j] = 1
    return array


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """`(func(inputs), v^T J)`: the function's value and the vector-Jacobian product, by one reverse pass. `v` has the output's shape."""
    many, xs = _tuple(inputs, "inputs")
    with enable_grad():
        xs = _fresh(xs, create_graph)
        many_out, outputs = _tuple(func(*xs), "outputs")
        found = _pulled(outputs, xs, _vector(v, outputs, "output"), create_graph)
    values = tuple(o if create_graph else o.detach() for o in outputs)
    return _shaped(many_out, values), _shaped(many, _given(found, xs, strict, "vjp"))


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """`(func(inputs), J v)`: the function's value and its derivative along `v`, in forward mode. `v` has the inputs' shapes."""
    many, xs = _tuple(inputs, "inputs")
    vs = _vector(v, xs, "input")
    with enable_grad():
        xs = _fresh(xs, create_graph)
        many_out, outputs = _tuple(func(*xs), "outputs")
        seeds = {x.node: (t if create_graph else t.array) for x, t in zip(xs, vs, strict=True)}
        tangents = tuple(_pushed(o, seeds, create_graph, strict, "jvp") for o in outputs)
    values = tuple(o if create_graph else o.detach() for o in outputs)
    return _shaped(many_out, values), _shaped(many_out, tangents)


def jacobian(
    func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False, strategy: str = "reverse-mode"
) -> Any:
    """The Jacobian of `func`: shape (*output.shape, *input.shape), nested in tuples where func takes or gives several tensors.

    `strategy` "reverse-mode" costs one pass for each output element, "forward-mode" one for each input element. `vectorize` changes
    nothing but speed in PyTorch, and nothing here.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f'Expected strategy to be either "reverse-mode" or "forward-mode", got {strategy!r}')
    many, xs = _tuple(inputs, "inputs")
    with enable_grad():
        xs = _fresh(xs, create_graph)
        many_out, outputs = _tuple(func(*xs), "outputs")
        if strategy == "forward-mode":
            rows = _by_columns(outputs, xs, create_graph, strict)
        else:
            rows = tuple(_by_rows(o, xs, create_graph, strict) for o in outputs)
    return _shaped(many_out, tuple(_shaped(many, row) for row in rows))


def _by_rows(o: Tensor, xs: tuple, create_graph: bool, strict: bool) -> tuple:
    found: list[list] = [[] for _ in xs]
    for j in range(o.numel()):
        grads = (None,) * len(xs)
        if o.requires_grad:
            grads = grad([o], xs, [Tensor._wrap(_unit(o, j))], retain_graph=True, create_graph=create_graph, allow_unused=True)
        for i, g in enumerate(_given(grads, xs, strict, "jacobian")):
            found[i].append(g)
    return tuple(xp.reshape(xp.stack(gs), (*o.shape, *x.shape)) if gs else _empty(o, x) for gs, x in zip(found, xs, strict=True))


def _empty(o: Tensor, x: Tensor) -> Tensor:
    return Tensor._wrap(devices.namespace(o.array).zeros((*o.shape, *x.shape), dtype=o.array.dtype))


def _by_columns(outputs: tuple, xs: tuple, create_graph: bool, strict: bool) -> tuple:
    found = []
    for x in xs:
        columns: list[list] = [[] for _ in outputs]
        for j in range(x.numel()):
            seeds = {x.node: Tensor._wrap(_unit(x, j)) if create_graph else _unit(x, j)}
            for into, o in zip(columns, outputs, strict=True):
                into.append(_pushed(o, seeds, create_graph, strict, "jacobian"))
        found.append(
            [xp.reshape(xp.stack(ts, o.ndim), (*o.shape, *x.shape)) if ts else _empty(o, x) for ts, o in zip(columns, outputs, strict=True)]
        )
    return tuple(zip(*found, strict=True))


def _scalar(func: Callable) -> Callable:
    def checked(*xs: Tensor) -> Tensor:
        out = func(*xs)
        if not isinstance(out, Tensor) or out.numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return out.reshape(())

    return checked


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one output: shape (*input.shape, *input.shape), nested in tuples for several inputs."""
    many, _ = _tuple(inputs, "inputs")

    def first(*xs: Tensor) -> Any:
        found = grad([_scalar(func)(*xs)], xs, create_graph=True, allow_unused=True)
        found = _given(found, xs, strict, "hessian")
        return found if many else found[0]

    return jacobian(first, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """`(func(inputs), v^T H)` for a function with one output."""
    many, xs = _tuple(inputs, "inputs")
    vs = _vector(v, xs, "input")
    with enable_grad():
        xs = _fresh(xs, create_graph)
        out = _scalar(func)(*xs)
        first = _given(grad([out], xs, create_graph=True, allow_unused=True), xs, strict, "vhp")
        found = _pulled(first, xs, vs, create_graph)
    return (out if create_graph else out.detach()), _shaped(many, _given(found, xs, strict, "vhp"))


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """`(func(inputs), H v)` for a function with one output; the Hessian is symmetric, so this is `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)
