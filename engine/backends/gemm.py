"""Large matrix products of float32 on the CPU by oneDNN, where it is installed; docs/cpu.md says what was measured."""

from __future__ import annotations

from typing import Any

import numpy

from ..base.dtypes import F32
from ..base.layout import strides_of
from . import mkldnn, onednn
from .onednn import DST, SRC, WEIGHTS, Library, Plans, Program, Unsupported
from .pointers import address

LEAST = 1 << 18  # multiplications: for more of them NumPy's BLAS wakes threads, which then spin for 20 ms beside those of oneDNN
_plans = Plans()


def product(a: Any, b: Any, out: Any = None) -> Any:
    """Return `a @ b` for an (n, k) and a (k, m) matrix, in `out` if given; None if oneDNN does not compute it."""
    if (library := _for(a, b)) is None or (one := _rows(a)) is None or (two := _rows(b)) is None:
        return None
    if out is None:
        out = numpy.empty((len(a), b.shape[1]), F32)
    elif out.shape != (len(a), b.shape[1]) or out.dtype != F32 or not out.flags.carray:
        return None
    library.use_threads(onednn.thread_count())
    library.multiply(*a.shape, b.shape[1], *one, *two, address(out))
    return out


def products(a: Any, b: Any) -> Any:
    """Return `a @ b` for stacks of matrices (*, n, k) and (*, k, m); None as in `product`, or if the stacks do not fit."""
    if (library := _for(a, b)) is None:
        return None
    a, b = (x[(None,) * (max(a.ndim, b.ndim) - x.ndim)] for x in (a, b))
    threads = onednn.thread_count()
    plan = _plans.get((a.shape, a.strides, b.shape, b.strides, threads), _planned, library)
    if plan is None:
        return None
    shape, run = plan
    out = numpy.empty(shape, F32)
    library.use_threads(threads)
    run(a, b, out)
    return out


def address_of_product(x: Any) -> int:
    """Return where oneDNN's product of matrices is, for compiled kernels to call from this thread on arrays like `x`, or 0."""
    if (library := _for(x, x.T)) is None:
        return 0
    library.use_threads(onednn.thread_count())
    return library.address_of_sgemm


def _for(a: Any, b: Any) -> Library | None:
    """Return the library if the operands are for it: aligned arrays of float32 with elements, and as many columns as the other has rows."""
    if not mkldnn.enabled or not a.__class__ is b.__class__ is numpy.ndarray or not a.dtype == b.dtype == F32:
        return None
    if a.shape[-1] != b.shape[-2] or not a.size or not b.size or not (a.flags.aligned and b.flags.aligned):
        return None
    library = onednn.found()
    return library if isinstance(library, Library) else None


def _rows(x: Any) -> tuple[bytes, int, int] | None:
    """Return how a matrix lies in memory, as `Library.multiply` wants it; None if neither its rows nor its columns are without gaps."""
    (rows, columns), (down, across) = x.shape, x.strides
    for order, inner, outer, length in ((b"N", across, down, columns), (b"T", down, across, rows)):
        if (inner == 4 or length == 1) and outer % 4 == 0 and outer >= 4 * length:
            return order, outer // 4, address(x)
    return None


def _planned(key: tuple, library: Library) -> tuple[tuple[int, ...], Program] | None:
    """Return the result's shape and a plan for stacks of these shapes and strides; None if the library does not take them or is slow."""
    shape, strides, shape_b, strides_b, threads = key
    library.use_threads(threads)
    try:
        out = (*numpy.broadcast_shapes(shape[:-2], shape_b[:-2]), shape[-2], shape_b[-1])
        operands = {
            SRC: library.described(shape, _steps(shape, strides)),
            WEIGHTS: library.described(shape_b, _steps(shape_b, strides_b)),
            DST: library.described(out, strides_of(out, tuple(range(len(out))))),
        }
        described = library.products(*operands.values())
    except (ValueError, Unsupported):  # stacks that do not fit are the caller's to refuse
        return None
    return None if "ref" in library.implementation(described) else (out, Program(library, described, list(operands.items())))


def _steps(shape: tuple, strides: tuple) -> list[int]:
    """Return strides in elements, 1 for axes of one element. Raises Unsupported for those that go back, stand still or split elements."""
    if any(step <= 0 or step % 4 for n, step in zip(shape, strides, strict=True) if n > 1):
        raise Unsupported(f"strides {strides}")
    return [1 if n == 1 else step // 4 for n, step in zip(shape, strides, strict=True)]
