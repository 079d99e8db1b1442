"""What an op is, and what happens when one is called.

An op is a class that is never instantiated. `forward(xp, ...)` computes; `d_<input>(xp, g, ...)` pulls the output's gradient `g` back
to that input. `xp` is the array namespace that the code runs in: NumPy, CuPy, the engine itself (to differentiate a derivative), a
typesetter. A rule receives what it names: inputs, `out`, attributes, `shape` (its input's); what it names is what the tape keeps.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar

import numpy

from . import devices, dtypes, errors, inplace, observe, tape
from .backends import cpu
from .dtypes import F32, F64, FLOAT, FROM_NUMPY, LOW
from .errors import Refused
from .tensor import Tensor

registry: dict[str, type[Op]] = {}  # name -> Op, in the order the op files declare them
functions: dict[str, Callable] = {}  # every public name, aliases and composites included -> what the user calls

_FAST = frozenset((F32, F64))
_mode = tape.mode


RULES_ONLY = {  # why ops that only rules use are exempt from two tests
    "promotion": "Only rules and composites call it, on arrays of one dtype.",
    "zero_size": "PyTorch has no function of this name; those that use it are tested.",
}


class OpType(type):
    def __call__(cls, *args: Any, **attrs: Any) -> Any:
        return cls.call(*args, **attrs)

    def __repr__(cls) -> str:
        return f"<op {getattr(cls, 'name', cls.__name__)}>"


class Op(metaclass=OpType):
    """An op with a rule of its own for each differentiable input."""

    name: ClassVar[str]
    call: ClassVar[Callable]
    operator: ClassVar[str | None] = None  # "mul" installs __mul__, __rmul__ and __imul__
    aliases: ClassVar[tuple[str, ...]] = ()  # further names of the same function
    home: ClassVar[str] = "engine"  # where the function is found: "engine", "nn.functional", "linalg"; "" for an op that only rules use
    method: ClassVar[bool] = True  # also a method of Tensor
    inplace: ClassVar[bool] = False  # Tensor.<name>_ exists as well
    types: ClassVar[str] = "any"  # "promote", "float" (promote, integers become floats), "same" (dtypes must agree), "any" (as they come)
    inputs: ClassVar[tuple[str, ...]] = ()  # the tensors among forward's parameters; by default those without a default value
    variadic: ClassVar[bool] = False  # the first input is a sequence of tensors
    varargs: ClassVar[bool] = False  # `x.permute(0, 2, 1)`: the last attribute may come as loose arguments
    outputs: ClassVar[tuple[str, ...]] = ("out",)  # more than one: a named tuple of results
    differentiable: ClassVar[tuple[str, ...]] = ()  # which results can carry gradients; by default all
    aux: ClassVar[tuple[str, ...]] = ()  # what forward returns after its results, for rules to name
    view: ClassVar[bool] = False  # the result may share the input's memory
    exact: ClassVar[bool] = False  # only moves or casts elements, so half precision needs no detour through float32
    order: ClassVar[tuple[str, ...]] = ()  # the arguments in the caller's order, where inputs do not come first: index_select(input, dim, index)
    picks: ClassVar[bool] = False
    samples: ClassVar[tuple] = (((2, 3),),)  # input shapes the tests try
    examples: ClassVar[tuple] = ()  # instead of samples, calls that the tests try: (inputs, attributes); see docs/add-an-op.md
    domain: ClassVar[tuple[float, float]] = (0.5, 1.5)  # and the range they draw from
    exempt: ClassVar[dict[str, str]] = {}  # test name -> the reason why it cannot apply to this op

    def __init_subclass__(cls) -> None:
        if "forward" not in cls.__dict__:
            return
        params = list(signature(cls.forward).parameters.values())[1:]
        if "order" in cls.__dict__:
            params.sort(key=lambda p: cls.order.index(p.name))
        cls.name = cls.__name__.rstrip("_") if not cls.__dict__.get("name") else cls.name
        declared = next(base for base in cls.__mro__ if "inputs" in base.__dict__)
        if declared is Op or declared is not cls and "forward" in declared.__dict__:
            cls.inputs = tuple(p.name for p in params if p.default is Parameter.empty)
        cls.params = tuple(p.name for p in params)
        cls.defaults = {p.name: p.default for p in params if p.name not in cls.inputs and p.default is not Parameter.empty}
        cls.required = frozenset(p.name for p in params if p.default is Parameter.empty)
        cls.optional = {p.name: p.default for p in params if p.name in cls.inputs and p.default is not Parameter.empty}
        cls.differentiable = cls.differentiable or cls.outputs
        cls.multi = len(cls.differentiable) > 1
        cls.slots = (*cls.inputs, *cls.outputs, *cls.aux)  # what a node may keep, in this order
        if not isinstance(cls.__dict__["forward"], staticmethod):
            cls.forward = staticmethod(cls.forward)
        cls.rules = tuple(_rule(cls, name) for name in cls.inputs)
        cls.ruled = any(cls.rules)
        cls.saves_input = any(rule is not None and 0 in rule.keeps for rule in cls.rules)
        cls._kept = {}
        cls.Result = namedtuple(cls.name, cls.outputs) if len(cls.outputs) > 1 else None
        pull = next(p for base in cls.__mro__ if isinstance(p := base.__dict__.get("pull"), classmethod))  # not a parent's specialised one
        if pull is Op.__dict__["pull"] and not cls.variadic and not cls.multi and len(cls.inputs) in (1, 2) and cls.ruled:
            cls.pull = staticmethod((_pull_one if len(cls.inputs) == 1 else _pull_two)(cls))
        cls.call = _call_path(cls)
        _document(cls, params)
        registry[cls.name] = cls
        _install(cls)

    # -- reverse mode ---------------------------------------------------------------------------------------------------

    @classmethod
    def pull(cls, node: tape.Node, grad: Any) -> list:
        """Reverse mode through one node, on arrays: the gradient of each input, None where nobody asked."""
        xp = cpu if devices.gpu is None else devices.namespace(grad)
        saved, attrs = node.saved, node.attrs
        if cls.multi:
            grad = _filled(node, grad, xp)
        low = node.dtype is not F32 and node.dtype in LOW
        if low:
            grad, saved = _up(grad, xp), tuple(_up(s, xp) for s in saved)
        if cls.variadic:
            return [None if s is None or g is None else fit(xp, g, s) for s, g in zip(node.inputs, cls.rules[0](xp, grad, saved, attrs, None), strict=True)]
        grads = []
        for source, rule in zip(node.inputs, cls.rules, strict=True):
            if source is None or rule is None:
                grads.append(None)
                continue
            shape = source.shape
            g = rule(xp, grad, saved, attrs, shape)
            if g is not None and (g.shape != shape or g.dtype is not source.dtype):
                g = fit(xp, g, source)
            grads.append(g)
        return grads

    @classmethod
    def pull_recorded(cls, node: tape.Node, grad: Any, xp: Any) -> list:
        """The same on Tensors, with `xp` the engine: every rule is recorded, so that it has a derivative itself."""
        saved, attrs = _retied(cls, node, xp), node.attrs
        if cls.multi:
            grad = _filled(node, grad, xp)
        if cls.variadic:
            found = cls.rules[0](xp, grad, saved, attrs, None)
            return [None if s is None or g is None else _fit_recorded(xp, g, s) for s, g in zip(node.inputs, found, strict=True)]
        return [
            None if source is None or rule is None else _fit_recorded(xp, rule(xp, grad, saved, attrs, source.shape), source)
            for source, rule in zip(node.inputs, cls.rules, strict=True)
        ]

    # -- forward mode ----------------------------------------------------------------------------------------------------

    @classmethod
    def push(cls, node: tape.Node, tangents: list, xp: Any, recorded: bool) -> Any:
        """Forward mode through one node. A pull is linear in `g`, so its transpose is the push: one reverse pass through the pull."""
        from . import xp as engine_xp

        def dummy(shape: tuple, d: Any) -> Tensor:
            return Tensor._wrap(numpy.zeros(shape, d)).requires_grad_()

        before, _mode.grad = _mode.grad, True
        try:
            if cls.multi:
                g: Any = [dummy(shape, d) for shape, d in node.attrs["__results__"]]
            else:
                g = dummy(node.shape, node.dtype)
            found = cls.pull_recorded(node, g, engine_xp)
            dot = None
            for f, t in zip(found, tangents, strict=True):
                if f is not None and t is not None:
                    term = engine_xp.sum(f * (t if recorded else Tensor._wrap(numpy.asarray(t))))
                    dot = term if dot is None else dot + term
            heads = g if cls.multi else [g]
            captured = {h.node: None for h in heads}
            if dot is not None and dot.node is not None:
                one = numpy.ones((), dot.array.dtype)
                if recorded:
                    tape.backward([(dot.node, Tensor._wrap(one))], engine_xp, True, captured, accumulate=False)
                else:
                    tape.backward([(dot.node, one)], numpy, True, captured, accumulate=False)
        finally:
            _mode.grad = before
        out = [c if c is not None else (Tensor._wrap(numpy.zeros(h.shape, h.array.dtype)) if recorded else numpy.zeros(h.shape, h.array.dtype))
               for c, h in zip(captured.values(), heads, strict=True)]  # fmt: skip
        return out if cls.multi else out[0]

    # -- what goes in ------------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, arrays: list) -> tuple[list, Any]:
        """Promotion and device: the arrays that `forward` gets, and the namespace it runs in."""
        xp = devices.common(arrays, cls.name)
        kind = cls.types
        if kind == "any":
            return arrays, xp
        if kind == "same":
            seen = {a.dtype for a in arrays if hasattr(a, "dtype")}
            if len(seen) > 1:
                raise Refused(f"expected operands of one dtype, but got {' and '.join(sorted(FROM_NUMPY[d].name for d in seen))}")
            return arrays, xp
        want = dtypes.result(tuple(arrays))
        if kind == "float" and want.rank < FLOAT:
            want = dtypes.default
        d = want.numpy
        return [
            a if a is None else (a if a.dtype is d else xp.astype(a, d)) if hasattr(a, "dtype") else _number(a, want)
            for a in arrays
        ], xp  # fmt: skip

    @classmethod
    def explain(cls, error: Exception, inputs: tuple, attrs: dict) -> Exception:
        """The backend refused; say why in the op's own terms. Costs nothing until it happens."""
        if isinstance(error, Refused):
            kind, rule = error.kind, str(error)
        elif isinstance(error, numpy.exceptions.AxisError):
            kind, n = IndexError, error.ndim or 0
            rule = f"Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {error.axis})"
        else:
            kind = IndexError if isinstance(error, IndexError) else RuntimeError
            shapes = [tuple(x.shape) if hasattr(x, "shape") else () for x in inputs if not isinstance(x, (tuple, list))]
            rule = cls.why(*shapes) or str(error)
        operands = list(zip(cls.inputs, inputs, strict=False))
        if cls.variadic:
            operands = [(f"{cls.inputs[0]}[{i}]", x) for i, x in enumerate(inputs)]
        told = ", ".join(f"{name} is {errors.describe(x)}" for name, x in operands[:8] if x is not None)
        chosen = ", ".join(f"{k}={v!r}" for k, v in attrs.items() if not k.startswith("__") and cls.defaults.get(k) is not v and len(repr(v)) < 60)
        line = errors.user_line()
        return kind(f"{cls.name}: {rule}; {told}{'; ' + chosen if chosen else ''}{f' ({line})' if line else ''}")

    @staticmethod
    def why(*shapes: tuple) -> str | None:
        """The shape rule that was broken, in one sentence, or None."""


class Elementwise(Op):
    """Each output element depends on one element of each input, so one rule serves both modes."""

    types = "promote"
    inplace = True
    samples = (((2, 3),) * 2, ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)))

    @classmethod
    def push(cls, node: tape.Node, tangents: list, xp: Any, recorded: bool) -> Any:
        saved = _retied(cls, node, xp) if recorded else node.saved
        names = cpu if not recorded and devices.gpu is None else xp
        total = None
        for t, rule, source in zip(tangents, cls.rules, node.inputs, strict=True):
            if t is not None and rule is not None:
                term = rule(names, t, saved, node.attrs, source.shape)
                total = term if total is None else total + term
        return total if total is None or tuple(total.shape) == node.shape else xp.broadcast_to(total, node.shape)

    @staticmethod
    def why(*shapes: tuple) -> str | None:
        try:
            numpy.broadcast_shapes(*shapes)
        except ValueError:
            pairs = zip(*[(1,) * (max(map(len, shapes)) - len(s)) + tuple(s) for s in shapes], strict=True)
            d, sizes = next((d, sizes) for d, sizes in enumerate(pairs) if len(set(sizes) - {1}) > 1)
            return f"the shapes do not broadcast: {' and '.join(map(str, sizes))} at dimension {d} are neither equal nor 1"
        return None


class Linear(Op):
    """Linear in each input: the push is the op itself with the tangent in that input's place."""

    @classmethod
    def push(cls, node: tape.Node, tangents: list, xp: Any, recorded: bool) -> Any:
        if cls.variadic or cls.multi or cls.aux:
            return super().push(node, tangents, xp, recorded)
        saved = dict(zip(cls.slots, _retied(cls, node, xp) if recorded else node.saved or (None,) * len(cls.slots), strict=False))
        attrs = {k: v for k, v in node.attrs.items() if not k.startswith("__")}
        names = cpu if not recorded and devices.gpu is None else xp
        total = None
        for name, t in zip(cls.inputs, tangents, strict=True):
            if t is not None:
                term = cls.forward(names, *[t if a == name else saved[a] for a in cls.inputs], **attrs)
                total = term if total is None else total + term
        return total


def fit(xp: Any, g: Any, source: Any) -> Any:
    """Undo broadcasting and promotion, for every op in one place: the gradient gets its input's shape and dtype."""
    if g.shape != source.shape:
        g = sum_to(xp, g, source.shape)
    return g if g.dtype is source.dtype else cast_grad(xp, g, source.dtype)


def cast_grad(xp: Any, g: Any, d: Any) -> Any:
    return xp.astype(xp.real(g) if g.dtype.kind == "c" and d.kind != "c" else g, d)


def _fit_recorded(xp: Any, g: Any, source: Any) -> Any:
    if g is None:
        return None
    if tuple(g.shape) != source.shape:
        g = sum_to(xp, g, source.shape)
    if g.array.dtype.kind == "c" and source.dtype.kind != "c":
        g = xp.real(g)
    return g if g.array.dtype == source.dtype else xp.astype(g, FROM_NUMPY[source.dtype])


def sum_to(xp: Any, grad: Any, shape: tuple) -> Any:
    """Sum over the axes along which an input of this shape was broadcast."""
    lead = grad.ndim - len(shape)
    if lead and grad.shape[lead:] == shape and lead == 1 and len(shape) == 1:
        return xp.sum(grad, axis=0)
    axes = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1)
    return xp.reshape(xp.sum(grad, axis=axes), shape)


def _filled(node: tape.Node, grads: list, xp: Any) -> list:
    """The gradients of all results of a multi-output op; zeros for a result that nobody used."""
    results = node.attrs["__results__"]
    return [g if g is not None else xp.zeros(shape, dtype=d if not getattr(xp, "records", False) else FROM_NUMPY[d])
            for g, (shape, d) in zip(grads, results, strict=True)]  # fmt: skip


def _up(a: Any, xp: Any) -> Any:
    return xp.astype(a, F32) if getattr(a, "dtype", None) in LOW else [_up(x, xp) for x in a] if isinstance(a, (list, tuple)) else a


# -- rules --------------------------------------------------------------------------------------------------------


def _rule(cls: Any, name: str) -> Any:
    """`d_<name>` as `rule(xp, g, saved, attrs, shape)`; `rule.keeps` says which slots it needs filled."""
    d = cls.__dict__.get(f"d_{name}")
    if d is None:
        inherited = getattr(cls, f"d_{name}", None)
        if inherited is None:
            return None
        d = inherited
    d = d.__func__ if isinstance(d, staticmethod) else d
    setattr(cls, f"d_{name}", staticmethod(d))
    wants = list(signature(d).parameters)[2:]
    known_attrs = {p for p in cls.params if p not in cls.inputs}
    for w in wants:
        if w not in cls.slots and w not in known_attrs and w not in ("shape", "shapes"):
            raise TypeError(f"{cls.__name__}.d_{name} asks for {w!r}, which is not an input, result, attribute or 'shape'")
    # what is left of looking things up by name: `lambda xp, g, saved, attrs, shape: d(xp, g, saved[0], attrs["dim"])`
    told = [f"saved[{cls.slots.index(w)}]" if w in cls.slots else w if w == "shape" else f"attrs[{w!r}]" for w in wants]
    text = f"lambda xp, g, saved, attrs, shape: d({', '.join(['xp', 'g', *told])})"
    rule = eval(compile(text, __file__, "eval"), {"d": d})  # under this file's name: no frame of the user's
    rule.keeps = frozenset(cls.slots.index(w) for w in wants if w in cls.slots)
    return rule


def _pull_one(op: Any) -> Callable:
    """`pull` of an op with one input, written out: with `_pull_two` it is most of a backward pass."""
    rule = op.rules[0]

    def pull(node, grad):
        source = node.inputs[0]
        if node.dtype is not F32 and node.dtype in LOW:
            return Op.pull.__func__(op, node, grad)
        shape = source.shape
        xp = cpu if devices.gpu is None else devices.namespace(grad)
        g = rule(xp, grad, node.saved, node.attrs, shape)
        return (g if g.shape == shape and g.dtype is source.dtype else fit(xp, g, source),)

    return pull


def _pull_two(op: Any) -> Callable:
    dx, dy = op.rules

    def pull(node, grad):
        if node.dtype is not F32 and node.dtype in LOW:
            return Op.pull.__func__(op, node, grad)
        x, y = node.inputs
        saved, attrs = node.saved, node.attrs
        xp = cpu if devices.gpu is None else devices.namespace(grad)
        gx = gy = None
        if x is not None and dx is not None:
            shape = x.shape
            gx = dx(xp, grad, saved, attrs, shape)
            if gx.shape != shape or gx.dtype is not x.dtype:
                gx = fit(xp, gx, x)
        if y is not None and dy is not None:
            shape = y.shape
            gy = dy(xp, grad, saved, attrs, shape)
            if gy.shape != shape or gy.dtype is not y.dtype:
                gy = fit(xp, gy, y)
        return gx, gy

    return pull


def _retied(op: Any, node: tape.Node, xp: Any) -> tuple:
    """The saved arrays as Tensors tied back to the tape, for when the derivative itself is being recorded."""

    def tied(array: Any, source: Any) -> Any:
        if array is None or not hasattr(array, "dtype"):
            return array
        tensor = Tensor._wrap(array if array.__class__ is not numpy.generic else numpy.asarray(array))
        if source is not None and FROM_NUMPY[tensor.array.dtype].rank >= FLOAT:
            tensor.node = source
        return tensor

    saved = node.saved
    if not saved:
        return saved
    if op.variadic:
        kept = saved[0]
        first = None if kept is None else tuple(tied(a, s) for a, s in zip(kept, node.inputs, strict=True))
        return (first, *[tied(a, node) for a in saved[1:]])
    n = len(op.inputs)
    outs = saved[n : n + len(op.outputs)]
    results = [tied(a, node if not op.multi else None) for a in outs]
    inputs = [tied(a, s) for a, s in zip(saved[:n], node.inputs, strict=True)]
    aux = list(saved[n + len(op.outputs) :])
    floats = [i for i, a in enumerate(aux) if a is not None and FROM_NUMPY[a.dtype].rank >= FLOAT] + ([-1] if op.multi and any(a is not None for a in outs) else [])
    if floats:
        # these are functions of the inputs: run forward again, recorded, to have them with their derivatives
        attrs = {k: v for k, v in node.attrs.items() if not k.startswith("__")}
        again = op.forward(xp, *inputs, **attrs)
        aux = [again[len(op.outputs) + i] if i in floats else tied(a, None) for i, a in enumerate(aux)]
        if op.multi:
            results = list(again[: len(op.outputs)])
    else:
        aux = [tied(a, None) for a in aux]
    return (*inputs, *results, *aux)


# -- the call path: unwrap, run, wrap, record, tell ------------------------------------------------------------------


def _number(x: Any, want: dtypes.dtype) -> Any:
    """A Python number in the type of the result: NumPy would refuse 300 beside uint8, PyTorch wraps."""
    if not isinstance(x, (bool, int, float, complex, numpy.generic)):
        raise Refused(f"expected a Tensor or a number, got {errors.describe(x)}", TypeError)
    if want.rank == dtypes.INT and isinstance(x, int) and not isinstance(x, bool):
        bits = want.itemsize * 8
        x &= (1 << bits) - 1
        return want.numpy.type(x - (1 << bits) if want.is_signed and x >> (bits - 1) else x)
    return want.numpy.type(x) if want.numpy in LOW or isinstance(x, numpy.generic) else x


def _call_path(op: Any) -> Callable:
    if op.variadic:
        return _variadic(op)
    if len(op.inputs) == 2 and not op.defaults and not op.required - set(op.inputs) and not op.aux and len(op.outputs) == 1 and not op.view:
        return _binary(op)
    if len(op.inputs) == 1 and not op.aux and len(op.outputs) == 1 and not op.optional:
        return _unary(op)
    return _general(op)


def _binary(op: Any) -> Callable:
    """The path of `a + b`, written out: it runs more often than any other code in the engine."""
    forward, (dx, dy) = op.forward, op.rules
    (x_for_x, y_for_x, out_for_x), (x_for_y, y_for_y, out_for_y) = ([d is not None and i in d.keeps for i in range(3)] for d in (dx, dy))
    keeps_any = any((x_for_x, y_for_x, out_for_x, x_for_y, y_for_y, out_for_y))
    ruled, fast_types = op.ruled, op.types != "any"
    new_tensor, new_node, tick, ndarray, attrs = object.__new__, tape.Node.__new__, tape.tick, numpy.ndarray, {}
    node_class, mode, seen = tape.Node, _mode, observe

    def call(x, y):
        if isinstance(x, Tensor):
            xd, xn = x.array, x.node
        else:
            xd, xn = x, None
        if isinstance(y, Tensor):
            yd, yn = y.array, y.node
        else:
            yd, yn = y, None
        yc = yd.__class__
        if xd.__class__ is not ndarray or not fast_types or xd.dtype not in _FAST or not (
            yd.dtype is xd.dtype if yc is ndarray else yc is float or yc is int
        ):
            return _run(op, (x, y), attrs)
        try:
            data = forward(cpu, xd, yd)
        except Exception as error:
            _failed(op, error, (x, y), attrs)
        out = new_tensor(Tensor)
        out.array = data if data.__class__ is ndarray else numpy.asarray(data)
        out.node = None
        if ruled and (xn is not None or yn is not None) and mode.grad:
            out.node = node = new_node(node_class)
            node.op, node.inputs, node.attrs, node.hooks, node.time = op, (xn, yn), attrs, None, tick()
            if keeps_any:
                node.saved = (xd if xn is not None and x_for_x or yn is not None and x_for_y else None,
                              yd if xn is not None and y_for_x or yn is not None and y_for_y else None,
                              out.array if xn is not None and out_for_x or yn is not None and out_for_y else None)  # fmt: skip
            else:
                node.saved = ()
            node.shape, node.dtype = data.shape, data.dtype
        if seen.current is not None:
            seen.current.op(op, (x, y), attrs, out)
        return out

    def function(*args, **kwargs):
        if kwargs or len(args) != 2:
            if "out" in kwargs:
                return _into(op, args, kwargs)
            (x, y), _ = op.bind(args, kwargs)
            return call(x, y)
        return call(*args)

    op.operate = staticmethod(call)
    return function


def _unary(op: Any) -> Callable:
    """The path of `x.tanh()` and `x.sum(0)`: one tensor, perhaps attributes, one result."""
    forward, defaults, rule, needs_more, ruled = op.forward, op.defaults, op.rules[0], bool(op.required - set(op.inputs)), op.ruled
    keeps_input, keeps_out = (rule is not None and i in rule.keeps for i in (0, 1))
    keeps_any, view = keeps_input or keeps_out, op.view
    new_tensor, new_node, tick, ndarray = object.__new__, tape.Node.__new__, tape.tick, numpy.ndarray
    node_class, mode, seen = tape.Node, _mode, observe
    rest = op.params[1:]
    only, loose = rest[0] if len(rest) == 1 else None, op.varargs
    # how many attributes may come by place, in the order of the parameters
    plain = op.bind.__func__ is bind  # an op may sort its arguments in its own way
    fewest, most = (len(op.required) - 1, len(rest)) if plain and not loose and op.params[0] == op.inputs[0] else (1, 0)
    only = only if plain else None

    def call(input, *args, **kwargs):
        if kwargs or args or needs_more:
            if "out" in kwargs:
                return _into(op, (input, *args), kwargs)
            if kwargs or not args:
                (input,), attrs = op.bind((input, *args), kwargs)
            elif only is not None and len(args) == 1 and (not loose or isinstance(args[0], (tuple, list))):
                attrs = {only: args[0]}
            elif only is not None and loose and not isinstance(args[0], ndarray):
                attrs = {only: args}
            elif fewest <= len(args) <= most:
                attrs = {**defaults, **dict(zip(rest, args, strict=False))}
            else:
                (input,), attrs = op.bind((input, *args), kwargs)
        else:
            attrs = defaults
        if not isinstance(input, Tensor):
            return _run(op, (input,), attrs)
        array, source = input.array, input.node
        if array.__class__ is not ndarray or array.dtype not in _FAST:
            return _run(op, (input,), attrs)
        try:
            data = forward(cpu, array, **attrs)
        except Exception as error:
            _failed(op, error, (input,), attrs)
        out = new_tensor(Tensor)
        out.array = data if data.__class__ is ndarray or data.__class__.__name__ == "ndarray" else numpy.asarray(data)
        out.node = None
        if ruled and source is not None and mode.grad:
            out.node = node = new_node(node_class)
            node.op, node.inputs, node.attrs, node.hooks, node.time = op, (source,), attrs, None, tick()
            node.saved = (array if keeps_input else None, out.array if keeps_out else None) if keeps_any else ()
            node.shape, node.dtype = data.shape, data.dtype
        if view and inplace.storage(out.array) is inplace.storage(array):
            inplace.mark_view(out, input, op, attrs)
        if seen.current is not None:
            seen.current.op(op, (input,), attrs, out)
        return out

    return call


def _general(op: Any) -> Callable:
    """The same path for any number of inputs, with attributes."""
    n, defaults = len(op.inputs), op.defaults
    simple = not (op.required - set(op.inputs)) and op.params[:n] == op.inputs and op.bind.__func__ is bind
    fewest, filled = len(op.required), tuple(op.optional.get(name) for name in op.inputs)

    def call(*args, **kwargs):
        if simple and not kwargs and fewest <= len(args) <= n:
            return _run(op, (*args, *filled[len(args) :]), defaults)
        if "out" in kwargs:
            return _into(op, args, kwargs)
        inputs, attrs = op.bind(args, kwargs)
        return _run(op, inputs, attrs)

    return call


def _variadic(op: Any) -> Callable:
    defaults, more = op.defaults, len(op.required) > 1 or op.bind.__func__ is not bind

    def call(*args, **kwargs):
        if "out" in kwargs:
            return _into(op, args, kwargs)
        if len(args) == 1 and not kwargs and not more:
            (tensors,), attrs = args, defaults
        else:
            (tensors,), attrs = op.bind(args, kwargs)
        if isinstance(tensors, Tensor) or not hasattr(tensors, "__iter__"):
            raise TypeError(f"{op.name}: expected a sequence of tensors, got {errors.describe(tensors)}")
        return _run(op, tuple(tensors), attrs)

    return call


def bind(cls: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Sort a call's arguments into inputs and attributes; TypeError, with the signature, when they do not fit."""
    params = cls.params
    if cls.varargs and len(args) > (at := len(params) - 1 if cls.varargs is True else cls.varargs):
        if len(args) > at + 1 or not isinstance(args[at], (tuple, list, numpy.ndarray)):
            args = (*args[:at], tuple(args[at:]))
    if len(args) > len(params):
        raise TypeError(f"{cls.name}() takes at most {len(params)} arguments ({len(args)} given): {cls.name}{cls.signature}")
    values = dict(zip(params, args, strict=False))
    for key, value in kwargs.items():
        key = _SYNONYMS.get(key, key) if key not in params else key
        if key not in params:
            raise TypeError(f"{cls.name}() got an unexpected keyword argument {key!r}: {cls.name}{cls.signature}")
        if key in values:
            raise TypeError(f"{cls.name}() got multiple values for argument {key!r}")
        values[key] = value
    missing = [p for p in params if p in cls.required and p not in values]
    if missing:
        raise TypeError(f"{cls.name}() missing {len(missing)} required argument(s): {', '.join(missing)}: {cls.name}{cls.signature}")
    inputs = tuple(values.pop(p) if p in values else cls.optional.get(p) for p in cls.inputs)
    return inputs, {**cls.defaults, **values}


Op.bind = classmethod(bind)  # type: ignore[attr-defined]

_SYNONYMS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "x2": "other"}  # NumPy's names, which PyTorch takes too


def _failed(op: Any, error: Exception, inputs: tuple, attrs: dict) -> Any:
    if not isinstance(error, (Refused, ValueError, TypeError, IndexError, RuntimeError, OverflowError, numpy.linalg.LinAlgError)):
        raise error
    told = op.explain(error, inputs, attrs)
    if observe.current is not None:
        observe.current.failed(op, inputs, attrs, told)
    raise told from error


def _run(op: Any, inputs: tuple, attrs: dict) -> Any:
    arrays, nodes, live = [], [], False
    for x in inputs:
        if isinstance(x, Tensor):
            arrays.append(x.array)
            node = x.node
            nodes.append(node)
            if node is not None:
                live = True
        else:
            arrays.append(x)
            nodes.append(None)
    first = arrays[0] if arrays else None
    try:
        if len(arrays) == 1 and first.__class__ is numpy.ndarray and first.dtype in _FAST:
            xp, low = cpu, None
        else:
            arrays, xp = op.prepare(arrays)
            moves = op.exact or op.types == "any" and (op.view or not op.ruled)
            low = None if moves else next((a.dtype for a in arrays if getattr(a, "dtype", None) in LOW), None)
        given = arrays if low is None else [_up(a, xp) for a in arrays]
        data = op.forward(xp, given, **attrs) if op.variadic else op.forward(xp, *given, **attrs)
    except Exception as error:
        _failed(op, error, inputs, attrs)
    whole = data if data.__class__ is tuple else (data,)
    if low is not None:
        whole = tuple(xp.astype(a, low) if getattr(a, "dtype", None) == F32 else a for a in whole)
    n_out = len(op.outputs)
    if n_out > 1 or op.multi:
        results = tuple(Tensor._wrap(a if hasattr(a, "base") else xp.asarray(a)) for a in whole[:n_out])
    else:
        data = whole[0]
        out = object.__new__(Tensor)
        out.array = data if data.__class__.__name__ == "ndarray" else xp.asarray(data)
        out.node = None
        results = (out,)
    if live and op.ruled and _mode.grad:
        _record(op, nodes, attrs, arrays, results, whole[n_out:])
    answer: Any = results[0] if n_out == 1 else op.Result(*results)
    if op.view:
        source = inputs[0]
        for out in results:
            if inplace.storage(out.array) is inplace.storage(source.array):
                inplace.mark_view(out, source, op, attrs)
    if observe.current is not None:
        observe.current.op(op, inputs, attrs, answer)
    return answer


def _record(op: Any, nodes: list, attrs: dict, arrays: list, results: tuple, aux: tuple) -> None:
    """Put one node on the tape, with what its live rules name."""
    node = tape.Node.__new__(tape.Node)
    node.op, node.attrs, node.hooks, node.time = op, attrs, None, tape.tick()
    if op.variadic:
        node.inputs = tuple(nodes)
        keep = op.rules[0].keeps
        node.attrs = {**attrs, "shapes": tuple(a.shape for a in arrays)}
        node.saved = tuple(v if i in keep else None for i, v in enumerate((tuple(arrays), *[r.array for r in results], *aux))) if keep else ()
    else:
        key = tuple([n is not None and r is not None for n, r in zip(nodes, op.rules, strict=True)])
        if not any(key):
            return
        node.inputs = tuple([n if k else None for n, k in zip(nodes, key, strict=True)])
        keep = op._kept.get(key)
        if keep is None:
            keep = op._kept[key] = frozenset().union(*[r.keeps for k, r in zip(key, op.rules, strict=True) if k])
        node.saved = tuple([v if i in keep else None for i, v in enumerate((*arrays, *[r.array for r in results], *aux))]) if keep else ()
    if op.multi:
        floating = [r for r in results if FROM_NUMPY[r.array.dtype].rank >= FLOAT]
        node.shape, node.dtype = None, floating[0].array.dtype if floating else F32
        node.attrs = {**node.attrs, "__outputs__": len(results), "__results__": tuple((r.array.shape, r.array.dtype) for r in results)}
        for i, r in enumerate(results):
            if FROM_NUMPY[r.array.dtype].rank >= FLOAT:
                r.node = p = tape.Node.__new__(tape.Node)
                p.op, p.inputs, p.attrs, p.saved, p.hooks, p.time = pick, (node,), {"index": i}, (), None, tape.tick()
                p.shape, p.dtype = r.array.shape, r.array.dtype
    else:
        r = results[op.outputs.index(op.differentiable[0])] if len(results) > 1 else results[0]
        if FROM_NUMPY[r.array.dtype].rank >= FLOAT:
            r.node, node.shape, node.dtype = node, r.array.shape, r.array.dtype


def _into(op: Any, args: tuple, kwargs: dict) -> Any:
    """`out=`: the result goes into tensors that the caller has."""
    kwargs = dict(kwargs)
    out = kwargs.pop("out")
    result = op.call(*args, **kwargs)
    if out is None:
        return result
    for target, r in zip(out if isinstance(out, (tuple, list)) else (out,), result if isinstance(result, tuple) else (result,), strict=True):
        if _mode.grad and (r.node is not None or target.node is not None):
            raise RuntimeError(f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.")
        if target.array.shape != r.array.shape:
            target.array = devices.namespace(r.array).empty(r.array.shape, target.array.dtype)
        inplace.put(target, r, f"{op.name}(out=)")
    return out


class _Pick:
    """One of several results: where its gradient arrives before it joins the others' at the op's own node."""

    name, picks, rules, slots, multi, variadic, view, ruled = "pick", True, (), (), False, False, False, True
    inputs, outputs, aux, params, defaults = ("input",), ("out",), (), (), {}

    @staticmethod
    def pull(node: tape.Node, grad: Any) -> tuple:
        return (grad,)

    @staticmethod
    def pull_recorded(node: tape.Node, grad: Any, xp: Any) -> tuple:
        return (grad,)

    @staticmethod
    def push(node: tape.Node, tangents: list, xp: Any, recorded: bool) -> Any:
        return tangents[0][node.attrs["index"]]

    def __repr__(self) -> str:
        return "<op pick>"


pick = _Pick()


# -- names -----------------------------------------------------------------------------------------------------------


def _document(op: Any, params: list) -> None:
    call = op.call
    shown = [p.replace(annotation=Parameter.empty) for p in params]
    order = {Parameter.POSITIONAL_ONLY: 0, Parameter.POSITIONAL_OR_KEYWORD: 1, Parameter.VAR_POSITIONAL: 2, Parameter.KEYWORD_ONLY: 3}
    op.signature = Signature(sorted(shown, key=lambda p: (order[p.kind], p.default is not Parameter.empty)))
    call.__signature__ = op.signature
    call.__name__ = call.__qualname__ = op.name
    call.__doc__, call.op = op.__doc__, op
    call.__module__ = "engine"


def _install(op: Any) -> None:
    call, name = op.call, op.name
    for n in (name, *op.aliases) if op.home else ():
        functions[n if op.home == "engine" else f"{op.home}.{n}"] = call
        if op.method:
            setattr(Tensor, n, call)
            if op.inplace:
                setattr(Tensor, f"{n}_", _in_place(op))
    if op.operator:
        operate = getattr(op, "operate", call)
        setattr(Tensor, f"__{op.operator}__", operate)
        if len(op.inputs) == 2:
            setattr(Tensor, f"__r{op.operator}__", lambda x, y: operate(y, x))
            if op.inplace:
                setattr(Tensor, f"__i{op.operator}__", getattr(Tensor, f"{name}_"))


def _in_place(op: Any) -> Callable:
    def call(self, *args, **kwargs):
        inputs, attrs = op.bind((self, *args), kwargs)
        return inplace.write(op, self, inputs[1:], attrs)

    call.__name__ = call.__qualname__ = f"{op.name}_"
    call.__doc__ = f"In-place form of `{op.name}`: {op.__doc__}"
    return call


def composite(fn: Callable | None = None, *, home: str = "engine", method: bool = False, aliases: tuple[str, ...] = ()) -> Any:
    """Mark a plain function made of ops, so that a watcher can fold its ops into one box with the function's name."""
    if fn is None:
        return functools.partial(composite, home=home, method=method, aliases=aliases)
    name = fn.__name__.rstrip("_")

    @functools.wraps(fn)
    def call(*args, **kwargs):
        watcher = observe.current
        if watcher is None:
            return fn(*args, **kwargs)
        watcher.enter("function", name, fn)
        try:
            return fn(*args, **kwargs)
        finally:
            watcher.leave()

    call.__name__ = call.__qualname__ = name
    for n in (name, *aliases):
        functions[n if home == "engine" else f"{home}.{n}"] = call
        if method:
            setattr(Tensor, n, call)
    return call
