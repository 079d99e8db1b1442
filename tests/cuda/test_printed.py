"""The printed kernels: the text of each op runs on the CPU, by the emulator, and gives what the CPU backend gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import emulate
import numpy
import printed
import pytest
from printed import DTYPES, FORMS, N, Pass

import cases
from engine.backends.gpu import launch
from engine.backends.gpu.layouts import packed
from engine.backends.gpu.printer import BLOCK, Printed
from engine.backends.gpu.symbols import Unprintable, space
from engine.backends.primitives import of_kind

CLOSE = {"float64": 1e-11, "complex64": 1e-5, "float16": 2**-9, "bfloat16": 2**-7}  # relative and absolute; 4e-6 for others
# op -> the dtypes of real numbers for which it has no kernel, and runs on CuPy
ON_CUPY = {"polynomial": set(DTYPES), "isclose": {"bool"}, "exponent_added": {"bool", "uint8", "int32", "int64"}}
SPREAD = 3  # what is between two elements of a strided array


@pytest.fixture
def emulator(monkeypatch):
    found = emulate.Emulator()
    monkeypatch.setattr(launch, "driver", found)
    return found


def passes(op: Any, dtypes: Any = DTYPES) -> Iterator[Pass]:
    """Every kernel of an op: with N elements for its first case, and with the shapes of the others. Equal kernels have one name."""
    known: dict[str, Printed] = {}
    for tag, dtype in dtypes.items():
        for i, case in enumerate(cases.of(op)):
            try:
                for one in printed.passes(case, dtype, N if i == 0 else None, name := f"{op.name}_{tag}_{i}"):
                    text = (one.printed.function + one.printed.kernel("vector")).replace(name, "")
                    yield one._replace(printed=known.setdefault(text, one.printed))
            except Unprintable:
                assert dtype.kind == "c" or tag in ON_CUPY[op.name]
            except printed.REFUSALS:
                pass  # the op has no such dtype


def spread(x: numpy.ndarray) -> emulate.Guarded:
    """A copy with gaps between the elements, and the dimensions in reverse order in memory."""
    copy = emulate.Guarded((SPREAD * x.shape[-1], *x.shape[-2::-1]) if x.ndim else (), x.dtype)
    if x.ndim:
        copy.array = copy.array[::SPREAD].T
    copy.array[...] = x
    return copy


def run(one: Pass, kernel: launch.Kernel, form: str) -> list[numpy.ndarray]:
    """Launch one form of a kernel; no thread may write outside of the results."""
    shape = one.expected[0].shape
    ins = [(emulate.guarded if form == "vector" else spread)(x) for x in one.arrays]
    outs = [emulate.Guarded(shape, d) for d in one.printed.writes]
    pointers = [x.pointer for x in (*ins, *outs)]
    if form == "vector":
        n = outs[0].array.size
        kernel(max(1, -(-n // (BLOCK * one.printed.vector))), BLOCK, n, *pointers, *one.numbers)
    else:
        steps = []
        for x in [*ins, *outs]:
            wide = numpy.broadcast_to(x.array, shape)
            steps.append(tuple(s // x.array.itemsize for s in reversed(wide.strides)))
        sizes = tuple(reversed(shape))
        _, layout = packed(sizes, tuple(steps)) if form == "strided" else far(sizes, tuple(steps))
        kernel(2, BLOCK, layout, *pointers, *one.numbers)
    assert all(x.intact() for x in (*ins, *outs))
    return [outs[i].array if i >= 0 else numpy.broadcast_to(ins[~i].array, shape) for i in one.printed.results]


def far(sizes: tuple, steps: tuple) -> tuple[bool, bytes]:
    """The 64-bit layout of arrays that would do with 32 bits: with a dimension of size 1 whose stride is negative."""
    return packed((*sizes, 1), tuple((*own, -1) for own in steps))


def differs(found: numpy.ndarray, expected: numpy.ndarray) -> str | None:
    name = expected.dtype.name
    if found.dtype != expected.dtype:
        return f"{found.dtype} instead of {name}"
    if expected.dtype.kind not in "fcV" and name != "bfloat16":
        return None if numpy.array_equal(found, expected) else f"{found.ravel()[:4]} instead of {expected.ravel()[:4]}"
    wide = "complex128" if expected.dtype.kind == "c" else "float64"
    a, b, close = found.astype(wide), expected.astype(wide), CLOSE.get(name, 4e-6)
    if numpy.allclose(a, b, rtol=close, atol=close, equal_nan=True):
        return None
    with numpy.errstate(all="ignore"):
        return f"off by {numpy.nanmax(numpy.abs(a - b) / (1 + numpy.abs(b))):.2g}"


def checked(ops: list, dtypes: Any = DTYPES) -> dict[str, Any]:
    """Run all kernels of some ops, and return what differs."""
    every = [one for op in ops for one in passes(op, dtypes) if "special::" not in one.printed.function]
    text = printed.text_of(list({one.printed.name: one.printed for one in every}.values()))
    wrong = {}
    for one in every:
        for form in FORMS:
            if one.arrays and one.printed.writes and (form != "vector" or all(x.shape == one.expected[0].shape for x in one.arrays)):
                kernel = launch.Kernel(text, f"{one.printed.name}_{form}")
                for found, expected in zip(run(one, kernel, form), one.expected, strict=True):
                    if (difference := differs(found, expected)) is not None:
                        wrong[one.what, one.printed.name, form] = difference
    return wrong


FAMILIES = sorted({cases.family(op) for op in printed.pointwise()})


def test_every_elementwise_primitive_is_a_symbol():
    assert set(of_kind("elementwise")) - set(vars(space)) == {"frexp"}  # it has two results; its op runs on CuPy


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_compute_what_the_cpu_computes(family, emulator):
    assert checked([op for op in printed.pointwise() if cases.family(op) == family]) == {}
