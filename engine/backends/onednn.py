"""oneDNN's C API through ctypes: the library, where it is installed, and primitives that read and write the memory of arrays.

It comes with the extra `fast` (Linux, x86-64), with conda's `onednn` and with Debian's `libdnnl3`. GRADIENT_WORKBENCH_ONEDNN may name
another file, or be "off".
"""

from __future__ import annotations

import ctypes
import functools
import os
import site
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from . import threads
from .pointers import address

_NAME = "libdnnl.3.dylib" if sys.platform == "darwin" else "libdnnl.so.3"
_OLD = ("libdnnl.so.2", "libdnnl.so.1")
_MAJOR = 3  # version of the API
_LINE = 64  # bytes of a cache line, with which temporary memory begins
_MOST = 512  # plans of a thread and family of ops
_SPINS = "30000"  # about 90 us, which bridges the parts of an op and short ones after it; the default of 300000 is a millisecond

# Constants of dnnl_types.h and dnnl_config.h; operands of a primitive have numbers.
_CPU, _IN_ORDER, _FLOAT, _ANY, _FORWARD, _DIRECT, _USER = 1, 1, 3, 1, 64, 1, 1
_QUERY_NAME, _QUERY_OPERAND = 8, 255
_SEQUENTIAL, _OPENMP = 1, 2
_SOFT = 1  # omp_pause_soft of omp.h
_INVALID, _UNIMPLEMENTED = 2, 3
SRC, DST, WEIGHTS, BIAS, SCRATCHPAD, DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 1, 17, 33, 41, 80, 129, 145, 161

_P, _I, _Z, _N, _Dims = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64 * 12
_SIGNATURES: dict[str, tuple] = {
    "engine_create": (_P, _I, _Z),
    "stream_create": (_P, _P, _I),
    "memory_desc_create_with_strides": (_P, _I, _P, _I, _P),
    "memory_desc_create_with_tag": (_P, _I, _P, _I, _I),
    "memory_desc_destroy": (_P,),
    "memory_desc_equal": (_P, _P),
    "memory_desc_get_size": (_P,),
    "memory_create": (_P, _P, _P, _P),
    "memory_set_data_handle": (_P, _P),
    "memory_destroy": (_P,),
    "primitive_attr_create": (_P,),
    "primitive_attr_set_scratchpad_mode": (_P, _I),
    "primitive_desc_query": (_P, _I, _I, _P),
    "primitive_desc_query_md": (_P, _I, _I),
    "primitive_desc_destroy": (_P,),
    "primitive_create": (_P, _P),
    "primitive_execute": (_P, _P, _I, _P),
    "primitive_destroy": (_P,),
    "sgemm": (*(ctypes.c_char,) * 2, *(_N,) * 3, ctypes.c_float, _P, _N, _P, _N, ctypes.c_float, _P, _N),
    "reorder_primitive_desc_create": (_P,) * 6,
    "matmul_primitive_desc_create": (_P,) * 7,
    "convolution_forward_primitive_desc_create": (_P, _P, _I, _I, *(_P,) * 9),
    "convolution_backward_data_primitive_desc_create": (_P, _P, _I, *(_P,) * 9),
    "convolution_backward_weights_primitive_desc_create": (_P, _P, _I, *(_P,) * 10),
}
_RESULTS = {"memory_desc_get_size": _Z, "primitive_desc_query_md": _P}


_used = threading.local()  # `threads`: the count that OpenMP was last given


class Unsupported(RuntimeError):
    """oneDNN does not take this problem, or does with its reference implementation only."""


class _Version(ctypes.Structure):
    _fields_ = [("major", _I), ("minor", _I), ("patch", _I), ("hash", ctypes.c_char_p), ("cpu", ctypes.c_uint), ("gpu", ctypes.c_uint)]


class _Argument(ctypes.Structure):
    _fields_ = [("number", _I), ("memory", _P)]


class Handle:
    """An object of the library, destroyed with its Python object."""

    __slots__ = ("__weakref__", "_as_parameter_")

    def __init__(self, create: Callable, destroy: Callable | None, *arguments: Any):
        self._as_parameter_ = _P()
        _succeed(create(ctypes.byref(self._as_parameter_), *arguments), create)
        if destroy is not None:
            weakref.finalize(self, destroy, self._as_parameter_).atexit = False


def _succeed(status: int, function: Callable) -> None:
    if status:
        error = Unsupported if status in (_INVALID, _UNIMPLEMENTED) else MemoryError if status == 1 else RuntimeError
        raise error(f"{function.__name__} of oneDNN returned the status {status}")


# -- the library -------------------------------------------------------------------------------------------------------------


class Library:
    """The library of a file, checked for its version. OSError if it cannot be loaded, RuntimeError if it cannot be used."""

    def __init__(self, file: str):
        self.file, self._c = file, _loaded(file)
        try:
            self._c.dnnl_version.restype = ctypes.POINTER(_Version)
            found = self._c.dnnl_version().contents
            self.version = f"{found.major}.{found.minor}.{found.patch}"
            if found.major != _MAJOR:
                raise RuntimeError(f"version {_MAJOR} is needed, and {file} is version {self.version}")
            if found.cpu not in (_SEQUENTIAL, _OPENMP):
                raise RuntimeError(f"its threads must be OpenMP's, and {file} was built for others (dnnl_cpu_runtime {found.cpu})")
            for name, signature in _SIGNATURES.items():
                function = getattr(self._c, f"dnnl_{name}")
                function.argtypes, function.restype = signature, _RESULTS.get(name, _I)
                setattr(self, name, function)
            self._set_threads: Callable | None = self._c.omp_set_num_threads if found.cpu == _OPENMP else None  # found in what it loads
            # runs a function in a team of threads; LLVM's OpenMP has it under GNU's name, too
            self.parallel: Callable | None = getattr(self._c, "GOMP_parallel", None) if self._set_threads else None
            if self.parallel is not None:
                self.parallel.argtypes = (_P, _P, ctypes.c_uint, ctypes.c_uint)  # a function of a pointer, the pointer, threads, flags
                self.parallel.restype = None
            self.pause: Callable | None = getattr(self._c, "omp_pause_resource_all", None) if self._set_threads else None
        except AttributeError as error:
            raise RuntimeError(f"{file} lacks a function: {error}") from None
        self.address_of_sgemm = ctypes.cast(self._c.dnnl_sgemm, _P).value or 0
        self.engine = Handle(self.engine_create, None, _CPU, 0)
        self.stream = Handle(self.stream_create, None, self.engine, _IN_ORDER)
        self._own_scratchpad = Handle(self.primitive_attr_create, None)
        _succeed(self.primitive_attr_set_scratchpad_mode(self._own_scratchpad, _USER), self.primitive_attr_set_scratchpad_mode)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the functions of _SIGNATURES

    def use_threads(self, n: int) -> None:
        """Set the number of threads of what this thread executes: OpenMP has one for each thread."""
        if self._set_threads is not None and getattr(_used, "threads", 0) != n:
            self._set_threads(n)
            _used.threads = n

    def multiply(self, n: int, k: int, m: int, order: bytes, line: int, a: int, order_b: bytes, line_b: int, b: int, out: int) -> None:
        """Write the product of an (n, k) and a (k, m) matrix to the address `out`.

        Of each operand: b"N" for rows in memory or b"T" for those of the transpose, the elements from one to the next, and the address.
        """
        _succeed(self.sgemm(order, order_b, n, m, k, 1.0, a, line, b, line_b, 0.0, out, m), self.sgemm)

    def described(self, shape: Sequence[int], strides: Sequence[int] | None = None) -> Handle:
        """Describe float32 memory, with strides in elements; without them, in a layout of the library's choice."""
        n, dims = len(shape), _Dims(*shape)
        if strides is None:
            return Handle(self.memory_desc_create_with_tag, self.memory_desc_destroy, n, dims, _FLOAT, _ANY)
        return Handle(self.memory_desc_create_with_strides, self.memory_desc_destroy, n, dims, _FLOAT, _Dims(*strides))

    def memory(self, description: Any) -> Handle:
        """Make a memory object, whose address is set before each execution."""
        return Handle(self.memory_create, self.memory_destroy, description, self.engine, None)

    def convolution(self, kind: int, operands: dict[int, Handle], places: Sequence[Sequence[int]]) -> Handle:
        """Describe a convolution (`kind` is DST), or its gradient DIFF_SRC or DIFF_WEIGHTS.

        `operands` are descriptions, by number, and `places` the strides, dilations minus 1, and paddings before and after.
        """
        dims = [_Dims(*values) for values in places]
        x, weight, y = (operands.get(a) or operands[b] for a, b in ((SRC, DIFF_SRC), (WEIGHTS, DIFF_WEIGHTS), (DST, DIFF_DST)))

        def made(direction: str, *arguments: Any) -> Handle:
            create = getattr(self, f"convolution_{direction}_primitive_desc_create")
            return Handle(create, self.primitive_desc_destroy, self.engine, *arguments, self._own_scratchpad)

        forward = made("forward", _FORWARD, _DIRECT, x, weight, operands.get(BIAS), y, *dims)
        if kind == DIFF_SRC:
            return made("backward_data", _DIRECT, x, weight, y, *dims, forward)
        return forward if kind == DST else made("backward_weights", _DIRECT, x, weight, None, y, *dims, forward)

    def products(self, a: Handle, b: Handle, out: Handle) -> Handle:
        """Describe products of matrices, in stacks that are broadcast."""
        create = self.matmul_primitive_desc_create
        return Handle(create, self.primitive_desc_destroy, self.engine, a, b, None, out, self._own_scratchpad)

    def implementation(self, primitive: Handle) -> str:
        """Return the name of the implementation that the library chose for a described primitive."""
        name = ctypes.c_char_p()
        _succeed(self.primitive_desc_query(primitive, _QUERY_NAME, 0, ctypes.byref(name)), self.primitive_desc_query)
        return (name.value or b"").decode()


def _loaded(file: str) -> ctypes.CDLL:
    """Load a file, and with it OpenMP, whose threads shall not spin long enough to hold up those of NumPy's BLAS, if it is GNU's."""
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return ctypes.CDLL(file)
    os.environ["GOMP_SPINCOUNT"] = _SPINS  # read when libgomp is loaded
    try:
        return ctypes.CDLL(file)
    finally:
        del os.environ["GOMP_SPINCOUNT"]


@functools.cache
def found() -> Library | str:
    """Return the library, loaded at the first call, or the reason why there is none. One that cannot be used gives a warning."""
    asked = os.environ.get("GRADIENT_WORKBENCH_ONEDNN")
    if asked == "off":
        return "switched off by GRADIENT_WORKBENCH_ONEDNN"
    folders = [Path(base, "lib") for base in (sys.prefix, site.getuserbase())]
    installed = [file for file in (folder / _NAME for folder in folders) if file.exists()]
    try:
        if asked or installed:
            return Library(asked or str(installed[0]))
        return _of_the_system()
    except (OSError, RuntimeError) as error:
        warn(str(error))
        return str(error)


@functools.cache
def warn(reason: str) -> None:
    """Warn, once for each reason, that NumPy computes everything."""
    warnings.warn(f"oneDNN cannot be used. NumPy computes everything, which may be slower: {reason}", stacklevel=2)


def _of_the_system() -> Library | str:
    """Return the library that the dynamic linker finds under its name."""
    for name in (_NAME, *_OLD):
        try:
            return Library(name)  # RuntimeError for one of the old
        except OSError:
            continue
    return "not installed"


# -- primitives --------------------------------------------------------------------------------------------------------------


class Program:
    """A primitive and the reorders around it: operands that lie otherwise than it takes them pass through temporary memory."""

    def __init__(self, library: Library, primitive: Handle, operands: Sequence[tuple[int, Handle]]):
        """`operands` are numbers and descriptions of the arrays' memory, the result's last."""
        self._execute, self._set, self._stream = library.primitive_execute, library.memory_set_data_handle, library.stream
        self._memories, self._temporary, self._room = [], [], 0
        before, after, used = [], [], []
        for number, given in operands:
            taken = library.primitive_desc_query_md(primitive, _QUERY_OPERAND, number)
            memory = library.memory(given)
            self._memories.append(memory)
            if not library.memory_desc_equal(taken, given):
                own = self._temporarily(library, taken)
                if number == operands[-1][0]:
                    after.append(self._step(_reorder(library, taken, given), library, [(SRC, own), (DST, memory)]))
                else:
                    before.append(self._step(_reorder(library, given, taken), library, [(SRC, memory), (DST, own)]))
                memory = own
            used.append((number, memory))
        scratchpad = library.primitive_desc_query_md(primitive, _QUERY_OPERAND, SCRATCHPAD)
        used.append((SCRATCHPAD, self._temporarily(library, scratchpad)))
        self._steps = [*before, self._step(primitive, library, used), *after]

    def _temporarily(self, library: Library, description: Any) -> Handle:
        memory = library.memory(description)
        self._temporary.append((memory, self._room))
        self._room += -(-library.memory_desc_get_size(description) // _LINE) * _LINE
        return memory

    @staticmethod
    def _step(described: Handle, library: Library, operands: list[tuple[int, Handle]]) -> tuple:
        primitive = Handle(library.primitive_create, library.primitive_destroy, described)
        array = (_Argument * len(operands))(*[(number, memory._as_parameter_) for number, memory in operands])
        return primitive, len(operands), array, operands  # the last keeps the memory objects alive

    def __call__(self, *arrays: numpy.ndarray) -> None:
        """Execute on the memory of these arrays, which must lie as described; the last one is written."""
        for memory, array in zip(self._memories, arrays, strict=True):
            self._set(memory, address(array))
        room = numpy.empty(self._room + _LINE, numpy.uint8)
        start = -(-address(room) // _LINE) * _LINE
        for memory, offset in self._temporary:
            self._set(memory, start + offset)
        for primitive, n, arguments, _ in self._steps:
            _succeed(self._execute(primitive, self._stream, n, arguments), self._execute)


class Plans(threading.local):
    """What a thread has planned, by signature, the oldest dropped: memory objects are not made for two threads at a time."""

    def __init__(self) -> None:
        self.made: dict[tuple, Any] = {}

    def get(self, signature: tuple, make: Callable, library: Any) -> Any:
        """Return what was planned for the signature, by `make(signature, library)` at its first time."""
        try:
            return self.made[signature]
        except KeyError:
            if len(self.made) >= _MOST:
                self.made.pop(next(iter(self.made)))
            plan = self.made[signature] = make(signature, library)
            return plan


def _reorder(library: Library, source: Any, target: Any) -> Handle:
    engine = library.engine
    return Handle(library.reorder_primitive_desc_create, library.primitive_desc_destroy, source, engine, target, engine, None)


# -- threads -----------------------------------------------------------------------------------------------------------------

# OpenMP keeps a pool of threads for each thread that calls it. With two pools there are more threads than processors, and then none of them
# spins any more before it sleeps: every op takes up to twice as long. So a program of XLA, which runs on threads of its own, borrows the
# threads: one thread calls oneDNN for all programs, and releases its pool before the program's caller uses OpenMP again.

_forked = False
_lent = False  # the threads are with `_borrower`
_borrower: ThreadPoolExecutor | None = None
_borrowing: set[int] = set()  # the identity of its thread


def thread_count() -> int:
    """Return the number of threads to use: one in a forked process, since OpenMP's other threads stay in its parent."""
    if _lent and threading.get_ident() not in _borrowing:
        _take_back()
    return 1 if _forked else threads.count()


def lend() -> None:
    """Release this thread's pool, for what `borrowed` computes."""
    global _lent
    if not _lent:
        _release()
        _lent = True


def borrowed(fn: Callable, *args: Any) -> Any:
    """Return `fn(*args)`, computed by the thread that has borrowed the pool."""
    global _borrower
    if _borrower is None:
        _borrower = ThreadPoolExecutor(1, "engine", lambda: _borrowing.add(threading.get_ident()))
    return _borrower.submit(fn, *args).result()


def _take_back() -> None:
    global _lent
    _lent = False
    borrowed(_release)


def _release() -> None:
    library = found()
    if isinstance(library, Library) and library.pause is not None:
        library.pause(_SOFT)
        _used.threads = 0


def _after_fork() -> None:
    global _forked, _lent, _borrower
    _forked, _lent, _borrower = True, False, None
    _borrowing.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
