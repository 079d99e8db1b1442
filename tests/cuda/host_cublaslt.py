"""cuBLASLt without a GPU: the functions of `nvmath.bindings.cublasLt` that the backend calls, with the real names and parameters.

Descriptors hold attributes as bytes, as the library's do. A product is computed by NumPy from descriptors and addresses alone, in float64,
so a wrong transpose, leading dimension, distance, epilogue or address shows in the result. What the library refuses raises its error; so
do calls that it leaves undefined: another alignment than the algorithm was chosen for, or a descriptor that has changed since.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import sys
import types
from typing import Any

import ml_dtypes
import numpy

matmul_algo_dtype = numpy.dtype([("data_", "u8", (8,))])
matmul_heuristic_result_dtype = numpy.dtype(
    [("algo", matmul_algo_dtype), ("workspace_size", "u8"), ("state", "i4"), ("waves_count", "f4"), ("reserved", "i4", (4,))]
)


class MatmulDescAttribute(enum.IntEnum):
    COMPUTE_TYPE, SCALE_TYPE, POINTER_MODE, TRANSA, TRANSB, TRANSC = range(6)
    EPILOGUE, BIAS_POINTER, BIAS_BATCH_STRIDE = 7, 8, 10


class MatrixLayoutAttribute(enum.IntEnum):
    TYPE, ORDER, ROWS, COLS, LD, BATCH_COUNT, STRIDED_BATCH_OFFSET = range(7)


class MatmulPreferenceAttribute(enum.IntEnum):
    MAX_WORKSPACE_BYTES, REDUCTION_SCHEME_MASK = 1, 3
    MIN_ALIGNMENT_A_BYTES, MIN_ALIGNMENT_B_BYTES, MIN_ALIGNMENT_C_BYTES, MIN_ALIGNMENT_D_BYTES = range(5, 9)


class Epilogue(enum.IntEnum):
    DEFAULT, BIAS = 1, 4


class ReductionScheme(enum.IntEnum):
    NONE, INPLACE, COMPUTE_TYPE, OUTPUT_TYPE, MASK = 0, 1, 2, 4, 7


class cuBLASLtError(Exception):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"status {status}")


INVALID_VALUE, NOT_SUPPORTED = 7, 15  # cublasStatus_t
WORKSPACE = 1 << 20  # bytes that each algorithm here wants

# attribute -> its dtype and the value that it begins with
DESC = {
    MatmulDescAttribute.COMPUTE_TYPE: ("i4", 0), MatmulDescAttribute.SCALE_TYPE: ("i4", 0), MatmulDescAttribute.POINTER_MODE: ("i4", 0),
    MatmulDescAttribute.TRANSA: ("i4", 0), MatmulDescAttribute.TRANSB: ("i4", 0), MatmulDescAttribute.TRANSC: ("i4", 0),
    MatmulDescAttribute.EPILOGUE: ("u4", 1), MatmulDescAttribute.BIAS_POINTER: ("u8", 0), MatmulDescAttribute.BIAS_BATCH_STRIDE: ("i8", 0),
}  # fmt: skip
LAYOUT = {
    MatrixLayoutAttribute.TYPE: ("u4", 0), MatrixLayoutAttribute.ORDER: ("i4", 0), MatrixLayoutAttribute.ROWS: ("u8", 0),
    MatrixLayoutAttribute.COLS: ("u8", 0), MatrixLayoutAttribute.LD: ("i8", 0), MatrixLayoutAttribute.BATCH_COUNT: ("i4", 1),
    MatrixLayoutAttribute.STRIDED_BATCH_OFFSET: ("i8", 0),
}  # fmt: skip
PREFERENCE = {
    MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES: ("u8", 0), MatmulPreferenceAttribute.REDUCTION_SCHEME_MASK: ("u4", 7),
    MatmulPreferenceAttribute.MIN_ALIGNMENT_A_BYTES: ("u4", 256), MatmulPreferenceAttribute.MIN_ALIGNMENT_B_BYTES: ("u4", 256),
    MatmulPreferenceAttribute.MIN_ALIGNMENT_C_BYTES: ("u4", 256), MatmulPreferenceAttribute.MIN_ALIGNMENT_D_BYTES: ("u4", 256),
}  # fmt: skip

_F16, _BF16 = numpy.dtype("f2"), numpy.dtype(ml_dtypes.bfloat16)
_TYPES = {2: _F16, 14: _BF16, 0: numpy.dtype("f4"), 1: numpy.dtype("f8"), 4: numpy.dtype("c8"), 5: numpy.dtype("c16")}  # cudaDataType
_TRANSFORMS = {0: lambda x: x, 1: lambda x: x.mT, 2: lambda x: x.mT.conj()}  # cublasOperation_t
_FAST_TF32 = 77
# dtype of the matrices -> the types of computation and scale that the library's manual lists for it
_COMPUTES = {
    2: {(68, 0)}, 14: {(68, 0)}, 0: {(68, 0), (_FAST_TF32, 0)}, 1: {(70, 1)}, 4: {(68, 4), (_FAST_TF32, 4)}, 5: {(70, 5)},
}  # fmt: skip
_WITH_EPILOGUE = {2, 14, 0}


def _require(condition: Any, status: int = INVALID_VALUE) -> None:
    if not condition:
        raise cuBLASLtError(status)


# -- descriptors -------------------------------------------------------------------------------------------------------------

_descriptors: dict[int, dict[int, bytes]] = {}  # those that are not destroyed
_numbers = itertools.count(1)


def _created(table: dict, **values: int) -> int:
    descriptor = next(_numbers)
    named = {attribute.name: (attribute, kind, value) for attribute, (kind, value) in table.items()}
    _descriptors[descriptor] = {
        attribute: numpy.array(values.get(name, value), kind).tobytes() for name, (attribute, kind, value) in named.items()
    }
    return descriptor


def _set(table: dict, descriptor: int, attr: int, buf: int, size_in_bytes: int) -> None:
    _require(attr in table and size_in_bytes == numpy.dtype(table[attr][0]).itemsize)
    _descriptors[descriptor][int(attr)] = ctypes.string_at(buf, size_in_bytes)


def _get(table: dict, descriptor: int, attr: int, buf: int, size_in_bytes: int, size_written: int) -> None:
    held = _descriptors[descriptor][int(attr)]
    _require(size_in_bytes == len(held))
    ctypes.memmove(buf, held, len(held))
    ctypes.c_size_t.from_address(size_written).value = len(held)


def matmul_desc_create(compute_type: int, scale_type: int) -> int:
    return _created(DESC, COMPUTE_TYPE=compute_type, SCALE_TYPE=scale_type)


def matmul_desc_destroy(matmul_desc: int) -> None:
    del _descriptors[matmul_desc]


def matmul_desc_set_attribute(matmul_desc: int, attr: int, buf: int, size_in_bytes: int) -> None:
    _set(DESC, matmul_desc, attr, buf, size_in_bytes)


def matmul_desc_get_attribute(matmul_desc: int, attr: int, buf: int, size_in_bytes: int, size_written: int) -> None:
    _get(DESC, matmul_desc, attr, buf, size_in_bytes, size_written)


def matrix_layout_create(type: int, rows: int, cols: int, ld: int) -> int:
    return _created(LAYOUT, TYPE=type, ROWS=rows, COLS=cols, LD=ld)


def matrix_layout_destroy(mat_layout: int) -> None:
    del _descriptors[mat_layout]


def matrix_layout_set_attribute(mat_layout: int, attr: int, buf: int, size_in_bytes: int) -> None:
    _set(LAYOUT, mat_layout, attr, buf, size_in_bytes)


def matrix_layout_get_attribute(mat_layout: int, attr: int, buf: int, size_in_bytes: int, size_written: int) -> None:
    _get(LAYOUT, mat_layout, attr, buf, size_in_bytes, size_written)


def matmul_preference_create() -> int:
    return _created(PREFERENCE)


def matmul_preference_destroy(pref: int) -> None:
    del _descriptors[pref]


def matmul_preference_set_attribute(pref: int, attr: int, buf: int, size_in_bytes: int) -> None:
    _set(PREFERENCE, pref, attr, buf, size_in_bytes)


def matmul_preference_get_attribute(pref: int, attr: int, buf: int, size_in_bytes: int, size_written: int) -> None:
    _get(PREFERENCE, pref, attr, buf, size_in_bytes, size_written)


def get_version() -> int:
    return 120903


def create() -> int:
    return next(_numbers)


# -- products ----------------------------------------------------------------------------------------------------------------

library: Any = sys.modules[__name__]  # whose descriptors are read
calls: list[tuple] = []  # the arguments of each `matmul`
submit: Any = lambda work: work()  # noqa: E731  runs what is for the GPU, or keeps it for the graph that is being captured
_chosen: dict[int, tuple] = {}  # number of an algorithm -> the attributes that it was chosen for


def _attributes(get: Any, table: dict, descriptor: int) -> types.SimpleNamespace:
    """All attributes of a descriptor, in lower case."""
    found = {}
    for attribute, (kind, _) in table.items():
        value, written = numpy.zeros(1, kind), numpy.zeros(1, "u8")
        get(descriptor, int(attribute), value.ctypes.data, value.nbytes, written.ctypes.data)
        found[attribute.name.lower()] = value[0].item()
    return types.SimpleNamespace(**found)


def _problem(compute_desc: int, adesc: int, bdesc: int, cdesc: int, ddesc: int) -> tuple:
    """The attributes of a product and of its matrices A, B and D, which are checked."""
    operation = _attributes(library.matmul_desc_get_attribute, DESC, compute_desc)
    a, b, c, d = (_attributes(library.matrix_layout_get_attribute, LAYOUT, one) for one in (adesc, bdesc, cdesc, ddesc))
    _require(c == d and operation.pointer_mode == operation.transc == 0)
    for matrix in (a, b, d):
        _require(matrix.order == 0 and matrix.rows > 0 and matrix.cols > 0 and matrix.ld >= matrix.rows)
        _require(matrix.batch_count == d.batch_count > 0 and matrix.type == d.type)
    sizes = [(m.cols, m.rows) if turned else (m.rows, m.cols) for m, turned in ((a, operation.transa), (b, operation.transb))]
    _require(sizes[0][1] == sizes[1][0] and (sizes[0][0], sizes[1][1]) == (d.rows, d.cols))
    _require((operation.compute_type, operation.scale_type) in _COMPUTES[d.type], NOT_SUPPORTED)
    _require(operation.epilogue == 1 or operation.epilogue == 4 and d.type in _WITH_EPILOGUE, NOT_SUPPORTED)
    return operation, a, b, d


def matmul_algo_get_heuristic(
    light_handle: int, operation_desc: int, adesc: int, bdesc: int, cdesc: int, ddesc: int, preference: int, requested_algo_count: int,
    heuristic_results_array: int, return_algo_count: int,
) -> None:  # fmt: skip
    operation, a, b, d = _problem(operation_desc, adesc, bdesc, cdesc, ddesc)
    wanted = _attributes(library.matmul_preference_get_attribute, PREFERENCE, preference)
    _require(light_handle and requested_algo_count == 1)
    _require(wanted.max_workspace_bytes >= WORKSPACE, NOT_SUPPORTED)
    _require(_TYPES[d.type].itemsize > 2 or wanted.reduction_scheme_mask == ReductionScheme.COMPUTE_TYPE)
    result = numpy.zeros(1, matmul_heuristic_result_dtype)
    number = result["algo"]["data_"][0, 0] = next(_numbers)
    result["workspace_size"] = WORKSPACE
    bias = operation.bias_pointer & -operation.bias_pointer
    _chosen[int(number)] = (operation, a, b, d), wanted, bias
    ctypes.memmove(heuristic_results_array, result.ctypes.data, result.nbytes)
    ctypes.c_int.from_address(return_algo_count).value = 1


def matmul(
    light_handle: int, compute_desc: int, alpha: int, a: int, adesc: int, b: int, bdesc: int, beta: int, c: int, cdesc: int, d: int,
    ddesc: int, algo: int, workspace: int, workspace_size_in_bytes: int, stream: int,
) -> None:  # fmt: skip
    calls.append(
        (light_handle, compute_desc, alpha, a, adesc, b, bdesc, beta, c, cdesc, d, ddesc, algo, workspace, workspace_size_in_bytes, stream)
    )
    problem = operation, left, right, out = _problem(compute_desc, adesc, bdesc, cdesc, ddesc)
    chosen_for, wanted, bias_alignment = _chosen[ctypes.c_uint64.from_address(algo).value]
    now = types.SimpleNamespace(**{**vars(operation), "bias_pointer": chosen_for[0].bias_pointer})
    _require((now, *problem[1:]) == chosen_for)
    _require(not a % wanted.min_alignment_a_bytes and not b % wanted.min_alignment_b_bytes)
    _require(c == d and not d % wanted.min_alignment_d_bytes)
    _require(workspace and not workspace % 256 and workspace_size_in_bytes >= WORKSPACE)
    if operation.epilogue == Epilogue.BIAS:
        _require(operation.bias_pointer and not operation.bias_pointer % bias_alignment)
    submit(lambda: _compute(operation, (left, right, out), (alpha, a, b, beta, d), workspace))


def _compute(operation: types.SimpleNamespace, layouts: tuple, addresses: tuple, workspace: int) -> None:
    """What the GPU does, when it comes to it."""
    (left, right, out), (alpha, a, b, beta, d) = layouts, addresses
    ctypes.memset(workspace, 0xFF, 4096)  # it is the algorithm's to write
    scalar = _TYPES[operation.scale_type]
    one, none = (_at(where, scalar, (1,), (scalar.itemsize,))[0] for where in (alpha, beta))
    _require(none == 0)  # C is not read
    first, second = (_matrices(at, layout) for at, layout in ((a, left), (b, right)))
    if operation.compute_type == _FAST_TF32:
        first, second = map(_tf32, (first, second))
    wide = "c16" if _TYPES[out.type].kind == "c" else "f8"
    first, second = (x.astype(wide) for x in (first, second))
    with numpy.errstate(all="ignore"):
        found = one * (_TRANSFORMS[operation.transa](first) @ _TRANSFORMS[operation.transb](second))
        if operation.epilogue == Epilogue.BIAS:
            kind = _TYPES[out.type]
            steps = (operation.bias_batch_stride * kind.itemsize, kind.itemsize)
            found = found + _at(operation.bias_pointer, kind, (out.batch_count, out.rows), steps).astype(wide)[..., None]
        _matrices(d, out)[...] = found.astype(_TYPES[out.type])


def _at(address: int, dtype: numpy.dtype, shape: tuple, strides: tuple) -> numpy.ndarray:
    """The memory at an address as an array."""
    _require(address > 1 << 16)
    size = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + dtype.itemsize
    return numpy.ndarray(shape, dtype, (ctypes.c_char * size).from_address(address), 0, strides)


def _matrices(address: int, layout: types.SimpleNamespace) -> numpy.ndarray:
    dtype = _TYPES[layout.type]
    strides = tuple(n * dtype.itemsize for n in (layout.strided_batch_offset, 1, layout.ld))
    return _at(address, dtype, (layout.batch_count, layout.rows, layout.cols), strides)


def _tf32(x: numpy.ndarray) -> numpy.ndarray:
    """Round to 10 bits after the point."""
    fraction, exponent = numpy.frexp(x)
    return numpy.ldexp(numpy.round(fraction * 2048) / 2048, exponent)


# -- beside the real library ---------------------------------------------------------------------------------------------------


def over(real: Any) -> types.ModuleType:
    """The real module, whose descriptors then count, with those of its functions replaced that need a GPU."""
    global library
    library = real
    module = types.ModuleType(real.__name__)
    vars(module).update(vars(real))
    for one in (create, matmul_algo_get_heuristic, matmul, cuBLASLtError):
        setattr(module, one.__name__, one)
    return module
