"""PyTorch's own samples of an op as calls that PyTorch and the engine can both be asked."""

from __future__ import annotations

import dis
import re
import types
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
import torch
from deviations import ABSENT, DEVIATIONS

import engine
from engine.base import dtypes

MOST = {"second": 4, "forward": 6, "in_place": 12, "out": 6}  # samples of one op and dtype, spread evenly; the other tests take 40
INSIDE = ("_batch_norm_with_update", "native_dropout_backward", "slice")  # of torch.ops.aten alone
LARGE = {"grid_sampler_3d": 8}  # ops whose samples take long


class Skipped(Exception):
    """A sample that says something the engine has no word for: sparse layouts, complex32, more than 64 dimensions."""


def variant(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def rewrapped(fn: Any) -> Any:
    """A wrapper of PyTorch's tests with the engine in PyTorch's place; None where the engine lacks a name that it uses."""
    inner = [code for code in fn.__code__.co_consts if isinstance(code, types.CodeType)]
    words = {i.argval for code in (fn, *inner) for i in dis.get_instructions(code) if i.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    places = (engine, engine.Tensor, engine.linalg, engine.special, engine.nn, engine.nn.functional)
    if not all(any(hasattr(place, word) for place in places) for word in words):
        return None
    return types.FunctionType(fn.__code__, {**fn.__globals__, "torch": engine}, fn.__name__, fn.__defaults__, fn.__closure__)


def ours(op: Any) -> Any:
    """The engine's function: found by name or, where PyTorch wraps its own in Python, the same wrapper around the engine's."""
    fn = op.op
    if isinstance(fn, types.FunctionType) and fn.__module__.startswith("torch.testing") and "torch" in fn.__code__.co_names:
        return rewrapped(fn) if op.name not in ABSENT else None
    if isinstance(fn, types.FunctionType) and "wrapper_set_seed" in fn.__code__.co_names and op.name not in ABSENT:
        return rewrapped(fn)
    if isinstance(fn, types.FunctionType) and fn.__module__.startswith("torch.testing") and not fn.__code__.co_freevars:
        return fn if all(hasattr(engine.Tensor, w) for w in fn.__code__.co_names) else None
    if op.name in INSIDE or op.name.startswith("torch.ops.aten."):
        return getattr(engine.ops.aten, op.name.removeprefix("torch.ops.aten.").removesuffix(".default")) if op.name not in ABSENT else None
    found: Any = engine
    for part in op.name.split("."):
        found = getattr(found, part, None)
    if not callable(found) or isinstance(found, dtypes.dtype):
        found = getattr(engine.Tensor, op.name, None)
    return found if callable(found) else None


def number(x: torch.Tensor) -> numpy.ndarray:
    """The values in NumPy."""
    x = x.detach().resolve_conj().resolve_neg()
    if x._is_zerotensor():
        x = torch.zeros_like(x)
    if x.dtype is torch.bfloat16:
        return x.view(torch.int16).numpy().view(dtypes.bfloat16.numpy)
    return x.numpy()


def copied(x: torch.Tensor) -> numpy.ndarray:
    """A copy of the tensor's storage, seen as the tensor sees it: the engine gets every layout that PyTorch has."""
    x = x.detach().resolve_conj().resolve_neg()
    whole = numpy.array(number(torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())))
    if not x.numel():
        return numpy.zeros(tuple(x.shape), whole.dtype)
    strides = tuple(s * x.element_size() for s in x.stride())
    return numpy.ndarray(tuple(x.shape), whole.dtype, whole, x.storage_offset() * x.element_size(), strides)


def converted(x: Any, made: dict) -> Any:
    """A sample's argument for the engine; tensors that ask for a gradient are remembered in `made`, beside PyTorch's."""
    if isinstance(x, torch.Tensor):
        if x.layout is not torch.strided or x.is_quantized or x.is_nested or x.dtype not in KNOWN or x.ndim > 64 or x.is_meta:
            raise Skipped
        if id(x) not in made:
            made[id(x)] = x, engine.Tensor._wrap(copied(x))
            if x.requires_grad:
                made[id(x)][1].requires_grad_()
        return made[id(x)][1]
    if x is torch.complex32 or isinstance(x, torch.layout) and x is not torch.strided:
        raise Skipped
    if isinstance(x, (torch.memory_format, torch.layout)):
        return getattr(engine, str(x).removeprefix("torch."))
    if isinstance(x, torch.Generator):
        made_like = engine.Generator()
        made_like.set_state(engine.tensor(x.get_state().numpy()))
        return made_like
    if isinstance(x, torch.dtype):
        if x not in KNOWN:
            raise Skipped
        return KNOWN[x]
    if isinstance(x, torch.device):
        return engine.device("cpu")
    if isinstance(x, torch.Size):
        return engine.Size(x)
    if isinstance(x, list) or type(x) is tuple:
        return type(x)(converted(v, made) for v in x)
    if isinstance(x, dict):
        return {k: converted(v, made) for k, v in x.items()}
    if isinstance(x, torch.nn.Module) or callable(x) and getattr(x, "__module__", "").startswith("torch"):
        found = getattr(engine.nn, type(x).__name__, None)
        return found() if found is not None else getattr(engine.nn.functional, x.__name__)
    return x


KNOWN = {getattr(torch, d.name): d for d in dtypes.ALL}


def flat(x: Any) -> list:
    if isinstance(x, dict):
        x = list(x.values())
    return [y for v in x for y in flat(v)] if isinstance(x, (tuple, list)) else [x]


class Call(NamedTuple):
    """One sample, for PyTorch and for the engine."""

    op: Any
    sample: Any
    input: Any
    args: tuple
    kwargs: dict
    leaves: list  # pairs of tensors that ask for a gradient

    def __str__(self) -> str:
        show = lambda x: f"{str(x.dtype)[6:]}{list(x.shape)}" if isinstance(x, torch.Tensor) else repr(x)  # noqa: E731
        put = [show(x) for x in flat(self.sample.input)] + [show(x) for x in flat(self.sample.args)]
        return f"{variant(self.op)}({', '.join(put + [f'{k}={[show(x) for x in flat(v)]}' for k, v in self.sample.kwargs.items()])[:400]})"

    def deviates(self, test: str) -> bool:
        """Whether a row of the table says so."""
        rows = [row for row in DEVIATIONS if re.fullmatch(row.op, variant(self.op)) and test in (row.tests or (test,))]
        return any(row.when is None or row.when(self.sample) for row in rows)

    def theirs(self) -> Any:
        return self.sample.output_process_fn_grad(self.op.op(self.sample.input, *self.sample.args, **self.sample.kwargs))

    def run(self) -> Any:
        return self.sample.output_process_fn_grad(ours(self.op)(self.input, *self.args, **self.kwargs))


def calls(test: str, op: Any, dtype: torch.dtype, grad: bool = False) -> Iterator[Call]:
    """The samples that the engine can be asked, none of those with a written reason to differ.

    One at a time: PyTorch may write into a sample's tensors, which the next one shares.
    """
    torch.manual_seed(zlib.crc32(variant(op).encode()))
    numpy.random.seed(0)
    samples, most = list(op.sample_inputs("cpu", dtype, requires_grad=grad)), min(MOST.get(test, 40), LARGE.get(op.name, 40))
    for sample in samples[:: -(-len(samples) // most) if samples else 1]:
        made: dict = {}
        try:
            call = Call(op, sample, converted(sample.input, made), converted(sample.args, made), converted(sample.kwargs, made), [])
        except Skipped:
            continue
        call.leaves.extend((a, b) for a, b in made.values() if a.requires_grad)
        if not call.deviates(test):
            yield call
