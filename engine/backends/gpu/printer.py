"""CUDA kernels from the ops' own code: an op's `forward`, or its derivative rules together, run on symbols and become a kernel's text.

A kernel has one of three forms, chosen by the arrays' layouts: "vector" reads 16 bytes at a time from contiguous arrays, "strided" finds
an element's place in each array with 32-bit arithmetic, and "far" with 64-bit arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ...base.dtypes import LOW
from .launch import source
from .symbols import FLOAT, C, Decision, Symbol, Text, Unprintable, cast, literal, space

BLOCK = 256  # threads


class Printed:
    """A printed function: its text, the dtypes of the arrays that it reads and writes, and the numbers that are its parameters.

    `results` has an entry for each result of the code: the index of an output, or ~i if the result is the array i unchanged. `spelled`:
    the numbers are in the text, which is only right for these.
    """

    def __init__(self, name: str, reads: list, writes: list, numbers: list, results: list, lines: list[str], spelled: bool) -> None:
        self.name, self.reads, self.writes, self.numbers, self.results, self.spelled = name, reads, writes, numbers, results, spelled
        self.vector = max(1, min(16 // max((d.itemsize for d in (*reads, *writes)), default=1), 8))  # elements of a thread
        params = [f"{_computed(d)} x{i}" for i, d in enumerate(reads)] + [f"{kind} p{i}" for i, kind in numbers]
        params += [f"{_computed(d)}& r{i}" for i, d in enumerate(writes)]
        body = "".join(f"  {line}\n" for line in lines)
        self.function = f"INLINE void {name}_of({', '.join(params)}) {{\n{body}}}\n"

    def kernel(self, form: str) -> str:
        """Return the text of a kernel named `<name>_<form>`."""
        reads, writes, n = range(len(self.reads)), range(len(self.writes)), self.vector
        arrays = [f"const {C[d.name]}* __restrict__ a{i}" for i, d in enumerate(self.reads)]
        arrays += [f"{C[d.name]}* __restrict__ b{i}" for i, d in enumerate(self.writes)]
        numbers = [f"{kind} p{i}" for i, kind in self.numbers]
        head = f'extern "C" __global__ void __launch_bounds__({BLOCK}) {self.name}_{form}'
        declared = " ".join(f"{_computed(d)} r{i};" for i, d in enumerate(self.writes))

        def call(at: str) -> str:
            given = [*(f"up(x{i}{at})" for i in reads), *(f"p{i}" for i, _ in self.numbers), *(f"r{i}" for i in writes)]
            return f"{self.name}_of({', '.join(given)});"

        def rounded(i: int) -> str:
            return f"down<{C[self.writes[i].name]}>(r{i})"

        if form == "vector":
            many = " ".join(f"const auto x{i} = load<{n}>(a{i} + i);" for i in reads)
            results = " ".join(f"Vec<{C[d.name]}, {n}> v{i};" for i, d in enumerate(self.writes))
            return f"""{head}(int64_t n, {", ".join(arrays + numbers)}) {{
  const int64_t i = ((int64_t)blockIdx.x * {BLOCK} + threadIdx.x) * {n};
  if (i + {n} <= n) {{
    {many} {results}
    #pragma unroll
    for (int k = 0; k < {n}; ++k) {{ {declared} {call(".v[k]")} {" ".join(f"v{i}.v[k] = {rounded(i)};" for i in writes)} }}
    {" ".join(f"store<{n}>(b{i} + i, v{i});" for i in writes)}
  }} else for (int64_t k = i; k < n; ++k) {{
    {" ".join(f"const auto x{i} = a{i}[k];" for i in reads)} {declared} {call("")} {" ".join(f"b{i}[k] = {rounded(i)};" for i in writes)}
  }}
}}
"""
        index, count = {"strided": "uint32_t", "far": "int64_t"}[form], len(self.reads) + len(self.writes)
        places = [f"const auto x{i} = a{i}[at[{i}]];" for i in reads]
        written = [f"b{i}[at[{i + len(self.reads)}]] = {rounded(i)};" for i in writes]
        return f"""{head}(const __grid_constant__ Layout<{index}, {count}> layout, {", ".join(arrays + numbers)}) {{
  for ({index} i = ({index})blockIdx.x * {BLOCK} + threadIdx.x; i < layout.size; i += ({index})gridDim.x * {BLOCK}) {{
    {index} at[{count}];
    layout.places(i, at);
    {" ".join(places)} {declared} {call("")} {" ".join(written)}
  }}
}}
"""

    def text(self, form: str) -> str:
        """Return a whole CUDA text with one form of the kernel."""
        special = source("special.cuh") if "special::" in self.function else source("common.cuh")
        return special + self.function + self.kernel(form)


def _computed(dtype: numpy.dtype) -> str:
    return C[FLOAT.name if dtype in LOW else dtype.name]


def printed(
    name: str, run: Callable, operands: Sequence[Any], attrs: dict[str, Any], wanted: Sequence[numpy.dtype] | None = None
) -> Printed:
    """Print `run(symbols, attrs) -> results`, where an operand is the dtype of an array, a number of Python or NumPy, or None.

    Numbers among operands and attributes become parameters, or part of the text if the code depends on their values. Results get the
    dtypes `wanted`, and one that is an operand unchanged is no output then; by default they are rounded to half precision if an operand
    is. Raises Unprintable if the code does something else than computing one element.
    """
    try:
        return _printed(name, run, operands, attrs, wanted, False)
    except Decision:
        return _printed(name, run, operands, attrs, wanted, True)


def _printed(name: str, run: Callable, operands: Sequence[Any], attrs: dict[str, Any], wanted: Any, spelled: bool) -> Printed:
    text, reads, numbers = Text(), [], []

    def number(value: Any) -> Any:
        """The symbol of a number that is a parameter; the number itself if it is spelled out or has no parameter type."""
        plain = value.item() if isinstance(value, numpy.generic) else value
        if spelled or type(plain) not in (int, float):
            return value
        i, kind = len(numbers), "double" if type(plain) is float else "int64_t"
        numbers.append((i, kind))
        found = Symbol(text, f"p{i}", "float64" if type(plain) is float else "int64", type(plain))
        return found if plain is value else cast(found, FLOAT if value.dtype in LOW else value.dtype)

    symbols: list[Any] = []
    for operand in operands:
        if isinstance(operand, numpy.dtype):
            symbols.append(Symbol(text, f"x{len(reads)}", FLOAT if operand in LOW else operand))
            reads.append(operand)
        else:
            symbols.append(number(operand))
    given = {key: number(value) for key, value in attrs.items()}
    found = [_element(text, result) for result in run(symbols, given)]
    low = next((d for d in reads if d in LOW), None)
    writes: list[numpy.dtype] = []
    results = []
    for i, result in enumerate(found):
        if wanted is not None:
            stored = wanted[i]
            result = cast(result, FLOAT if stored in LOW else stored)
            if result.name in (f"x{k}" for k, d in enumerate(reads) if d == stored):
                results.append(~int(result.name[1:]))
                continue
        else:
            stored = low if low is not None and result.dtype == FLOAT else result.dtype
        results.append(len(writes))
        text.lines.append(f"r{len(writes)} = {result.name};")
        writes.append(stored)
    return Printed(name, reads, writes, numbers, results, text.lines, spelled)


def _element(text: Text, result: Any) -> Symbol:
    """A result as a symbol that takes part in promotion."""
    if isinstance(result, Symbol):
        return cast(result, result.dtype) if result.weak else result
    value = numpy.asarray(result)
    if value.ndim or value.dtype == object:
        raise Unprintable("a result that is not an element")
    return text.put(literal(value.item(), value.dtype), value.dtype)


def forward_of(op: Any, operands: Sequence[Any], attrs: dict[str, Any], name: str) -> Printed:
    """Print an op's `forward`; see `printed` for `operands`."""

    def run(symbols: list, given: dict) -> tuple:
        found = op.forward(space, *symbols, **given)
        return found if isinstance(found, tuple) else (found,)

    return printed(name, run, operands, attrs)


def backward_of(
    op: Any, live: Sequence[int], operands: Sequence[Any], wanted: Sequence[numpy.dtype], attrs: dict[str, Any], name: str
) -> Printed:
    """Print the derivative rules of the inputs `live` as one function.

    `operands` are the gradient and what a node saves, for each slot of the op; `wanted` are the dtypes of the inputs.
    """

    def run(symbols: list, given: dict) -> list:
        g, *saved = symbols
        return [op.rules[i](space, g, tuple(saved), given, ("n",)) for i in live]

    return printed(name, run, operands, attrs, wanted)
