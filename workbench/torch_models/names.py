"""Mapping of PyTorch's functions and graph nodes to op names and to the engine's ops, so that formulas can be typeset."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

from engine import ops  # noqa: F401 - fills the registry
from engine.core.op import Op, registry

from .loaded import is_tensor

# PyTorch's functions and nodes with a name other than the op's usual one
_FUNCTIONS = {"true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub", "negative": "neg", "absolute": "abs",
              "eq_": "eq", "truediv": "div", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not",
              "max_pool2d_with_indices": "max_pool2d", "concat": "cat", "concatenate": "cat",
              **dict.fromkeys(("float", "double", "half", "bfloat16", "int", "long", "cuda", "cpu"), "to")}  # fmt: skip
_NODES = {"unsafe_view": "view", "to_copy": "to", "native_batch_norm": "batch_norm", "cudnn_batch_norm": "batch_norm",
          "native_layer_norm": "layer_norm", "native_group_norm": "group_norm", "native_dropout": "dropout",
          "max_pool2d_with_indices": "max_pool2d", "max_pool3d_with_indices": "max_pool3d", "log_sigmoid": "logsigmoid",
          "mkldnn_rnn_layer": "rnn_layer", "unsafe_split": "split", "index": "getitem"}  # fmt: skip
_REFLECTED = {"radd": "add", "rsub": "sub", "rmul": "mul", "rdiv": "div", "rtruediv": "div", "rpow": "pow", "rmatmul": "matmul",
              "rfloordiv": "floor_divide", "rmod": "remainder"}  # fmt: skip
# nodes with the same inputs as our op of the same name, in the same order, and without settings
_SAME = frozenset({
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "sigmoid", "relu", "silu", "erf", "maximum", "minimum", "reciprocal", "hardswish",
    "hardsigmoid", "mish"
})  # fmt: skip
# inputs of nodes with weights, in the order of their gradients
_INPUTS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "batch_norm", "layer_norm", "group_norm"), ("input", "weight", "bias")),
    "addmm": ("input", "mat1", "mat2"), "baddbmm": ("input", "batch1", "batch2"), "mm": ("input", "mat2"), "bmm": ("input", "mat2"),
    "embedding": ("weight", "indices"), "nll_loss": ("input", "target"), "scaled_dot_product_attention": ("query", "key", "value")
}  # fmt: skip

_PLAIN = frozenset((int, float, bool, str, type(None)))


class TorchOp:
    """An op that the engine lacks, or lacks with these arguments. Formulas show only its name and the names of its inputs."""

    variadic = picks = view = multi = False
    outputs: tuple = ("out",)
    aux: tuple = ()
    rules: tuple = ()
    defaults: Mapping[str, Any] = {}
    optional: Mapping[str, Any] = {}
    types = "any"

    def __init__(self, name: str, inputs: tuple[str, ...] = ()) -> None:
        self.name, self.inputs = name, inputs

    def __repr__(self) -> str:
        return f"<torch op {self.name}>"


_unfit: set[tuple] = set()  # calls, by name and argument form, that our op of the same name does not accept


@lru_cache(4096)
def torch_op(name: str, inputs: tuple[str, ...] = ()) -> TorchOp:
    """The op with that name; cached, so that equal arguments give the same object."""
    return TorchOp(name, inputs)


@lru_cache(1024)
def function_name(func: Any) -> str:
    """The op name of a torch function: "add" for both Tensor.__add__ and add_."""
    name = getattr(func, "__name__", "") or str(func)
    bare = name.strip("_")
    if name.startswith("__"):
        bare = _REFLECTED.get(bare, bare.removeprefix("i") if bare in ("iadd", "isub", "imul", "idiv", "itruediv") else bare)
    return _FUNCTIONS.get(bare, bare)


@lru_cache(4096)
def node_name(kind: str) -> str:
    """The op name of a node of PyTorch's graph: "addmm" for AddmmBackward0. A user's Function keeps its name."""
    found = re.fullmatch(r"(.+?)Backward(\d*)", kind)
    if found is None:
        return {"CopySlices": "copy_slices", "CopyBackwards": "copy"}.get(kind, kind)
    if not found[2]:
        return found[1]
    words = re.sub(r"(?<=\d)[DP]", lambda letter: letter[0].lower(), found[1])  # MaxPool2D, Log1P
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", words).lower()
    if words.startswith("scaled_dot_product"):
        return "scaled_dot_product_attention"
    return _NODES.get(words, words)


def asks_in_place(func: Any, args: tuple, kwargs: Mapping[str, Any]) -> bool:
    """Whether a call has `inplace=True`, as a keyword or, as torch.nn's layers pass it, by position."""
    at = _place_of_in_place(func) if kwargs.get("inplace") is None else -1
    return bool(args[at] if 0 <= at < len(args) else kwargs.get("inplace"))


@lru_cache(1024)
def _place_of_in_place(func: Any) -> int:
    known = _known_parameters(func) if isinstance(func, FunctionType) else ()
    return known.index("inplace") if "inplace" in known else -1


def of_call(func: Any, args: tuple, kwargs: Mapping[str, Any]) -> tuple[Any, list, dict]:
    """`(op, operands, settings)` of a call: the engine's op if the arguments fit, else a TorchOp."""
    name = function_name(func)
    if (at := _place_of_in_place(func)) >= 0:  # `inplace` is not a setting of the op
        args, kwargs = args[:at], {key: value for key, value in kwargs.items() if key != "inplace"}
    if _reflected(func):
        args = args[::-1]
    ours = registry.get(name)
    if ours is not None and "out" not in kwargs and (form := (name, len(args), *kwargs)) not in _unfit:
        usual = None if kwargs else _usual(ours, len(args))
        if usual is not None:
            inputs, attrs = args, usual
        else:
            try:
                inputs, attrs = ours.bind(args, dict(kwargs))
            except Exception:  # our op does not accept the arguments, or needs what a PyTorch tensor lacks
                inputs, attrs = (), {}
                _unfit.add(form)
            if ours.variadic and inputs and isinstance(inputs[0], (list, tuple)):
                inputs = (*inputs[0], *inputs[1:])
            attrs = plain(attrs)
        if inputs and all(map(_is_operand, inputs)):
            return ours, list(inputs), attrs
    names, operands, settings = [], [], {}
    usual = _defaults(func)
    given = {**dict(zip(_parameters(func, len(args)), args, strict=False)), **kwargs}
    if name == "batch_norm" and given.get("training"):  # then the batch's own mean and variance are used
        given["running_mean"] = given["running_var"] = None
    for key, value in given.items():
        found = tensors_in(value)
        if found:
            names += [key] if is_tensor(value) else [f"{key}[{i}]" for i in range(len(found))]
            operands += found
        elif key:
            settings[key] = value
    said = {key: value for key, value in plain(settings).items() if key not in usual or usual[key] != value}
    return torch_op(name, tuple(names)), operands, said


@lru_cache(1024)
def _reflected(func: Any) -> bool:
    """Whether the operands are swapped, as in `__rsub__`."""
    return getattr(func, "__name__", "").strip("_") in _REFLECTED


@lru_cache(1024)
def _usual(ours: Any, count: int) -> dict[str, Any] | None:
    """The default settings, if a call with `count` positional arguments passes exactly the op's inputs; else None."""
    inputs, own = tuple(ours.inputs), ours.bind.__func__ is not Op.bind.__func__  # the op overrides `bind`
    if own or ours.variadic or ours.varargs or (count, ours.params[:count]) != (len(inputs), inputs) or not ours.required <= set(inputs):
        return None
    return plain(ours.defaults)


def _is_operand(x: Any) -> bool:
    return x is None or is_tensor(x) or isinstance(x, (int, float, complex))


@lru_cache(1024)
def _known_parameters(func: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(func).parameters)
    except (TypeError, ValueError):  # a builtin without a signature
        return ()


@lru_cache(1024)
def _defaults(func: Any) -> dict[str, Any]:
    try:
        return {name: p.default for name, p in inspect.signature(func).parameters.items() if p.default is not p.empty}
    except (TypeError, ValueError):  # as above
        return {}


def _parameters(func: Any, count: int) -> list[str]:
    known = [name for name in _known_parameters(func) if name not in ("args", "kwargs")]
    return [known[i] if i < len(known) else ("input", "other")[i] if i < 2 and not known else f"input{i}" for i in range(count)]


def tensors_in(value: Any, deep: int = 3) -> list:
    """The tensors in an argument, in order: the argument itself, or those in lists, tuples and dicts."""
    if is_tensor(value):
        return [value]
    found: list = []
    _gather((value,), deep, found)
    return found


def _gather(values: Iterable[Any], deep: int, found: list) -> None:
    for x in values:
        if x.__class__ in _PLAIN:
            continue
        if is_tensor(x):
            found.append(x)
        elif deep and isinstance(x, (list, tuple)):
            _gather(x, deep - 1, found)
        elif deep and isinstance(x, dict):
            _gather(x.values(), deep - 1, found)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keep only numbers, strings and short tuples of them, so that no other object is kept alive."""

    def harmless(x: Any) -> bool:
        return x is None or isinstance(x, (bool, int, float, complex, str, slice, type(Ellipsis)))

    found = {}
    for key, value in settings.items():
        if harmless(value):
            found[key] = value
        elif isinstance(value, (tuple, list)) and len(value) <= 16 and all(map(harmless, value)):
            found[key] = tuple(value)
    return found


def of_node(kind: str, inputs: Sequence[int], weight: Any = None) -> Any:
    """The op of a node with these input rows (-1: unknown). The weight determines the dimensions of a convolution."""
    name = node_name(kind)
    if name == "convolution" and weight is not None and 3 <= weight.dim() <= 5:
        name = f"conv{weight.dim() - 2}d"
    ours = registry.get(name)
    if name in _SAME and ours is not None and len(inputs) == len(ours.inputs) and min(inputs, default=-1) >= 0:
        return ours
    return torch_op(name, _INPUTS.get(name, ()))
