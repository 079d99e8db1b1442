"""The questions that were put to PyTorch, and how its answers are stored: the same code asks it and asks the engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy

from cases import Case, floating
from cases import of as cases_of
from engine.base import dtypes
from engine.core.op import Elementwise

EXPECTED = Path(__file__).parent / "expected"
MAKE = "python tests/engine/expected/make_answers.py"
LETTERS = dict(zip("buasilUVWhgfdcz", dtypes.ALL, strict=True))  # one letter for each dtype
LETTER = {d: letter for letter, d in LETTERS.items()}
SCALARS = (True, 2, 1.5, 1 + 1j)
REFUSED, NO_KERNEL = "-", "?"  # "?": PyTorch allows it in principle, and has no CPU kernel for it
SPECIAL = (-numpy.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.5, numpy.inf, numpy.nan)


def stored(name: str) -> dict:
    return json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


class Typed:
    """An input of a promotion question: an array that is to have this dtype, and the letter of the dtype."""

    def __init__(self, x: numpy.ndarray, letter: str, zero_dim: bool = False):
        x = numpy.full((), x.flat[0]) if zero_dim else x
        # values that no op objects to, in any dtype
        self.values = numpy.abs(numpy.rint(x)) + 1 if LETTERS[letter].rank == dtypes.INT else x
        self.dtype = LETTERS[letter]


def promotion_questions(case: Case, xs: list) -> dict[str, list]:
    """Inputs by what they are: `f` all float32, `fh` float32 beside float16, `f+h` beside a 0-d float16, `f,2` beside a Python float."""

    def typed(lead: str, rest: Any) -> list:
        return [x if i not in places else Typed(x, lead) if i == places[0] else rest(x) for i, x in enumerate(xs)]

    # the dtypes of indices and masks stay, unless there is nothing else
    places = [i for i, x in enumerate(xs) if floating(x)] or [i for i, x in enumerate(xs) if isinstance(x, numpy.ndarray)]
    if not places:
        return {}
    asked = {a: typed(a, lambda x, a=a: Typed(x, a)) for a in LETTERS}
    if len(places) < 2:
        return asked
    for a in LETTERS:
        asked |= {f"{a}{b}": typed(a, lambda x, b=b: Typed(x, b)) for b in LETTERS}
        if issubclass(case.op, Elementwise):
            asked |= {f"{a}+{b}": typed(a, lambda x, b=b: Typed(x, b, zero_dim=True)) for b in LETTERS}
            asked |= {f"{a},{n}": typed(a, lambda _, number=number: number) for n, number in enumerate(SCALARS)}
    return asked


def packed(answers: dict[str, str]) -> str:
    """Answers in the order of the questions, without a separator when each is one letter."""
    return ("" if all(len(a) == 1 for a in answers.values()) else " ").join(answers.values())


def unpacked(text: str, questions: dict[str, list]) -> dict[str, str]:
    return dict(zip(questions, text.split(" ") if " " in text else text, strict=True))


def zero_sizes(case: Case) -> dict[str, Case]:
    """The call with each size of its first input in turn set to 0, wherever that size occurs."""
    sizes = sorted({n for spec in (case.inputs if case.op.variadic else case.inputs[:1]) if isinstance(spec, tuple) for n in spec})
    emptied = lambda n: tuple(tuple(0 if m == n else m for m in s) if isinstance(s, tuple) else s for s in case.inputs)  # noqa: E731
    return {str(n): case._replace(inputs=emptied(n)) for n in sizes}


KEEPS, SPOILED, NOT_ASKED = ".", "x", "-"  # backward() after a tensor was overwritten: a gradient; refused; no such question


def asking(xs: list) -> list[tuple[int, ...]]:
    """Which inputs require a gradient: all that can, and each of them alone."""
    places = [i for i, x in enumerate(xs) if floating(x)]
    return [tuple(places), *([(i,) for i in places] if len(places) > 1 else [])]


def special_inputs(case: Case) -> list[numpy.ndarray]:
    """Infinities, zeros of both signs, nan and ties: every pair of them for an op of two inputs."""
    return [a.ravel() for a in numpy.meshgrid(*[numpy.array(SPECIAL)] * len(case.inputs), indexing="ij")]


def has_specials(op: Any) -> bool:
    """Whether an op takes one or two real tensors element by element to a real one."""
    return (
        issubclass(op, Elementwise)
        and len(op.inputs) <= 2
        and op.home != ""
        and op.name != "complex"
        and all(isinstance(s, tuple) for s in cases_of(op)[0].inputs)
    )
