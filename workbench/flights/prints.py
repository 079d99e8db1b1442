"""Samples of the result of each op of a step: when a repetition differs, they show where the difference begins."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from time import perf_counter
from typing import Any

import numpy

from engine.base import observe
from engine.core.tensor import Tensor

from ..torch_models.loaded import is_tensor, torch
from ..torch_models.recorder import bookkeeping, is_own
from . import variables
from .values import Copy, made

SAMPLE = 8  # elements of each result
MOST = 20_000  # ops


class Prints(observe.Observer):
    """The names of the ops of a step, and samples of their results, in the order in which they ran; of the engine's backward steps as well.

    Attributes:
        names: of the ops.
        sites: the line of each op, with `lines`.
        seconds: the time that sampling has taken.
    """

    def __init__(self, lines: bool = False) -> None:
        self.names: list[str] = []
        self.sites: list[str] = []
        self.seconds = 0.0
        self._samples: list[Any] = []
        self._lines, self._thread = lines, get_ident()

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        self.add(op.name, output)

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        self.add(op.name, target)

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        if node.op is not None:
            self.add(f"{node.op.name} backward", input_grads)

    def add(self, name: str, result: Any) -> None:
        """Sample the first tensor of a result."""
        if len(self.names) >= MOST or get_ident() != self._thread:
            return
        begun = perf_counter()
        if isinstance(result, tuple | list):
            result = next((x for x in result if hasattr(x, "dtype")), None)
        if hasattr(result, "dtype"):
            self.names.append(name)
            self._samples.append(_sample(result))
            if self._lines:
                self.sites.append(_line(sys._getframe(1)))
        self.seconds += perf_counter() - begun

    def packed(self) -> dict[str, Any]:
        """Names and samples as plain data."""
        rows = numpy.full((len(self.names), SAMPLE), numpy.nan)
        for row, sample in zip(rows, self._samples, strict=True):
            found = numpy.asarray(sample.get() if hasattr(sample, "get") else sample.tolist() if is_tensor(sample) else sample)
            found = found.view(numpy.float64)[:SAMPLE] if found.dtype.kind == "c" else found  # real and imaginary parts
            row[: found.size] = found
        return {"names": list(self.names), "values": {"@": "numpy", "value": Copy.of(rows)}}

    def differs(self, packed: Mapping[str, Any]) -> str:
        """Where these prints differ from recorded ones, in a sentence; "" if they do not."""
        if not packed:
            return ""
        before, now = made(packed["values"]), made(self.packed()["values"])
        for i, (name, other) in enumerate(zip(packed["names"], self.names, strict=False)):
            if name != other:
                return f"{other}{self.sites[i]} runs where {name} ran"
            if not numpy.array_equal(before[i], now[i], equal_nan=True):
                fine = numpy.isfinite(before[i]) & numpy.isfinite(now[i])
                largest = numpy.abs(before[i][fine]).max(initial=1e-300)
                share = numpy.abs(before[i][fine] - now[i][fine]).max(initial=0.0) / largest
                by = f" (off by {share:.1g} of its largest value)" if share else ""
                return f"the first op with a different result is {name}{self.sites[i]}{by}"
        if len(self.names) != len(packed["names"]):
            return f"{len(self.names):,} ops run where {len(packed['names']):,} ran"
        return ""


def _sample(result: Any) -> Any:
    """Some elements, from all over the result; on a GPU they stay there."""
    if is_tensor(result):
        lib = torch()
        with bookkeeping():
            t = result.detach()
            if t.layout is not lib.strided or t.is_meta or t.is_quantized or lib._C._functorch.is_functorch_wrapped_tensor(t):
                return ()
            if not t.is_contiguous() and t.numel():
                t = t[tuple(lib.from_numpy(x).to(t.device) for x in _places(tuple(t.shape)))]
            sample = t.reshape(-1)[:: max(1, -(-t.numel() // SAMPLE))]
            return sample.clone() if sample.is_cuda else sample.tolist()
    array = result.array if isinstance(result, Tensor) else result
    if not hasattr(array, "reshape"):  # sparse
        return ()
    if array.size and not array.flags.c_contiguous:
        array = array[_places(array.shape)]
    flat = array.reshape(-1)
    return flat[:: max(1, -(-flat.size // SAMPLE))].astype(numpy.complex128 if array.dtype.kind == "c" else numpy.float64)


def _places(shape: tuple[int, ...]) -> tuple[numpy.ndarray, ...]:
    size = int(numpy.prod(shape))
    return numpy.unravel_index(numpy.arange(0, size, max(1, -(-size // SAMPLE))), shape) if shape else ()


def _line(frame: Any) -> str:
    found = variables.users(frame)
    return "" if found is None else f" at line {found.f_lineno} in {found.f_code.co_name}"


@contextmanager
def taken(prints: Prints) -> Iterator[None]:
    """Sample the ops of the block: of PyTorch's, those that run with gradients."""
    lib = torch()
    if lib is None:
        with observe.observing(prints):
            yield
        return

    class Sampling(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if lib.is_grad_enabled() and not is_own() and (name := getattr(func, "__name__", "")) != "__get__":
                prints.add(name, result)  # not those of optimizers, which are many
            return result

    with observe.observing(prints), Sampling():
        yield


def possible() -> bool:
    """Whether ops can be sampled without changing how they run: nothing is compiled, and they are not recorded already."""
    lib = torch()
    return observe.current is None and not (lib is not None and lib._C._len_torch_function_stack()) and not compiles()


def compiles() -> bool:
    """Whether there are compiled functions: they run otherwise, or are compiled anew, while something watches."""
    compiled: Any = sys.modules.get("engine.compiler.compiled")
    return compiled is not None and len(compiled.every) > 0 or "torch._inductor.compile_fx" in sys.modules
