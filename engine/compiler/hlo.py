"""Reads the text of a program that XLA has compiled: its computations, with the shapes, operands and names of their instructions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$")
_INSTRUCTION = re.compile(r"  (ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)$")
_SHAPE = re.compile(r"([a-z]+\d*[a-z\d]*)\[([<=\d,]*)\]")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|branch_computations)=\{?((?:%[\w.\-]+(?:, )?)+)")
_DTYPES = {"pred": "bool", "f": "float", "s": "int", "u": "uint", "c": "complex", "bf": "bfloat"}
# what costs nothing: names for values that exist already
_PLUMBING = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id")
_MOVES = (
    "broadcast", "reshape", "transpose", "copy", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad", "reverse", "iota",
    "gather", "scatter", "sort", "copy-start", "copy-done", "bitcast-convert", "custom-call", "rng-bit-generator", "conditional",
)  # fmt: skip


class Shape(NamedTuple):
    """The shape and dtype of one array, with NumPy's name of the dtype."""

    dims: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        bits = re.search(r"\d+", self.dtype)
        return self.size * (int(bits[0]) + 7 >> 3 if bits else 1)


@dataclass(frozen=True)
class Instruction:
    """One instruction; it has several shapes if its result is a tuple."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    called: tuple[str, ...]  # the computations that it runs
    op_name: str  # JAX's name stack
    text: str

    def attribute(self, name: str) -> str:
        """The text of an attribute, without braces; "" if it has none."""
        found = re.search(rf"\b{name}=\{{?([^\s,}}]+(?:,\d+)*)", self.text)
        return found[1] if found else ""

    @property
    def plumbing(self) -> bool:
        """Whether it only names values that exist already."""
        return self.opcode in _PLUMBING


class Module:
    """A program: `computations` by name, each a dict of instructions in the order in which they run, the last one being its result."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        inside: dict[str, Instruction] | None = None
        for line in text.splitlines():
            if inside is None:
                if head := _COMPUTATION.match(line):
                    inside = self.computations[head[2]] = {}
                    self.entry = head[2] if head[1] else self.entry
            elif line.startswith("}"):
                inside = None
            else:
                one = _instruction(line)
                if unknown := [name for name in one.operands if name not in inside]:
                    raise ValueError(f"HLO: {one.name} uses {unknown[0]} before it is made: {line.strip()[:200]}")
                inside[one.name] = one
        if not self.entry:
            raise ValueError("HLO: expected a module with an ENTRY computation")

    @property
    def main(self) -> dict[str, Instruction]:
        """The instructions of the entry computation."""
        return self.computations[self.entry]

    def inner(self, one: Instruction) -> dict[str, Instruction]:
        """The instructions of the computation that a fusion, a call or a loop runs; empty for any other instruction."""
        return self.computations[one.called[0]] if one.opcode in ("fusion", "call", "while") and one.called else {}

    def result(self, computation: dict[str, Instruction]) -> Instruction:
        """The instruction whose value a computation returns."""
        return next(reversed(computation.values()))

    def bytes(self, one: Instruction, among: dict[str, Instruction]) -> int:
        """The bytes that an instruction reads and writes."""
        shapes = [*one.shapes, *(shape for name in one.operands for shape in among[name].shapes)]
        return 0 if one.plumbing else sum(shape.bytes for shape in shapes)

    def flops(self, one: Instruction, among: dict[str, Instruction]) -> int:
        """The floating-point operations of an instruction and of what it runs; 0 for a library's function, of which nothing is known."""
        if inside := self.inner(one):
            turns = re.search(r'"known_trip_count":\{"n":"(\d+)"', one.text) if one.opcode == "while" else None
            return sum(self.flops(each, inside) for each in inside.values()) * (int(turns[1]) if turns else 1)
        size = sum(shape.size for shape in one.shapes)
        if one.opcode == "dot":
            left = among[one.operands[0]].shapes[0].dims
            contracted = one.attribute("lhs_contracting_dims")
            return 2 * size * math.prod(left[int(d)] for d in contracted.split(",") if d)
        if one.opcode == "convolution":
            kernel = among[one.operands[1]].shapes[0].dims
            features = one.attribute("dim_labels").split("_")[1].partition("->")[0].index("o")
            return 2 * size * math.prod(kernel) // max(kernel[features], 1)
        if one.opcode == "reduce":
            return sum(shape.size for name in one.operands[: len(one.operands) // 2] for shape in among[name].shapes) - size
        if one.opcode == "reduce-window":
            return size * math.prod(map(int, one.attribute("size").split("x")))
        return 0 if one.plumbing or one.opcode in _MOVES else size


def _instruction(line: str) -> Instruction:
    found = _INSTRUCTION.match(re.sub(r"/\*.*?\*/", "", line))
    if found is None:
        raise ValueError(f"HLO: expected an instruction, as `%name = f32[2] add(%x, %y)`, got {line.strip()[:200]!r}")
    _, name, shapes, opcode, rest = found.groups()
    given = "" if opcode in ("constant", "parameter") else rest[: _closing(rest)]
    called = _CALLED.search(rest)
    stack = re.search(r'op_name="((?:[^"\\]|\\.)*)"', rest)
    return Instruction(
        name, opcode, tuple(_shape(*one) for one in _SHAPE.findall(shapes)), tuple(re.findall(r"%([\w.\-]+)", given)),
        tuple(re.findall(r"%([\w.\-]+)", called[1])) if called else (), stack[1] if stack else "", line.strip(),
    )  # fmt: skip


def _shape(dtype: str, dims: str) -> Shape:
    kind = re.match(r"bf|pred|[fsuc](?=\d+$)", dtype)
    name = dtype if kind is None else _DTYPES[kind[0]] + dtype[kind.end() :]
    return Shape(tuple(int(d.strip("<=")) for d in dims.split(",") if d), name)


def _closing(text: str) -> int:
    """Where the parenthesis that encloses the operands is closed."""
    depth = 1
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return at
    raise ValueError(f"HLO: unbalanced parentheses in {text[:200]!r}")
