"""Matrix products on a GPU by cuBLASLt, under the names of the array interface.

cuBLASLt is called through `nvmath.bindings.cublasLt` (nvmath-python). Products of float16 and bfloat16 are summed in float32 and rounded
once; those of float32 use TF32 if `engine.backends.cuda.matmul.allow_tf32` is set. The bias of `linear` is added by the product itself for
float16, bfloat16 and float32, the types for which cuBLASLt has this epilogue. Integers, and all products where nvmath-python is missing or
cuBLASLt has no algorithm, are computed by CuPy, after one warning for the latter two.

Matrices are read where they are: transposed, with any leading dimension, a batch with stride 0 where it is broadcast. A copy is made only
of a matrix without a stride of 1, and of a batch whose matrices have no constant distance. Leading dimensions of the left operand are rows
of one matrix where the right operand is the same for all of them.

A product is planned once for its dtypes, shapes, strides, alignment and device: descriptors, layouts and algorithm. From then on it is one
call, on the current stream and without synchronization, so CUDA graphs can capture it. Each stream has one workspace, allocated from
CuPy's pool at its first product, which should be before a capture.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy
import numpy

from ...base.dtypes import F32, LOW, bfloat16, complex64, complex128, float16, float32, float64
from .. import products
from ..cuda import matmul as switches
from . import launch

ndarray = cupy.ndarray


class Kind(NamedTuple):
    """How cuBLASLt computes with a dtype, in the numbers of CUDA's headers."""

    data: int  # cudaDataType of the matrices
    compute: int  # cublasComputeType_t
    scale: int  # cudaDataType of alpha and beta
    scalar: str  # the same for NumPy
    adds: bool  # whether it can add a bias


_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32F_FAST_TF32 = 68, 70, 77
KINDS = {
    float16.numpy: Kind(2, _COMPUTE_32F, 0, "f4", True),
    bfloat16.numpy: Kind(14, _COMPUTE_32F, 0, "f4", True),
    float32.numpy: Kind(0, _COMPUTE_32F, 0, "f4", True),
    float64.numpy: Kind(1, _COMPUTE_64F, 1, "f8", False),
    complex64.numpy: Kind(4, _COMPUTE_32F, 4, "c8", False),
    complex128.numpy: Kind(5, _COMPUTE_64F, 5, "c16", False),
}
_ALIGNED = 256  # bytes: the alignment of CuPy's memory, and the most that an algorithm may ask for
_OPERATION_T = 1  # cublasOperation_t
_BIAS_POINTER = 8  # cublasLtMatmulDescAttributes_t


# -- the array interface -----------------------------------------------------------------------------------------------------


def matmul(a: Any, b: Any) -> Any:
    """Matrix product; 1-d operands are vectors, and leading dimensions broadcast."""
    return _product(a, b)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """`x @ weight.T + bias`; `weight` is (out, in) or (in,)."""
    if bias is not None and weight.ndim == 2 and bias.shape == weight.shape[:1] and bias.dtype == x.dtype:
        return _product(x, weight.T, cupy.ascontiguousarray(bias))
    return products.linear(x, weight, bias, _product)


def contract(operands: Any, equation: str) -> Any:
    """`einsum` with letter subscripts, none repeated within an operand; two operands become one matrix product."""
    if len(operands) != 2 and operands[0].dtype in LOW:
        return products.contract([x.astype(F32) for x in operands], equation).astype(operands[0].dtype)
    return products.contract(operands, equation, _product)


def _product(a: Any, b: Any, bias: Any = None) -> Any:
    """`a @ b`, plus a bias for the columns."""
    addresses = a.data.ptr | b.data.ptr | _ALIGNED
    if bias is not None:
        addresses |= bias.data.ptr
    plan = _planned(
        a.dtype, a.shape, a.strides, b.dtype, b.shape, b.strides, bias is not None, addresses & -addresses, switches.allow_tf32,
        launch.driver.device(),
    )  # fmt: skip
    return plan(a, b, bias)


# -- where the matrices are --------------------------------------------------------------------------------------------------


class Matrix(NamedTuple):
    """Where a batch of matrices is in memory."""

    by_rows: bool  # rows are contiguous; else columns are
    ld: int  # the leading dimension: elements from one row, or column, to the next
    step: int  # elements from one matrix of the batch to the next


class Arranged(NamedTuple):
    """A product of two arrays as a batch of products of (m, k) and (k, n) matrices."""

    shape: tuple[int, ...]  # of the result
    lead: tuple[int, ...]  # the leading dimensions of both arrays after broadcasting
    batch: int
    m: int
    n: int
    k: int
    a: Matrix | None  # None: it has to be copied first
    b: Matrix | None


def arranged(a: tuple, a_strides: tuple, b: tuple, b_strides: tuple) -> Arranged | None:
    """How to multiply arrays of these shapes, with strides in elements. Returns None if the shapes do not fit."""
    if not a or not b:
        return None
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()  # empty for a vector
    if not rows:
        a, a_strides = (1, *a), (0, *a_strides)
    if not columns:
        b, b_strides = (*b, 1), (*b_strides, 0)
    (m, k), (depth, n) = a[-2:], b[-2:]  # pyright: ignore[reportAssignmentType]
    try:
        lead = numpy.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        return None
    if k != depth:
        return None
    sizes = [size for size in lead if size != 1]
    a_steps, b_steps = _steps(lead, a, a_strides), _steps(lead, b, b_strides)
    row = a_strides[-2]
    while sizes and not b_steps[-1] and (m == 1 or a_steps[-1] == m * row):  # the same `b` for matrices that are rows of one matrix
        row = a_steps[-1] if m == 1 else row
        m *= sizes.pop()
        a_steps.pop()
        b_steps.pop()
    left = _matrix(m, k, row, a_strides[-1], sizes, a_steps)
    right = _matrix(k, n, b_strides[-2], b_strides[-1], sizes, b_steps)
    return Arranged(lead + rows + columns, lead, math.prod(sizes), m, n, k, left, right)


def _steps(lead: tuple, shape: tuple, strides: tuple) -> list[int]:
    """The strides of an array along leading dimensions that it is broadcast to, without those of size 1."""
    missing = (0,) * (len(lead) + 2 - len(shape))
    own = [stride if size > 1 else 0 for size, stride in zip(shape[:-2], strides[:-2], strict=True)]
    return [step for whole, step in zip(lead, (*missing, *own), strict=True) if whole != 1]


def _matrix(rows: int, columns: int, row: int, column: int, sizes: list[int], steps: list[int]) -> Matrix | None:
    """The matrices with these strides; None if cuBLASLt cannot read them."""
    if any(step < 0 for step in steps) or any(steps[i] != steps[i + 1] * sizes[i + 1] for i in range(len(steps) - 1)):
        return None
    step = steps[-1] if steps else 0
    if (column == 1 or columns == 1) and (row >= columns or rows == 1) and not (columns == 1 and row == 1):
        return Matrix(True, row if rows > 1 else columns, step)
    if (row == 1 or rows == 1) and (column >= rows or columns == 1):
        return Matrix(False, column if columns > 1 else rows, step)
    return None


# -- plans -------------------------------------------------------------------------------------------------------------------


@functools.lru_cache(4096)
def _planned(
    dtype: Any, a: tuple, a_strides: tuple, other: Any, b: tuple, b_strides: tuple, biased: bool, aligned: int, tf32: bool, device: int
) -> Callable:
    """How to compute a product: a function of the arrays and the bias."""
    kind, size = KINDS.get(dtype), dtype.itemsize
    if kind is None or dtype != other or aligned < size or any(stride % size for stride in a_strides + b_strides):
        return _on_cupy
    found = arranged(a, tuple([s // size for s in a_strides]), b, tuple([s // size for s in b_strides]))
    if found is None:
        return _on_cupy  # which raises the error
    if not found.k or not math.prod(found.shape):
        return functools.partial(_of_nothing, found.shape, dtype)
    if biased and not kind.adds:
        return _then_added
    if found.a is None or found.b is None:
        return functools.partial(_copied, found)
    library = _library()
    if library is None:
        return _on_cupy
    if tf32 and dtype == F32:
        kind = kind._replace(compute=_COMPUTE_32F_FAST_TF32)
    try:
        return Product(library, found, dtype, kind, biased, aligned, device)
    except (library.cuBLASLtError, LookupError, OverflowError) as error:  # the last for more products than a 32-bit number counts
        return _failed(dtype, error)


@functools.cache
def _library() -> Any:
    """The module of cuBLASLt's functions; None, after a warning, if it cannot be used."""
    try:
        found = importlib.import_module("nvmath.bindings.cublasLt")
        found.get_version()  # which loads the library itself
    except (ImportError, RuntimeError) as error:
        _warn(f"matrix products run on CuPy's cuBLAS, which is slower, as cuBLASLt cannot be used; install nvmath-python. {error}")
        return None
    return found


def _failed(dtype: Any, error: Exception) -> Callable:
    _warn(f"some matrix products of {dtype} run on CuPy's cuBLAS, which is slower, as cuBLASLt does not compute them: {error}")
    return _on_cupy


@functools.cache
def _warn(text: str) -> None:
    """Warn once."""
    warnings.warn(text, stacklevel=2)


def _on_cupy(a: Any, b: Any, bias: Any = None) -> Any:
    """The product by CuPy; that of half precision in float32, rounded once."""
    if a.dtype in LOW:
        return _on_cupy(*[x if x is None else x.astype(F32) for x in (a, b, bias)]).astype(a.dtype)
    return products.matmul(a, b) if bias is None else products.linear(a, b.T, bias)


def _of_nothing(shape: tuple, dtype: Any, a: Any, b: Any, bias: Any) -> Any:
    """A product without elements, or whose elements are sums of nothing."""
    out = cupy.zeros(shape, dtype)
    if bias is not None:
        out += bias
    return out


def _then_added(a: Any, b: Any, bias: Any) -> Any:
    """The product, to which the bias is then added."""
    out = _product(a, b)
    out += bias
    return out


def _copied(found: Arranged, a: Any, b: Any, bias: Any) -> Any:
    """The product of copies, for the operands that cuBLASLt cannot read."""
    a, b = (
        x if matrix else cupy.array(x if x.ndim < 2 else cupy.broadcast_to(x, found.lead + x.shape[-2:]), order="C")
        for x, matrix in ((a, found.a), (b, found.b))
    )
    return _product(a, b, bias)


# -- cuBLASLt ----------------------------------------------------------------------------------------------------------------

_workspaces: dict[int, dict[int, Any]] = {}  # device -> stream -> memory


class Product:
    """A product that is planned. The columns of cuBLASLt's matrices are rows of ours, so it computes `b.T @ a.T`."""

    def __init__(self, library: Any, found: Arranged, dtype: Any, kind: Kind, biased: bool, aligned: int, device: int) -> None:
        self._made: list[tuple[Callable, int]] = []  # descriptors, and what destroys them
        self._library, self._matmul, self._set = library, library.matmul, library.matmul_desc_set_attribute
        self._shape, self._dtype = found.shape, dtype
        self._workspaces, self._room = _workspaces.setdefault(device, {}), _room(device)
        self._bias, self._lock = ctypes.c_uint64(aligned), threading.Lock()  # held from setting the bias to the call that reads it
        self._bias_at = ctypes.addressof(self._bias)
        self._scalars = numpy.array([1, 0], kind.scalar)  # alpha and beta
        self._alpha = self._scalars.ctypes.data
        self._beta = self._alpha + self._scalars.itemsize
        self._operation = self._created("matmul_desc", kind.compute, kind.scale)
        self._layouts: list[int] = []
        self._describe(found, kind, biased)
        self._handle = _handle(device)
        self._results = self._best(dtype, aligned)
        self._algorithm = self._results.ctypes.data  # a result begins with its algorithm

    def _created(self, what: str, *arguments: int) -> int:
        descriptor = getattr(self._library, f"{what}_create")(*arguments)
        self._made.append((getattr(self._library, f"{what}_destroy"), descriptor))
        return descriptor

    def __del__(self) -> None:
        for destroy, descriptor in self._made:
            destroy(descriptor)

    def _describe(self, found: Arranged, kind: Kind, biased: bool) -> None:
        library, names = self._library, self._library.MatmulDescAttribute
        operation = _writer(library.matmul_desc_set_attribute, self._operation)
        matrices: list[tuple[int, Any, int, int]] = [
            (names.TRANSA, found.b, found.n, found.k),
            (names.TRANSB, found.a, found.k, found.m),
            (names.TRANSC, Matrix(True, found.n, found.n * found.m), found.n, found.m),
        ]
        for attribute, matrix, rows, columns in matrices:
            if not matrix.by_rows:
                operation(attribute, "i4", _OPERATION_T)
                rows, columns = columns, rows
            self._layouts.append(self._created("matrix_layout", kind.data, rows, columns, matrix.ld))
            if found.batch > 1:
                layout = _writer(library.matrix_layout_set_attribute, self._layouts[-1])
                layout(library.MatrixLayoutAttribute.BATCH_COUNT, "i4", found.batch)
                layout(library.MatrixLayoutAttribute.STRIDED_BATCH_OFFSET, "i8", matrix.step)
        if biased:
            operation(names.EPILOGUE, "u4", library.Epilogue.BIAS)
            operation(names.BIAS_POINTER, "u8", self._bias.value)  # an address of the right alignment, which algorithms depend on

    def _best(self, dtype: Any, aligned: int) -> Any:
        """Return the first result of cuBLASLt's heuristic. Raises cuBLASLtError or LookupError if there is none."""
        library, names, (a, b, out) = self._library, self._library.MatmulPreferenceAttribute, self._layouts
        results, count = numpy.zeros(1, library.matmul_heuristic_result_dtype), numpy.zeros(1, "i4")
        preference = self._created("matmul_preference")
        write = _writer(library.matmul_preference_set_attribute, preference)
        write(names.MAX_WORKSPACE_BYTES, "u8", self._room)
        write(names.MIN_ALIGNMENT_A_BYTES, "u4", aligned)
        write(names.MIN_ALIGNMENT_B_BYTES, "u4", aligned)
        if dtype in LOW:  # partial sums stay in float32
            write(names.REDUCTION_SCHEME_MASK, "u4", library.ReductionScheme.COMPUTE_TYPE)
        library.matmul_algo_get_heuristic(
            self._handle, self._operation, a, b, out, out, preference, 1, results.ctypes.data, count.ctypes.data
        )  # fmt: skip
        if not count[0] or results["state"][0]:
            raise LookupError("it finds no algorithm")
        return results

    def __call__(self, a: Any, b: Any, bias: Any = None) -> Any:
        """Compute the product, on the current stream."""
        out, stream = ndarray(self._shape, self._dtype), cupy.cuda.get_current_stream().ptr
        workspace = self._workspaces.get(stream) or self._workspaces.setdefault(stream, cupy.cuda.alloc(self._room))
        left, right, result = self._layouts
        try:
            with self._lock:
                if bias is not None and self._bias.value != bias.data.ptr:
                    self._bias.value = bias.data.ptr
                    self._set(self._operation, _BIAS_POINTER, self._bias_at, 8)
                self._matmul(
                    self._handle, self._operation, self._alpha, b.data.ptr, left, a.data.ptr, right, self._beta,
                    out.data.ptr, result, out.data.ptr, result, self._algorithm, workspace.ptr, self._room, stream,
                )  # fmt: skip
        except self._library.cuBLASLtError as error:
            return _failed(self._dtype, error)(a, b, bias)
        return out


def _writer(write: Callable, descriptor: int) -> Callable:
    """A function that sets an attribute of a descriptor, from its name, dtype and value."""

    def set_attribute(attribute: int, dtype: str, value: int) -> None:
        buffer = numpy.array(value, dtype)  # which the library copies
        write(descriptor, attribute, buffer.ctypes.data, buffer.nbytes)

    return set_attribute


@functools.cache
def _handle(device: int) -> int:
    """The handle of cuBLASLt for the current device."""
    return _library().create()


@functools.cache
def _room(device: int) -> int:
    """The size of a workspace in bytes, as cuBLAS recommends: 32 MiB since Hopper, 4 MiB before."""
    return (32 if int(cupy.cuda.Device(device).compute_capability) >= 90 else 4) << 20
