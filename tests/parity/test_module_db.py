"""PyTorch's own samples of every layer: text, first values, outputs, gradients, state, copies, casts, and what is refused."""

from __future__ import annotations

import copy
import pickle
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from compare import differ, far, same_gradients
from samples import Skipped, converted, flat, number
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

import engine

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AssertionError)
BOTH = [False, True]
MOST = 12  # samples of one layer and dtype, spread evenly


class Pair(NamedTuple):
    """One sample: a layer of PyTorch's, the engine's, made from the same seed, and the arguments of their forward."""

    name: str
    theirs: torch.nn.Module
    mine: engine.nn.Module
    args: tuple
    kwargs: dict
    our_args: tuple
    our_kwargs: dict
    leaves: list

    def run(self) -> tuple[Any, Any]:
        """What both answer, from the same seed."""
        torch.manual_seed(5)
        expected = self.theirs(*self.args, **self.kwargs)
        engine.manual_seed(5)
        return expected, self.mine(*self.our_args, **self.our_kwargs)


def layer_of_ours(layer: torch.nn.Module) -> engine.nn.Module:
    """A layer that is an argument of another one, with the same weights."""
    assert isinstance(layer, torch.nn.TransformerEncoderLayer), layer
    weight = layer.linear1.weight
    made = engine.nn.TransformerEncoderLayer(
        layer.self_attn.embed_dim, layer.self_attn.num_heads, layer.linear1.out_features, layer.dropout.p,
        getattr(engine.nn.functional, layer.activation.__name__), layer.norm1.eps, layer.self_attn.batch_first, layer.norm_first,
        layer.linear1.bias is not None, dtype=converted(weight.dtype, {}),
    )  # fmt: skip
    made.load_state_dict({k: engine.Tensor._wrap(number(v).copy()) for k, v in layer.state_dict().items()})
    return made


def put(value: Any, made: dict) -> Any:
    if isinstance(value, torch.nn.Module) and next(value.parameters(), None) is not None:
        return layer_of_ours(value)
    if isinstance(value, list) or type(value) is tuple:
        return type(value)(put(v, made) for v in value)
    if isinstance(value, dict):
        return {k: put(v, made) for k, v in value.items()}
    return converted(value, made)


def build(info: Any, sample: Any, dtype: torch.dtype, factory: dict) -> tuple:
    """The two layers of a sample."""
    args, kwargs = sample.constructor_input.args, {**sample.constructor_input.kwargs, **factory}
    name = info.module_cls.__name__
    torch.manual_seed(3)
    theirs = info.module_cls(*args, **kwargs)
    engine.manual_seed(3)
    mine = getattr(engine.nn, name)(*put(args, {}), **put(kwargs, {}))
    return theirs, mine


def takes_dtype(info: Any) -> bool:
    import inspect

    return "dtype" in inspect.signature(info.module_cls.__init__).parameters


def pairs(info: Any, dtype: torch.dtype, training: bool, grad: bool = True) -> Iterator[Pair]:
    torch.manual_seed(zlib.crc32(info.name.encode()))
    samples = list(enumerate(info.module_inputs_func(info, "cpu", dtype, grad, training)))
    for i, sample in samples[:: -(-len(samples) // MOST) or 1]:
        made: dict = {}
        factory = {"dtype": dtype} if takes_dtype(info) and "dtype" not in sample.constructor_input.kwargs else {}
        name = f"sample {i} {sample.constructor_input.args} {sample.constructor_input.kwargs} {sample.desc}"[:300]
        try:
            theirs, mine = build(info, sample, dtype, factory)
            args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
            ours = put(args, made), put(kwargs, made)
        except Skipped:
            continue
        theirs.train(training)
        mine.train(training)
        leaves = [(a, b) for a, b in made.values() if a.requires_grad]
        yield Pair(name, theirs, mine, args, kwargs, *ours, leaves)


def same_state(theirs: torch.nn.Module, mine: engine.nn.Module, exactly: bool) -> str | None:
    a, b = theirs.state_dict(), mine.state_dict()
    if list(a) != list(b):
        return f"state has {list(b)}, not {list(a)}"
    for key in a:
        if isinstance(a[key], torch.nn.parameter.UninitializedTensorMixin):
            continue
        if exactly and (number(a[key]).tobytes() != b[key].numpy().tobytes()):
            return f"first values of {key}: {differ(a[key], b[key]) or 'differ in the last bits'}"
        if told := differ(a[key], b[key]):
            return f"{key}: {told}"
    if [n for n, _ in theirs.named_parameters()] != [n for n, _ in mine.named_parameters()]:
        return "other parameters"
    if [n for n, _ in theirs.named_buffers()] != [n for n, _ in mine.named_buffers()]:
        return "other buffers"
    return None


def report(wrong: list[str]) -> None:
    assert not wrong, f"{len(wrong)} samples differ:\n" + "\n".join(wrong[:12])


def chosen(wanted: Any = lambda info: True) -> list:
    return [pytest.param(info, id=info.name) for info in module_db if wanted(info)]


def told_by(check: Any, pair: Pair) -> str | None:
    try:
        told = check(pair)
    except REFUSALS as error:
        told = f"{type(error).__name__}: {error}"
    return told and f"{pair.name}: {told}"


def all_pairs(info: Any, check: Any, dtypes: Any = (torch.float32,), trainings: Any = BOTH) -> None:
    wrong = [told for dtype in dtypes for training in trainings for pair in pairs(info, dtype, training) if (told := told_by(check, pair))]
    report(wrong)


@pytest.mark.parametrize("info", chosen())
def test_text_and_first_values(info):
    """`repr` and, bit for bit, what the constructor draws."""

    def check(pair: Pair) -> str | None:
        if repr(pair.mine) != repr(pair.theirs):
            return f"text {pair.mine!r}, not {pair.theirs!r}"
        return same_state(pair.theirs, pair.mine, True)

    all_pairs(info, check, (torch.float32, torch.float64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("info", chosen())
def test_outputs_and_gradients(info, dtype):
    def check(pair: Pair) -> str | None:
        low = dtype in (torch.float16, torch.bfloat16)
        try:
            torch.manual_seed(5)
            expected = pair.theirs(*pair.args, **pair.kwargs)
        except REFUSALS:
            return None  # PyTorch has no answer itself
        engine.manual_seed(5)
        found = pair.mine(*pair.our_args, **pair.our_kwargs)
        if told := differ(expected, found, 3.0 if low else 1.0) or same_state(pair.theirs, pair.mine, False):
            return told
        outs = [(a, b) for a, b in zip(flat(expected), flat(found), strict=True) if isinstance(a, torch.Tensor) and a.requires_grad]
        params = zip(pair.theirs.parameters(), pair.mine.parameters(), strict=True)
        leaves = [*pair.leaves, *[(p, q) for p, q in params if p.requires_grad]]
        if not outs or not leaves or low:
            return None
        seeds = [torch.randn_like(a) for a, _ in outs]
        answer = torch.autograd.grad([a for a, _ in outs], [a for a, _ in leaves], seeds, allow_unused=True)
        mine = engine.autograd.grad(
            [b for _, b in outs], [b for _, b in leaves], [engine.Tensor._wrap(number(s).copy()) for s in seeds], allow_unused=True
        )
        return same_gradients(answer, mine)

    all_pairs(info, check, (dtype,))


@pytest.mark.parametrize("info", chosen())
def test_copies_answer_the_same(info):
    """deepcopy, pickle and a state dict loaded into a new layer."""

    def check(pair: Pair) -> str | None:
        try:
            torch.manual_seed(5)
            before = pair.theirs(*pair.args, **pair.kwargs)
        except REFUSALS:
            return None
        for made in (copy.deepcopy(pair.mine), pickle.loads(pickle.dumps(pair.mine))):
            engine.manual_seed(5)
            if told := differ(before, made(*pair.our_args, **pair.our_kwargs)):
                return told
            if repr(pair.theirs) != repr(made):
                return f"text of the copy {made!r}"
        return None

    all_pairs(info, check, trainings=[False])


@pytest.mark.parametrize("info", chosen())
def test_casts(info):
    """`double()`, `half()` and `to(bfloat16)` give PyTorch's dtypes, and `to_empty` its shapes."""

    def check(pair: Pair) -> str | None:
        for cast in (lambda m, _: m.double(), lambda m, lib: m.to(lib.bfloat16), lambda m, _: m.half(), lambda m, _: m.float()):
            try:
                cast(pair.theirs, torch)
            except REFUSALS:
                return None
            cast(pair.mine, engine)
            for (key, a), b in zip(pair.theirs.state_dict().items(), pair.mine.state_dict().values(), strict=True):
                if str(a.dtype)[6:] != b.dtype.name:
                    return f"{key} is {b.dtype}, not {a.dtype}"
        if any(isinstance(p, torch.nn.parameter.UninitializedTensorMixin) for p in pair.theirs.parameters()):
            return None
        kept = {k: tuple(v.shape) for k, v in pair.mine.state_dict().items()}
        emptied = pair.mine.to_empty(device="cpu")
        return None if {k: tuple(v.shape) for k, v in emptied.state_dict().items()} == kept else "other shapes in to_empty"

    all_pairs(info, check, trainings=[True])


@pytest.mark.parametrize("info", chosen(lambda info: takes_dtype(info)))
def test_factory_arguments(info):
    """`device=` and `dtype=` reach every parameter and floating-point buffer."""
    for dtype in (torch.float64, torch.float16):
        for sample in info.module_inputs_func(info, "cpu", torch.float32, False, True):
            args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
            if any(isinstance(x, torch.Tensor | torch.nn.Module) for x in flat(args)) or "dtype" in kwargs:
                continue
            theirs, mine = build(info, sample, dtype, {"dtype": dtype, "device": "cpu"})
            for (key, a), b in zip(theirs.state_dict().items(), mine.state_dict().values(), strict=True):
                if not isinstance(a, torch.nn.parameter.UninitializedTensorMixin):
                    assert str(a.dtype)[6:] == b.dtype.name, key


@pytest.mark.parametrize("info", chosen(lambda info: info.module_error_inputs_func is not None))
def test_refusals(info):
    wrong = []
    for error in info.module_error_inputs_func(info, "cpu", torch.float32, False, True):
        sample = error.module_error_input
        at_construction = error.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR
        try:
            engine_class = getattr(engine.nn, info.module_cls.__name__)
            layer = engine_class(*put(sample.constructor_input.args, {}), **put(sample.constructor_input.kwargs, {}))
            if not at_construction:
                layer(*put(sample.forward_input.args, {}), **put(sample.forward_input.kwargs, {}))
            wrong.append(f"no {error.error_type.__name__} ({error.error_regex})")
        except error.error_type as told:
            if not str(told):
                wrong.append(f"nothing is said ({error.error_regex})")
        except Exception as other:
            wrong.append(f"{type(other).__name__} ({other}), not {error.error_type.__name__} ({error.error_regex})")
    report(wrong)


@pytest.mark.parametrize("info", chosen(lambda info: info.supports_gradgrad))
def test_second_derivatives(info):
    def check(pair: Pair) -> str | None:
        if getattr(pair.theirs, "options", None) is not None:
            return None  # PyTorch's loss in pieces has no second derivatives, its documentation says
        try:
            torch.manual_seed(5)
            expected = pair.theirs(*pair.args, **pair.kwargs)
            params = zip(pair.theirs.parameters(), pair.mine.parameters(), strict=True)
            leaves = [*pair.leaves, *[(p, q) for p, q in params if p.requires_grad]]
            total = sum((a * a).sum() for a in flat(expected) if isinstance(a, torch.Tensor) and a.requires_grad)
            if not leaves or not isinstance(total, torch.Tensor):
                return None
            first = torch.autograd.grad(total, [a for a, _ in leaves], create_graph=True, allow_unused=True)
            again = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
            if not isinstance(again, torch.Tensor):
                return None
            answer = torch.autograd.grad(again, [a for a, _ in leaves], allow_unused=True)
        except REFUSALS:
            return None
        engine.manual_seed(5)
        found = pair.mine(*pair.our_args, **pair.our_kwargs)
        value = sum((b * b).sum() for b in flat(found) if isinstance(b, engine.Tensor) and b.requires_grad)
        grads = engine.autograd.grad(value, [b for _, b in leaves], create_graph=True, allow_unused=True)
        twice = sum((g * g).sum() for g, f in zip(grads, first, strict=True) if g is not None and f is not None and f.requires_grad)
        mine = engine.autograd.grad(twice, [b for _, b in leaves], allow_unused=True)
        return same_gradients(answer, mine, 100.0)

    all_pairs(info, check, (torch.float64,), [True])


def test_far_tells_apart():
    """The comparison itself can fail."""
    assert far(torch.ones(2), engine.tensor([1.0, 1.1])) is not None
