"""The call path: what runs when an op is called.

A call goes through the same steps for every op: bind the arguments to inputs and attributes, apply autocast, take the arrays out of the
tensors, promote dtypes and find the array namespace (`Op.prepare`), run `forward`, wrap the results as tensors, add a node to the tape
if an input requires grad, mark views, and notify the observer. `_run` has all of these steps. `_binary` and `_unary` are quick ways for
NumPy arrays of float32 or float64, which need no preparation; they fall back on `_run`. `call_path` chooses an op's path once, when the
op is defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..backends import cpu, loops, slopes
from ..backends.batch import Namespace, Unbatchable
from ..backends.coo import Coo
from ..base import dtypes, errors, observe
from ..base.dtypes import F32, FLOAT, FROM_NUMPY, LOW
from ..base.errors import Refused
from ..base.layout import as_first
from . import batching, casting, devices, inplace, quick, tape, versions
from .out import into
from .rules import up
from .tensor import Tensor

_FAST = quick.DTYPES
_seen: list = []  # callbacks for each new node on the tape, which only `_run` calls: see `noting`
_ARRAYS = frozenset(("ndarray", "Batched", "Meta", "Traced"))  # the array classes of NumPy and CuPy, vmap, the meta device, and XLA
_mode = tape.mode


def number(x: Any, want: dtypes.dtype) -> Any:
    """Convert a Python number to the dtype of the result. PyTorch wraps 300 for uint8, where NumPy raises.

    Raises Refused for an object that is not a number, and for an integer of more than 64 bits.
    """
    if not isinstance(x, (bool, int, float, complex, numpy.generic)):
        raise Refused(f"expected a Tensor or a number, got {errors.describe(x)}", TypeError)
    if want.rank == dtypes.INT and isinstance(x, int) and not isinstance(x, bool):
        if not -(1 << 63) <= x < 1 << 64:
            raise Refused(f"{x} is an integer of more than 64 bits", OverflowError)
        bits = want.itemsize * 8
        x &= (1 << bits) - 1
        return want.numpy.type(x - (1 << bits) if want.is_signed and x >> (bits - 1) else x)
    if want.numpy in LOW:
        return want.numpy.type(float(x))  # NumPy raises for integers of more than 64 bits
    return want.numpy.type(x) if isinstance(x, numpy.generic) else x


def _array(data: Any) -> Any:
    """A result that is neither a NumPy array nor a NumPy scalar: a Python number becomes an array, a GPU array is returned unchanged."""
    return data if hasattr(data, "base") else numpy.asarray(data)


# Makes the function that runs an op, by the fastest path that its signature allows.
def call_path(op: Any) -> Callable:
    if op.variadic:
        return _variadic(op)
    if len(op.inputs) == 2 and not op.defaults and not op.required - set(op.inputs) and not op.aux and len(op.outputs) == 1 and not op.view:
        return _binary(op)
    if len(op.inputs) == 1 and not op.aux and len(op.outputs) == 1 and not op.optional:
        return _unary(op)
    if op.params[: len(op.inputs)] != op.inputs and op.bind.__func__ is bind:
        return _ordered(op)
    return _general(op)


def _binary(op: Any) -> Callable:
    """The path of `a + b`, with all steps inlined: it runs more often than any other code in the engine."""
    forward, (dx, dy) = op.forward, op.rules
    (x_for_x, y_for_x, out_for_x), (x_for_y, y_for_y, out_for_y) = ([d is not None and i in d.keeps for i in range(3)] for d in (dx, dy))
    keeps_x, keeps_y, keeps_out = x_for_x or x_for_y, y_for_x or y_for_y, out_for_x or out_for_y
    for_x, for_y = x_for_x or y_for_x or out_for_x, x_for_y or y_for_y or out_for_y
    ruled, laid, fast_types, numbers = op.ruled, op.laid, _FAST if op.types != "any" else (), op.numbers
    new_tensor, new_node, tick, attrs = object.__new__, tape.Node.__new__, tape.tick, {}
    ndarray, generic, asarray = numpy.ndarray, numpy.generic, numpy.asarray
    node_class, mode, seen, launched = tape.Node, _mode, observe, op.pointwise and not op.checks
    large, many = slopes.LARGE_FORMS.get((op.name, "forward")), loops.LARGE

    def path(otherwise):
        def call(x, y):
            if isinstance(x, Tensor):
                xd, xn = x.array, x.node
            else:
                xd, xn = x, None
            if isinstance(y, Tensor):
                yd, yn = y.array, y.node
            else:
                yd, yn = y, None
            xc, yc = xd.__class__, yd.__class__
            if xc is ndarray:
                dtype = xd.dtype
                ready = dtype in fast_types and (yd.dtype is dtype if yc is ndarray else yc is float or yc is int)
            else:
                ready = numbers and yc is ndarray and (xc is float or xc is int) and yd.dtype in fast_types
            watcher = seen.current
            if watcher is not None:
                watcher.begins()
            if not ready:
                quickly = launched and fast_types and devices.gpu is not None and not (devices.several and devices.away((xd, yd)))
                data = devices.gpu.elementwise.binary(op, xd, yd) if quickly else None  # pyright: ignore[reportOptionalMemberAccess]
                if data is None:
                    return otherwise(op, (x, y), attrs)
            else:
                try:
                    found = large(xd, yd) if large is not None and (xd if xc is ndarray else yd).size >= many else None
                    data: Any = forward(cpu, xd, yd) if found is None else found
                    if laid is not None and xc is yc and data.ndim > 2 and not xd.flags.c_contiguous:
                        data = laid(data, xd, yd)
                except Exception as error:
                    return failed(op, error, (x, y), attrs)
            out = new_tensor(Tensor)
            out.array = data if data.__class__ is ndarray else asarray(data) if isinstance(data, generic) else _array(data)
            out.node = None
            if ruled and (xn is not None or yn is not None) and mode.grad:
                out.node = node = new_node(node_class)
                node.op, node.inputs, node.attrs, node.hooks, node.time = op, (xn, yn), attrs, None, tick()
                if not (for_x and xn is not None or for_y and yn is not None):
                    node.saved = ()
                elif xn is None:
                    node.saved = (xd if x_for_y else None, yd if y_for_y else None, out.array if out_for_y else None)
                elif yn is None:
                    node.saved = (xd if x_for_x else None, yd if y_for_x else None, out.array if out_for_x else None)
                else:
                    node.saved = (xd if keeps_x else None, yd if keeps_y else None, out.array if keeps_out else None)
                node.shape, node.dtype = data.shape, data.dtype
            if watcher is not None:
                watcher.op(op, (x, y), attrs, out)
            return out

        return call

    call = path(_run)

    def function(*args, **kwargs):
        if kwargs or len(args) != 2:
            if "out" in kwargs:
                return into(op, args, kwargs)
            (x, y), _ = op.bind(args, kwargs)
            return call(x, y)
        return call(*args)

    op.operate = staticmethod(path(_operated))
    return function


def _unary(op: Any) -> Callable:
    """The path of `x.tanh()` and `x.sum(0)`: one tensor, optional attributes, one result."""
    forward, defaults, rule, needs_more, ruled = op.forward, op.defaults, op.rules[0], bool(op.required - set(op.inputs)), op.ruled
    keeps_input, keeps_out = (rule is not None and i in rule.keeps for i in (0, 1))
    keeps_any, view, row_major = keeps_input or keeps_out, op.view, op.row_major
    channels = None if op.laid is as_first else op.laid  # with one operand NumPy already keeps the memory order
    new_tensor, new_node, tick = object.__new__, tape.Node.__new__, tape.tick
    ndarray, generic, asarray = numpy.ndarray, numpy.generic, numpy.asarray
    node_class, mode, seen, launched = tape.Node, _mode, observe, op.pointwise and not op.checks
    sort, on_cpu = sorter(op), op.on_cpu
    large, many = slopes.LARGE_FORMS.get((op.name, "forward")), loops.LARGE

    def call(input=None, *args, **kwargs):
        attrs = defaults
        if kwargs or args or needs_more:
            attrs = sort(args, kwargs)
            if attrs is None:
                given = args if input is None else (input, *args)  # `det(A=x)`
                if "out" in kwargs:
                    return into(op, given, kwargs)
                (input,), attrs = op.bind(given, kwargs)
        if not isinstance(input, Tensor):
            if input is None:
                op.bind(args, kwargs)  # raises, naming the missing argument
            if isinstance(input, (bool, int, float, complex)) and not isinstance(input, numpy.generic):
                failed(op, TypeError(), (input,), attrs)  # NumPy would accept a number
            return _run(op, (input,), attrs)
        array, source = input.array, input.node
        watcher = seen.current
        if array.__class__ is not ndarray or array.dtype not in _FAST:
            if watcher is not None:
                watcher.begins()
            data: Any = None
            gpu = devices.gpu
            if _FAST and array.__class__ is devices.gpu_array is not None and not (devices.several and devices.elsewhere((array,))):
                if launched:
                    data = gpu.elementwise.unary(op, array, attrs)
                elif not op.pointwise and array.dtype in _FAST and (attrs is defaults or batching.plain(attrs)):
                    try:
                        data = forward(gpu, array, **attrs)
                    except Exception as error:
                        return failed(op, error, (input,), attrs)
                    if data.__class__.__name__ not in _ARRAYS:
                        data = gpu.asarray(data)
                    elif row_major and not data.flags.c_contiguous:
                        data = _in_rows(data, array)
            if data is None:
                return _run(op, (input,), attrs)
        else:
            if watcher is not None:
                watcher.begins()
            try:
                found = large(array, **attrs) if large is not None and array.size >= many else None
                if found is not None:
                    data = found
                else:
                    data = on_cpu(cpu, array) if attrs is defaults else on_cpu(cpu, array, **attrs)
            except Unbatchable:  # an attribute differs between samples of a vmap
                return _run(op, (input,), attrs)
            except Exception as error:
                if any(map(_holds, attrs.values())):
                    return _run(op, (input,), {name: _plain(x) for name, x in attrs.items()})
                return failed(op, error, (input,), attrs)
            if data.__class__ is not ndarray:
                data = asarray(data) if isinstance(data, generic) else _array(data)
            elif row_major and not data.flags.c_contiguous:
                data = _in_rows(data, array)
            elif channels is not None and array.ndim > 3 and not array.flags.c_contiguous:
                data = channels(data, array)
        out = new_tensor(Tensor)
        out.array, out.node = data, None
        if ruled and source is not None and mode.grad:
            out.node = node = new_node(node_class)
            node.op, node.inputs, node.attrs, node.hooks, node.time = op, (source,), attrs, None, tick()
            node.saved = (array if keeps_input else None, data if keeps_out else None) if keeps_any else ()
            node.shape, node.dtype = data.shape, data.dtype
        if view and versions.storage(data) is versions.storage(array):
            inplace.mark_view(out, input, op, attrs)
        if watcher is not None:
            watcher.op(op, (input,), attrs, out)
        return out

    return call


def _general(op: Any) -> Callable:
    """The path of any fixed number of inputs, with attributes."""
    n, filled, sort = len(op.inputs), tuple(op.optional.get(name) for name in op.inputs), sorter(op)
    fewest = len(op.required & set(op.inputs))

    def call(*args, **kwargs):
        given = len(args)
        attrs = sort(args[n:], kwargs) if given >= fewest else None
        if attrs is not None:
            return _run(op, args if given == n else args[:n] if given > n else args + filled[given:], attrs)
        if "out" in kwargs:
            return into(op, args, kwargs)
        return _run(op, *op.bind(args, kwargs))

    return call


def _ordered(op: Any) -> Callable:
    """The path of `layer_norm(input, normalized_shape, weight, bias)`: not all inputs come first. Python itself sorts the arguments."""
    known = {**op.defaults, **op.optional}
    given = ", ".join(f"{name}=known[{name!r}]" if name in known else name for name in op.params)
    attrs = ", ".join(f"{name!r}: {name}" for name in op.params if name not in op.inputs)
    text = f"lambda {given}: (({', '.join(op.inputs)},), {{{attrs}}})"
    sort = eval(compile(text, __file__, "eval"), {"known": known})  # with this file's name, so that it is not taken for user code

    def call(*args, **kwargs):
        try:
            inputs, attrs = sort(*args, **kwargs)
        except TypeError:
            if "out" in kwargs:
                return into(op, args, kwargs)
            inputs, attrs = op.bind(args, kwargs)  # says what is wrong, and knows synonyms
        else:
            if not _SCALARS.isdisjoint(map(type, attrs.values())):
                inputs, attrs = op.bind(args, kwargs)
        return _run(op, inputs, attrs)

    return call


def _variadic(op: Any) -> Callable:
    sort = sorter(op)

    def call(*args, **kwargs):
        attrs = sort(args[1:], kwargs) if args else None
        if attrs is not None:
            tensors = args[0]
        elif "out" in kwargs:
            return into(op, args, kwargs)
        else:
            (tensors,), attrs = op.bind(args, kwargs)
        if isinstance(tensors, Tensor) or not hasattr(tensors, "__iter__"):
            raise TypeError(f"{op.name}: expected a sequence of tensors, got {errors.describe(tensors)}")
        return _run(op, tuple(tensors), attrs)

    return call


def sorter(op: Any) -> Callable:
    """Make a fast `bind` for usual calls: it maps the arguments after the inputs to attributes, or returns None where `bind` is needed."""
    n, defaults, plain = len(op.inputs), op.defaults, op.bind.__func__ is bind
    names = op.params[n:]
    complete, more = len(names), len(names) > len(defaults)
    if op.params[:n] != op.inputs or op.varargs and complete != 1:
        return lambda args, kwargs: None
    later = [frozenset(names[i:]) for i in range(complete + 1)]
    only = names[0] if op.varargs else None

    def sort(args, kwargs):
        k = len(args)
        if only is not None and k and not kwargs:  # x.permute(0, 2, 1), x.permute((0, 2, 1))
            first = args[0]
            return None if first.__class__ is numpy.ndarray else {only: first if k == 1 and isinstance(first, (tuple, list)) else args}
        if k > complete or kwargs and not kwargs.keys() <= later[k]:
            return None
        if not plain and not ({v.__class__ for v in args} <= _INT and {v.__class__ for v in kwargs.values()} <= _INT_OR_BOOL):
            return None  # the op's own `bind` treats arguments other than integers specially
        if k or kwargs:
            if not _SCALARS.isdisjoint(map(type, args)) or kwargs and not _SCALARS.isdisjoint(map(type, kwargs.values())):
                return None
            attrs = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
            return attrs if not more or len(attrs) == complete else None
        return None if more else defaults

    return sort


_INT, _INT_OR_BOOL = frozenset((int,)), frozenset((int, bool))
# NumPy's numbers, which would decide the dtype of what is computed with them: `bind` makes them Python's
_SCALARS = frozenset(numpy.dtype(c).type for c in "?" + numpy.typecodes["AllInteger"] + numpy.typecodes["AllFloat"])


def bind(cls: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Sort a call's arguments into `(inputs, attributes)`. Raises TypeError, with the signature, if they do not fit."""
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
    return inputs, {**cls.defaults, **{name: x.item() if x.__class__ in _SCALARS else x for name, x in values.items()}}


_SYNONYMS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "x2": "other"}  # NumPy's names, which PyTorch takes too
_SYNONYMS |= {"A": "input", "axis0": "dim0", "axis1": "dim1"}  # the names in torch.linalg, and in swapaxes


def synonyms(params: Any) -> dict[str, str]:
    """Map the synonyms that a composite function's parameters have to the parameters' names."""
    return {other: name for other, name in _SYNONYMS.items() if name in params and other not in params}


def spelled(name: str, kwargs: dict, further: dict[str, str]) -> dict:
    """Rename keyword arguments from synonyms to the parameters' names. Raises TypeError if one is given under two names."""
    own = {further.get(key, key): value for key, value in kwargs.items()}
    if len(own) < len(kwargs):
        raise TypeError(f"{name}() got one argument under two names: {', '.join(kwargs)}")
    return own


def _holds(x: Any) -> bool:
    """Whether an attribute is or contains a 0-d tensor that does not require grad, which PyTorch accepts as a number."""
    if isinstance(x, (tuple, list)):
        return any(map(_holds, x))
    return (
        isinstance(x, Tensor)
        and x.node is None
        and x.array.__class__ is numpy.ndarray
        and not x.array.ndim
        and x.array.dtype.kind in "iubf"
    )


def _plain(x: Any) -> Any:
    return [_plain(one) for one in x] if isinstance(x, (tuple, list)) else x.array.item() if _holds(x) else x


# Raises an error of `forward` with the op's own message, and notifies the observer. If only NumPy's state was in the way, runs the op.
def failed(op: Any, error: Exception, inputs: tuple, attrs: dict) -> Any:
    if isinstance(error, errors.FLOATING) and set(numpy.geterr().values()) != {"ignore"}:
        with numpy.errstate(all="ignore"):
            return _run(op, inputs, attrs)
    try:
        if isinstance(error, MemoryError):
            errors.out_of_memory(op.name, error)
        if not isinstance(
            error, (Refused, ValueError, TypeError, IndexError, RuntimeError, OverflowError, AttributeError, numpy.linalg.LinAlgError)
        ):
            raise error
        told = op.explain(error, inputs, attrs)
        if observe.current is not None:
            observe.current.failed(op, inputs, attrs, told)
        raise told from error
    finally:  # an error that this frame refers to is a reference cycle, which would keep the inputs until garbage collection
        told = error = None  # type: ignore[assignment]


def _operated(op: Any, inputs: tuple, attrs: dict) -> Any:
    """`_run` for an operator: returns NotImplemented for an operand that is neither tensor nor number, such as the list in `[0] * x`."""
    return _run(op, inputs, attrs) if all(map(operand, inputs)) else NotImplemented


def operand(x: Any) -> bool:
    """Whether an object can be an operand of a tensor operator."""
    return isinstance(x, (Tensor, int, float, complex)) or hasattr(x, "dtype")


# The general path, with every step: any arrays, devices and dtypes, autocast, vmap levels, several results, views.
def _run(op: Any, inputs: tuple, attrs: dict) -> Any:
    if devices.several and (place := devices.elsewhere(inputs)) is not None:
        with place:
            return _run(op, inputs, attrs)
    if casting.on and op.autocast is not None and (chosen := casting.asked(op.autocast, inputs)) is not None:
        return casting.run(chosen, inputs, lambda inputs: _run(op, inputs, attrs))
    watcher = observe.current
    if watcher is not None:
        watcher.begins()
    arrays, nodes, live, bit = [], [], 0, 1
    # ready: all inputs are float arrays of one dtype, and all NumPy's or all on a GPU, so that they need no preparation
    kind, home, ready = None, None, not op.checks
    for x in inputs:
        node = None
        if isinstance(x, Tensor):
            node, x = x.node, x.array
            if node is not None:
                live |= bit
            found = x.__class__
            if found is not home:
                if home is None and (found is numpy.ndarray or found is devices.gpu_array):
                    home = found
                elif found is Coo:
                    return Coo.run(op, inputs, attrs)
                else:
                    ready = False
            if x.dtype is not kind:
                if kind is None and (x.dtype in _FAST or home is not numpy.ndarray and op.halves and x.dtype in LOW):
                    kind = x.dtype
                elif not op.unprepared or x.dtype in LOW:
                    ready = False
        elif x is not None and not (op.numbers and (x.__class__ is float or x.__class__ is int)):
            ready = False
            if op.variadic and isinstance(x, (numpy.ndarray, numpy.generic)):
                refused = f"expected Tensor as element {len(arrays)} in argument 0, but got numpy.{type(x).__name__}"
                failed(op, Refused(refused, TypeError), inputs, attrs)
        arrays.append(x)
        nodes.append(node)
        bit += bit
    try:
        ready = ready and kind is not None and (home is numpy.ndarray or not devices.several)
        if ready:
            xp, low = cpu if home is numpy.ndarray else devices.gpu, None
        else:
            arrays, xp = op.prepare(arrays)
            as_it_is = op.exact or op.types == "any" and (op.view or not op.ruled) or op.halves and xp is devices.gpu
            low = None if as_it_is else next((a.dtype for a in arrays if getattr(a, "dtype", None) in LOW), None)
        found = devices.gpu.elementwise.forward(op, arrays, attrs) if op.pointwise and xp is devices.gpu else None
        if found is not None:
            data, low = found, None
        else:
            forward = op.on_cpu if xp is cpu else op.forward
            if devices.mixed and not ((ready or xp is devices.gpu) and batching.plain(attrs)):
                xp, forward, arrays, nodes = batching.prepared(xp, forward, arrays, nodes, attrs)
            given = arrays if low is None else [up(a, xp) for a in arrays]
            data = forward(xp, given, **attrs) if op.variadic else forward(xp, *given, **attrs)
    except Exception as error:
        if any(map(_holds, attrs.values())):
            return _run(op, inputs, {name: _plain(x) for name, x in attrs.items()})
        return failed(op, error, inputs, attrs)
    whole = data if data.__class__ is tuple else (data,)
    if xp.__class__ is Namespace:
        whole = tuple(map(xp.marked, whole))
    if low is not None:
        # results are rounded once; the auxiliary values for the rules (`aux`) stay in float32
        whole = tuple(xp.astype(a, low) if i < len(op.outputs) and getattr(a, "dtype", None) == F32 else a for i, a in enumerate(whole))
    first = arrays[0]
    laid = op.laid if isinstance(first, numpy.ndarray) or first.__class__ is devices.gpu_array else None
    if op.row_major and (laid is None or xp is not devices.gpu) and not (data.__class__ is numpy.ndarray and data.flags.c_contiguous):
        whole = tuple(_in_rows(a, first) if hasattr(a, "flags") and not a.flags.c_contiguous else a for a in whole)
    n_out = len(op.outputs)
    if laid is not None and first.ndim > 1 and not first.flags.c_contiguous:
        whole = (*[laid(a, *arrays) for a in whole[:n_out]], *whole[n_out:])
    results = []
    for data in whole[:n_out]:
        out = object.__new__(Tensor)
        out.array = data if data.__class__.__name__ in _ARRAYS else xp.asarray(data)
        out.node = None
        results.append(out)
    if live and op.ruled and _mode.grad:
        _record(op, live, nodes, attrs, arrays, results, whole[n_out:])
    answer: Any = results[0] if n_out == 1 else op.Result(*results)
    if op.view:
        source = inputs[0]
        for out in results:
            if versions.storage(out.array) is versions.storage(source.array):
                inplace.mark_view(out, source, op, attrs)
    if watcher is not None:
        watcher.op(op, inputs, attrs, answer)
    return answer


def _in_rows(data: Any, source: Any) -> Any:
    """The array in row-major order; a view of `source` is returned unchanged."""
    return data if versions.storage(data) is versions.storage(source) else data.copy()


def _record(op: Any, live: int, nodes: list, attrs: dict, arrays: list, results: list, aux: tuple) -> None:
    """Add one node to the tape, with the arrays that the rules of its live inputs use. `live` is a bit mask of the inputs with a node."""
    node = tape.Node.__new__(tape.Node)
    node.op, node.attrs, node.hooks, node.time = op, attrs, None, tape.tick()
    if op.variadic:
        ruled, kept = None, op._kept
        node.attrs, given = {**attrs, "shapes": tuple([a.shape for a in arrays])}, (tuple(arrays),)
    else:
        plan = op._plans.get(live)
        if plan is None:
            plan = op._plans[live] = _plan(op, live)
        (ruled, kept), given = plan, arrays
    if ruled is None:
        node.inputs = tuple(nodes)
    elif any(ruled):
        node.inputs = tuple([n if k else None for n, k in zip(nodes, ruled, strict=True)])
    else:
        return
    node.saved = tuple([v if k else None for v, k in zip((*given, *[r.array for r in results], *aux), kept, strict=True)]) if kept else ()
    if _seen:
        for see in tuple(_seen):
            see(node)
    if op.multi:
        floating = [r for r in results if FROM_NUMPY[r.array.dtype].rank >= FLOAT]
        node.shape, node.dtype = None, floating[0].array.dtype if floating else F32
        node.attrs = {**node.attrs, "__outputs__": len(results), "__results__": tuple((r.array.shape, r.array.dtype) for r in results)}
        for i, r in enumerate(results):
            if FROM_NUMPY[r.array.dtype].rank >= FLOAT:
                r.node = tape.picked(node, i, r.array)
    else:
        r = results[op.outputs.index(op.differentiable[0])] if len(results) > 1 else results[0]
        if FROM_NUMPY[r.array.dtype].rank >= FLOAT:
            r.node, node.shape, node.dtype = node, r.array.shape, r.array.dtype


class noting:
    """`with noting(see):` calls `see(node)` for each node that any thread adds to the tape; meanwhile every op goes through `_run`."""

    def __init__(self, see: Callable) -> None:
        self._see = see

    def __enter__(self) -> None:
        _seen.append(self._see)
        quick.hold()

    def __exit__(self, *exc: object) -> None:
        _seen.remove(self._see)
        quick.release()


def _plan(op: Any, live: int) -> tuple:
    """Which of the live inputs have a rule (None: all of them), and which slots these rules use (empty: none)."""
    ruled = tuple([rule is not None and bool(live >> i & 1) for i, rule in enumerate(op.rules)])
    keeps = frozenset().union(*[rule.keeps for rule, wanted in zip(op.rules, ruled, strict=True) if wanted])
    whole = all(wanted or not live >> i & 1 for i, wanted in enumerate(ruled))
    return None if whole else ruled, tuple([i in keeps for i in range(len(op.slots))]) if keeps else ()
