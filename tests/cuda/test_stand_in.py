"""The stand-in for CuPy refuses what CuPy refuses, and lays its results out as CuPy does.

The real package checks arguments, makes views and chooses loops without a GPU; only the launch of a kernel needs one. So each call below
goes to both: to the real one with arrays in the host's memory. Where it stops at the missing driver, the stand-in computes.
"""

from __future__ import annotations

import gc
import sys
import types

import ml_dtypes
import numpy
import pytest
import syncs
from on_stand_in import installed

import engine
from engine.core.op import Op, registry
from grouping import grouped

cupy = pytest.importorskip("cupy")

BF16 = numpy.dtype(ml_dtypes.bfloat16)


def in_host_memory(shape, dtype=float):
    """An array of the real CuPy's in the host's memory, or on a GPU where there is one."""
    host = numpy.zeros(shape, dtype)
    if cupy.cuda.is_available():
        return cupy.asarray(host)
    memory = numpy.zeros(max(host.nbytes, 8), numpy.uint8)
    owner = cupy.cuda.UnownedMemory(memory.ctypes.data, memory.nbytes, memory, 0)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(owner, 0))


REAL = types.SimpleNamespace(cupy=cupy, zeros=in_host_memory)

CALLS = {  # what it is -> a call of a package with `cupy` and `zeros`
    "NumPy's ufunc": lambda p: numpy.maximum(p.zeros(3), 1),
    "NumPy's reduce": lambda p: numpy.add.reduce(p.zeros(3)),
    "NumPy's at": lambda p: numpy.add.at(p.zeros(3), p.zeros(2, int), 1.0),
    "NumPy's function": lambda p: numpy.flip(p.zeros((3, 4)), 0),
    "implicit conversion": lambda p: numpy.asarray(p.zeros(3)),
    "unknown keyword of a ufunc": lambda p: p.cupy.add(p.zeros(3), 1, order="C"),
    "too few arguments": lambda p: p.cupy.add(p.zeros(3)),
    "unknown keyword of a function": lambda p: p.cupy.roll(p.zeros(3), 1, dim=0),
    "unknown keyword of a method": lambda p: p.zeros(3).astype(float, kind="C"),
    "unknown function": lambda p: p.cupy.block([p.zeros(3)]),
    "unknown method": lambda p: p.zeros(3).setflags(write=False),
    "unknown flag": lambda p: p.zeros(3).flags.writeable,
    "unknown ufunc's at": lambda p: p.cupy.multiply.at(p.zeros(3), p.zeros(2, int), 1.0),
    "unknown ufunc's reduce": lambda p: p.cupy.maximum.reduce(p.zeros(3)),
    "stack with a NumPy array": lambda p: p.cupy.stack([p.zeros(3), numpy.zeros(3)]),
    "fill a slice with a NumPy array": lambda p: p.zeros((3, 4)).__setitem__(slice(0, 2), numpy.ones((2, 4))),
    "fill by an index with a NumPy array": lambda p: p.zeros((3, 4)).__setitem__(p.zeros(2, int), numpy.ones((2, 4))),
    "an index of floats": lambda p: p.zeros(3)[p.zeros(2)],
    "an integer out of bounds": lambda p: p.zeros((3, 4))[7],
    "an array of integers": lambda p: p.zeros((3, 4))[p.zeros(2, int)],
    "too many indices": lambda p: p.zeros(3)[0, 0],
    "a mask of another shape": lambda p: p.zeros(3)[p.zeros(4, bool)],
    "hash": lambda p: hash(p.zeros(3)),
    "an array as a range": lambda p: range(p.zeros((), int)),
    "length of a point": lambda p: len(p.zeros(())),
    "iterate over a point": lambda p: iter(p.zeros(())),
    "float8": lambda p: p.zeros(3).astype(ml_dtypes.float8_e4m3fn),
    "objects": lambda p: p.zeros(3).astype(object),
    "text": lambda p: p.zeros(3).astype("U1"),
    "quicksort": lambda p: p.zeros(3).sort(kind="quicksort"),
    "sort a point": lambda p: p.zeros(()).sort(),
    "determinant of half precision": lambda p: p.cupy.linalg.det(p.zeros((3, 3), "e")),
    "where with one value": lambda p: p.cupy.where(p.zeros(3, bool), 1),
    "reshape to another size": lambda p: p.zeros((3, 4)).reshape(5),
    "a view of another width": lambda p: p.zeros((3, 4), "f").T.view("F"),
    "complex as real": lambda p: p.zeros((3, 2), "F").view("f"),
    "a slice": lambda p: p.zeros((3, 4))[1:, ::2],
    "an integer": lambda p: p.zeros((3, 4))[1],
    "the whole": lambda p: p.zeros((3, 4))[...],
    "a new dimension": lambda p: p.zeros((3, 4))[:, None],
    "transpose": lambda p: p.zeros((3, 4, 5)).transpose(2, 0, 1),
    "reshape": lambda p: p.zeros((3, 4)).reshape(2, 6),
    "reshape the transpose": lambda p: p.zeros((3, 4)).T.reshape(-1),
    "ravel": lambda p: p.zeros((3, 4)).ravel(),
    "diagonal": lambda p: p.zeros((3, 4)).diagonal(1),
    "squeeze": lambda p: p.zeros((3, 1)).squeeze(1),
    "real part": lambda p: p.zeros((3, 2), "F").real,
    "imaginary part": lambda p: p.zeros((3, 2), "F").imag,
    "conjugate of real": lambda p: p.zeros(3).conj(),
    "broadcast": lambda p: p.cupy.broadcast_to(p.zeros((3, 1)), (2, 3, 4)),
    "strides": lambda p: p.cupy.lib.stride_tricks.as_strided(p.zeros((3, 4)), (2, 2), (8, 8)),
    "moveaxis": lambda p: p.cupy.moveaxis(p.zeros((3, 4, 5)), 0, -1),
    "expand": lambda p: numpy.expand_dims(p.zeros((3, 4)), (0, 2)),
    "bfloat16": lambda p: p.zeros(3).astype(BF16),
    "sum": lambda p: p.zeros((3, 4)).sum(1),
    "sort": lambda p: p.cupy.sort(p.zeros((3, 4))),
    "matrix product": lambda p: p.zeros((3, 4)) @ p.zeros((4, 2)),
}  # fmt: skip
CALLS |= {
    f"{name}.at of {numpy.dtype(d)}": lambda p, name=name, d=d: getattr(p.cupy, name).at(p.zeros(4, d), p.zeros(2, int), p.zeros(2, d))
    for name in ("add", "maximum") for d in [*"?bBhHiIlLefdFD", BF16]
}  # fmt: skip


def outcome(call, package):
    """What a call gives: an error, a view with its layout, or "computed" for what needs a kernel."""
    try:
        found = call(package)
    except (cupy.cuda.runtime.CUDARuntimeError, ImportError):  # no driver, or no library of CUDA's
        return "computed"
    except Exception as error:
        return type(error)
    if getattr(found, "base", None) is None:
        return "computed"
    return found.shape, found.dtype, found.strides, found.flags.c_contiguous, found.flags.f_contiguous


@pytest.fixture
def ours(stand_in):
    return types.SimpleNamespace(cupy=stand_in.cupy, zeros=stand_in.cupy.zeros)


@pytest.fixture(scope="module")
def theirs():
    """What the real package answers: asked before the stand-in takes its place."""
    return {name: outcome(call, REAL) for name, call in CALLS.items()}


@grouped("name", [pytest.param(name, id=name) for name in CALLS])
def test_it_answers_as_cupy_does(name, theirs, ours):
    assert outcome(CALLS[name], ours) == theirs[name]


def test_arrays_of_numpy_are_no_operands(ours):
    x, host = ours.zeros(3), numpy.zeros(3)
    calls = (lambda: x + host, lambda: host + x, lambda: x == host, lambda: ours.cupy.maximum(x, host), lambda: numpy.maximum(host, x))
    for call in (*calls, lambda: ours.cupy.where(x > 0, x, host), lambda: ours.cupy.concatenate([x, host]), lambda: x @ host):
        with pytest.raises(TypeError, match="Unsupported type <class 'numpy.ndarray'>"):
            call()
    with pytest.raises(TypeError):
        x + [1, 2, 3]


def test_it_has_the_functions_that_cupy_has(ours):
    assert set(vars(cupy)) <= set(vars(ours.cupy))
    assert {name for name in vars(ours.cupy) if not name.startswith("_")} - set(vars(cupy)) <= {"cublas"}
    assert {n for n in dir(ours.cupy.ndarray) if n[0] != "_"} <= {n for n in dir(cupy.ndarray) if n[0] != "_"}


def test_its_ufuncs_choose_the_loops_of_cupy(ours):
    def loops(library):
        return {name: f.types for name, f in vars(library).items() if isinstance(f, library.ufunc)}

    assert loops(ours.cupy) == loops(cupy) and len(loops(cupy)) > 100


def test_matrices_are_checked_and_failures_are_silent_unless_asked_for(ours):
    linalg, singular = ours.cupy.linalg, ours.zeros((3, 3))
    with pytest.raises(ValueError, match=r"b must have \(..., M, K\)"):
        linalg.solve(ours.zeros((2, 3, 3)), ours.zeros((3, 1)))
    syncs.found.clear()
    assert linalg.inv(singular).shape == (3, 3) and syncs.found == []
    with sys.modules["cupyx"].errstate(linalg="raise"), pytest.raises(numpy.linalg.LinAlgError):
        linalg.inv(singular)
    assert [one.what for one in syncs.found] == ["solve"]


def test_types_that_a_ufunc_has_no_loop_for_are_refused(ours):
    flags, x = ours.zeros(3, bool), ours.zeros(3)
    for call in (
        lambda: x & x,
        lambda: ours.cupy.gcd(x, x),
        lambda: flags - flags,
        lambda: -flags,
        lambda: ours.zeros(3, "F") < 1j * x % 2,
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match="Cannot cast"):
        x += ours.zeros(3, "F")


def test_its_results_are_row_major_and_own_their_memory(ours):
    x = ours.cupy.arange(6.0).reshape(2, 3).T
    assert not x.flags.c_contiguous and (x + 1).flags.c_contiguous and (x + 1).base is None
    assert x.copy("K").strides == x.strides and x.copy().flags.c_contiguous
    assert x.sum().shape == () and isinstance(x.sum(), ours.cupy.ndarray) and isinstance(x[0, 0], ours.cupy.ndarray)
    assert x.argmax().dtype == numpy.int64


def test_what_no_one_has_written_is_nan(ours):
    assert numpy.isnan(ours.cupy.empty(5).get()).all()


def test_indices_out_of_bounds_wrap_and_any_of_several_writes_stays(ours):
    x = ours.cupy.arange(5)
    assert x[ours.cupy.array([5, -1, 7])].tolist() == [0, 4, 2] and x.take(ours.cupy.array([6])).tolist() == [1]
    x[ours.cupy.array([0, 0])] = ours.cupy.array([7, 8])
    assert x[0].item() == 7  # NumPy keeps the last


def test_promotion_has_no_exception_for_points(ours):
    point, x = ours.cupy.zeros((), "d"), ours.cupy.zeros(3, "f")
    assert (x + point).dtype == "d" and (x + 1.5).dtype == "f" and (x + numpy.float64(1.5)).dtype == "d"
    half = x.astype(BF16)
    assert (half + half).dtype == BF16 and (half + 1.5).dtype == "f" and ours.cupy.where(x > 0, half, half).dtype == "f"


def test_memory_is_counted_limited_and_reported(ours):
    cuda, pool = ours.cupy.cuda, ours.cupy.get_default_memory_pool()

    class Told(cuda.MemoryHook):
        name, sizes = "told", []

        def malloc_postprocess(self, **told):
            self.sizes.append(told["mem_size"])

        def free_postprocess(self, **told):
            self.sizes.append(-told["mem_size"])

    with Told() as told:
        before = pool.used_bytes()
        x = ours.cupy.zeros(1000, "f")
        assert pool.used_bytes() == before + 4096 <= pool.total_bytes() and x.data.ptr % 512 == 0
        assert x[10:].data.ptr == x.data.ptr + 40 and x[10:].data.mem is x.data.mem
        del x
        assert pool.used_bytes() == before and told.sizes == [4096, -4096]
    gc.collect()  # what other tests left
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 512)
    try:
        with pytest.raises(MemoryError, match=r"Tried to allocate 3.91 KiB.*limited to"):
            ours.cupy.zeros(1000, "f")
    finally:
        pool.set_limit(size=0)


def test_memory_of_another_gpu_cannot_be_used():
    with installed(gpus=2) as backend:
        lib = backend.cupy
        with lib.cuda.Device(1):
            x = lib.zeros(3)
        assert x.device.id == 1 and lib.zeros(3).device.id == 0
        with pytest.raises(ValueError, match="array device = 1 while current = 0"):
            x + 1
        with pytest.raises(lib.cuda.runtime.CUDARuntimeError):
            lib.cuda.Device(2).use()


# -- synchronizations --------------------------------------------------------------------------------------------------------

WAITING = {
    "bool": lambda xp, x: bool(x.sum() > 0),
    "int": lambda xp, x: int(x.max()),
    "float": lambda xp, x: float(x.max()),
    "complex": lambda xp, x: complex(x.max()),
    "item": lambda xp, x: x[0].item(),
    "tolist": lambda xp, x: x.tolist(),
    "get": lambda xp, x: xp.asnumpy(x),
    "nonzero": lambda xp, x: xp.nonzero(x),
    "boolean mask": lambda xp, x: x[x > 1],
    "repr": lambda xp, x: repr(x),
    "pickle": lambda xp, x: x.__reduce__(),
}


@pytest.mark.parametrize("what", WAITING)
def test_each_wait_of_the_host_is_recorded(what, ours):
    x = ours.cupy.arange(5.0)
    syncs.found.clear()
    WAITING[what](ours.cupy, x)
    assert [one.what for one in syncs.found] == [what]


def test_what_does_not_wait_is_not_recorded(ours):
    lib = ours.cupy
    syncs.found.clear()
    x = lib.asarray(numpy.arange(5.0))
    x[lib.array([1, 2])] = lib.where(x[:2] > 0, x[:2], 7.0)
    lib.sort(x), lib.argmax(x), x.sum(), x.reshape(5, 1) @ x[None], lib.linalg.inv(lib.eye(3)), lib.concatenate([x, x])
    assert syncs.found == []


def test_functions_of_cupy_that_wait_are_recorded(ours):
    x = ours.cupy.array([1, 2, 2])
    for call, waits in ((lambda: ours.cupy.bincount(x), {"bool", "int"}), (lambda: ours.cupy.unique(x), {"boolean mask"})):
        syncs.found.clear()
        call()
        assert {one.what for one in syncs.found} == waits


def test_a_hidden_wait_names_its_op_and_rule(ours):
    class hides(Op):
        home, exempt = "", dict.fromkeys(("promotion", "zero_size"), "of this test")

        def forward(xp, x): return x * 2 if xp.max(x) > 0 else x  # fmt: skip  # noqa: E704

        def d_x(xp, g, x): return g * float(xp.max(x))  # fmt: skip  # noqa: E704

    try:
        x = engine.ones(3, device="cuda", requires_grad=True)
        syncs.found.clear()
        hides.call(x).backward(engine.ones(3, device="cuda"))
        assert [(one.what, one.op, one.backward) for one in syncs.found] == [("bool", "hides", False), ("float", "hides", True)]
    finally:
        del registry["hides"]


def test_an_op_that_mixes_arrays_fails(ours):
    class mixes(Op):
        home, exempt = "", dict.fromkeys(("promotion", "zero_size"), "of this test")

        def forward(xp, x): return x + numpy.ones(3)  # fmt: skip  # noqa: E704

    try:
        with pytest.raises(RuntimeError, match=r"mixes: Unsupported type <class 'numpy.ndarray'>"):
            mixes.call(engine.ones(3, device="cuda"))
    finally:
        del registry["mixes"]


def test_afterwards_everything_is_as_before():
    before = {name: module for name, module in sys.modules.items() if name.startswith(("cupy", "engine.backends"))}
    state = engine.core.devices.gpu, engine.core.devices.mixed
    with installed():
        assert sys.modules["cupy"] is not before["cupy"] and engine.ones(2, device="cuda").is_cuda
    assert {name: module for name, module in sys.modules.items() if name.startswith(("cupy", "engine.backends"))} == before
    assert (engine.core.devices.gpu, engine.core.devices.mixed) == state
