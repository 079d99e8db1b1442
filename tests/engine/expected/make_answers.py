"""Ask an installed PyTorch what the generic tests want to know, and store its answers beside this file.

python tests/engine/expected/make_answers.py            every op
python tests/engine/expected/make_answers.py softsign   these ops only
python tests/engine/expected/make_answers.py --dtypes   the promotion of dtypes by themselves
"""

from __future__ import annotations

import json
import operator
import sys
import warnings
from itertools import count, repeat
from pathlib import Path
from typing import Any

import numpy
import torch

sys.path[:0] = [str(Path(__file__).parents[i]) for i in (1, 2, 3)]

import tables  # noqa: E402
from tables import LETTERS, NO_KERNEL, REFUSED, SCALARS, Typed  # noqa: E402

import cases  # noqa: E402
import engine  # noqa: E402
from engine.base import dtypes  # noqa: E402

TORCH_DTYPES = {d: getattr(torch, d.name) for d in dtypes.ALL}
LETTER_OF = {TORCH_DTYPES[d]: letter for letter, d in LETTERS.items()} | {torch.complex32: NO_KERNEL}  # the engine has no complex32
PLACES = {"nn.functional": torch.nn.functional, "linalg": torch.linalg, "special": torch.special, "Tensor": torch.Tensor}


def _like(weight: Any, x: Any) -> Any:
    """Weights of classes, written as integers in an example, in the input's dtype."""
    return None if weight is None else weight.detach().to(x.dtype)


def _constant(attrs: dict) -> dict:
    """Weights as constants, which they are to PyTorch; the target stays what it is."""
    return {k: v.detach() if isinstance(v, torch.Tensor) and k != "target" else v for k, v in attrs.items()}


SPELLED: dict[str, Any] = {
    "getitem": operator.getitem,
    "to_dtype": lambda input, dtype: input.to(dtype),
    "to_device": lambda input, device, source: input.to(device),
    "view_as_dtype": lambda input, dtype: input.view(dtype),
    "constant_pad": torch.constant_pad_nd,
    "convolution": None,
    "embedding": torch.nn.functional.embedding,
    "searchsorted": lambda input, values, **attrs: torch.searchsorted(input, values, **attrs),
    "nll_loss": lambda input, target, weight=None, **attrs: torch.nn.functional.nll_loss(input, target, _like(weight, input), **attrs),
    "cross_entropy": lambda input, target, weight=None, **attrs: torch.nn.functional.cross_entropy(
        input, target, _like(weight, input), **attrs
    ),
    "binary_cross_entropy": lambda *inputs, **attrs: torch.nn.functional.binary_cross_entropy(*inputs, **_constant(attrs)),
    "binary_cross_entropy_with_logits": lambda *inputs, **attrs: torch.nn.functional.binary_cross_entropy_with_logits(
        *inputs, **_constant(attrs)
    ),
    "layer_norm": lambda input, weight=None, bias=None, *, normalized_shape, eps=1e-5: torch.nn.functional.layer_norm(
        input, [normalized_shape] if isinstance(normalized_shape, int) else normalized_shape, weight, bias, eps
    ),
    "polygamma": lambda input, n=1: torch.polygamma(n, input),
    "threshold": lambda input, threshold=0.0, value=0.0: torch.threshold(input, threshold, value),
}


def function(op: Any) -> Any:
    """PyTorch's function of the op's name, or None."""
    if op.name in SPELLED:
        return SPELLED[op.name]
    for place in (PLACES.get(op.home, torch), torch, torch.Tensor, torch.nn.functional, torch.special, torch.linalg):
        if hasattr(place, op.name):
            return getattr(place, op.name)
    return None


def _rows(x: numpy.ndarray) -> torch.Tensor:
    """The numbers in a row-major tensor. What torch.tensor makes of an empty array has strides of 0, of which it has no views."""
    return torch.tensor(x).clone(memory_format=torch.contiguous_format)


def to_torch(x: Any) -> Any:
    """An input or attribute as PyTorch wants it."""
    if isinstance(x, Typed):
        return torch.tensor(x.values).to(TORCH_DTYPES[x.dtype])
    if isinstance(x, engine.Tensor):
        return _rows(x.detach().numpy())
    if isinstance(x, dtypes.dtype):
        return TORCH_DTYPES[x]
    if isinstance(x, numpy.ndarray):
        return _rows(x)
    if isinstance(x, (tuple, list)):
        return type(x)(map(to_torch, x))
    return x


def call(case: cases.Case, inputs: list) -> tuple:
    """PyTorch's results; attributes and all inputs but the first go by name where the function takes names."""
    fn, op = function(case.op), case.op
    attrs = {k: to_torch(v) for k, v in case.attrs.items()}
    inputs = [to_torch(x) for x in inputs]
    torch.manual_seed(0)
    if op.variadic:
        found = fn(tuple(inputs), **attrs)
    else:
        named = {name: x for name, x in zip(op.inputs[1:], inputs[1:], strict=False) if x is not None}
        try:
            found = fn(*inputs[:1], **named, **attrs)
        except TypeError as error:
            try:  # functions written in C take some of their arguments by position only
                found = fn(*[x for x in inputs if x is not None], *attrs.values())
            except TypeError:
                raise error from None
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def shapes(case: cases.Case) -> list | None:
    """The shapes of the results, or None for a refusal."""
    try:
        return [list(r.shape) for r in call(case, cases.draw(case))]
    except (RuntimeError, IndexError, ValueError):
        return None


def letters(key: str, case: cases.Case, inputs: list) -> str:
    """The dtypes of the results. No answers: missing kernels, functions without numbers, the limited support of uint16 to uint64."""
    try:
        found = call(case, inputs)
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError) as error:
        missing = "not implemented for" in str(error) or "not supported on CPU" in str(error)
        return NO_KERNEL if missing or ("," in key and isinstance(error, TypeError)) or set(key) & set("UVW") else REFUSED
    return "".join(LETTER_OF[r.dtype] for r in found)


def specials(case: cases.Case) -> dict:
    """Values at infinities, zeros, nan and ties, and gradients at the finite ones."""
    xs = [torch.tensor(x, requires_grad=True) for x in tables.special_inputs(case)]
    (out,) = call(case, xs)
    found: dict[str, Any] = {"key": case.key, "value": out.tolist()}
    if out.requires_grad and case.op.ruled:
        grads = torch.autograd.grad(out.sum(), xs, allow_unused=True)
        found["grads"] = [None if g is None else (g + 0).tolist() for g in grads]
    return found


def overwritten(case: cases.Case) -> list[str]:
    """For each choice of inputs that require a gradient, a letter for each input and result: what backward() says after it was set to 0."""
    xs = cases.draw(case)

    def letter(asking: tuple, place: int) -> str | None:
        inputs = [_rows(x).requires_grad_(i in asking) * 1 if cases.floating(x) else x for i, x in enumerate(xs)]
        results = [r for r in call(case, inputs) if isinstance(r, torch.Tensor)]
        all_of_them = [*inputs, *results]
        if place >= len(all_of_them):
            return None
        target, live = all_of_them[place], [r for r in results if r.requires_grad]
        if not live or not isinstance(target, torch.Tensor) or not (target.is_floating_point() or target.is_complex()):
            return tables.NOT_ASKED
        try:
            with torch.no_grad():
                target.zero_()
        except RuntimeError:  # an expanded tensor, say
            return tables.NOT_ASKED
        try:
            torch.autograd.backward(live, [torch.ones_like(r) for r in live])
        except RuntimeError as error:
            return tables.SPOILED if "modified by an inplace operation" in str(error) else tables.NOT_ASKED
        return tables.KEEPS

    return ["".join(iter(map(letter, repeat(asking), count()).__next__, None)) for asking in tables.asking(xs)]


def scalar_pairs() -> dict:
    """torch.promote_types of all pairs, and torch.result_type of all pairs of 1-d and 0-d tensors and Python numbers."""
    one = {a: torch.ones(1).to(TORCH_DTYPES[d]) for a, d in LETTERS.items()}

    def asked(x: Any, y: Any) -> str:
        try:
            return LETTER_OF[torch.result_type(x, y)]
        except RuntimeError:
            return REFUSED

    def promoted(a: torch.dtype, b: torch.dtype) -> str:
        try:
            return LETTER_OF[torch.promote_types(a, b)]
        except RuntimeError:
            return REFUSED

    def rows(ask: Any, others: Any) -> dict:
        return {a: "".join(ask(a, b) for b in others) for a in LETTERS}

    return {
        "promote_types": rows(lambda a, b: promoted(one[a].dtype, one[b].dtype), LETTERS),
        "one_one": rows(lambda a, b: asked(one[a], one[b]), LETTERS),
        "one_zero": rows(lambda a, b: asked(one[a], one[b][0]), LETTERS),
        "zero_zero": rows(lambda a, b: asked(one[a][0], one[b][0]), LETTERS),
        "one_number": rows(lambda a, n: asked(one[a], n), SCALARS),
        "zero_number": rows(lambda a, n: asked(one[a][0], n), SCALARS),
    }


def ask(op: Any, files: dict) -> None:
    declared = cases.of(op)
    if "promotion" not in op.exempt:
        case = declared[0]
        asked = tables.promotion_questions(case, cases.draw(case))
        files["promotion"][op.name] = {"key": case.key, "answers": tables.packed({k: letters(k, case, xs) for k, xs in asked.items()})}
    if "zero_size" not in op.exempt:
        files["zero_size"][op.name] = {
            case.key: {n: shapes(emptied) for n, emptied in tables.zero_sizes(case).items()} for case in declared
        }
    if op.ruled and not op.variadic and "overwritten" not in op.exempt:
        files["overwritten"][op.name] = {case.key: overwritten(case) for case in declared}
    if tables.has_specials(op) and "specials" not in op.exempt:
        files["specials"][op.name] = specials(declared[0])


def save(name: str, found: dict) -> None:
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found.items()))
    (tables.EXPECTED / f"{name}.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")


def main(names: list[str]) -> None:
    assert torch.__version__.startswith("2.13"), f"the stored answers are PyTorch 2.13's, this is {torch.__version__}"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if "--dtypes" in names or not names:
        save("dtypes", scalar_pairs())
    chosen = [op for op in cases.ops() if not names or op.name in names]
    files = {name: tables.stored(name) if names else {} for name in ("promotion", "zero_size", "specials", "overwritten")}
    for op in chosen:
        if function(op) is None:
            print(f"{op.name}: PyTorch has no function of this name")
            continue
        try:
            ask(op, files)
        except (RuntimeError, TypeError) as error:
            print(f"{op.name}: {type(error).__name__}: {error}")
    for name, found in files.items():
        known = {op.name for op in cases.ops()}
        save(name, {k: v for k, v in found.items() if k in known})


if __name__ == "__main__":
    main(sys.argv[1:])
