"""Matrix products by cuBLASLt, on a stand-in that computes them from descriptors and addresses alone.

Where the packages of the extra `cuda12` or `cuda13` are installed, all tests here run once more with the real library's descriptors.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import emulate
import host_cublaslt
import ml_dtypes
import numpy
import pytest
import syncs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from on_stand_in import installed

import engine

pytest.importorskip("cupy")

REAL = "CUBLASLT_DESCRIPTORS" in os.environ  # in the process that `test_with_the_real_library` starts
BF16 = numpy.dtype(ml_dtypes.bfloat16)
DTYPES = {name: numpy.dtype(name) for name in ("float16", "float32", "float64", "complex64", "complex128")} | {"bfloat16": BF16}
MARGIN = 4096  # bytes around each array, which are nan for every dtype


@pytest.fixture(scope="module")
def gpu():
    """The GPU backend, its module of products, its CuPy, and the real nvmath where its descriptors are used."""
    real = importlib.import_module("nvmath") if REAL else None
    with installed() as backend:
        importlib.import_module("engine.backends.gpu.launch").driver = emulate.Emulator()
        if REAL:
            sys.modules["nvmath.bindings.cublasLt"] = host_cublaslt.over(real.bindings.cublasLt)
        products = importlib.import_module("engine.backends.gpu.matmul")
        yield types.SimpleNamespace(backend=backend, products=products, cupy=sys.modules["cupy"], real=real)
        products._planned.cache_clear()


@pytest.fixture
def anew(gpu, monkeypatch):
    """The same, for a test that changes it: nothing is planned before or stays planned afterwards."""
    caches = [getattr(gpu.products, name) for name in ("_planned", "_library", "_warn", "_handle")]
    for cache in caches:
        cache.cache_clear()
    yield gpu
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


class Outputs:
    """In place of `cupy.ndarray` for results: arrays with margins, in which nothing may be written."""

    def __init__(self, cupy: Any) -> None:
        self.cupy, self.made = cupy, []

    def __call__(self, shape: tuple, dtype: Any) -> Any:
        self.made.append(placed(self.cupy, numpy.full(shape, numpy.nan).astype(dtype)))
        return self.made[-1]

    def intact(self) -> bool:
        return all(
            (out.data.mem.buffer[:MARGIN] == 0xFF).all() and (out.data.mem.buffer[MARGIN + out.nbytes :] == 0xFF).all() for out in self.made
        )


def placed(cupy: Any, values: Any, order: Any = None, gaps: Any = None, offset: int = 0, turned: Any = ()) -> Any:
    """An array in a block of nan: with its dimensions in this order in memory, gaps between elements, and some dimensions backwards."""
    order, gaps = order or range(values.ndim), gaps or (0,) * values.ndim
    strides, step = [0] * values.ndim, values.itemsize
    for d in reversed(order):
        step += gaps[d] * values.itemsize
        strides[d] = step
        step *= max(values.shape[d], 1)
    memory = cupy.cuda.alloc(step + 2 * MARGIN + offset * values.itemsize)
    start = MARGIN + offset * values.itemsize
    for d in turned:
        start += strides[d] * max(values.shape[d] - 1, 0)
        strides[d] = -strides[d]
    found = cupy.ndarray(values.shape, values.dtype, memory + start, tuple(strides))
    found[...] = cupy.asarray(values)
    return found


def whole_numbers(rng: numpy.random.Generator, shape: tuple, dtype: numpy.dtype) -> numpy.ndarray:
    """Small numbers, whose products and sums are exact before they are rounded to the dtype."""
    found = rng.integers(-4, 5, shape).astype("f8")
    return (found + 1j * rng.integers(-4, 5, shape) if dtype.kind == "c" else found).astype(dtype)


def wide(x: numpy.ndarray) -> numpy.ndarray:
    return x.astype("c16" if x.dtype.kind == "c" else "f8")


def exact(a: numpy.ndarray, b: numpy.ndarray, bias: Any = None) -> numpy.ndarray:
    """The product in float64, rounded once."""
    found = wide(a) @ wide(b)
    return (found if bias is None else found + wide(bias)).astype(a.dtype)


def same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape and found.flags.c_contiguous
    numpy.testing.assert_array_equal(wide(found.get()), wide(numpy.asarray(expected)))


# -- layouts -----------------------------------------------------------------------------------------------------------------


@st.composite
def operand(draw: Any, batch: tuple, matrix: tuple) -> dict:
    """An array whose leading dimensions broadcast to `batch`, and where it is in memory; a vector if `matrix` has one dimension."""
    own = batch if len(matrix) > 1 else ()
    if draw(st.booleans()):
        own = tuple(draw(st.sampled_from((n, 1))) for n in own[draw(st.integers(0, len(own))) :])
    shape = own + matrix
    dense, spread = st.just((0,) * len(shape)), st.tuples(*[st.sampled_from((0, 0, 1, 3))] * len(shape))
    return {
        "shape": shape,
        "expanded": len(matrix) > 1 and draw(st.booleans()),
        "order": draw(st.one_of(st.just(tuple(range(len(shape)))), st.permutations(range(len(shape))))),
        "gaps": draw(st.one_of(dense, dense, spread)),
        "offset": draw(st.sampled_from((0, 0, 1, 2, 4, 7))),
        "turned": draw(st.sampled_from(((), (), (), (), (0,), (len(shape) - 1,)))),
    }


@st.composite
def product(draw: Any) -> dict:
    m, n, k = (draw(st.sampled_from((2, 3, 5, 1, 8, 17))) for _ in range(3))
    batch = draw(st.sampled_from(((2,), (3,), (2, 3), (3, 1, 2), (2, 3, 2), (), (1,))))
    vector_a, vector_b = (draw(st.integers(0, 9)) == 9 for _ in "ab")
    if draw(st.integers(0, 9)) == 9:
        m, n, k, batch = draw(st.sampled_from(((0, n, k, batch), (m, 0, k, batch), (m, n, 0, batch), (m, n, k, (0, *batch)))))
    return {
        "dtype": draw(st.sampled_from(sorted(DTYPES))), "batch": batch, "seed": draw(st.integers(0, 1 << 32)),
        "a": draw(operand(batch, (k,) if vector_a else (m, k))), "b": draw(operand(batch, (k,) if vector_b else (k, n))),
        "bias": not vector_b and draw(st.booleans()),
    }  # fmt: skip


def array_of(gpu: Any, rng: numpy.random.Generator, dtype: numpy.dtype, batch: tuple, layout: dict) -> tuple:
    """The operand on the GPU and its values."""
    values = whole_numbers(rng, layout["shape"], dtype)
    found = placed(gpu.cupy, values, *(layout[name] for name in ("order", "gaps", "offset", "turned")))
    if layout["expanded"]:
        shape = batch + layout["shape"][-2:]
        return gpu.cupy.broadcast_to(found, shape), numpy.broadcast_to(values, shape)
    return found, values


def check(gpu: Any, case: dict) -> None:
    """The product, twice, with a bias at another place the second time; nothing is written outside of the result."""
    dtype, rng = DTYPES[case["dtype"]], numpy.random.default_rng(case["seed"])
    (a, a_values), (b, b_values) = (array_of(gpu, rng, dtype, case["batch"], case[name]) for name in "ab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu.products, "ndarray", outputs := Outputs(gpu.cupy))
        for offset in (0, 3):
            bias = whole_numbers(rng, b.shape[-1:], dtype) if case["bias"] else None
            given = (a, b) if bias is None else (a, b, placed(gpu.cupy, bias, offset=offset))
            same(gpu.products._product(*given), exact(a_values, b_values, bias))
        assert outputs.intact()


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(case=product())
def test_any_layout(gpu, case):
    check(gpu, case)


AT = {"order": None, "gaps": None, "offset": 0, "turned": (), "expanded": False}
CASES = {
    "rows": ((), (5, 3), {}, (3, 4), {}),
    "columns": ((), (5, 3), {"order": (1, 0)}, (3, 4), {"order": (1, 0)}),
    "gaps": ((), (5, 3), {"gaps": (3, 0)}, (3, 4), {"order": (1, 0), "gaps": (0, 1)}),
    "a batch": ((6,), (6, 5, 3), {}, (6, 3, 4), {"order": (0, 2, 1)}),
    "a broadcast batch": ((6,), (5, 3), {}, (6, 3, 4), {}),
    "one matrix": ((2, 6), (2, 6, 5, 3), {}, (3, 4), {}),
    "vectors": ((), (3,), {"gaps": (2,)}, (3,), {}),
}  # fmt: skip
MISALIGNED = {
    "dtype": "float32", "batch": (), "seed": 0, "bias": True, "a": {**AT, "shape": (5, 3), "offset": 1}, "b": {**AT, "shape": (3, 4)},
}  # fmt: skip


def checks(gpu: Any) -> None:
    for dtype in ("float32", "complex64"):
        for batch, a, a_at, b, b_at in CASES.values():
            first, second = {**AT, "shape": a, **a_at}, {**AT, "shape": b, **b_at}
            check(gpu, {"dtype": dtype, "batch": batch, "seed": 0, "a": first, "b": second, "bias": len(b) > 1})


def test_the_cases_for_faults(anew):
    checks(anew)
    check(anew, MISALIGNED)


FAULTS = {  # what goes wrong -> the function that it is in, and what takes its place, given the right one
    "transpose": ("_matrix", lambda right: lambda *given: right(*given)._replace(by_rows=True)),
    "leading dimension": ("_matrix", lambda right: lambda *given: (m := right(*given))._replace(ld=m.ld + 1)),
    "distance in a batch": ("_matrix", lambda right: lambda *given: (m := right(*given))._replace(step=max(m.step - 1, 0))),
    "rows of the result": ("arranged", lambda right: lambda *given: (p := right(*given))._replace(m=p.m + 1)),
    "number of products": ("arranged", lambda right: lambda *given: (p := right(*given))._replace(batch=max(p.batch - 1, 1))),
    "bias left out": ("Product", lambda right: lambda *given: right(*given[:4], False, *given[5:])),
    "alignment": ("Product", lambda right: lambda *given: right(*given[:5], 2 * given[5], given[6])),
    "type of the elements": ("KINDS", lambda right: {d: kind._replace(data=0) for d, kind in right.items()}),
    "size of the workspace": ("_room", lambda right: lambda device: 1 << 10),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(anew, monkeypatch, fault):
    name, wrong = FAULTS[fault]
    monkeypatch.setattr(anew.products, name, wrong(getattr(anew.products, name)))
    with pytest.raises((AssertionError, UserWarning)):  # a warning where the library refuses it
        checks(anew)
        check(anew, MISALIGNED)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # shapes and strides of two arrays -> batch, (m, n, k), and by_rows, leading dimension and distance of each
        (((5, 3), (3, 1)), ((3, 4), (4, 1)), (1, (5, 4, 3), (True, 3, 0), (True, 4, 0))),
        (((5, 3), (3, 1)), ((3, 4), (1, 3)), (1, (5, 4, 3), (True, 3, 0), (False, 3, 0))),  # the weight of `linear`
        (((5, 3), (9, 1)), ((3, 4), (1, 7)), (1, (5, 4, 3), (True, 9, 0), (False, 7, 0))),
        (((3,), (1,)), ((3,), (1,)), (1, (1, 1, 3), (True, 3, 0), (False, 3, 0))),
        (((3,), (5,)), ((3,), (2,)), (1, (1, 1, 3), (False, 5, 0), (True, 2, 0))),
        (((2, 6, 5, 3), (90, 15, 3, 1)), ((3, 4), (4, 1)), (1, (60, 4, 3), (True, 3, 0), (True, 4, 0))),  # rows of one matrix
        (((2, 6, 3), (18, 1, 6)), ((3, 4), (1, 3)), (2, (6, 4, 3), (False, 6, 18), (False, 3, 0))),  # channels that are moved last
        (((2, 6, 5, 3), (90, 15, 3, 1)), ((2, 6, 3, 4), (72, 12, 4, 1)), (12, (5, 4, 3), (True, 3, 15), (True, 4, 12))),
        (((6, 5, 3), (15, 3, 1)), ((6, 3, 4), (12, 1, 3)), (6, (5, 4, 3), (True, 3, 15), (False, 3, 12))),
        (((5, 3), (3, 1)), ((6, 3, 4), (12, 4, 1)), (6, (5, 4, 3), (True, 3, 0), (True, 4, 12))),
        (((2, 6, 5, 3), (90, 15, 3, 1)), ((2, 1, 3, 4), (12, 12, 4, 1)), (2, (30, 4, 3), (True, 3, 90), (True, 4, 12))),  # one key for six queries
        (((2, 6, 5, 3), (90, 3, 18, 1)), ((2, 6, 3, 4), (72, 12, 4, 1)), (12, (5, 4, 3), None, (True, 4, 12))),  # heads within rows
        (((6, 1, 3), (3, 99, 1)), ((3, 4), (4, 1)), (1, (6, 4, 3), (True, 3, 0), (True, 4, 0))),
        (((6, 1, 3), (1, 99, 6)), ((3, 4), (4, 1)), (1, (6, 4, 3), (False, 6, 0), (True, 4, 0))),
        (((6, 5, 3), (-15, 3, 1)), ((6, 3, 4), (12, 4, 1)), (6, (5, 4, 3), None, (True, 4, 12))),
        (((5, 3), (3, -1)), ((3, 4), (0, 1)), (1, (5, 4, 3), None, None)),
        (((5, 3), (2, 1)), ((3, 4), (8, 2)), (1, (5, 4, 3), None, None)),  # rows that overlap, no stride of 1
    ],
)  # fmt: skip
def test_what_is_read_without_a_copy(gpu, a, b, expected):
    found = gpu.products.arranged(*a, *b)
    assert (found.batch, (found.m, found.n, found.k), found.a, found.b) == expected


@pytest.mark.parametrize("name", DTYPES)
def test_rounding_and_infinities(gpu, name):
    dtype, rng = DTYPES[name], numpy.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(dtype) for shape in ((17, 33), (33, 9)))
    found = gpu.products.matmul(gpu.cupy.asarray(a), gpu.cupy.asarray(b)).get()
    eps = float(ml_dtypes.finfo(dtype).eps)
    numpy.testing.assert_allclose(wide(found), wide(a) @ wide(b), rtol=eps, atol=33 * 2**-52)
    a[3, 4], a[5, 6] = numpy.inf, numpy.nan
    found = gpu.products.matmul(gpu.cupy.asarray(a), gpu.cupy.asarray(b)).get()
    assert numpy.isfinite(wide(found)).all(1).tolist() == [i not in (3, 5) for i in range(17)] and numpy.isnan(wide(found[5])).all()


@pytest.mark.parametrize(
    "shapes", [((0, 3), (3, 4)), ((2, 3), (3, 0)), ((2, 0), (0, 4)), ((0,), (0,)), ((0, 2, 3), (3, 4)), ((2, 0, 3), (2, 3, 4))]
)
def test_products_of_nothing_call_nothing(gpu, shapes):
    a, b = (gpu.cupy.zeros(shape, "f4") for shape in shapes)
    host_cublaslt.calls.clear()
    same(gpu.products.matmul(a, b), numpy.matmul(*[numpy.zeros(shape, "f4") for shape in shapes]))
    bias = numpy.arange(4, dtype="f4")
    x, weight = gpu.cupy.zeros((2, 0), "f4"), gpu.cupy.zeros((4, 0), "f4")
    same(gpu.products.linear(x, weight, gpu.cupy.asarray(bias)), numpy.stack([bias, bias]))
    assert not host_cublaslt.calls


def test_integers_and_wrong_shapes_are_left_to_cupy(gpu):
    a, cupy = numpy.arange(6).reshape(2, 3), gpu.cupy
    host_cublaslt.calls.clear()
    same(gpu.products.matmul(cupy.asarray(a), cupy.asarray(a.T)), a @ a.T)
    for shapes in (((2, 3), (4, 5)), ((), (3,)), ((2, 4, 3), (3, 3, 4))):
        with pytest.raises(ValueError):
            gpu.products.matmul(*[cupy.zeros(shape, "f4") for shape in shapes])
    assert not host_cublaslt.calls


def test_so_are_elements_at_fractions_of_their_size(gpu):
    host_cublaslt.calls.clear()
    for start, row in ((4, 24), (0, 28)):  # complex numbers in an array of floats
        memory = gpu.cupy.cuda.alloc(128)
        a = gpu.cupy.ndarray((3, 3), "c8", memory + start, (row, 8))
        a[...] = 1
        same(gpu.products.matmul(a, a), numpy.full((3, 3), 3, "c8"))
    assert not host_cublaslt.calls


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("bias", ["fused", "spread", "one", "matrix"])
def test_linear(gpu, name, bias):
    dtype, rng, cupy = DTYPES[name], numpy.random.default_rng(1), gpu.cupy
    x, weight = whole_numbers(rng, (2, 5, 3), dtype), whole_numbers(rng, (4, 3), dtype)
    values = whole_numbers(rng, {"one": (1,), "matrix": (5, 4)}.get(bias, (4,)), dtype)
    at = placed(cupy, values, gaps=(1,) if bias == "spread" else None)
    same(gpu.products.linear(cupy.asarray(x), cupy.asarray(weight), at), exact(x, weight.T, values))
    same(gpu.products.linear(cupy.asarray(x), cupy.asarray(weight)), exact(x, weight.T))
    same(gpu.products.linear(cupy.asarray(x), cupy.asarray(weight[0])), exact(x, weight[0]))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("equation", ["ij,jk->ik", "bij,bkj->bik", "bhqd,bhkd->bqhk", "i,j->ij", "ij,ij->", "ij,jk,kl->li"])
def test_contract(gpu, name, equation):
    terms, rng = equation.split("->")[0].split(","), numpy.random.default_rng(2)
    operands = [whole_numbers(rng, tuple("bhijklqd".index(c) + 9 for c in term), DTYPES[name]) for term in terms]
    expected = numpy.asarray(numpy.einsum(equation, *map(wide, operands))).astype(DTYPES[name])
    found = gpu.products.contract([gpu.cupy.asarray(x) for x in operands], equation)
    assert found.dtype == DTYPES[name]
    numpy.testing.assert_array_equal(wide(found.get()), wide(expected))


# -- plans -------------------------------------------------------------------------------------------------------------------


def test_a_product_is_planned_once(anew):
    cupy, rng = anew.cupy, numpy.random.default_rng(3)
    x, weight = cupy.asarray(whole_numbers(rng, (5, 3), DTYPES["float32"])), cupy.asarray(whole_numbers(rng, (4, 3), DTYPES["float32"]))
    biases = [whole_numbers(rng, (4,), DTYPES["float32"]) for _ in range(3)]
    host_cublaslt.calls.clear()
    syncs.found.clear()
    found = [anew.products.linear(x, weight, cupy.asarray(bias)) for bias in biases]
    assert anew.products._planned.cache_info()[:2] == (2, 1) and len(host_cublaslt.calls) == 3 and not syncs.found
    for out, bias in zip(found, biases, strict=True):
        same(out, exact(x.get(), weight.get().T, bias))


def test_threads_do_not_mix_up_their_biases(anew):
    cupy, x, weight, wrong = anew.cupy, anew.cupy.ones((2, 3), "f4"), anew.cupy.ones((4, 3), "f4"), []

    def run(value: float) -> None:
        bias = cupy.asarray(numpy.full(4, value, "f4"))
        for _ in range(60):
            if not (anew.products.linear(x, weight, bias).get() == 3 + value).all():
                wrong.append(value)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run, args=(float(i),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_each_stream_has_its_workspace(gpu, monkeypatch):
    a, streams = gpu.cupy.ones((3, 3), "f4"), [gpu.cupy.cuda.Stream() for _ in range(2)]
    host_cublaslt.calls.clear()
    for again in range(2):
        for stream in streams:
            with stream, monkeypatch.context() as patch:
                if again:
                    patch.setattr(gpu.cupy.cuda, "alloc", None)
                gpu.products.matmul(a, a)
    *_, workspaces, sizes, used = zip(*host_cublaslt.calls, strict=True)
    assert used == tuple(stream.ptr for stream in (*streams, *streams)) and set(sizes) == {32 << 20}
    assert workspaces[:2] == workspaces[2:] and abs(workspaces[0] - workspaces[1]) >= 32 << 20


@pytest.mark.skipif(REAL, reason="the real library does not count its descriptors")
def test_descriptors_are_destroyed(anew):
    before = len(host_cublaslt._descriptors)
    anew.products.matmul(anew.cupy.ones((3, 3), "f4"), anew.cupy.ones((3, 3), "f4"))
    assert len(host_cublaslt._descriptors) > before
    anew.products._planned.cache_clear()
    assert len(host_cublaslt._descriptors) == before


def test_tf32_is_used_where_it_is_set(gpu):
    x = numpy.full((2, 2), 1 + 2**-12, "f4")
    y = engine.tensor(x, device="cuda")
    try:
        for precision, expected in (("high", 2.0), ("highest", exact(x, x)[0, 0])):
            engine.set_float32_matmul_precision(precision)
            assert ((y @ y).cpu().numpy() == expected).all()
            assert ((y.double() @ y.double()).cpu().numpy() == exact(wide(x), wide(x))).all()
    finally:
        engine.set_float32_matmul_precision("highest")


# -- without the library -------------------------------------------------------------------------------------------------------


def without_library(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, "nvmath.bindings.cublasLt", None)


def without_algorithms(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(host_cublaslt, "WORKSPACE", 1 << 40)


def with_failing_calls(patch: pytest.MonkeyPatch) -> None:
    def fail(*args: int) -> None:
        raise host_cublaslt.cuBLASLtError(host_cublaslt.NOT_SUPPORTED)

    patch.setattr(sys.modules["nvmath.bindings.cublasLt"], "matmul", fail)


@pytest.mark.parametrize(
    ("without", "told", "warnings"),
    [
        (without_library, "install nvmath-python", 1),
        (without_algorithms, "float.*status 15", 2),
        (with_failing_calls, "float.*status 15", 2),
    ],
)
def test_cupy_computes_what_the_library_cannot(anew, monkeypatch, without, told, warnings):
    without(monkeypatch)
    rng = numpy.random.default_rng(4)
    with pytest.warns(UserWarning, match=told) as warned:
        for name in ("float32", "bfloat16") * 2:
            x, weight, bias = (whole_numbers(rng, shape, DTYPES[name]) for shape in ((2, 5, 99), (4, 99), (4,)))
            found = anew.products.linear(*[anew.cupy.asarray(one) for one in (x, weight, bias)])
            same(found, exact(x, weight.T, bias))
    assert len(warned) == warnings


def test_more_products_than_the_library_counts_are_left_to_cupy(anew):
    many = ((1 << 31, 2, 2), (16, 8, 4))
    with pytest.warns(UserWarning, match="float32"):
        assert anew.products._planned(DTYPES["float32"], *many, DTYPES["float32"], *many, False, 256, False, 0) is anew.products._on_cupy


def test_cupy_computes_half_precision_in_float32(anew, monkeypatch):
    def noting(function: Any) -> Any:
        return lambda *args, **kwargs: (
            seen.extend(x.dtype for x in (*args, *kwargs.values()) if isinstance(x, anew.cupy.ndarray)) or function(*args, **kwargs)
        )

    seen: list = []
    without_library(monkeypatch)
    monkeypatch.setattr(anew.products.products, "matmul", noting(anew.products.products.matmul))
    monkeypatch.setattr(anew.cupy, "einsum", noting(anew.cupy.einsum))
    x = anew.cupy.asarray(whole_numbers(numpy.random.default_rng(0), (9, 9), BF16))
    with pytest.warns(UserWarning, match="nvmath"):
        assert anew.products.matmul(x, x).dtype == BF16
    assert anew.products.contract([x, x, x], "ij,jk,kl->il").dtype == BF16
    assert seen == [numpy.float32] * 5


# -- the engine on it ----------------------------------------------------------------------------------------------------------

PROGRAMS = {  # a program of tensors, and the shapes of those that it takes
    "linear": (engine.nn.functional.linear, (5, 3), (4, 3), (4,)),
    "linear without a bias": (engine.nn.functional.linear, (2, 5, 3), (4, 3)),
    "linear of a batch": (engine.nn.functional.linear, (2, 5, 3), (4, 3), (4,)),
    "linear of a vector": (engine.nn.functional.linear, (3,), (4, 3), (4,)),
    "linear of channels": (lambda x, w, b: engine.nn.functional.linear(x.transpose(1, 2), w, b), (2, 3, 5), (4, 3), (4,)),
    "matmul": (engine.matmul, (5, 3), (3, 4)),
    "matmul of vectors": (engine.matmul, (3,), (3,)),
    "vector by matrix": (engine.matmul, (3,), (3, 4)),
    "vector by a batch": (engine.matmul, (3,), (2, 3, 4)),
    "a batch by a vector": (engine.matmul, (2, 5, 3), (3,)),
    "matmul that broadcasts": (engine.matmul, (2, 1, 5, 3), (4, 3, 6)),
    "matmul by one matrix": (engine.matmul, (2, 5, 3), (3, 4)),
    "matmul of transposes": (lambda a, b: a.mT @ b.mT, (2, 3, 5), (2, 4, 3)),
    "bmm": (engine.bmm, (2, 5, 3), (2, 3, 4)),
    "addmm": (engine.addmm, (4,), (5, 3), (3, 4)),
    "baddbmm": (engine.baddbmm, (2, 5, 4), (2, 5, 3), (2, 3, 4)),
    "einsum": (lambda q, k: engine.einsum("bhqd,bhkd->bhqk", q, k), (2, 3, 5, 4), (2, 3, 6, 4)),
    "einsum of heads": (lambda w, v: engine.einsum("bhqk,bkhd->bqhd", w, v), (2, 3, 5, 4), (2, 4, 3, 6)),
    "einsum of three": (lambda a, b, c: engine.einsum("ij,jk,kl->il", a, b, c), (2, 3), (3, 4), (4, 5)),
    "tensordot": (lambda a, b: engine.tensordot(a, b, ([1, 2], [0, 1])), (2, 3, 4), (3, 4, 5)),
}


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16", "complex64"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_gradients_are_those_of_the_cpu(gpu, program, name):
    run, *shapes = PROGRAMS[program]
    dtype, rng = getattr(engine, name), numpy.random.default_rng(5)
    values = [wide(whole_numbers(rng, shape, DTYPES["complex64" if name == "complex64" else "float32"])) / 4 for shape in shapes]
    found = []
    for device in ("cpu", "cuda"):
        inputs = [engine.tensor(x, dtype=dtype, device=device, requires_grad=True) for x in values]
        out = run(*inputs)
        grad = numpy.random.default_rng(6).integers(-4, 5, tuple(out.shape)) / 4
        out.backward(engine.tensor(grad, dtype=dtype, device=device))
        found.append([out.detach().cpu(), *[x.grad.cpu() for x in inputs]])
        assert all(x.grad.dtype is dtype and x.grad.device.type == device for x in inputs) and out.dtype is dtype
    for cpu, cuda in zip(*found, strict=True):
        # exact but for half precision, in which gradients of broadcast inputs are rounded once more than on the CPU
        close = {"bfloat16": 2**-7, "float16": 2**-10}.get(name, 0)
        assert cpu.shape == cuda.shape and cpu.stride() == cuda.stride()
        numpy.testing.assert_allclose(wide(cuda.array), wide(cpu.array), rtol=close, atol=close)


def test_a_layer_of_half_precision_is_one_product(gpu):
    layer, x = engine.nn.Linear(3, 4, device="cuda", dtype=engine.bfloat16), engine.ones(5, 3, device="cuda", dtype=engine.bfloat16)
    host_cublaslt.calls.clear()
    out = layer(x)
    assert len(host_cublaslt.calls) == 1 and out.dtype is engine.bfloat16
    out.backward(engine.ones_like(out))
    assert len(host_cublaslt.calls) == 2  # `x` needs no gradient
    assert (layer.weight.grad == 5).all() and (layer.bias.grad == 5).all()


# -- the real library ------------------------------------------------------------------------------------------------------------

HERE = Path(__file__).parent


def folder_of(package: str) -> str | None:
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    return found and next(iter(found.submodule_search_locations or ()), None)


def test_with_the_real_library(tmp_path):
    """The tests of this file in a process with the library's own descriptors, on a driver without devices."""
    cublas = next(filter(None, map(folder_of, ("nvidia.cublas", "nvidia.cu13"))), None)
    if folder_of("nvmath") is None or cublas is None:
        pytest.skip("nvmath-python and cuBLAS are not installed")
    if REAL:
        pytest.skip("this is that process")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", HERE / "stub_libcuda.c"], check=True)
    paths = os.pathsep.join([str(tmp_path), f"{cublas}/lib"])
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": paths,
        "CUBLASLT_DESCRIPTORS": "real",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE.parents[1])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


only_there = pytest.mark.skipif(not REAL, reason="made by test_with_the_real_library")


@only_there
def test_functions_have_the_real_parameters():
    names = [name for name, one in vars(host_cublaslt).items() if inspect.isfunction(one) and not name.startswith("_") and name != "over"]
    assert {"matmul", "matmul_algo_get_heuristic", "matrix_layout_set_attribute"} < set(names)
    ours, theirs = (
        {name: list(inspect.signature(getattr(m, name)).parameters) for name in names} for m in (host_cublaslt, host_cublaslt.library)
    )
    assert ours == theirs


@only_there
def test_numbers_are_the_real_ones():
    for name in ("MatmulDescAttribute", "MatrixLayoutAttribute", "MatmulPreferenceAttribute", "Epilogue", "ReductionScheme"):
        theirs = getattr(host_cublaslt.library, name)
        for one in getattr(host_cublaslt, name):
            assert theirs[one.name] == one, f"{name}.{one.name}"


@only_there
def test_dtypes_are_the_real_ones(gpu):
    library = gpu.real.bindings.cublasLt
    tables = {"matmul_desc": host_cublaslt.DESC, "matrix_layout": host_cublaslt.LAYOUT, "matmul_preference": host_cublaslt.PREFERENCE}
    for kind, table in tables.items():
        for attribute, (dtype, _) in table.items():
            assert numpy.dtype(getattr(library, f"get_{kind}_attribute_dtype")(int(attribute))).itemsize == numpy.dtype(dtype).itemsize, (
                attribute
            )
    assert host_cublaslt.matmul_heuristic_result_dtype == numpy.dtype(library.matmul_heuristic_result_dtype)
    cublas, data = gpu.real.bindings.cublas, gpu.real.CudaDataType
    letters = {
        "float16": "R_16F",
        "bfloat16": "R_16BF",
        "float32": "R_32F",
        "float64": "R_64F",
        "complex64": "C_32F",
        "complex128": "C_64F",
    }
    for name, data_type in letters.items():
        kind, bits = gpu.products.KINDS[DTYPES[name]], 64 if "64" in data_type else 32
        assert kind.data == data[f"CUDA_{data_type}"] and kind.scale == data[f"CUDA_{data_type[0]}_{bits}F"]
        assert kind.compute == cublas.ComputeType[f"COMPUTE_{bits}F"]
    assert gpu.products._COMPUTE_32F_FAST_TF32 == cublas.ComputeType.COMPUTE_32F_FAST_TF32
    assert gpu.products._OPERATION_T == cublas.Operation.T and gpu.products._BIAS_POINTER == library.MatmulDescAttribute.BIAS_POINTER
