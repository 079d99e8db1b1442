"""Helpers shared by the op files: refused dtypes, and public functions that choose between ops by their arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from ..base.dtypes import FLOAT, FROM_NUMPY, dtype
from ..base.errors import Refused, warn
from ..core import tape
from ..core import xp as recorded
from ..core.call import into
from ..core.op import functions
from ..core.tensor import Tensor, define


class Refusing:
    """Base of ops that refuse some kinds of dtypes, as PyTorch does: "b" bool, "i" integers, "f" floats, "c" complex."""

    refuses: ClassVar[str] = ""
    refusal: ClassVar[tuple[type[Exception], str]] = (NotImplementedError, "not implemented for {}")

    @classmethod
    def prepare(cls, arrays: list) -> tuple[list, Any]:
        given, (arrays, xp) = arrays, super().prepare(arrays)  # type: ignore[misc]
        refused = cls._refused(given) if cls.types == "float" else None  # type: ignore[attr-defined]
        refused = refused or cls._refused(arrays)
        if refused is not None:
            try: raise refused
            finally: del refused  # breaks the cycle between the error and this frame, which holds the inputs
        return arrays, xp

    @classmethod
    def _refused(cls, operands: Any) -> Refused | None:
        for x in operands:
            d = FROM_NUMPY.get(getattr(x, "dtype", None), getattr(x, "dtype", None))
            if d is not None and "bifc"[d.rank] in cls.refuses:
                kind, rule = cls.refusal
                return Refused(rule.format(d.name), kind)
        return None

    @classmethod
    def explain(cls, error: Exception, inputs: tuple, attrs: dict) -> Exception:
        # on the fast path, float tensors skip `prepare` and NumPy refuses them
        if isinstance(error, TypeError): error = cls._refused(inputs) or error
        return super().explain(error, inputs, attrs)  # type: ignore[misc]


class Along:
    """Base of ops with a `dim`.

    Lists become tuples, no dims mean all, `dtype` is a cast beforehand, and a 0-d tensor counts as one of length 1.
    """

    row_major = True
    one: ClassVar[bool] = False  # whether `dim` is a single int
    of_no_dims: ClassVar[tuple | None] = None  # the meaning of `dim=()`

    @classmethod
    def bind(cls, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        inputs, attrs = super().bind(args, kwargs)  # type: ignore[misc]
        if attrs.get("dtype") is not None:
            if not isinstance(attrs["dtype"], (dtype, type)): raise TypeError(f"{cls.name}(): argument 'dtype' must be torch.dtype, not {type(attrs['dtype']).__name__}")  # type: ignore[attr-defined]
            if isinstance(inputs[0], (int, float, complex, list, tuple)): raise cls._refused_input("input", inputs[0])  # type: ignore[attr-defined]
            if getattr(inputs[0], "node", None) is not None and tape.mode.grad and "bifc"[rank := getattr(attrs["dtype"], "rank", FLOAT)] not in getattr(cls, "refuses", "") and rank < FLOAT:
                raise RuntimeError(f"Autograd not support dtype: {attrs['dtype']!r}")
            inputs, attrs["dtype"] = (recorded.astype(recorded.asarray(inputs[0]), attrs["dtype"]), *inputs[1:]), None
        dim = attrs["dim"]
        if dim.__class__ is bool or cls.one and dim.__class__ is not int and not (hasattr(dim, "__index__") or dim is None):
            raise TypeError(f"{cls.name}(): argument 'dim' must be int, not {type(dim).__name__}")  # type: ignore[attr-defined]
        if dim is None and "dim" in cls.required:  # type: ignore[attr-defined]
            raise TypeError(f"{cls.name}(): argument 'dim' must be int, not NoneType")  # type: ignore[attr-defined]
        if dim.__class__ is not int and dim is not None:
            attrs["dim"] = dims = dim.__index__() if hasattr(dim, "__index__") else tuple(dim) or cls.of_no_dims
            if dims.__class__ is tuple and getattr(inputs[0], "ndim", 1) == 0:
                wrong = [d for d in dims if d not in (0, -1)]
                if wrong:
                    raise IndexError(f"{cls.name}: Dimension out of range (expected to be in range of [-1, 0], but got {wrong[0]})")  # type: ignore[attr-defined]
                attrs["dim"] = None
        return inputs, attrs


def numbered(name: str, args: tuple, kwargs: dict, names: tuple[str, ...]) -> tuple[tuple, dict]:
    """Accept PyTorch's older order, `add(x, 2, y)` for `add(x, y, alpha=2)`: scalars among tensors become the keywords, in order."""
    numbers = [x for x in args[1:] if isinstance(x, (int, float, complex))]
    if not isinstance(args[0], Tensor): numbers = [args[0], *numbers]
    tensors = tuple(x for x in args if isinstance(x, Tensor))
    if not numbers or len(numbers) > len(names) or len(tensors) + len(numbers) != len(args) or isinstance(args[-1], (int, float, complex)): return args, kwargs
    warn(f"This overload of {name} is deprecated: numbers are given as keywords now, {', '.join(f'{n}={x}' for n, x in zip(names, numbers, strict=False))}.")
    return tensors, {**kwargs, **dict(zip(names, numbers, strict=False))}


def renamed(**synonyms: str) -> Callable:
    """Accept further names for a function's keywords, as PyTorch's overloads do."""

    def wrap(fn: Callable) -> Callable:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **{synonyms.get(k, k): v for k, v in kwargs.items()}) if kwargs else fn(*args)

        return call

    return wrap


def outward(fn: Callable) -> Callable:
    """Add the keyword `out=` to a function: the result is written to that tensor."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return into(call, args, kwargs) if "out" in kwargs else fn(*args, **kwargs)

    call.name, call.call = fn.__name__, call  # type: ignore[attr-defined]
    return call


def refuse_complex_gradients(function: str, *tensors: Tensor) -> None:
    """Raise RuntimeError for complex tensors that require a gradient, if PyTorch's function has one for real tensors only."""
    for x in tensors:
        if x.node is not None and x.array.dtype.kind == "c" and tape.mode.grad:
            raise RuntimeError(f"{function} does not support automatic differentiation for outputs with complex dtype.")


def real_gradient(fn: Callable) -> Callable:
    """Wrap a function with a gradient for real tensors only: complex inputs that require one raise RuntimeError, as in PyTorch."""

    @functools.wraps(fn)
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(input, Tensor): refuse_complex_gradients(fn.__name__, input)
        return fn(input, *args, **kwargs)

    return call


def must_be_tensor(function: str, name: str, x: Any) -> None:
    """Raise TypeError for a first argument that is not a tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{function}(): argument '{name}' (position 1) must be Tensor, not {type(x).__name__}")


def must_be_tensors(tensors: Any) -> None:
    """Raise TypeError for the first element that is not a tensor."""
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            kind = f"numpy.{type(x).__name__}" if hasattr(x, "dtype") else type(x).__name__
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {kind}")


def refuse_whole_numbers(function: str, x: Tensor, allowed: tuple[str, ...] = ()) -> None:
    """Raise NotImplementedError for integers and bools, for which PyTorch has no kernel, except the dtypes in `allowed`."""
    if x.dtype.rank < FLOAT and x.dtype.name not in allowed:
        raise NotImplementedError(f"{function}: not implemented for {x.dtype.name}; convert the input with .float()")


def refuse_gradients(function: str, **constants: Tensor | None) -> None:
    """Raise RuntimeError for arguments that require a gradient if PyTorch's function has none for them."""
    for name, x in constants.items():
        if isinstance(x, Tensor) and x.requires_grad and tape.mode.grad:
            raise RuntimeError(f"The function '{function}' is not differentiable with respect to argument '{name}'. This input cannot have requires_grad True.")


def front(*names: str, method: bool = True, function: bool = True, home: str = "engine", out: bool = False) -> Callable:
    """Publish a function that chooses between ops, under these names, as a function and a method of Tensor; `out` adds `out=`."""

    def publish(fn: Callable) -> Callable:
        fn = outward(fn) if out else fn
        fn.__name__ = fn.__qualname__ = names[0]
        if out: fn.name = names[0]  # type: ignore[attr-defined]
        fn.__module__ = "engine"
        for name in names:
            if function:
                functions[name if home == "engine" else f"{home}.{name}"] = fn
            if method:
                define(name, fn)
        return fn

    return publish
