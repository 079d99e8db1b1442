"""Formulas of an op and of its local derivative rules at three depths: symbols, symbols with shapes, and values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import numpy

from engine.core.op import Elementwise

from ..inspector import FEW, host
from ..protocol import Formula, Rules
from . import symbols
from .forms import BACKWARD, FORMS
from .notation import MATH, as_text, parsed
from .symbols import ATOM, Symbol, call, symbol

__all__ = ["Operand", "accumulation", "as_text", "backward", "forward"]


@dataclass
class Operand:
    """One tensor in a formula: the user's name for it, its shape, and its elements if they are known."""

    name: str = ""
    shape: tuple = ()
    value: Any = None
    key: Any = None  # equal for two occurrences of the same tensor
    number: bool = False  # a Python number, which is its own symbol
    others: Collection[str] = ()  # names of the program's other tensors, which an invented letter must avoid


class _TooLarge(Exception):
    """Raised when an operand has too many elements to write out, or its value is not known."""


# Customary letters for parameters of ops.
_LETTERS = {"input": "x", "other": "y", "weight": "W", "bias": "b", "target": "t", "exponent": "p", "tensors": "x", "mat2": "y", "vec": "v",
            "vec2": "y", "query": "Q", "key": "K", "value": "V", "mask": "m", "condition": "c", "end": "y", "running_mean": "μ",
            "running_var": "v", "hx": "h", "index": "i", "indices": "i", "src": "y", "source": "y", "values": "v"}  # fmt: skip
_SPARE = "xyuvwabcdpqrs"
_REPEATING = ("expand", "broadcast_to")  # ops that are not elementwise and repeat their input
_LONGEST = 12  # the longest name of a user, in characters, that fits into a formula


def forward(op: Any, attrs: dict, inputs: Sequence[Operand | None], output: Operand) -> Rules:
    """The formula of what the op computed, such as z = x ⊙ y."""

    def write(atom: Callable) -> Formula:
        names = _names(op, inputs, output)
        parts = [None if x is None else atom(x, n) for x, n in zip(inputs, names, strict=True)]
        left = Symbol(_identifier(_result_name(output, names))) if atom is _numbers else atom(output, _result_name(output, names))
        tree: Formula = ["mrow", left.tree, ["mo", "="], _forward(op, attrs, parts).tree]
        if atom is _numbers and output.value is not None and host(output.value).size <= FEW:
            tree += [["mo", "="], atom(output, "").tree]
        return tree

    return _depths(write)


def backward(op: Any, attrs: dict, inputs: Sequence[Operand | None], output: Operand, i: int, upstream: Any, gradient: Any) -> Rules:
    """The formula of what the step adds to the gradient of input `i`, such as x̄ += z̄ ⊙ y."""

    def write(atom: Callable) -> Formula:
        names = _names(op, inputs, output)
        result = _result_name(output, names)
        parts = [None if x is None else atom(x, n) if atom is not _numbers else _lazy(x, n) for x, n in zip(inputs, names, strict=True)]
        out = atom(output, result) if atom is not _numbers else _lazy(output, result)
        source = inputs[i]
        assert source is not None
        g = _barred(atom, Operand(output.name, _shape_of(upstream, output), upstream), result)
        target = _bar(_identifier(names[i]))
        if atom is _shapes:
            target = _with_shape(target, source.shape)
        right = _rule(op, attrs, parts, out, g, i, source)
        tree: Formula = ["mrow", target, ["mo", "+="], right.tree]
        if atom is _numbers:
            if gradient is None or host(gradient).size > FEW:
                raise _TooLarge
            tree += [["mo", "="], symbols.values(host(gradient)).tree]
        return tree

    return _depths(write)


def accumulation(leaf: Operand, gradient: Any) -> Rules:
    """The formula of gradient accumulation at a leaf: x.grad += x̄."""

    last = leaf.name.rpartition(".")[2]
    name = leaf.name if _fits(leaf.name) else _free((_LETTERS.get(last, "x"), *_SPARE), (leaf.others,))

    def write(atom: Callable) -> Formula:
        g = _barred(atom, Operand(leaf.name, leaf.shape, gradient), name)
        return ["mrow", _identifier(name), ["mtext", ".grad"], ["mo", "+="], g.tree]

    return _depths(write)


def _depths(write: Callable) -> Rules:
    try:
        numbers = write(_numbers)
    except _TooLarge:
        numbers = None
    return Rules(write(_symbols), write(_shapes), numbers)


# -- atoms at three depths -----------------------------------------------------------------------------------------------------


def _symbols(x: Operand, name: str) -> Symbol:
    if x.number:
        return symbol(x.value)
    return Symbol(_identifier(name), ATOM, x.shape, (x.key, name))


def _shapes(x: Operand, name: str) -> Symbol:
    if x.number:
        return symbol(x.value)
    return Symbol(_with_shape(_identifier(name), x.shape), ATOM, x.shape, (x.key, name))


def _numbers(x: Operand, name: str) -> Symbol:
    if x.number:
        return symbol(x.value)
    if x.value is None or getattr(x.value, "size", 1) > FEW:
        raise _TooLarge
    made = symbols.values(host(x.value))
    made.key = (x.key, name)
    return made


class _lazy(Symbol):
    """An operand whose values are typeset only if the rule uses it; most rules use few of the operands."""

    def __init__(self, x: Operand, name: str) -> None:
        super().__init__(["mrow"], ATOM, x.shape, (x.key, name))
        self._operand, self._name = x, name

    @property  # type: ignore[override]
    def tree(self) -> Formula:
        return _numbers(self._operand, self._name).tree

    @tree.setter
    def tree(self, value: Formula) -> None: ...

    @property  # type: ignore[override]
    def binds(self) -> int:
        return _numbers(self._operand, self._name).binds if "_operand" in self.__dict__ else ATOM

    @binds.setter
    def binds(self, value: int) -> None: ...


def _barred(atom: Callable, x: Operand, name: str) -> Symbol:
    if atom is _numbers:
        return _numbers(x, name)
    tree = _bar(_identifier(name))
    return Symbol(_with_shape(tree, x.shape) if atom is _shapes else tree, ATOM, x.shape, ("bar", name))


def _bar(tree: Formula) -> Formula:
    return ["mover", tree, ["mo", "¯"]]


def _with_shape(tree: Formula, shape: tuple) -> Formula:
    return ["msub", tree, ["mtext", "×".join(map(str, shape))]] if shape else tree


def _shape_of(array: Any, otherwise: Operand) -> tuple:
    return tuple(array.shape) if hasattr(array, "shape") else otherwise.shape


def _identifier(name: str) -> Formula:
    """A name as MathML: W1 with its digits as a subscript, any other name unchanged."""
    found = re.fullmatch(r"([A-Za-z\u0370-\u03ff]+)_?(\d+)", name)
    if found:
        return ["msub", ["mi", found[1]], ["mn", found[2]]]
    return ["mi", name]


def _fits(name: str) -> bool:
    return 0 < len(name) <= _LONGEST and name.isidentifier()


def _names(op: Any, inputs: Sequence[Operand | None], output: Operand) -> list[str]:
    """Name each operand: the user's name if it is short, else the customary letter. Different tensors get different names."""
    params = input_names(op, len(inputs))
    taken: dict[str, Any] = {}
    names: list[str] = []
    for x in inputs:
        fits = x is not None and not x.number and _fits(x.name) and taken.get(x.name, x.key) == x.key
        names.append(x.name if fits and x is not None else "")
        if fits and x is not None:
            taken[x.name] = x.key
    for i, x in enumerate(inputs):
        if names[i] or x is None or x.number:
            continue
        same = next((names[j] for j, other in enumerate(inputs[:i]) if other is not None and x.key is not None and other.key == x.key), "")
        last = x.name.rpartition(".")[2]
        param = params[i].partition("[")[0]
        letter = _LETTERS.get(last) or _LETTERS.get(param) or param[0]
        if op.variadic and len(inputs) > 1:
            letter = f"x{i + 1}"
        name = same or _free((letter, *_SPARE), (taken, x.others))
        taken[name] = x.key
        names[i] = name
    return names


def _result_name(output: Operand, names: list[str]) -> str:
    if _fits(output.name) and output.name not in names:
        return output.name
    return _free(("z", "y", "u", "v", "w", "out"), (names, output.others))


def _free(letters: Iterable[str], taken: Sequence[Collection[str]]) -> str:
    """The first letter that is not taken."""
    return next(n for n in chain(letters, (f"x{k}" for k in count(1))) if not any(n in names for names in taken))


def input_names(op: Any, count: int) -> list[str]:
    """The op's own names for its inputs: "input", "weight", or "tensors[2]"."""
    if getattr(op, "function", None) is not None:  # written by the user
        forward = getattr(op.function, "forward", None)
        params = [p for p in inspect.signature(forward).parameters if p != "ctx"] if forward is not None else []
        return [params[i] if i < len(params) else f"input{i}" for i in range(count)]
    if op.variadic:
        return [f"{op.inputs[0]}[{i}]" for i in range(count)]
    return [op.inputs[i] if i < len(op.inputs) else f"input{i}" for i in range(count)]


# -- the op's own code on symbols ------------------------------------------------------------------------------------------------


def _forward(op: Any, attrs: dict, parts: list[Symbol | None]) -> Symbol:
    shown = _shown(op, attrs)
    form = getattr(op, "formula", None)
    try:
        if op.name in FORMS:
            return FORMS[op.name](*parts, **_given(op, attrs))
        if isinstance(form, str):
            names = {n: p for n, p in zip(op.inputs, parts, strict=False) if p is not None}
            names |= {_LETTERS.get(n, n): p for n, p in names.items()} | {n: symbol(v) for n, v in shown.items()}
            return parsed(form, names)
        if getattr(op, "function", None) is None and hasattr(op, "forward") and not op.variadic:
            made = op.forward(MATH, *parts, **_given(op, attrs))
            made = made[0] if isinstance(made, tuple) else made
            if (
                isinstance(made, Symbol)
                and len(as_text(made.tree)) <= 160
                and not any(p is not None and made.tree == p.tree for p in parts)
            ):
                return made
    except _TooLarge:
        raise
    except Exception:  # the op's code needs something that symbols lack: fall back to function notation
        shown = _shown(op, attrs)
    return call(op.name, *[p for p in parts if p is not None], **shown)


def _rule(op: Any, attrs: dict, parts: list[Symbol | None], out: Symbol, g: Symbol, i: int, source: Operand) -> Symbol:
    names = input_names(op, len(parts))
    name = names[i].partition("[")[0]
    rule = getattr(op, f"d_{name}", None)
    form = BACKWARD.get((op.name, name))
    try:
        if form is not None:
            return form(g, out, *parts, **_given(op, attrs))
        if rule is not None:
            known: dict[str, Any] = {**_given(op, attrs), **dict(zip(op.inputs, parts, strict=False)), "shape": source.shape}
            known["shapes"] = tuple(p._shape for p in parts if p is not None)
            if op.variadic:
                known[op.inputs[0]] = tuple(parts)
            known |= {name: Symbol(["mi", name], ATOM, None) for name in (*op.outputs[1:], *op.aux)}
            known[op.outputs[0]] = out
            wants = list(inspect.signature(rule).parameters)[2:]
            made = rule(MATH, g, *[known[w] for w in wants])
            if op.variadic:
                made = made[i]
            if isinstance(made, Symbol) and len(as_text(made.tree)) <= 200:
                return _fitted(made, source)
    except _TooLarge:
        raise
    except Exception:  # as above
        rule = None
    used = [p for p in parts if p is not None and not isinstance(p, _lazy)]
    return call(f"∂{op.name}/∂{name}", g, *used)


def _fitted(made: Symbol, source: Operand) -> Symbol:
    """Sum the gradient over the axes along which the input was broadcast."""
    if made._shape is None or made.shape == source.shape:
        return made
    axes = unbroadcast_axes(made.shape, source.shape)
    return MATH.sum(made, axes) if axes else made


def unbroadcast_axes(shape: Sequence[int], target: Sequence[int]) -> list[int]:
    """The axes of `shape` along which a tensor of shape `target` was repeated."""
    lead = len(shape) - len(target)
    if lead < 0:
        return []
    return [*range(lead), *[lead + i for i, n in enumerate(target) if n == 1 and shape[lead + i] != 1]]


def broadcast_axes(op: Any, shape: Sequence[int], target: Sequence[int]) -> list[int]:
    """The axes along which `op` broadcast an input of shape `target` to a result of shape `shape`; empty for ops that do not broadcast."""
    if not isinstance(op, type) or not (issubclass(op, Elementwise) or op.name in _REPEATING):
        return []
    try:
        fits = numpy.broadcast_shapes(tuple(shape), tuple(target)) == tuple(shape)
    except ValueError:
        fits = False
    return unbroadcast_axes(shape, target) if fits else []


def _given(op: Any, attrs: dict) -> dict:
    return {**op.defaults, **{k: v for k, v in attrs.items() if not k.startswith("__") and k not in ("shapes", "path")}}


def _shown(op: Any, attrs: dict) -> dict:
    shown = {}
    for key, value in attrs.items():
        if key.startswith("__") or key in ("shapes", "path"):
            continue
        default = op.defaults.get(key, attrs)
        if value is default or type(value) is type(default) and isinstance(value, (int, float, str, bool, tuple)) and value == default:
            continue
        shown[key] = value
    return shown
