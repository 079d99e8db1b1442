"""Derivative transforms: `grad`, `vjp`, `jvp`, `linearize`, and full Jacobians by `vmap` over unit vectors.

The function runs on fresh tensors, where its tape ends. Results stay differentiable if anything outside can receive a gradient: an
argument that requires grad, or a tensor the function closes over, as in nested transforms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import numpy

from .. import autograd
from ..autograd.mapping import vmap
from ..backends.batch import Batched
from ..base import tree
from ..core import devices, tape, xp
from ..core.batching import running, spread
from ..core.op import functions
from ..core.tensor import Tensor

_leaves: WeakSet = WeakSet()  # the leaves that runs start from


class _Traced:
    """One run of a function on fresh inputs: its outputs, and whether their derivatives must be recorded."""

    def __init__(self, func: Callable, args: tuple, argnums: tuple | None, name: str, has_aux: bool) -> None:
        self.outside, self._began = tape.mode.grad, tape.tick()
        chosen = range(len(args)) if argnums is None else argnums
        self.nests = [args[i] for i in chosen]
        self.inputs: list[Tensor] = []
        given = list(args)
        with autograd.enable_grad():
            for i in dict.fromkeys(chosen):
                given[i] = tree.mapped(functools.partial(self._fresh, name=name), given[i])
            self.nests = [given[i] for i in chosen]
            # keep the current nodes: an in-place write gives the originals others
            self.inputs = [x._like(x.array, x.node) for nest in self.nests for x in tree.leaves(nest)]
            result = func(*given)
        self.aux = None
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"{name}(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True, got {type(result)}"
                )
            result, self.aux = result
        self.result, self.outputs = result, tree.leaves(result)
        self.open = self.outside and self._reaches_out([o for o in (*self.outputs, *tree.leaves(self.aux)) if isinstance(o, Tensor)])

    def _fresh(self, x: Any, name: str) -> Tensor:
        if not isinstance(x, Tensor):
            raise ValueError(f"{name}: Expected all arguments that are differentiated to be Tensors, but got a {type(x).__name__}")
        if name in ("jvp", "jacfwd", "linearize") and not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected primal to be floating point or complex, but got: torch.{x.dtype.name}")
        if name in ("jacrev", "jacfwd") and x.is_complex():
            raise RuntimeError(f"{name}: Expected all inputs to be real but received a complex tensor")
        level = running.levels[-1] if running.levels else None
        inside = level is None or x.array.__class__ is Batched and x.array.level is level
        if self.outside and x.node is not None:
            return x.view_as(x) if inside else spread(x, level)
        # in a vmap, every sample has its own gradient, also for a shared input
        out = (x.detach() if inside else spread(x.detach(), level)).requires_grad_()
        _leaves.add(out.node)
        return out

    def _reaches_out(self, outputs: list) -> bool:
        """Return whether a tensor other than the fresh inputs, of this run and those nested in it, would receive a gradient."""
        if any(x.node.op is not None for x in self.inputs):
            return True
        nodes = tape.plan([o.node for o in outputs if o.node is not None])
        return any(n.op is None and (n.time < self._began or n not in _leaves) for n in nodes)

    def released(self, nest: Any) -> Any:
        """Return outputs for the caller: attached only if something outside needs gradients, else detached from the fresh inputs."""
        return tree.mapped(lambda t: t.detach() if isinstance(t, Tensor) and not self.open else t, nest)

    def pulled(self, seeds: list, create: bool, retain: bool) -> list:
        """Return the inputs' gradients, given the outputs' gradients."""
        live = [(o, s) for o, s in zip(self.outputs, seeds, strict=True) if o.node is not None]
        if not live:
            return [xp.zeros_like(x).detach() for x in self.inputs]
        outs, given = zip(*live, strict=True)
        with autograd.enable_grad():
            return list(
                autograd.grad(outs, self.inputs, given, retain_graph=retain, create_graph=create, allow_unused=True, materialize_grads=True)
            )

    def pushed(self, tangents: list, create: bool) -> list:
        """Return the outputs' tangents, given the inputs' tangents."""
        seeds = {x.node: t if create else t.array for x, t in zip(self.inputs, tangents, strict=True)}
        found = []
        with autograd.enable_grad():
            for o in self.outputs:
                t = None if o.node is None else tape.push_forward(o.node, seeds, xp if create else numpy)
                found.append(xp.zeros_like(o).detach() if t is None else t if isinstance(t, Tensor) else Tensor._wrap(t))
        return found


def _numbers(argnums: Any, n: int, name: str) -> tuple[bool, tuple]:
    """Return whether `argnums` is a tuple, and the chosen arguments as non-negative indices."""
    many = isinstance(argnums, tuple)
    if not many and not isinstance(argnums, int):
        raise RuntimeError(f"argnum must be int or Tuple[int, ...], got: {type(argnums)}")
    if many and not argnums:
        raise RuntimeError("argnums must be non-empty")
    chosen = argnums if many else (argnums,)
    for i in chosen:
        if not isinstance(i, int):
            raise RuntimeError(f"argnums must be ints, got: {argnums}")
        if not -n <= i < n:
            raise RuntimeError(f"Got argnum={i}, but only {n} positional inputs")
    chosen = tuple(i % n for i in chosen)
    if len(set(chosen)) < len(chosen):
        raise RuntimeError(f"argnums elements must be unique, got: {argnums}")
    return many, chosen


def _tensors(outputs: list, name: str) -> None:
    for o in outputs:
        if not isinstance(o, Tensor):
            raise RuntimeError(f"{name}: Expected f(*args) to return only tensors, got type {type(o)}")
        if name.startswith(("vjp", "jacrev")) and not (o.is_floating_point() or o.is_complex()):
            raise RuntimeError(f"{name}: All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {o.dtype}")
        if name.startswith("jac") and o.is_complex():
            raise RuntimeError(f"{name}: Expected all outputs to be real but received a complex tensor")


def grad_and_value(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes `(gradient, value)` of a scalar function, or `(gradient, (value, aux))` with `has_aux`."""

    @functools.wraps(func, assigned=("__name__", "__qualname__", "__doc__"))
    def call(*args: Any, **kwargs: Any) -> Any:
        many, chosen = _numbers(argnums, len(args), "grad_and_value")
        run = _Traced(lambda *a: func(*a, **kwargs), args, chosen, "grad_and_value", has_aux)
        value = run.result
        if not isinstance(value, Tensor):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a tensor, got {type(value)}")
        if value.ndim:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with "
                f"{value.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        if value.is_complex():
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {value.dtype}")
        found = tree.filled(run.nests, iter(run.pulled([xp.ones_like(value)], run.open, run.open)))
        grads = tuple(found) if many else found[0]
        value = run.released(value)
        return (grads, (value, run.released(run.aux))) if has_aux else (grads, value)

    return call


def grad(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """Return a function that computes the gradient of a scalar function with respect to argument `argnums`, or `(gradient, aux)`."""

    @functools.wraps(func, assigned=("__name__", "__qualname__", "__doc__"))
    def call(*args: Any, **kwargs: Any) -> Any:
        grads, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return call


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """Return `(output, vjp_fn)`, plus `aux` with `has_aux`; `vjp_fn(cotangents)` is a tuple of vector-Jacobian products, one per primal."""
    run = _Traced(func, primals, None, "vjp", has_aux)
    _tensors(run.outputs, "vjp(f, *primals)")

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = tree.leaves(cotangents)
        _same_shapes(given, run.outputs, "vjp_fn", "cotangent", "output")
        create = tape.mode.grad and (run.open or any(c.node is not None for c in given)) if create_graph is None else create_graph
        return tree.filled(tuple(run.nests), iter(run.pulled(given, create, retain_graph)))

    out = run.released(run.result)
    return (out, vjp_fn, run.released(run.aux)) if has_aux else (out, vjp_fn)


def _same_shapes(given: list, like: list, name: str, one: str, other: str) -> None:
    if len(given) != len(like):
        raise RuntimeError(f"{name}: expected {len(like)} {one}s, one for each {other}, got {len(given)}")
    for i, (g, x) in enumerate(zip(given, like, strict=True)):
        if not isinstance(g, Tensor):
            raise RuntimeError(f"{name}: {one} {i} should be a Tensor, got {type(g)}")
        if tuple(g.shape) != tuple(x.shape):
            raise RuntimeError(f"{name}: {one} {i} has the shape {tuple(g.shape)}, the {other} it belongs to {tuple(x.shape)}")


def jvp(func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """Return `(output, J v)`, plus `aux` with `has_aux`: the value and its derivative along the tangents, in forward mode."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals), got {type(primals)}"
        )
    if not isinstance(tangents, tuple):
        raise RuntimeError(f"jvp(f, primals, tangents): Expected tangents to be a tuple, got {type(tangents)}")
    if not tree.leaves(primals):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to have at least one Tensor")
    run = _Traced(func, primals, None, "jvp", has_aux)
    _tensors(run.outputs, "jvp(f, primals, tangents)")
    given = tree.leaves(tangents)
    _same_shapes(given, run.inputs, "jvp(f, primals, tangents)", "tangent", "primal")
    if strict and any(o.node is None for o in run.outputs):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with strict=True."
        )
    found = run.pushed(given, _recorded(run, given))
    out = (run.released(run.result), tree.filled(run.result, iter(found)))
    return (*out, run.released(run.aux)) if has_aux else out


def _recorded(run: _Traced, given: list) -> bool:
    return tape.mode.grad and (run.open or any(t.node is not None for t in given))


def linearize(func: Callable, *primals: Any) -> tuple:
    """Return `(output, jvp_fn)`: the function runs once, and `jvp_fn(*tangents)` pushes tangents through the recorded run."""
    run = _Traced(func, primals, None, "linearize", False)
    _tensors(run.outputs, "linearize(f, *primals)")

    def jvp_fn(*tangents: Any) -> Any:
        given = tree.leaves(tangents)
        _same_shapes(given, run.inputs, "jvp_fn", "tangent", "primal")
        return tree.filled(run.result, iter(run.pushed(given, _recorded(run, given))))

    return run.released(run.result), jvp_fn


# -- full Jacobians: one walk of the tape with all unit vectors as a batch ------------------------------------------


def _units(tensors: list) -> list[Tensor]:
    """Return all unit vectors of several tensors together: an (n, *shape) tensor for each, n the total number of elements."""
    n, start, found = sum(t.numel() for t in tensors), 0, []
    for t in tensors:
        m = t.numel()
        rows = numpy.zeros((n, m), t.array.dtype)
        rows[start : start + m] = numpy.eye(m)
        found.append(Tensor._wrap(devices.move(rows.reshape((n, *t.shape)), t.device)))
        start += m
    return found


def jacrev(
    func: Callable, argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None, _preallocate_and_copy: bool = False
) -> Callable:
    """Return a function that computes the Jacobian, of shape (*output.shape, *input.shape), in reverse mode with all rows as one batch.

    `chunk_size` limits the rows per batch; `_preallocate_and_copy` is accepted without effect. Several outputs or several `argnums` give
    nested Jacobians.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func, assigned=("__name__", "__qualname__", "__doc__"))
    def call(*args: Any, **kwargs: Any) -> Any:
        many, chosen = _numbers(argnums, len(args), "jacrev")
        run = _Traced(lambda *a: func(*a, **kwargs), args, chosen, "jacrev", has_aux)
        _tensors(run.outputs, "jacrev(f)(*args)")
        sizes = [o.numel() for o in run.outputs]

        def rows(*seeds: Tensor) -> tuple:
            return tuple(run.pulled(list(seeds), run.open, True))

        whole = vmap(rows, chunk_size=chunk_size)(*_units(run.outputs)) if sum(sizes) else [_no_rows(x) for x in run.inputs]
        found, start = [], 0
        for o, m in zip(run.outputs, sizes, strict=True):
            blocks = [w.narrow(0, start, m).reshape((*o.shape, *x.shape)) for w, x in zip(whole, run.inputs, strict=True)]
            nest = tree.filled(run.nests, iter(blocks))
            found.append(tuple(nest) if many else nest[0])
            start += m
        out = tree.filled(run.result, iter(found))
        return (out, run.released(run.aux)) if has_aux else out

    return call


def _no_rows(x: Tensor) -> Tensor:
    return Tensor._wrap(devices.namespace(x.array).zeros((0, *x.shape), x.array.dtype))


def jacfwd(func: Callable, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """Return a function that computes the Jacobian in forward mode with all columns as one batch, best for more outputs than inputs.

    The function itself runs once, so `randomness` only affects values drawn inside nested maps.
    """

    @functools.wraps(func, assigned=("__name__", "__qualname__", "__doc__"))
    def call(*args: Any, **kwargs: Any) -> Any:
        many, chosen = _numbers(argnums, len(args), "jacfwd")
        run = _Traced(lambda *a: func(*a, **kwargs), args, chosen, "jacfwd", has_aux)
        _tensors(run.outputs, "jacfwd(f)(*args)")
        sizes = [x.numel() for x in run.inputs]

        def columns(*seeds: Tensor) -> tuple:
            return tuple(run.pushed(list(seeds), run.open))

        mapped = vmap(columns, randomness=randomness)
        whole = mapped(*_units(run.inputs)) if sum(sizes) else [_no_rows(o) for o in run.outputs]
        found = []
        for o, w in zip(run.outputs, whole, strict=True):
            blocks, start = [], 0
            for x, m in zip(run.inputs, sizes, strict=True):
                blocks.append(functions["movedim"](w.narrow(0, start, m), 0, -1).reshape((*o.shape, *x.shape)))
                start += m
            nest = tree.filled(run.nests, iter(blocks))
            found.append(tuple(nest) if many else nest[0])
        out = tree.filled(run.result, iter(found))
        return (out, run.released(run.aux)) if has_aux else out

    return call


def hessian(func: Callable, argnums: Any = 0) -> Callable:
    """Return a function that computes the Hessian, of shape (*output.shape, *input.shape, *input.shape), by forward over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """Return the function unchanged in behavior: nothing here traces programs, so in-place writes and views need not be removed."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            "Valid options are: 'mutations', 'mutations_and_views'"
        )

    @functools.wraps(func, assigned=("__name__", "__qualname__", "__doc__"))
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return call
