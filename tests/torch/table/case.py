"""A case: a small program in PyTorch's words with inputs to draw; `case` and `fails` enter one into the table."""

from __future__ import annotations

import ast
import itertools
import sys
import textwrap
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from .inputs import Input

TABLE: list[Case] = []


class Check(NamedTuple):
    """One program with one choice of its variables."""

    case: Case
    program: str
    variables: dict[str, Any]

    def __str__(self) -> str:
        """In words that change when the check does: what its answer is stored under."""
        mode = "" if self.case.mode == "case" else f"[{self.case.mode}] "
        mode += "" if self.case.grad else "[no grad] "
        return mode + " | ".join([self.program, *(f"{name}={value!r}" for name, value in self.variables.items())])

    @property
    def inputs(self) -> dict[str, Input]:
        return {name: value for name, value in self.variables.items() if isinstance(value, Input)}

    @property
    def seed(self) -> int:
        return zlib.crc32(str(self).encode())


class Case(NamedTuple):
    """Programs that are about these names, with all choices of their variables."""

    names: tuple[str, ...]
    programs: tuple[str, ...]
    variables: dict[str, Any]
    mode: str  # "case", "writes" or "fails"
    grad: bool
    family: str

    def checks(self) -> Iterator[Check]:
        """Every program with every choice of the variables that stand in it."""
        for program in self.programs:
            words = words_of(program)
            used = {name: value if isinstance(value, list) else [value] for name, value in self.variables.items() if name in words}
            for chosen in itertools.product(*used.values()):
                yield Check(self, program, dict(zip(used, chosen, strict=True)))


def words_of(program: str) -> set[str]:
    """The names of variables and attributes in a program."""
    nodes = list(ast.walk(ast.parse(program)))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def entered(names: str, programs: str | list[str], variables: dict[str, Any], mode: str, grad: bool = True) -> None:
    texts = tuple(textwrap.dedent(text).strip() for text in ([programs] if isinstance(programs, str) else programs))
    family = sys._getframe(2).f_globals["__name__"].rpartition(".")[2]
    TABLE.append(Case(tuple(names.split()), texts, variables, mode, grad, family))


def case(names: str, programs: str | list[str], grad: bool = True, **variables: Any) -> None:
    """PyTorch's answer is wanted to these programs; floating-point inputs ask for their gradients unless `grad` is False."""
    entered(names, programs, variables, "case", grad)


def writes(names: str, programs: str | list[str], grad: bool = True, **variables: Any) -> None:
    """As `case`; the program writes into its inputs, which are copies of leaves, and what they hold afterwards is compared too."""
    entered(names, programs, variables, "writes", grad)


def fails(names: str, programs: str | list[str], **variables: Any) -> None:
    """PyTorch raises an error, and its type is wanted."""
    entered(names, programs, variables, "fails")
