"""PyTorch's own samples of every op: values, dtypes, gradients of both orders and modes, in place, `out=`, and what is refused."""

from __future__ import annotations

import dis
import re
import types
import warnings
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from deviations import ABSENT, DEVIATIONS, RANDOM, TIES
from torch.testing._internal.common_methods_invocations import op_db

import engine
from engine import dtypes

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
DTYPES = [torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 1e-4, torch.complex64: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}  # the others: 1e-6
MOST = {"second": 4, "forward": 6, "in_place": 12, "out": 6}  # samples of one op and dtype, spread evenly; the other tests take 60
RESHAPED = ("squeeze_", "unsqueeze_", "transpose_", "t_", "resize_", "resize_as_", "as_strided_")  # they change a tensor, not its memory
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


class Skipped(Exception):
    """A sample that says something the engine has no word for: sparse layouts, generators, channels_last, more than 64 dimensions."""


def variant(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def rewrapped(fn: Any) -> Any:
    """A wrapper of PyTorch's tests with the engine in PyTorch's place; None where the engine lacks a name that it uses."""
    words = {i.argval for i in dis.get_instructions(fn) if i.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    places = (engine, engine.Tensor, engine.linalg, engine.special, engine.nn, engine.nn.functional)
    if not all(any(hasattr(place, word) for place in places) for word in words):
        return None
    return types.FunctionType(fn.__code__, {**fn.__globals__, "torch": engine}, fn.__name__, fn.__defaults__, fn.__closure__)


def ours(op: Any) -> Any:
    """The engine's function: found by name or, where PyTorch wraps its own in Python, the same wrapper around the engine's."""
    fn = op.op
    if isinstance(fn, types.FunctionType) and fn.__module__.startswith("torch.testing") and "torch" in fn.__code__.co_names:
        return rewrapped(fn) if op.name not in ABSENT else None
    if isinstance(fn, types.FunctionType) and fn.__module__.startswith("torch.testing") and not fn.__code__.co_freevars:
        return fn if all(hasattr(engine.Tensor, w) for w in fn.__code__.co_names) else None
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
    if isinstance(x, (torch.Generator, torch.layout)) or x is torch.channels_last or x is torch.channels_last_3d or x is torch.complex32:
        raise Skipped
    if isinstance(x, torch.memory_format):
        return None
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
    samples, most = list(op.sample_inputs("cpu", dtype, requires_grad=grad)), MOST.get(test, 60)
    for sample in samples[:: -(-len(samples) // most) if samples else 1]:
        made: dict = {}
        try:
            call = Call(op, sample, converted(sample.input, made), converted(sample.args, made), converted(sample.kwargs, made), [])
        except Skipped:
            continue
        call.leaves.extend((a, b) for a, b in made.values() if a.requires_grad)
        if not call.deviates(test):
            yield call


def differ(expected: Any, found: Any, scale: float = 1.0) -> str | None:
    """What is different, in words, or None."""
    expected, found = flat(expected), flat(found)
    if len(expected) != len(found):
        return f"{len(found)} results, not {len(expected)}"
    for x, y in zip(expected, found, strict=True):
        if not isinstance(x, torch.Tensor):
            plain = isinstance(x, (bool, int, float, complex))
            if plain and not (x == y or abs(x - y) < 1e-6 or x != x and y != y):
                return f"{y}, not {x}"
            continue
        if not isinstance(y, engine.Tensor):
            return f"{type(y).__name__}, not a tensor"
        if tuple(x.shape) != tuple(y.shape):
            return f"shape {tuple(y.shape)}, not {tuple(x.shape)}"
        if x.dtype in KNOWN and KNOWN[x.dtype] is not y.dtype:
            return f"dtype {y.dtype}, not {x.dtype}"
        if wrong := far(x, y, scale):
            return wrong
    return None


def differ_but_ties(call: Call, expected: Any, found: Any) -> str | None:
    """As `differ`; of equal elements an op named in TIES may pick any: its indices must lead to the same elements."""
    if call.op.name not in TIES or (told := differ(expected, found)) is None:
        return told if call.op.name in TIES else differ(expected, found)
    *values, indices = flat(expected)
    at, x = engine_index(flat(found)[-1], indices), call.sample.input
    if values and differ(values, flat(found)[:-1]):
        return told
    for d in range(x.ndim):
        if at.ndim == x.ndim and all(n == m for i, (n, m) in enumerate(zip(at.shape, x.shape, strict=True)) if i != d):
            theirs, mine = x.take_along_dim(indices, d), x.take_along_dim(at, d)
        elif at.ndim == x.ndim - 1 and at.shape == x.shape[:d] + x.shape[d + 1 :]:
            theirs, mine = x.take_along_dim(indices.unsqueeze(d), d), x.take_along_dim(at.unsqueeze(d), d)
        else:
            continue
        if torch.equal(theirs, mine):
            return None
    return told


def engine_index(x: engine.Tensor, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.array, dtype=like.dtype)


def far(x: torch.Tensor, y: engine.Tensor, scale: float = 1.0) -> str | None:
    """Where values are further apart than rounding, in words."""
    tolerance = TOLERANCE.get(x.dtype, 1e-6) * scale
    kind = torch.complex128 if x.is_complex() else torch.float64
    a, b = number(x.to(kind)), y.detach().array.astype(numpy.complex128 if x.is_complex() else numpy.float64)
    finite = numpy.abs(a[numpy.isfinite(a)])
    size = max(1e-2, finite.max()) if finite.size else 1.0
    close = numpy.isclose(b, a, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    if close.all():
        return None
    at = tuple(int(i) for i in numpy.argwhere(~close)[0]) if a.ndim else ()
    return f"{b[at]}, not {a[at]}, at {at} and {int((~close).sum())} of {close.size} places"


def report(wrong: list[str]) -> None:
    assert not wrong, f"{len(wrong)} samples differ:\n" + "\n".join(dict.fromkeys(wrong[:12]))


def chosen(wanted: Any = lambda op: True) -> list:
    return [pytest.param(op, id=variant(op)) for op in op_db if op.name not in ABSENT and op.name not in RANDOM and wanted(op)]


# -- what PyTorch has ----------------------------------------------------------------------------------------------------------


def test_every_name_is_there_or_has_a_reason():
    missing = {op.name for op in op_db if ours(op) is None} - set(RANDOM)
    assert missing - set(ABSENT) == set(), "neither in the engine nor in ABSENT"
    assert set(ABSENT) - missing == set(), "in ABSENT, but the engine has them"


def test_reasons_are_sentences():
    for reason in [*ABSENT.values(), *RANDOM.values(), *TIES.values(), *[row.reason for row in DEVIATIONS]]:
        assert len(reason) >= 20 and reason.endswith(".") and " " in reason, reason
    names = {variant(op) for op in op_db}
    for row in DEVIATIONS:
        assert any(re.fullmatch(row.op, known) for known in names), f"PyTorch has no op {row.op!r}"


@pytest.mark.parametrize("op", chosen(lambda op: op.method_variant is not None and "." not in op.name))
def test_methods(op):
    if hasattr(torch.Tensor, op.name):
        assert hasattr(engine.Tensor, op.name), f"Tensor.{op.name} is missing"


# -- results -------------------------------------------------------------------------------------------------------------------


def expected(call: Call) -> Any:
    """PyTorch's answer; None where it has none itself."""
    try:
        found = call.theirs()
    except REFUSALS:
        return None
    return None if any(isinstance(x, torch.Tensor) and x.dtype is torch.complex32 for x in flat(found)) else found  # not one of ours


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("op", chosen())
def test_samples(op, dtype):
    if not op.supports_dtype(dtype, "cpu"):
        return
    wrong: list[str] = []
    for call in calls("samples", op, dtype):
        answer = expected(call)
        if answer is None:
            continue
        try:
            told = differ_but_ties(call, answer, call.run())
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    report(wrong)


def results(call: Call) -> list:
    """Pairs of results through which a gradient flows."""
    pairs = zip(flat(call.theirs()), flat(call.run()), strict=True)
    return [(a, b) for a, b in pairs if isinstance(a, torch.Tensor) and a.requires_grad]


def weights(pairs: list) -> tuple[list, list]:
    made = [torch.randn_like(a) for a, _ in pairs]
    return made, [engine.Tensor._wrap(number(w).copy()) for w in made]


def same_gradients(theirs: Any, found: Any, scale: float = 10.0) -> str | None:
    for i, (a, b) in enumerate(zip(theirs, found, strict=True)):
        if a is None or b is None:
            rest = number(a) if a is not None else b.array if b is not None else numpy.zeros(())
            if rest.any():
                return f"gradient of input {i} is {'None' if b is None else 'there'}, PyTorch's is {'None' if a is None else 'not'}"
        elif told := far(a, b, scale):
            return f"gradient of input {i}: {told}"
    return None


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("op", chosen(lambda op: op.supports_autograd))
def test_gradients(op, dtype):
    if not op.supports_dtype(dtype, "cpu") or dtype not in op.supported_backward_dtypes("cpu"):
        return
    wrong: list[str] = []
    for call in calls("gradients", op, dtype, grad=True):
        try:
            pairs = results(call)
            ws, vs = weights(pairs)
            answer = torch.autograd.grad([a for a, _ in pairs], [a for a, _ in call.leaves], ws, allow_unused=True)
        except REFUSALS:
            continue  # test_samples has what the engine refuses
        try:
            live = [(b, v) for (_, b), v in zip(pairs, vs, strict=True) if b.requires_grad]
            wanted = [b for _, b in call.leaves]
            found = (
                engine.autograd.grad([b for b, _ in live], wanted, [v for _, v in live], allow_unused=True)
                if live
                else [None] * len(wanted)
            )
            told = same_gradients(answer, found)
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    report(wrong)


@pytest.mark.parametrize("op", chosen(lambda op: op.supports_autograd and op.supports_gradgrad and op.supports_dtype(torch.float64, "cpu")))
def test_second_derivatives(op):
    """The gradient of the gradient along a fixed direction is PyTorch's."""
    wrong: list[str] = []
    for call in calls("second", op, torch.float64, grad=True):
        try:
            pairs = results(call)
            ws, vs = weights(pairs)
            theirs = [a for a, _ in call.leaves]
            first = torch.autograd.grad([a for a, _ in pairs], theirs, ws, create_graph=True, allow_unused=True)
            along, vlong = weights([(g, None) for g in first if g is not None])
            total = sum((g * w).sum() for g, w in zip([g for g in first if g is not None], along, strict=True))
            answer = torch.autograd.grad(total, theirs, allow_unused=True) if total.requires_grad else [None] * len(theirs)
        except (*REFUSALS, AttributeError):
            continue
        try:
            mine = [b for _, b in call.leaves]
            live = [(b, v) for (_, b), v in zip(pairs, vs, strict=True) if b.requires_grad]
            found = [None] * len(mine)
            if live:
                found = engine.autograd.grad([b for b, _ in live], mine, [v for _, v in live], create_graph=True, allow_unused=True)
            terms = [
                (g * v).sum()
                for g, v in zip([g for g, f in zip(found, first, strict=True) if f is not None], vlong, strict=True)
                if g is not None
            ]
            value = sum(terms[1:], terms[0]) if terms else None
            again = (
                engine.autograd.grad(value, mine, allow_unused=True) if value is not None and value.requires_grad else [None] * len(mine)
            )
            told = same_gradients(answer, again, 100.0)
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    report(wrong)


@pytest.mark.parametrize(
    "op", chosen(lambda op: op.supports_autograd and op.supports_forward_ad and op.supports_dtype(torch.float64, "cpu"))
)
def test_forward_mode(op):
    """The product with the Jacobian is the transpose of the product with its transpose."""
    wrong: list[str] = []
    for call in calls("forward", op, torch.float64, grad=True):
        try:
            pairs = results(call)
        except REFUSALS:
            continue
        mine = [b for _, b in call.leaves]
        if not pairs or not mine:
            continue
        wanted = [i for i, y in enumerate(flat(call.theirs())) if isinstance(y, torch.Tensor) and y.requires_grad]
        ts = [engine.Tensor._wrap(numpy.asarray(numpy.random.standard_normal(x.shape))) for x in mine]

        def along(*xs, mine=mine, call=call, wanted=wanted):
            at = {id(x): y for x, y in zip(mine, xs, strict=True)}
            put = lambda v: at.get(id(v), v) if isinstance(v, engine.Tensor) else type(v)(map(put, v)) if type(v) in (list, tuple) else v  # noqa: E731
            kwargs = {k: put(v) for k, v in call.kwargs.items()}
            out = call.sample.output_process_fn_grad(ours(call.op)(put(call.input), *map(put, call.args), **kwargs))
            return tuple(y for i, y in enumerate(flat(out)) if i in wanted)

        try:
            outs, pushed = engine.autograd.functional.jvp(along, tuple(mine), tuple(ts))
            vs = [engine.Tensor._wrap(numpy.asarray(numpy.random.standard_normal(p.shape)).astype(p.array.dtype)) for p in pushed]
            forward = sum(float((v.array * p.array.conj()).real.sum()) for v, p in zip(vs, pushed, strict=True))
            ys = along(*mine)
            live = [(y, v) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
            back = engine.autograd.grad([y for y, _ in live], mine, [v for _, v in live], allow_unused=True) if live else []
            reverse = sum(float((g.array * t.array).sum()) for g, t in zip(back, ts, strict=False) if g is not None)
            same = abs(forward - reverse) <= 1e-7 * max(1, abs(forward)) or numpy.isnan(forward) and numpy.isnan(reverse)
            told = None if same else f"forward mode gives {forward}, reverse mode {reverse}"
        except REFUSALS as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            wrong.append(f"{call}: {told}")
    report(wrong)


# -- in place, out= ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", chosen(lambda op: getattr(op.inplace_variant, "__name__", "").endswith("_")))
def test_in_place(op):
    name = op.inplace_variant.__name__
    method = getattr(engine.Tensor, name, None)
    assert method is not None, f"Tensor.{name} is missing"
    wrong: list[str] = []
    for dtype in (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128):
        for call in (
            calls("in_place", op, dtype, dtype is torch.float64 and op.supports_autograd) if op.supports_dtype(dtype, "cpu") else ()
        ):
            if not isinstance(call.sample.input, torch.Tensor) or call.sample.broadcasts_input:
                continue
            try:
                answer = op.inplace_variant(call.sample.input.clone(), *call.sample.args, **call.sample.kwargs)
                w, theirs = torch.randn_like(answer) if answer.is_floating_point() else None, None
                if answer.requires_grad and call.leaves:
                    theirs = torch.autograd.grad(answer, [a for a, _ in call.leaves], w, allow_unused=True)
            except REFUSALS:
                continue
            try:
                base = engine.stack([call.input.detach()] * 2)
                copy = call.input.clone()
                seen = method(copy, *call.args, **call.kwargs)
                told = "a new tensor, not itself" if seen is not copy else differ(answer, seen)
                if told is None and theirs is not None:
                    found = engine.autograd.grad(
                        seen, [b for _, b in call.leaves], engine.Tensor._wrap(number(w).copy()), allow_unused=True
                    )
                    told = same_gradients(theirs, found)
                if told is None:
                    with engine.no_grad():
                        part = base[0]
                        if name not in RESHAPED:
                            method(part, *call.args, **call.kwargs)
                            told = differ(answer.detach(), base[0]) or differ(call.sample.input.detach(), base[1])
                            told = told and f"written through a view: {told}"
            except REFUSALS as error:
                told = f"{type(error).__name__}: {error}"
            if told:
                wrong.append(f"{call}: {told}")
    report(wrong)


@pytest.mark.parametrize("op", chosen(lambda op: op.supports_out))
def test_out(op):
    wrong: list[str] = []
    for dtype in (torch.float64, torch.int64):
        for call in calls("out", op, dtype) if op.supports_dtype(dtype, "cpu") else ():
            try:
                answer = op.op(call.sample.input, *call.sample.args, **call.sample.kwargs)
            except REFUSALS:
                continue
            places = [engine.empty_like(engine.Tensor._wrap(number(x).copy())) for x in flat(answer) if isinstance(x, torch.Tensor)]
            if not places or len(places) != len(flat(answer)):
                continue
            out = tuple(places) if isinstance(answer, (tuple, list)) else places[0]
            try:
                found = ours(op)(call.input, *call.args, **call.kwargs, out=out)
                told = "not what was given as out" if not all(a is b for a, b in zip(flat(found), places, strict=True)) else None
                told = told or differ_but_ties(call, call.sample.output_process_fn_grad(answer), call.sample.output_process_fn_grad(found))
            except REFUSALS as error:
                told = f"{type(error).__name__}: {error}"
            if told:
                wrong.append(f"{call}: {told}")
    report(wrong)


# -- refusals ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", chosen(lambda op: op.error_inputs_func is not None))
def test_errors(op):
    wrong: list[str] = []
    for error in op.error_inputs("cpu"):
        made: dict = {}
        sample = error.sample_input
        try:
            call = Call(op, sample, converted(sample.input, made), converted(sample.args, made), converted(sample.kwargs, made), [])
        except Skipped:
            continue
        if call.deviates("errors"):
            continue
        kind = None
        try:
            op.op(sample.input, *sample.args, **sample.kwargs)
        except REFUSALS as theirs:
            kind = next(k for k in (NotImplementedError, *REFUSALS) if isinstance(theirs, k))
        if kind is None:
            continue  # the wrapper of PyTorch's test did not let the refusal through
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ours(op)(call.input, *call.args, **call.kwargs)
            told = f"no {kind.__name__} ({error.error_regex})"
        except kind:
            continue
        except Exception as other:
            told = f"{type(other).__name__} ({other}), not {kind.__name__} ({error.error_regex})"
        wrong.append(f"{call}: {told}")
    report(wrong)
