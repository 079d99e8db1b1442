"""Run a check with a library in PyTorch's place, and tell what came in plain lists: values, shapes, dtypes, strides, gradients, aliases, errors."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import io
import itertools
import math
import os
import warnings
import zlib
from collections import OrderedDict, defaultdict
from contextlib import redirect_stdout
from typing import Any

import numpy

from .case import Check

MOST = 40  # elements of an array that are told one by one; of a larger one a few, and sums with fixed weights
UNSUPPORTED = ("not implemented for", "not supported on CPU", "not currently supported", "not implemented. ")


@functools.cache
def compiled(program: str) -> tuple[Any, Any]:
    """All but the last line to execute, and the last one to evaluate: its value is the program's result."""
    tree = ast.parse(program)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = compile(ast.Expression(last.value), "<case>", "eval") if last is not None else compile("None", "<case>", "eval")
    return compile(tree, "<case>", "exec"), value


def printed(fn: Any, *args: Any) -> str:
    """What a call prints."""
    with redirect_stdout(io.StringIO()) as text:
        fn(*args)
    return text.getvalue()


def warned(fn: Any, *args: Any) -> list[str]:
    """The categories of a call's warnings, each once."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fn(*args)
    return sorted({w.category.__name__ for w in seen})


def raised(fn: Any, *args: Any) -> str:
    """The kind of error that a call ends with."""
    try:
        fn(*args)
    except Exception as error:
        return kinds(error)[0]
    return "no error"


WORDS = {
    "np": numpy, "math": math, "io": io, "itertools": itertools, "copy": copy, "functools": functools, "warnings": warnings, "os": os,
    "OrderedDict": OrderedDict, "defaultdict": defaultdict, "printed": printed, "warned": warned, "raised": raised,
}  # fmt: skip


def kinds(error: BaseException) -> list[str]:
    """The names of an error's classes, its own first."""
    return [kind.__name__.lstrip("_") for kind in type(error).__mro__ if issubclass(kind, BaseException)]


def rounded(x: float) -> float:
    return float(f"{x:.9g}")


def numbers(x: Any) -> tuple[numpy.ndarray, list[int]]:
    """A tensor's elements, and its shape."""
    if getattr(x, "_is_zerotensor", bool)():  # PyTorch's gradients may be zeros without memory
        return numpy.zeros(x.numel() * (2 if x.is_complex() else 1)), list(x.shape)
    x = x.to_dense() if x.is_sparse or x.is_sparse_csr else x
    if x.is_complex():
        array = numpy.array(x.tolist(), numpy.complex128)
        return numpy.stack([array.real, array.imag], -1).reshape(-1), list(x.shape)
    return numpy.array(x.tolist()).reshape(-1), list(x.shape)


def told(array: numpy.ndarray) -> Any:
    """The elements, or of many of them a few and sums with weights that no permutation leaves alone."""
    exact = array.dtype.kind in "iub"
    if array.size <= MOST:
        return [int(e) if exact else rounded(e) for e in array]
    if not exact and not numpy.isfinite(array).all():
        array = numpy.where(numpy.isfinite(array), array, 1e3 + numpy.isnan(array))
    at, most = numpy.arange(array.size), float(numpy.abs(array.astype(float)).max())
    sums = [rounded(float((array * numpy.cos(1.7 * at * (k + 1) + k)).sum())) for k in range(3)]
    return {"sums": sums, "most": rounded(most), "some": [rounded(float(e)) for e in array[:: -(-array.size // 8)]]}


def strides(x: Any) -> list[int] | int:
    """Steps through memory, where the shape lets them be seen; 0 for a contiguous tensor."""
    shape, found = list(x.shape), list(x.stride())
    seen = [s if n > 1 else 0 for n, s in zip(shape, found, strict=True)]
    plain, step = [], 1
    for n in reversed(shape):
        plain.insert(0, step if n > 1 else 0)
        step *= n
    return 0 if 0 in shape or seen == plain else seen


class Asked:
    """One library's answer to one check."""

    def __init__(self, lib: Any, check: Check, seed: int = 0):
        self.lib, self.check, self.seed = lib, check, seed
        self.leaves: dict[str, Any] = {}
        self.tensors: list[Any] = []  # the results that are tensors
        self.told: list[list] = []  # what was told of each
        self.env = {"torch": lib, "nn": lib.nn, "F": lib.nn.functional, "module": self.module, **WORDS}

    def answer(self) -> dict[str, Any]:
        """What came, in plain lists; the error's kinds if one came."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.lib.manual_seed(self.check.seed + self.seed)
            try:
                self.prepare()
                body, value = compiled(self.check.program)
                exec(body, self.env)
                result = eval(value, self.env)
                found = {"out": self.tell(result)}
            except Exception as error:
                missing = isinstance(error, RuntimeError) and any(words in str(error) for words in UNSUPPORTED)
                return {"error": kinds(error), "missing": missing, "message": str(error)}
            if self.check.case.mode == "writes":
                found["after"] = {name: self.tell(self.env[name]) for name in self.check.inputs}
            if self.check.case.grad:
                found |= self.gradients()
            found["alias"] = self.aliases()
            for told_, aliases in zip(self.told, found["alias"] or [[]] * len(self.told), strict=True):
                if told_[0] == "tensor" and told_[3] and not aliases:
                    told_[3] = "own"  # the layout of new memory is a matter of kernels, but for whether it is contiguous
        return found

    def module(self, name: str) -> Any:
        """A module below the library, imported."""
        return importlib.import_module(f"{self.lib.__name__}.{name}")

    def prepare(self) -> None:
        for name, value in self.check.variables.items():
            self.env[name] = self.made(name, value)

    def made(self, name: str, value: Any) -> Any:
        """The value of a variable; text that begins with `torch.` means the library's own."""
        if isinstance(value, str) and value.startswith("torch."):
            return eval(value, {"torch": self.lib})
        if name not in self.check.inputs:
            return value
        x = value.tensor(self.lib, numpy.random.default_rng([self.seed, self.check.seed, zlib.crc32(name.encode())]))
        if value.differentiable and self.check.case.grad:
            self.leaves[name] = x = x.detach().requires_grad_()
        return x.clone() if self.check.case.mode == "writes" else x

    def tell(self, x: Any) -> Any:
        """A result in plain lists, each with a word for what it is."""
        if isinstance(x, self.lib.Tensor):
            self.tensors.append(x)
            same = [name for name in self.check.inputs if self.env.get(name) is x]
            if same and self.check.case.mode != "writes":
                self.told.append(["input", same[0]])
            else:
                array, shape = numbers(x.detach())
                self.told.append(["tensor", str(x.dtype).rpartition(".")[2], shape, strides(x), bool(x.requires_grad), told(array)])
            return self.told[-1]
        if isinstance(x, self.lib.Size):
            return ["Size", list(x)]
        if isinstance(x, (self.lib.dtype, self.lib.device)):
            return [type(x).__name__, str(x)]
        if x is None or isinstance(x, (bool, int)):
            return x
        if isinstance(x, str):
            return str.__str__(x)  # PyTorch's names of back ends are a class of their own in some places
        if isinstance(x, float):
            return ["float", rounded(x)]
        if isinstance(x, complex):
            return ["complex", rounded(x.real), rounded(x.imag)]
        if isinstance(x, numpy.ndarray):
            return ["array", str(x.dtype), list(x.shape), told(x.reshape(-1))]
        if isinstance(x, dict):
            return ["dict", [[self.tell(k), self.tell(value)] for k, value in x.items()]]
        if isinstance(x, tuple) and hasattr(x, "_fields") or type(x).__module__ == "torch.return_types":
            names = (
                x._fields
                if hasattr(x, "_fields")
                else [
                    n
                    for n in dir(x)
                    if not n.startswith("_") and n not in ("count", "index", "n_fields", "n_sequence_fields", "n_unnamed_fields")
                ]
            )
            return ["named", sorted(names), [self.tell(value) for value in x]]
        if isinstance(x, (tuple, list)):
            return ["tuple" if isinstance(x, tuple) else "list", [self.tell(value) for value in x]]
        if isinstance(x, self.lib.nn.Module):
            return ["module", repr(x)]
        if isinstance(x, numpy.generic):
            return ["number", str(x.dtype), rounded(float(x))]
        return ["object", type(x).__name__]

    def weights(self, like: Any, number: int) -> Any:
        """A fixed random cotangent."""
        rng = numpy.random.default_rng([self.check.seed, number])
        array = rng.normal(size=tuple(like.shape))
        return self.lib.tensor(numpy.asarray(array)).to(like.dtype)

    def gradients(self) -> dict[str, Any]:
        """Gradients of the inputs, and gradients of these gradients: None where there is no way, an error where PyTorch has no formula."""
        outs = [x for x in self.tensors if x.requires_grad]
        leaves = list(self.leaves.values())
        if not outs or not leaves:
            return {}
        try:
            first = self.lib.autograd.grad(
                outs, leaves, [self.weights(x, n) for n, x in enumerate(outs)], create_graph=True, allow_unused=True
            )
        except Exception as error:
            return {"grad": {"error": kinds(error), "message": str(error)}}
        found: dict[str, Any] = {"grad": self.listed(first)}
        again = [g for g in first if g is not None and g.requires_grad]
        if again:
            try:
                second = self.lib.autograd.grad(again, leaves, [self.weights(x, 100 + n) for n, x in enumerate(again)], allow_unused=True)
                found["second"] = self.listed(second)
            except Exception as error:
                found["second"] = {"error": kinds(error), "message": str(error)}
        return found

    def listed(self, grads: Any) -> list:
        return [
            None if g is None else ["tensor", str(g.dtype).rpartition(".")[2], list(g.shape), 0, False, told(numbers(g.detach())[0])]
            for g in grads
        ]

    def aliases(self) -> list[list[str]]:
        """For each result, the inputs that change when it is written to."""
        inputs = {name: self.env[name] for name in self.check.inputs if isinstance(self.env[name], self.lib.Tensor)}
        found: list[list[str]] = []
        for x in self.tensors if inputs else ():
            if not x.numel():
                found.append([])
                continue
            before = {name: numbers(t.detach())[0] for name, t in inputs.items()}
            try:
                first = x.detach()[(0,) * x.ndim]
                first.fill_(not bool(first) if x.dtype is self.lib.bool else 77)
            except Exception as error:
                found.append([f"{kinds(error)[0]}: {error}"])
                continue
            changed = [name for name, t in inputs.items() if not numpy.array_equal(before[name], numbers(t.detach())[0], equal_nan=True)]
            found.append(changed)
        return found if any(found) else []


def answer(lib: Any, check: Check, seed: int = 0) -> dict[str, Any]:
    """The library's answer to the check on inputs from this seed."""
    return Asked(lib, check, seed).answer()
