"""Jacobians, Hessians and their products: `jacobian`, `hessian`, `vjp`, `jvp`, `vhp`, `hvp`, with PyTorch's signatures.

`jvp` uses forward mode (one walk of the tape from the inputs); the others use reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..core import devices, tape, xp
from ..core.tensor import Tensor
from .grad_mode import enable_grad
from .reverse import grad


def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> tuple[bool, tuple]:
    """Return whether `inp` is a tuple or list, and `inp` as a tuple of tensors. Libraries call it by PyTorch's name."""
    whole = tuple(inp) if isinstance(inp, (tuple, list)) else (inp,)
    for i, t in enumerate(whole):
        if not isinstance(t, Tensor):
            place = f"the value at index {i} is of type" if isinstance(inp, (tuple, list)) else "what was given has type"
            raise TypeError(f"The {arg_name} must be either a Tensor or a tuple of Tensors but {place} {type(t)}.")
    return isinstance(inp, (tuple, list)), whole


def _fresh(inputs: tuple, create_graph: bool) -> tuple:
    """Return the inputs as new tensors that require grad, attached to the caller's graph only if the result must be differentiable."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _vector(v: Any, like: tuple, what: str) -> tuple:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            told = "user-provided function returns" if what == "output" else "input to the user-provided function is"
            raise RuntimeError(f"The vector v can only be None if the {told} a single Tensor with a single element.")
        return (xp.ones_like(like[0]),)
    vs = _as_tuple(v, "v")[1]
    if len(vs) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}.")
    for i, (a, b) in enumerate(zip(vs, like, strict=True)):
        if a.shape != b.shape:
            entry = f"Entry {i} in v" if len(vs) > 1 else "v"
            raise RuntimeError(f"{entry} has invalid size: should be {b.shape} but got {a.shape}.")
    return vs


def _given(found: tuple, inputs: tuple, strict: bool, create_graph: bool, name: str) -> tuple:
    """Replace missing gradients with zeros; in strict mode raise RuntimeError instead."""
    if strict and any(g is None for g in found):
        raise RuntimeError(
            f"{name}: The output of the user-provided function is independent of input {[g is None for g in found].index(True)}. "
            "This is not allowed in strict mode."
        )
    whole = tuple(xp.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True))
    if strict and create_graph:
        _varying(whole, name)
    return whole


def _varying(derivatives: tuple, name: str) -> None:
    for i, d in enumerate(derivatives):
        if not d.requires_grad:
            raise RuntimeError(
                f"{name}: The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode when "
                "create_graph=True."
            )


def _tuple_postprocess(res: tuple, to_unpack: bool | tuple[bool, bool]) -> Any:
    """Take a result out of its tuple unless `to_unpack`, the first result of `_as_tuple`, is True; of two, the second is for each row."""
    if isinstance(to_unpack, tuple):
        res, to_unpack = tuple(_tuple_postprocess(row, to_unpack[1]) for row in res), to_unpack[0]
    return res if to_unpack else res[0]


def _grad_postprocess(inputs: tuple, create_graph: bool) -> tuple:
    """Return the tensors, of one tuple or of tuples of tuples, detached unless `create_graph`."""
    if create_graph:
        return inputs
    return tuple(x.detach() if isinstance(x, Tensor) else _grad_postprocess(x, False) for x in inputs)


def _construct_standard_basis_for(tensors: tuple[Tensor, ...], tensor_numels: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return the unit vectors of the space of several tensors, one a row, as one matrix of columns for each tensor."""
    total, found = sum(tensor_numels), []
    for tensor, numel in zip(tensors, tensor_numels, strict=True):
        start = sum(part.shape[1] for part in found)
        unit = devices.namespace(tensor.array).eye(total, numel, k=-start, dtype=tensor.array.dtype)
        found.append(Tensor._wrap(unit))
    return tuple(found)


def _pulled(outputs: tuple, xs: tuple, vs: tuple, create_graph: bool) -> tuple:
    """Run one backward pass from all outputs that require grad; None for inputs that none of them depends on."""
    live = [(o, v) for o, v in zip(outputs, vs, strict=True) if o.requires_grad]
    if not live:
        return (None,) * len(xs)
    return grad([o for o, _ in live], xs, [v for _, v in live], create_graph=create_graph, allow_unused=True)


def _pushed(o: Tensor, seeds: dict, create_graph: bool, strict: bool, name: str) -> Tensor:
    """Return the output's derivative along `seeds` (input node -> tangent), which also caches intermediate tangents for further outputs."""
    t = None if o.node is None else tape.push_forward(o.node, seeds, xp if create_graph else numpy)
    if t is None and strict:
        raise RuntimeError(
            f"{name}: The output of the user-provided function is independent of the inputs. This is not allowed in strict mode."
        )
    return xp.zeros_like(o) if t is None else t if isinstance(t, Tensor) else Tensor._wrap(t)


def _unit(x: Tensor, j: int) -> Any:
    """Return an array like the tensor's that is zero except for a 1 at flat index `j`."""
    array = devices.namespace(x.array).zeros(x.array.shape, dtype=x.array.dtype)  # not zeros_like: a transposed array has no flat view
    array.reshape(-1)[j] = 1
    return array


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return `(func(inputs), v^T J)`: the value and the vector-Jacobian product, in one backward pass.

    `v` has the output's shape and may be omitted for a single one-element output. With `strict`, RuntimeError if the output is independent
    of an input.
    """
    many, xs = _as_tuple(inputs, "inputs")
    with enable_grad():
        xs = _fresh(xs, create_graph)
        many_out, outputs = _as_tuple(func(*xs), "outputs")
        found = _pulled(outputs, xs, _vector(v, outputs, "output"), create_graph)
    values = tuple(o if create_graph else o.detach() for o in outputs)
    return _tuple_postprocess(values, many_out), _tuple_postprocess(_given(found, xs, strict, create_graph, "vjp"), many)


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return `(func(inputs), J v)`: the value and its derivative along `v`, in forward mode.

    `v` has the inputs' shapes and may be omitted for a single one-element input. With `strict`, RuntimeError if an output is independent of
    the inputs.
    """
    many, xs = _as_tuple(inputs, "inputs")
    vs = _vector(v, xs, "input")
    with enable_grad():
        xs = _fresh(xs, create_graph)
        many_out, outputs = _as_tuple(func(*xs), "outputs")
        seeds = {x.node: (t if create_graph else t.array) for x, t in zip(xs, vs, strict=True)}
        tangents = tuple(_pushed(o, seeds, create_graph, strict, "jvp") for o in outputs)
        if strict and create_graph:
            _varying(tangents, "jvp")
    values = tuple(o if create_graph else o.detach() for o in outputs)
    return _tuple_postprocess(values, many_out), _tuple_postprocess(tangents, many_out)


def jacobian(
    func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False, strategy: str = "reverse-mode"
) -> Any:
    """Return the Jacobian of `func`, of shape (*output.shape, *input.shape); nested tuples for several inputs or outputs.

    `strategy="reverse-mode"` costs one pass per output element, "forward-mode" one per input element; `vectorize` runs them all as one pass
    under `vmap`. `strict` raises RuntimeError if an output is independent of an input, and cannot be combined with `vectorize`.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than inputs, '
            f'"forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode". Got {strategy!r}.'
        )
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please either set "
            "`strict=False` or `vectorize=False`."
        )
    many, xs = _as_tuple(inputs, "inputs")
    with enable_grad():
        xs = _fresh(xs, create_graph)
        many_out, outputs = _as_tuple(func(*xs), "outputs")
        if strategy == "forward-mode":
            rows = _by_columns(outputs, xs, create_graph, strict, vectorize)
        else:
            rows = tuple((_all_rows if vectorize else _by_rows)(o, xs, create_graph, strict) for o in outputs)
        if strict and create_graph:
            for row in rows:
                _varying(row, "jacobian")
    return _tuple_postprocess(rows, (many_out, many))


def _by_rows(o: Tensor, xs: tuple, create_graph: bool, strict: bool) -> tuple:
    found: list[list] = [[] for _ in xs]
    for j in range(o.numel()):
        grads = (None,) * len(xs)
        if o.requires_grad:
            grads = grad([o], xs, [Tensor._wrap(_unit(o, j))], retain_graph=True, create_graph=create_graph, allow_unused=True)
        for i, g in enumerate(_given(grads, xs, strict, False, "jacobian")):
            found[i].append(g)
    return tuple(xp.reshape(xp.stack(gs), (*o.shape, *x.shape)) if gs else _empty(o, x) for gs, x in zip(found, xs, strict=True))


def _units(x: Tensor) -> Any:
    """Return all unit vectors of the tensor's space, of shape (x.numel(), *x.shape)."""
    eye = devices.namespace(x.array).eye(x.numel(), dtype=x.array.dtype)
    return Tensor._wrap(eye.reshape((x.numel(), *x.array.shape)))


def _all_rows(o: Tensor, xs: tuple, create_graph: bool, strict: bool) -> tuple:
    """Compute the same as `_by_rows`, with all rows in one pass."""
    if not o.requires_grad or not o.numel():
        return _by_rows(o, xs, create_graph, strict)
    found = grad([o], xs, [_units(o)], retain_graph=True, create_graph=create_graph, allow_unused=True, is_grads_batched=True)
    return tuple(_empty(o, x) if g is None else xp.reshape(g, (*o.shape, *x.shape)) for g, x in zip(found, xs, strict=True))


def _empty(o: Tensor, x: Tensor) -> Tensor:
    return Tensor._wrap(devices.namespace(o.array).zeros((*o.shape, *x.shape), dtype=o.array.dtype))


def _by_columns(outputs: tuple, xs: tuple, create_graph: bool, strict: bool, vectorize: bool) -> tuple:
    found = []
    for x in xs:
        if vectorize and x.numel():
            found.append(_all_columns(outputs, x, create_graph))
            continue
        columns: list[list] = [[] for _ in outputs]
        for j in range(x.numel()):
            seeds = {x.node: Tensor._wrap(_unit(x, j)) if create_graph else _unit(x, j)}
            for into, o in zip(columns, outputs, strict=True):
                into.append(_pushed(o, seeds, create_graph, strict, "jacobian"))
        found.append(
            [xp.reshape(xp.stack(ts, o.ndim), (*o.shape, *x.shape)) if ts else _empty(o, x) for ts, o in zip(columns, outputs, strict=True)]
        )
    return tuple(zip(*found, strict=True))


def _all_columns(outputs: tuple, x: Tensor, create_graph: bool) -> list:
    """Compute all columns for one input in one walk of the tape."""
    from .mapping import vmap

    def column(unit: Tensor) -> tuple:
        seeds = {x.node: unit if create_graph else unit.array}
        return tuple(_pushed(o, seeds, create_graph, False, "jacobian") for o in outputs)

    columns = vmap(column, out_dims=-1)(_units(x))
    return [xp.reshape(c, (*o.shape, *x.shape)) for c, o in zip(columns, outputs, strict=True)]


def _first(func: Callable, xs: tuple, strict: bool, name: str) -> tuple[Tensor, tuple]:
    """Return the function's scalar output and its gradient, recorded on the tape."""
    out = func(*xs)
    if not isinstance(out, Tensor) or out.numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    out = out.reshape(())
    return out, _given(_pulled((out,), xs, (xp.ones_like(out),), True), xs, strict, False, name)


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a function with one output element: (*input.shape, *input.shape); nested tuples for several inputs."""
    many, _ = _as_tuple(inputs, "inputs")

    def first(*xs: Tensor) -> Any:
        found = _first(func, xs, strict, "hessian")[1]
        return found if many else found[0]

    return jacobian(first, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return `(func(inputs), v^T H)`, H the Hessian of a function with a single-element output; `v` has the inputs' shapes."""
    many, xs = _as_tuple(inputs, "inputs")
    vs = _vector(v, xs, "input")
    with enable_grad():
        xs = _fresh(xs, create_graph)
        out, first = _first(func, xs, strict, "vhp")
        found = _given(_pulled(first, xs, vs, create_graph), xs, strict, create_graph, "vhp")
    return (out if create_graph else out.detach()), _tuple_postprocess(found, many)


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return `(func(inputs), H v)` for a function with a single-element output; H is symmetric, so this equals `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)
