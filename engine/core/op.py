"""The base classes of ops, and the registration of ops and composite functions.

An op is a class that is never instantiated; defining a subclass of `Op` with a `forward` registers it and installs its function, method
and operator. `forward(xp, ...)` computes the result. `d_<input>(xp, g, ...)` is the derivative rule of one input: it returns the input's
gradient, given the gradient `g` of the result. `t_<input>` is the rule of forward mode. `xp` is the array namespace in which they run:
NumPy, CuPy, the engine itself (to differentiate a derivative), or a typesetter.

A rule declares what it needs by the names of its parameters: inputs, `out`, attributes, `shape` (that of its input). The tape saves
exactly the arrays that the rules name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar

import numpy

from ..backends import cpu
from ..base import dtypes, errors, observe
from ..base.dtypes import FLOAT, FROM_NUMPY, LOW
from ..base.errors import Refused
from ..base.layout import as_first
from ..base.return_types import result_type
from . import arguments, casting, devices, inplace, naming, rules, tape
from . import xp as engine_xp
from .call import bind, call_path, failed, into, number, sorter, spelled, synonyms
from .registry import functions, registry
from .tensor import Tensor, define

_mode = tape.mode


RULES_ONLY = {  # why ops that only rules use are exempt from these two tests
    "promotion": "Only rules and composites call it, on arrays of one dtype.",
    "zero_size": "PyTorch has no function of this name; those that use it are tested.",
}


class OpType(type):
    call: Callable

    def __call__(cls, *args: Any, **attrs: Any) -> Any:
        return cls.call(*args, **attrs)

    def __repr__(cls) -> str:
        return f"<op {getattr(cls, 'name', cls.__name__)}>"


# parts of Python's and NumPy's messages for an attribute that should be a number, a sequence or an integer
_WRONG_TYPE = ("cannot be interpreted as an integer", "not supported between instances", "indices must be integers", "must be real number")
_WRONG_TYPE += ("could not convert string", "invalid literal for int")


class Op(metaclass=OpType):
    """An op with one derivative rule for each differentiable input; see the module's docstring."""

    name: ClassVar[str]
    call: ClassVar[Callable]
    on_cpu: ClassVar[Callable]  # `forward` on NumPy's arrays
    operator: ClassVar[str | None] = None  # "mul" installs __mul__, __rmul__ and __imul__
    aliases: ClassVar[tuple[str, ...]] = ()  # other names of the same function
    home: ClassVar[str] = "engine"  # the function's namespace: "engine", "nn.functional", "linalg"; "" for an op that only rules use
    method: ClassVar[bool] = True  # also a method of Tensor
    inplace: ClassVar[bool] = False  # Tensor.<name>_ exists as well
    types: ClassVar[str] = "any"  # "promote", "float" (promote, integers become floats), "same" (dtypes must agree), "any" (unchanged)
    inputs: ClassVar[tuple[str, ...]] = ()  # the tensors among forward's parameters; by default those without a default value
    variadic: ClassVar[bool] = False  # the first input is a sequence of tensors
    varargs: ClassVar[bool] = False  # `x.permute(0, 2, 1)`: the last attribute may be passed as separate arguments
    slopes: ClassVar[tuple] = ()  # the rules of forward mode, one for each input; derived from its t_ and d_ methods
    outputs: ClassVar[tuple[str, ...]] = ("out",)  # more than one: a named tuple of results
    differentiable: ClassVar[tuple[str, ...]] = ()  # the results that can carry gradients; by default all
    aux: ClassVar[tuple[str, ...]] = ()  # values that forward returns after its results, for rules to name
    view: ClassVar[bool] = False  # the result may share the input's memory
    row_major: ClassVar[bool] = False  # results are contiguous in row-major order, whatever the input's strides
    laid: ClassVar[Callable | None] = None  # (result, *inputs) -> the result in PyTorch's memory order, if the first is not row-major
    scatters: ClassVar[bool] = False  # writes at indexed places: in place, no operand may share the target's memory
    reads_first: ClassVar[bool] = False  # in place, its operands may overlap the memory that it writes
    casts: ClassVar[bool] = False  # the result is cast to the dtype of `out=`
    exact: ClassVar[bool] = False  # only moves or casts elements, so half precision is not computed in float32
    order: ClassVar[tuple[str, ...]] = ()  # the caller's order of arguments, where the inputs are not first
    halves: ClassVar[bool] = False  # on a GPU it takes half precision as it is, computes in float32 and rounds once
    pointwise: ClassVar[bool] = False  # elementwise: on a GPU it is a kernel printed from its code
    picks: ClassVar[bool] = False  # True for the tape's own `pick` only
    tensors: ClassVar[bool] = False  # accepts no numbers as inputs: checked after a call has failed, or before an in-place op
    dims_first: ClassVar[bool] = False  # `dim` is checked before the dtype, as in PyTorch
    checks: ClassVar[bool] = False  # `prepare` checks more than dtypes, so it is called for floats of one dtype too
    samples: ClassVar[tuple] = (((2, 3),),)  # input shapes for the tests
    examples: ClassVar[tuple] = ()  # instead of samples, calls for the tests: (inputs, attributes); see docs/add-an-op.md
    domain: ClassVar[tuple[float, float]] = (0.5, 1.5)  # the range from which the tests draw inputs
    exempt: ClassVar[dict[str, str]] = {}  # test name -> the reason why it cannot apply to this op

    def __init_subclass__(cls) -> None:
        if "forward" not in cls.__dict__:
            return
        params = _parameters(cls.forward)
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
        cls.slots = (*cls.inputs, *cls.outputs, *cls.aux)  # what a node may save, in this order
        tape.show_saved((*cls.slots, *cls.params))
        if not isinstance(cls.__dict__["forward"], staticmethod):
            cls.forward = staticmethod(cls.forward)
        cls.on_cpu = staticmethod(rules.forward_on_cpu(cls))
        cls.rules = tuple(rules.rule_of(cls, f"d_{name}") for name in cls.inputs)
        own = [rules.rule_of(cls, f"t_{name}") for name in cls.inputs]
        cls.slopes = tuple(t or d if cls.pointwise else t for t, d in zip(own, cls.rules, strict=True)) if cls.pointwise or any(own) else ()
        cls.ruled = any(cls.rules)
        cls.saves_input = any(rule is not None and 0 in rule.keeps for rule in cls.rules)
        cls._plans = {}  # bit mask of the inputs with a node -> what to record; a cache filled by the call path
        cls._kept = (
            tuple(i in cls.rules[0].keeps for i in range(len(cls.slots))) if cls.variadic and cls.ruled and cls.rules[0].keeps else ()
        )
        cls.numbers = cls.types in ("promote", "float") and not cls.variadic
        cls.autocast = casting.policy(cls.name, cls.home)
        cls.unprepared = cls.types == "any" and cls.prepare.__func__ is Op.__dict__["prepare"].__func__
        cls.Result = result_type(cls.name, cls.outputs, cls.home) if len(cls.outputs) > 1 else None
        pull = next(p for base in cls.__mro__ if isinstance(p := base.__dict__.get("pull"), classmethod))  # not a parent's specialized one
        if pull is Op.__dict__["pull"] and not cls.variadic and not cls.multi and len(cls.inputs) in (1, 2) and cls.ruled:
            cls.pull = staticmethod((rules.pull_one if len(cls.inputs) == 1 else rules.pull_two)(cls))
        cls.call = call_path(cls)
        _document(cls, params)
        registry[cls.name] = cls
        _install(cls)

    # -- reverse and forward mode ------------------------------------------------------------------------------------------

    pull = classmethod(rules.pull)
    pull_recorded = classmethod(rules.pull_recorded)
    bind = classmethod(bind)

    @classmethod
    def push(cls, node: tape.Node, tangents: list, xp: Any, recorded: bool) -> Any:
        """Forward mode through one node: compute the tangent of the result from the tangents of the inputs.

        Without `slopes` it runs a backward pass through the recorded pull: the pull is linear in `g`, and its transpose is the push.
        """
        if cls.slopes:
            return cls._along(node, tangents, xp, recorded)
        beside = next(t for t in tangents if t is not None)
        beside = beside.array if recorded else beside
        place = devices.namespace(beside)

        def dummy(shape: tuple, d: Any) -> Tensor:
            return Tensor._wrap(place.new_zeros(beside, shape, d)).requires_grad_()

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
                    term = engine_xp.sum(f * (t if recorded else Tensor._wrap(place.asarray(t))))
                    dot = term if dot is None else dot + term
            heads = g if cls.multi else [g]
            captured = {h.node: None for h in heads}
            if dot is not None and dot.node is not None:
                one = place.ones_like(dot.array)
                if recorded:
                    tape.backward([(dot.node, Tensor._wrap(one))], engine_xp, True, captured, accumulate=False)
                else:
                    tape.backward([(dot.node, one)], place, True, captured, accumulate=False)
        finally:
            _mode.grad = before

        def tangent(found: Any, like: Any) -> Any:
            if found is None:
                zeros = place.new_zeros(beside, like.shape, like.dtype)
                return Tensor._wrap(zeros) if recorded else zeros
            return found.conj() if like.dtype.kind == "c" else found  # captured gradients are conjugated for the user

        out = [tangent(c, h.array) for c, h in zip(captured.values(), heads, strict=True)]
        return out if cls.multi else out[0]

    @classmethod
    def _along(cls, node: tape.Node, tangents: list, xp: Any, recorded: bool) -> Any:
        """The tangent of the result by the forward-mode rules: the sum over the inputs."""
        saved = rules.retied(cls, node, xp) if recorded else node.saved
        names = xp if recorded else devices.common([t for t in tangents if t is not None], cls.name)
        if node.dtype in LOW:
            saved, tangents = (
                (saved, rules.up_recorded(tangents, xp)) if recorded else (rules.up(list(saved), names), rules.up(tangents, names))
            )
        if cls.multi:
            rule, t = cls.slopes[0], tangents[0]  # such an op has one input
            return rules.at_work(names, rule)(names, t, saved, node.attrs, None)
        total = None
        for t, rule, source in zip(tangents, cls.slopes, node.inputs, strict=True):
            if t is not None and rule is not None:
                term = rules.at_work(names, rule)(names, t, saved, node.attrs, source.shape)
                total = term if total is None else total + term
        if total is not None and total.dtype != node.dtype and cls._is_real(node.dtype) and not cls._is_real(total.dtype):
            total = names.real(total)  # a real function of complex inputs: the tangent is the real part
        if total is not None and getattr(total, "array", total).dtype != node.dtype:
            total = names.astype(total, FROM_NUMPY[node.dtype] if recorded else node.dtype)
        return total if total is None or tuple(total.shape) == node.shape else names.broadcast_to(total, node.shape)

    @staticmethod
    def _is_real(dtype: Any) -> bool:
        return getattr(dtype, "numpy", dtype).kind != "c"

    # -- inputs ------------------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, arrays: list) -> tuple[list, Any]:
        """Promote the inputs and find their device: return the arrays for `forward`, and the array namespace to run it in.

        Raises Refused if the dtypes or devices do not match.
        """
        xp = devices.common(arrays, cls.name)
        kind = cls.types
        if kind == "any":
            return arrays, xp
        if kind == "same":
            seen = {a.dtype for a in arrays if hasattr(a, "dtype")}
            if len(seen) > 1:
                raise Refused(f"expected operands of one dtype, but got {' and '.join(sorted(FROM_NUMPY[d].name for d in seen))}")
            return arrays, xp
        if len({getattr(a, "dtype", None) for a in arrays}) == 1 and FROM_NUMPY[arrays[0].dtype].rank >= FLOAT:
            return arrays, xp
        want = dtypes.result(tuple(arrays))
        if kind == "float" and want.rank < FLOAT:
            want = dtypes.default
        d = want.numpy
        return [
            a if a is None else (a if a.dtype is d else xp.astype(a, d)) if hasattr(a, "dtype") else number(a, want)
            for a in arrays
        ], xp  # fmt: skip

    @classmethod
    def refuse(cls, inputs: tuple, rule: str, kind: type[Exception] = RuntimeError) -> None:
        """Raise the op's own error for inputs before calling it: the message describes the inputs, and the observer is notified."""
        failed(cls, Refused(rule, kind), inputs, {})

    @classmethod
    def explain(cls, error: Exception, inputs: tuple, attrs: dict) -> Exception:
        """Turn an error that `forward` raised into PyTorch's type, with a message that names the op, the rule and the operands."""
        if cls.tensors and (strange := cls._no_tensor(inputs, error)) is not None:
            return cls._refused_input(*strange)
        try:
            arguments.refuse(cls.name, arguments.kinds_of(cls.forward), cls.params, (), attrs)
        except TypeError as told:
            return told
        if isinstance(error, Refused) and (error.kind is NotImplementedError or cls.dims_first):
            error = cls._broken(inputs, attrs) or error
        in_layers = isinstance(error, Refused) and cls.home == "nn.functional" and cls.types == "same"
        if in_layers and (strange := cls._no_tensor(inputs, error)) is not None:
            return cls._refused_input(*strange)
        if isinstance(error, Refused):
            kind, rule = error.kind, str(error)
        elif isinstance(error, numpy.exceptions.AxisError):
            kind, n = IndexError, error.ndim or 0
            rule = f"Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {error.axis})"
        elif isinstance(error, (AttributeError, TypeError, ValueError)) and (strange := cls._no_tensor(inputs, error)) is not None:
            return cls._refused_input(*strange)
        elif any(words in str(error) for words in _WRONG_TYPE):
            kind, rule = TypeError, str(error)
        elif isinstance(error, AttributeError):
            return error
        else:
            kind = next((k for k in (IndexError, NotImplementedError) if isinstance(error, k)), RuntimeError)
            shapes = [tuple(x.shape) if hasattr(x, "shape") else () for x in inputs if not isinstance(x, (tuple, list))]
            rule = cls.why(*shapes) or str(error)
        operands = list(zip(cls.inputs, inputs, strict=False))
        if cls.variadic:
            operands = [(f"{cls.inputs[0]}[{i}]", x) for i, x in enumerate(inputs)]
        placed = [str(getattr(x, "device", "")) for _, x in operands]
        apart = len({*placed} - {""}) > 1
        told = ", ".join(
            f"{name} is {errors.describe(x)}{f' on {place}' if apart and place else ''}"
            for (name, x), place in zip(operands[:8], placed[:8], strict=True)
            if x is not None
        )
        chosen = ", ".join(
            f"{k}={v!r}" for k, v in attrs.items() if not k.startswith("__") and cls.defaults.get(k) is not v and len(repr(v)) < 60
        )
        return kind(f"{cls.name}: {rule}; {told}{'; ' + chosen if chosen else ''}{errors.at_user_line()}")

    @classmethod
    def _broken(cls, inputs: tuple, attrs: dict) -> Exception | None:
        """The error apart from the unsupported dtype, which PyTorch checks last: what `forward` raises for a supported dtype."""
        taken = next(d for d in ("f4", "i8", "?") if numpy.dtype(d).kind not in getattr(cls, "refuses", "bi"))
        given = [None if x is None else numpy.broadcast_to(numpy.ones((), taken), getattr(x, "shape", ())) for x in inputs]
        try:
            cls.forward(cpu, given, **attrs) if cls.variadic else cls.forward(cpu, *given, **attrs)
        except RuntimeError:  # values out of the dtype's range are checked after the dtype
            return None
        except Exception as error:
            return error
        return None

    @classmethod
    def _no_tensor(cls, inputs: tuple, error: Exception) -> tuple[str, Any] | None:
        """The name and value of the first input that should be a tensor. Where dtypes are promoted, a number beside a tensor is valid."""
        names = [f"{cls.inputs[0]}[{i}]" for i in range(len(inputs))] if cls.variadic else cls.inputs
        taken = cls.numbers or cls.types == "any" and not isinstance(error, AttributeError)
        beside = not cls.tensors and taken and any(hasattr(x, "shape") for x in inputs)
        for name, x in zip(names, inputs, strict=False):
            number = beside and isinstance(x, (bool, int, float, complex))
            if not (number or hasattr(x, "shape") or x is None and name in cls.optional):
                return name, x
        return None

    @classmethod
    def _refused_input(cls, name: str, x: Any) -> TypeError:
        at = f" (position {cls.params.index(name) + 1})" if name in cls.params else ""
        return TypeError(f"{cls.name}(): argument '{name}'{at} must be Tensor, not {type(x).__name__}{errors.at_user_line()}")

    @staticmethod
    def why(*shapes: tuple) -> str | None:
        """Describe in one sentence which rule these shapes break; None if they break none."""


class Elementwise(Op):
    """An op whose output elements depend on one element of each input, so that one rule serves reverse and forward mode."""

    types = "promote"
    inplace = casts = pointwise = True
    laid = staticmethod(as_first)
    samples = (((2, 3),) * 2, ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)))

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
    """An op that is linear in each input: the push is the op itself, with the tangent in place of that input."""

    @classmethod
    def push(cls, node: tape.Node, tangents: list, xp: Any, recorded: bool) -> Any:
        if cls.variadic or cls.multi or cls.aux:
            return super().push(node, tangents, xp, recorded)
        kept = rules.retied(cls, node, xp) if recorded else node.saved
        attrs = {k: v for k, v in node.attrs.items() if not k.startswith("__")}
        names = xp if recorded else devices.common([t for t in tangents if t is not None], cls.name)
        if low := node.dtype in LOW:
            kept, tangents = (kept, rules.up_recorded(tangents, xp)) if recorded else (rules.up([*kept], names), rules.up(tangents, names))
        saved = dict(zip(cls.slots, kept or (None,) * len(cls.slots), strict=False))
        run, total = functools.partial(cls.forward, **attrs), None
        for name, t in zip(cls.inputs, tangents, strict=True):
            if t is not None:
                term = rules.at_work(names, run)(names, *[t if a == name else saved[a] for a in cls.inputs])
                total = term if total is None else total + term
        return names.astype(total, FROM_NUMPY[node.dtype] if recorded else node.dtype) if low and total is not None else total


# -- names -----------------------------------------------------------------------------------------------------------


def _parameters(forward: Callable) -> list[Parameter]:
    """The parameters of a `forward` after `xp`, without annotations: like `inspect.signature`, in a third of its time."""
    code, kinds, none = forward.__code__, (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY), Parameter.empty
    n, more, named = code.co_argcount, forward.__defaults__ or (), forward.__kwdefaults__ or {}
    defaults = dict(zip(code.co_varnames[n - len(more) : n], more, strict=True)) | named
    names = code.co_varnames[1 : n + code.co_kwonlyargcount]
    return [Parameter(name, kinds[i >= n - 1], default=defaults.get(name, none)) for i, name in enumerate(names)]


def _document(op: Any, params: list) -> None:
    call = op.call
    order = {Parameter.POSITIONAL_ONLY: 0, Parameter.POSITIONAL_OR_KEYWORD: 1, Parameter.VAR_POSITIONAL: 2, Parameter.KEYWORD_ONLY: 3}
    if op.order:
        params = [p.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) for p in params]  # in the caller's order
    else:
        params = sorted(params, key=lambda p: (order[p.kind], p.default is not Parameter.empty))
    op.signature = Signature(params)
    call.__signature__ = op.signature
    call.__name__ = call.__qualname__ = op.name
    call.__doc__, call.op = op.__doc__, op
    call.__module__ = "engine"


def _install(op: Any) -> None:
    call, name = op.call, op.name
    for n in (name, *op.aliases) if op.home else ():
        functions[n if op.home == "engine" else f"{op.home}.{n}"] = call
        if op.method:
            define(n, call)
            if op.inplace:
                define(f"{n}_", _in_place(op))
    if op.operator:
        operate = getattr(op, "operate", call)
        define(f"__{op.operator}__", operate)
        if len(op.inputs) == 2:
            told = naming.REFLECTED.get(name)
            reflected = (lambda x, y: operate(y, x)) if told is None else lambda x, y: naming.named(operate(y, x), told)
            define(f"__r{op.operator}__", reflected)
            if op.inplace:
                define(f"__i{op.operator}__", getattr(Tensor, f"{name}_"))


def _in_place(op: Any) -> Callable:
    more, plain = len(op.inputs) - 1, None if op.tensors else sorter(op)((), {})
    ufunc, name = inplace.UFUNCS.get(op.name), f"{op.name}_"

    def call(self, *args, **kwargs):
        if ufunc is not None and len(args) == 1 and not kwargs and inplace.written_by(ufunc, name, self, args[0]):
            return self
        if kwargs and (wanted := kwargs.pop("dtype", None)) not in (None, self.dtype):
            raise RuntimeError(f"{op.name}_: input tensor dtype {self.dtype.name} and output tensor dtype {wanted} should match")
        try:
            if plain is not None and len(args) == more and not kwargs:  # `x += y`: there are no arguments to bind
                return inplace.write(op, self, args, plain)
            inputs, attrs = op.bind((self, *args), kwargs)
            if op.tensors and (strange := op._no_tensor(inputs, TypeError())) is not None:
                raise op._refused_input(*strange)
            return inplace.write(op, self, inputs[1:], attrs)
        except (AttributeError, KeyError) as error:
            if (strange := op._no_tensor((self, *args), error)) is not None:
                raise op._refused_input(*strange) from None
            raise

    call.__name__ = call.__qualname__ = f"{op.name}_"
    call.__doc__ = f"In-place form of `{op.name}`: {op.__doc__}"
    return call


def replacing(name: str, fn: Callable, scatters: bool = False) -> Callable:
    """Make `x.<name>_(...)` from a function of several ops: compute the result, then write it into x's memory.

    `scatters`: no operand may share that memory.
    """

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        inplace.refuse_leaf(self, f"{name}_")
        kept = self._like(self.array.copy(), inplace.past_hooks(self))
        result = casting.alone(fn, kept, *args, **kwargs)
        if any(result is x for x in (kept, *args)):
            result = result.clone()  # it needs its own node
        for x in casting.tensors((args, kwargs)) if scatters else ():
            inplace.refuse_shared(self.array, x.array, f"{name}_", True)
        if result.array.shape != self.array.shape:
            raise RuntimeError(f"{name}_: the result has shape {result.array.shape}, but the tensor has shape {self.array.shape}")
        inplace.put(self, result, f"{name}_")
        return self

    call.__name__ = call.__qualname__ = f"{name}_"
    call.__doc__ = f"In-place form of `{name}`: {fn.__doc__}"
    return call


def composite(
    fn: Callable | None = None, *, home: str = "engine", method: bool = False, aliases: tuple[str, ...] = (), in_place: bool = False
) -> Any:  # fmt: skip
    """Register a function made of ops under its name, as a scope for the observer, which can group its ops.

    `home` is its namespace. `method` makes it a method of Tensor, `in_place` adds the in-place method, `aliases` are other names. The
    function also gets `out=`, autocast and PyTorch's argument errors.
    """
    if fn is None:
        return functools.partial(composite, home=home, method=method, aliases=aliases, in_place=in_place)
    name = fn.__name__.rstrip("_")
    params = signature(fn).parameters
    own_out = "out" in params
    # PyTorch's functions that are written in Python take no synonyms for their parameters
    in_python = name != "cosine_similarity" if home == "nn.functional" else home == "engine" and name in ("norm", "split")
    further = {} if in_python else synonyms(params)
    usual = {} if home == "nn.functional" else arguments.USUAL  # nn.functional raises Python's own errors
    kinds, names = arguments.kinds_of(fn, usual), arguments.names_of(fn)
    autocast, run = casting.policy(name, home), naming.by_function(name, fn)

    @functools.wraps(fn)
    def call(*args, **kwargs):
        if kwargs and not further.keys().isdisjoint(kwargs):
            kwargs = spelled(name, kwargs, further)
        if "out" in kwargs and not own_out:
            return into(call, args, kwargs)
        if casting.on and autocast is not None and (chosen := casting.asked(autocast, (args, kwargs))) is not None:
            return casting.run(chosen, (args, kwargs), lambda given: call(*given[0], **given[1]))
        watcher = observe.current
        if watcher is None:
            try:
                return run(*args, **kwargs)
            except Exception:
                arguments.refuse(name, kinds, names, args, kwargs)
                raise
        watcher.enter("function", name, fn)
        try:
            return run(*args, **kwargs)
        except Exception:
            arguments.refuse(name, kinds, names, args, kwargs)
            raise
        finally:
            watcher.leave()

    call.__name__ = call.__qualname__ = name
    call.name, call.call, call.autocast = name, call, autocast  # type: ignore[attr-defined]
    for n in (name, *aliases):
        functions[n if home == "engine" else f"{home}.{n}"] = call
        if method:
            define(n, call)
        if in_place:
            define(f"{n}_", replacing(n, call))
    return call
