"""Compiled kernels and NumPy's loops in OpenMP's threads, which come with oneDNN. They spin for a while after a call, so that the next one
starts within microseconds; to wake a thread of Python takes 40.

Imported by `compiled` alone.
"""

from __future__ import annotations

import functools
from array import array
from typing import Any

import numpy
from llvmlite import ir
from numba import cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from . import mkldnn, onednn
from .onednn import Library
from .pointers import address

_ARGUMENT = 5  # words of an argument: its address or number, the lengths of its dimensions, and whether it is divided
_FIRST = 3  # words before them: the next part, the number of parts, and the length of what is divided


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    """The address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@intrinsic
def _taken(context: Any, words: Any) -> Any:
    """The next part, which no other thread gets."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        word = context.get_value_type(types.int64)
        return builder.atomic_rmw("add", builder.bitcast(given[0], word.as_pointer()), word(1), "monotonic")

    return types.int64(types.voidptr), generate


def can_share() -> bool:
    """Whether there are threads to share work with."""
    library = onednn.found() if mkldnn.enabled and onednn.thread_count() > 1 else None
    return isinstance(library, Library) and library.parallel is not None


def _in_parallel(compiled: Any, words: int, parts: int) -> None:
    """Call a function of the words at an address from as many threads as there are parts."""
    library: Any = onednn.found()
    library.parallel(compiled.address, words, parts, 0)


# -- compiled kernels ----------------------------------------------------------------------------------------------------------


class Team:
    """Calls a kernel, in parts, from all threads of a team."""

    def __init__(self, kernel: Any, arguments: tuple):
        """`arguments` are Numba's types of those that the kernel takes: C-contiguous arrays, and numbers of float64."""
        self._kernel, self._arguments = kernel, arguments
        self._dtypes = [numpy.dtype(a.dtype.name) if isinstance(a, types.Array) else None for a in arguments]

    def __call__(self, rows: tuple, rest: tuple, last: tuple, parts: int) -> bool:
        """Call the kernel with `(*rows, *rest, *last)`, of which `rows` and `last` are divided along their first axis.

        Returns False, without a call, if there is no OpenMP or the kernel does not take the arguments.
        """
        if not can_share():
            return False
        words = numpy.zeros(_FIRST + _ARGUMENT * len(self._arguments), numpy.int64)
        numbers = words.view(numpy.float64)
        words[1], words[2] = parts, len(rows[0])
        divided = len(rows), len(rows) + len(rest)
        for n, (a, kind, dtype) in enumerate(zip((*rows, *rest, *last), self._arguments, self._dtypes, strict=True)):
            at = _FIRST + _ARGUMENT * n
            if dtype is None:
                numbers[at] = a
                continue
            if not isinstance(a, numpy.ndarray) or a.dtype != dtype or a.ndim != kind.ndim or not a.flags.carray:
                return False
            words[at], words[at + 4] = address(a), n < divided[0] or n >= divided[1]
            words[at + 1 : at + 1 + a.ndim] = a.shape
        _in_parallel(self.compiled, address(words), parts)
        return True

    @functools.cached_property
    def compiled(self) -> Any:
        """What a thread runs: it takes parts until there are none. Compiled at the first call, and kept as the kernel is."""
        name, size, lines, given = self._kernel.__name__, _FIRST + _ARGUMENT * len(self._arguments), [], []
        for n, (kind, dtype) in enumerate(zip(self._arguments, self._dtypes, strict=True)):
            at = _FIRST + _ARGUMENT * n
            if dtype is None:
                given.append(f"f[{at}]")
                continue
            rest = [f"w[{at + d}]" for d in range(2, kind.ndim + 1)]
            line = " * ".join([*rest, str(dtype.itemsize)])  # bytes
            lines += [f"  low, high = (i, j) if w[{at + 4}] else (0, w[{at + 1}])"]
            lines += [f"  a{n} = carray(pointer(w[{at}] + low * {line}), ({', '.join(['high - low', *rest])},), {dtype})"]
            given.append(f"a{n}")
        text = [
            f"def team_{name}(words):",
            f" w, f = carray(words, ({size},), int64), carray(words, ({size},), float64)",
            " part = taken(words)",
            " while part < w[1]:",
            "  i, j = w[2] * part // w[1], w[2] * (part + 1) // w[1]",
            *lines,
            f"  kernel({', '.join(given)})",
            "  part = taken(words)",
        ]
        source = self._kernel.py_func  # in whose name Numba keeps the code: it is as old as the kernel
        names = {"__name__": source.__module__, "carray": carray, "pointer": _pointer, "taken": _taken, "kernel": self._kernel}
        names |= {kind: getattr(numpy, kind) for kind in ("int64", "uint8", "float32", "float64")}
        exec(compile("\n".join(text), source.__code__.co_filename, "exec"), names)
        return cfunc(types.void(types.voidptr), cache=True)(names[f"team_{name}"])


# -- NumPy's loops -------------------------------------------------------------------------------------------------------------

OPERANDS = 3  # of a loop at most, the result included


@intrinsic
def _numpy_loop(context: Any, function: Any, data: Any, n: Any, places: Any, steps: Any) -> Any:
    """Call a loop of a ufunc: `function(char **places, npy_intp *n, npy_intp *steps, void *data)`."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        word, byte = context.get_value_type(types.int64), context.get_value_type(types.voidptr)
        taken = [cgutils.alloca_once(builder, word, OPERANDS) for _ in range(2)]
        length = cgutils.alloca_once_value(builder, given[2])
        for words, values in zip(taken, given[3:], strict=True):
            for i, value in enumerate(cgutils.unpack_tuple(builder, values)):
                builder.store(value, builder.gep(words, [context.get_constant(types.intp, i)]))
        kind = ir.FunctionType(ir.VoidType(), [byte] * 4)
        pointers = [builder.bitcast(a, byte) for a in (taken[0], length, taken[1])]
        builder.call(builder.inttoptr(given[0], kind.as_pointer()), [*pointers, builder.inttoptr(given[1], byte)])
        return context.get_dummy_value()

    return types.none(function, data, n, places, steps), generate


@cfunc(types.void(types.voidptr), cache=True)
def _loop_over_rows(words):
    w = carray(words, (7 + 3 * OPERANDS,), numpy.int64)
    rows, width, total = w[2], w[3], w[4]
    part = _taken(words)
    while part < w[1]:
        for i in range(rows * part // w[1], rows * (part + 1) // w[1]):
            places = (w[7] + i * w[10], w[8] + i * w[11], w[9] + i * w[12])
            _numpy_loop(w[5], w[6], min(width, total - i * width), places, (w[13], w[14], w[15]))
        part = _taken(words)


def loop_over_rows(parts: int, rows: int, width: int, total: int, loop: tuple, places: list, lines: list, steps: list) -> None:
    """Call a loop of NumPy's, given by its address and that of its data, for each of `rows` rows of `width` elements, in parts.

    `total` is the number of all elements: the last row may be shorter. `places` are the addresses of the operands and of the result,
    `lines` the bytes from one row to the next, `steps` those from one element to the next.
    """
    free = [0] * (OPERANDS - len(places))
    words = array("q", (0, parts, rows, width, total, *loop, *places, *free, *lines, *free, *steps, *free))
    _in_parallel(_loop_over_rows, words.buffer_info()[0], parts)
