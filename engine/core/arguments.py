"""Type checks of arguments, as in PyTorch's argument parser: TypeError for an argument of another type than the parameter declares."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from ..base.errors import at_user_line
from .tensor import Tensor


class Kind(NamedTuple):
    """A declared parameter type: the usual classes, a test for other objects that it accepts, and its name in error messages."""

    usual: frozenset[type]
    fits: Callable[[Any], bool]
    words: str


def _lone(x: Any, kinds: str) -> bool:
    """Whether `x` is a 0-d tensor that does not require grad and is accepted as a number of these NumPy kinds."""
    return isinstance(x, Tensor) and x.ndim == 0 and not x.requires_grad and getattr(x.array.dtype, "kind", "f") in kinds


def _integer(x: Any) -> bool:
    return isinstance(x, (int, numpy.integer)) and not isinstance(x, bool) or _lone(x, "iu")


def _integers(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and (not x or _integer(x[0]) and all(isinstance(n, bool) or _integer(n) for n in x[1:]))


KINDS = {
    "Tensor": Kind(frozenset((Tensor,)), lambda x: isinstance(x, Tensor), "Tensor"),
    "int": Kind(frozenset((int,)), _integer, "int"),
    "float": Kind(
        frozenset((float, int)),
        lambda x: isinstance(x, (float, int, numpy.number)) and not isinstance(x, numpy.complexfloating) or _lone(x, "biufV"),
        "float",
    ),
    "complex": Kind(
        frozenset((float, int, bool, complex)),
        lambda x: isinstance(x, (float, int, complex, numpy.generic)) or _lone(x, "biufcV"),
        "Number",
    ),
    "bool": Kind(frozenset((bool,)), lambda x: False, "bool"),
    "str": Kind(frozenset((str,)), lambda x: isinstance(x, str), "str"),
    "Sequence[int]": Kind(frozenset(), _integers, "tuple of ints"),
    "None": Kind(frozenset((type(None),)), lambda x: False, "None"),
}


# The types of parameters with these names, for functions that do not annotate them, mainly the `forward` of ops.
USUAL = dict.fromkeys(("input", "self", "x", "A"), "Tensor") | dict.fromkeys(("weights", "fweights", "aweights"), "Tensor | None")
USUAL |= dict.fromkeys(("dim0", "dim1", "dim2", "k", "offset", "diagonal", "num_classes"), "int")
_FLAGS = ("keepdim", "descending", "largest", "sorted", "upper", "left", "hermitian", "include_self", "accumulate", "density")
USUAL |= dict.fromkeys((*_FLAGS, "sparse_grad", "full_matrices"), "bool")
USUAL |= {"dim": "int | Sequence[int] | None", "size": "int | Sequence[int]", "correction": "complex | None"}
USUAL |= {"rounding_mode": "str | None", "reduce": "str", "UPLO": "str"}


def kinds_of(fn: Callable, usual: dict[str, str] = USUAL) -> dict[str, tuple[Kind, ...]]:
    """Map each annotated parameter of a function, and each with a name in `usual`, to the kinds that it accepts. Others accept anything.

    `int | Sequence[int]` is PyTorch's `int[1]`, and `complex` its `Scalar`. As in PyTorch's parser, a bool is valid for float but not for
    int, and a one-element tensor is a number unless it requires grad.
    """
    found, code = {}, inspect.unwrap(fn).__code__
    for name in {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *fn.__annotations__} - {"return"}:
        annotation = fn.__annotations__.get(name, usual.get(name, ""))
        words = str(getattr(annotation, "__name__", annotation)).split(" | ")
        if all(word in KINDS for word in words):
            found[name] = tuple(KINDS[word] for word in words)
    return found


def refuse(function: str, kinds: dict[str, tuple[Kind, ...]], names: Sequence[str], args: Sequence, kwargs: dict[str, Any]) -> None:
    """Raise TypeError for the first argument that is of none of its parameter's kinds; `names` are the positional parameters in order."""
    for name, x in (*zip(names, args, strict=False), *kwargs.items()):
        if name in kinds and not any(x.__class__ in kind.usual or kind.fits(x) for kind in kinds[name]):
            at = f" (position {names.index(name) + 1})" if name in names else ""
            expected = next(kind.words for kind in reversed(kinds[name]) if kind.words != "None")
            raise TypeError(f"{function}(): argument '{name}'{at} must be {expected}, not {type(x).__name__}{at_user_line()}")


def names_of(fn: Callable) -> Sequence[str]:
    """The names of a function's positional parameters."""
    code = inspect.unwrap(fn).__code__
    return code.co_varnames[: code.co_argcount]


def parsed(fn: Callable) -> Callable:
    """Wrap a function so that arguments of other types than it declares raise TypeError before it runs."""
    kinds, names = kinds_of(fn), names_of(fn)
    usual = {name: frozenset().union(*(kind.usual for kind in given)) for name, given in kinds.items()}
    sequences = {name for name, given in kinds.items() if KINDS["Sequence[int]"] in given}

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, x in (*zip(names, args, strict=False), *kwargs.items()) if kwargs else zip(names, args, strict=False):
            kind = x.__class__
            if name in usual and kind not in usual[name] and not (kind is tuple and name in sequences and _INT.issuperset(map(type, x))):
                refuse(call.__name__, kinds, names, args, kwargs)
        return fn(*args, **kwargs)

    return call


_INT = frozenset((int,))
