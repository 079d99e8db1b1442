"""Running derivative rules: `d_<input>` as a function of a node's saved arrays, the backward step of one node, and `fit`.

`pull` runs the step on arrays, and `pull_recorded` on Tensors, so that the step itself is recorded (`create_graph`). `fit` brings each
gradient to the shape and dtype of its input. Steps of float16 and bfloat16 nodes are computed in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy

from ..backends import cpu, loops, slopes
from ..backends.batch import at_work
from ..base.dtypes import F32, FLOAT, FROM_NUMPY, LOW
from . import devices, tape
from .tensor import Tensor


def rule_of(cls: Any, name: str) -> Any:
    """Turn an op's method, such as `d_<input>`, into `rule(xp, g, saved, attrs, shape)`; `rule.keeps` are the slots that it needs saved.

    Raises TypeError for a parameter that is not an input, result, attribute, `shape` or `shapes`.
    """
    d = getattr(cls, name, None)
    if d is None:
        return None
    setattr(cls, name, staticmethod(d))
    code = d.__code__
    wants = code.co_varnames[2 : code.co_argcount + code.co_kwonlyargcount]
    known_attrs = {p for p in cls.params if p not in cls.inputs}
    for w in wants:
        if w not in cls.slots and w not in known_attrs and w not in ("shape", "shapes"):
            raise TypeError(f"{cls.__name__}.{name} asks for {w!r}, which is not an input, result, attribute or 'shape'")
    # the lookup by name is compiled once: `lambda xp, g, saved, attrs, shape: d(xp, g, saved[0], attrs["dim"])`
    told = [f"saved[{cls.slots.index(w)}]" if w in cls.slots else w if w == "shape" else f"attrs[{w!r}]" for w in wants]
    # a copy of the code for each rule: CPython's inline caches are in the code object
    rule = FunctionType(_calling(", ".join(["xp", "g", *told])).replace(), {"d": d})
    rule.keeps = frozenset(cls.slots.index(w) for w in wants if w in cls.slots)
    quick = slopes.FORMS.get((cls.name, name))
    rule.on_cpu = rule if quick is None else _or_plainly(FunctionType(_calling(", ".join(["g", *told])), {"d": quick}), rule)
    large = slopes.LARGE_FORMS.get((cls.name, name))
    rule.large = rule.on_cpu if large is None else _or_plainly(FunctionType(_calling(", ".join(["g", *told])), {"d": large}), rule.on_cpu)
    return rule


def forward_on_cpu(cls: Any) -> Callable:
    """`forward` on NumPy's arrays: by a form for them (see `backends.slopes`), or by its own text where that does not take the arrays."""
    quick, forward = slopes.FORMS.get((cls.name, "forward")), cls.forward
    if quick is None:
        return forward

    def call(xp: Any, *inputs: Any, **attrs: Any) -> Any:
        found = quick(*inputs, **{**cls.defaults, **attrs})
        return forward(xp, *inputs, **attrs) if found is None else found

    return call


def _or_plainly(quick: Callable, rule: Callable) -> Callable:
    """The rule by its form for NumPy's arrays, or by its own text where that does not take them."""

    def call(xp: Any, g: Any, saved: Any, attrs: dict, shape: Any) -> Any:
        found = quick(xp, g, saved, attrs, shape)
        return rule(xp, g, saved, attrs, shape) if found is None else found

    return call


@functools.cache
def _calling(arguments: str) -> CodeType:
    """The code of a rule that calls `d` with these arguments; cached, as many rules share them and compiling is slow."""
    text = f"lambda xp, g, saved, attrs, shape: d({arguments})"
    return eval(compile(text, __file__, "eval")).__code__  # with this file's name, so that it is not taken for user code


def pull(op: Any, node: tape.Node, grad: Any) -> list:
    """Run the backward step of one node on arrays: return the gradient of each input, None where it is not needed."""
    beside = next(g for g in grad if g is not None) if op.multi else grad
    if devices.several and (place := devices.elsewhere((beside,))) is not None:
        with place:
            return pull(op, node, grad)
    xp = devices.namespace(beside) if devices.mixed else cpu
    if op.pointwise and xp is devices.gpu and (found := _launched(op, node, grad)) is not None:
        return found
    saved, attrs = node.saved, node.attrs
    if op.multi:
        grad = filled(node, grad, xp)
    low = node.dtype is not F32 and node.dtype in LOW and not (op.halves and xp is devices.gpu)
    if low:
        grad, saved = up(grad, xp), tuple(up(s, xp) for s in saved)
    if op.variadic:
        found = at_work(xp, op.rules[0])(xp, grad, saved, attrs, None)
        return [None if s is None or g is None else fit(xp, g, s) for s, g in zip(node.inputs, found, strict=True)]
    grads = []
    for source, rule in zip(node.inputs, op.rules):
        if source is None or rule is None:
            grads.append(None)
            continue
        shape = source.shape
        g = rule.on_cpu(cpu, grad, saved, attrs, shape) if xp is cpu else at_work(xp, rule)(xp, grad, saved, attrs, shape)
        if g is not None and (g.shape != shape or g.dtype is not source.dtype):
            g = fit(xp, g, source)
        grads.append(g)
    return grads


def _launched(op: Any, node: tape.Node, grad: Any) -> list | None:
    """`pull` of an elementwise op on a GPU: one kernel for the rules of all its inputs. Returns None if there is no such kernel."""
    live = tuple([i for i, (source, rule) in enumerate(zip(node.inputs, op.rules, strict=True)) if source is not None and rule is not None])
    attrs = {k: v for k, v in node.attrs.items() if not k.startswith("__")}
    wanted = tuple([node.inputs[i].dtype for i in live])
    found = devices.gpu.elementwise.backward(op, live, grad, node.saved, wanted, attrs) if live else ()
    if found is None:
        return None
    grads: list = [None] * len(node.inputs)
    for i, g in zip(live, found, strict=True):
        grads[i] = fit(devices.gpu, g, node.inputs[i])
    return grads


def pull_recorded(op: Any, node: tape.Node, grad: Any, xp: Any) -> list:
    """`pull` on Tensors, with the engine as `xp`: the rules are recorded, so that they can be differentiated themselves."""
    saved, attrs = retied(op, node, xp), node.attrs
    if op.multi:
        grad = filled(node, grad, xp)
    if node.dtype is not F32 and node.dtype in LOW:
        grad = up_recorded(grad, xp)
    if op.variadic:
        found = op.rules[0](xp, grad, saved, attrs, None)
        return [None if s is None or g is None else fit_recorded(xp, g, s) for s, g in zip(node.inputs, found, strict=True)]
    return [
        None if source is None or rule is None else fit_recorded(xp, rule(xp, grad, saved, attrs, source.shape), source)
        for source, rule in zip(node.inputs, op.rules, strict=True)
    ]


def up_recorded(a: Any, xp: Any) -> Any:
    """`up` for Tensors."""
    if isinstance(a, (list, tuple)):
        return type(a)(up_recorded(x, xp) for x in a)
    return xp.astype(a, FROM_NUMPY[F32]) if isinstance(a, Tensor) and a.array.dtype in LOW else a


def pull_one(op: Any) -> Callable:
    """`pull` of an op with one input, specialized for speed: most steps of a backward pass run this or `pull_two`."""
    rule, large, many = op.rules[0].on_cpu, op.rules[0].large, loops.LARGE

    def specialised(node, grad):
        source = node.inputs[0]
        if node.dtype is not F32 and node.dtype in LOW or devices.mixed and devices.namespace(grad) is not cpu:
            return pull(op, node, grad)
        shape = source.shape
        g = (rule if grad.size < many else large)(cpu, grad, node.saved, node.attrs, shape)
        return (g if g.shape == shape and g.dtype is source.dtype else fit(cpu, g, source),)

    return specialised


def pull_two(op: Any) -> Callable:
    pairs: list[Any] = [(rule, getattr(rule, "large", None)) for rule in op.rules]
    (dx, large_x), (dy, large_y) = pairs
    many = loops.LARGE

    def specialised(node, grad):
        if node.dtype is not F32 and node.dtype in LOW or devices.mixed and devices.namespace(grad) is not cpu:
            return pull(op, node, grad)
        x, y = node.inputs
        saved, attrs, xp = node.saved, node.attrs, cpu
        gx = gy = None
        if x is not None and dx is not None:
            shape = x.shape
            gx = (dx if grad.size < many else large_x)(xp, grad, saved, attrs, shape)
            if gx.shape != shape or gx.dtype is not x.dtype:
                gx = fit(xp, gx, x)
        if y is not None and dy is not None:
            shape = y.shape
            gy = (dy if grad.size < many else large_y)(xp, grad, saved, attrs, shape)
            if gy.shape != shape or gy.dtype is not y.dtype:
                gy = fit(xp, gy, y)
        return gx, gy

    return specialised


def retied(op: Any, node: tape.Node, xp: Any) -> tuple:
    """The saved arrays as Tensors with their nodes, for a step that is itself recorded; half precision becomes float32."""

    def tied(array: Any, source: Any) -> Any:
        if array is None or not hasattr(array, "dtype"):
            return array
        if isinstance(array, numpy.generic):  # a Python number, rounded to half precision
            return array.item()
        tensor = Tensor._wrap(array)
        if source is not None and FROM_NUMPY[tensor.array.dtype].rank >= FLOAT:
            tensor.node = source
        return up_recorded(tensor, xp) if low else tensor

    low = node.dtype is not F32 and node.dtype in LOW

    saved = node.saved
    if not saved:
        return saved
    n = len(op.inputs)
    outs = saved[n : n + len(op.outputs)]
    results = [tied(a, node if not op.multi else None) for a in outs]
    if op.variadic:
        inputs = [None if saved[0] is None else tuple(tied(a, s) for a, s in zip(saved[0], node.inputs, strict=True))]
    else:
        inputs = [tied(a, s) for a, s in zip(saved[:n], node.inputs, strict=True)]
    aux = list(saved[n + len(op.outputs) :])
    floats = [i for i, a in enumerate(aux) if a is not None and FROM_NUMPY[a.dtype].rank >= FLOAT]
    if floats or op.multi and any(a is not None for a in outs):
        # these are functions of the inputs: run forward again, recorded, so that they have derivatives
        attrs = {k: v for k, v in node.attrs.items() if not k.startswith("__") and not (op.variadic and k == "shapes")}
        again = op.forward(xp, *inputs, **attrs)
        aux = [again[len(op.outputs) + i] if i in floats else tied(a, None) for i, a in enumerate(aux)]
        if op.multi:
            results = list(again[: len(op.outputs)])
    else:
        aux = [tied(a, None) for a in aux]
    return (*inputs, *results, *aux)


def fit(xp: Any, g: Any, source: Any) -> Any:
    """Undo broadcasting and promotion, for all ops: bring a gradient to the shape and dtype of its input."""
    if g.shape != source.shape:
        g = sum_to(xp, g, source.shape)
    return g if g.dtype is source.dtype else cast_grad(xp, g, source.dtype)


def cast_grad(xp: Any, g: Any, d: Any) -> Any:
    return xp.astype(xp.real(g) if g.dtype.kind == "c" and d.kind != "c" else g, d)


def fit_recorded(xp: Any, g: Any, source: Any) -> Any:
    if g is None:
        return None
    if tuple(g.shape) != source.shape:
        g = sum_to(xp, g, source.shape)
    if g.array.dtype.kind == "c" and source.dtype.kind != "c":
        g = xp.real(g)
    return g if g.array.dtype == source.dtype else xp.astype(g, FROM_NUMPY[source.dtype])


def sum_to(xp: Any, grad: Any, shape: tuple) -> Any:
    """Sum a gradient over the axes along which an input of this shape was broadcast."""
    lead = grad.ndim - len(shape)
    if lead and grad.shape[lead:] == shape and lead == 1 and len(shape) == 1:
        return xp.sum(grad, axis=0)
    axes = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1)
    return xp.reshape(xp.sum(grad, axis=axes), shape)


def filled(node: tape.Node, grads: list, xp: Any) -> list:
    """The gradients of all results of an op with several; zeros for an unused result."""
    beside = next(g for g in grads if g is not None)
    return [g if g is not None else xp.new_zeros(beside, shape, d) for g, (shape, d) in zip(grads, node.attrs["__results__"], strict=True)]


def up(a: Any, xp: Any) -> Any:
    if getattr(a, "dtype", None) in LOW:
        return a.astype(F32) if isinstance(a, numpy.generic) else xp.astype(a, F32)  # a NumPy scalar stays a scalar
    return [up(x, xp) for x in a] if isinstance(a, (list, tuple)) else a
