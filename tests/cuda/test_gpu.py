"""Tensors on a GPU: every op gives what it gives on the CPU, in every precision, and the host waits only where a table says why.

On any machine with CuPy the GPU is a stand-in (`strict`); where there is one, the same tests also run on it.
"""

from __future__ import annotations

import gc

import ml_dtypes
import numpy
import pytest
import syncs
import waits
from on_stand_in import installed

import cases
import engine
from cases import draw, floating, normal_like, rng_of
from engine import Tensor
from engine.backends.primitives import PRIMITIVES
from engine.core.op import registry
from grouping import grouped


@pytest.fixture(params=["stand-in", pytest.param("GPU", marks=pytest.mark.gpu)])
def gpu(request):
    """Whether the GPU is the stand-in."""
    if request.param == "GPU":
        if not engine.core.devices.cuda_available():
            pytest.skip("no CuPy, or no NVIDIA GPU")
        yield False
    else:
        with installed():
            yield True


def on_gpu(x):
    return x.to("cuda").detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x


# -- every op ----------------------------------------------------------------------------------------------------------------


def test_it_has_every_primitive(stand_in):
    assert {*PRIMITIVES, "pi", "inf", "nan"} - set(vars(stand_in)) == set()


@cases.each("on_gpu")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_op_gives_what_it_gives_on_the_cpu(case, gpu):
    run(case, numpy.float64, rtol=1e-9, atol=1e-12)


KINDS = {  # what CPU and GPU may differ by: sums are added in another order, and half precision is rounded in other places
    "float32": (numpy.float32, 1e-5, 1e-5), "float16": (numpy.float16, 4e-3, 4e-3), "bfloat16": (ml_dtypes.bfloat16, 3e-2, 3e-2),
}  # fmt: skip


def ran_by(case, kind):
    """Whether the CPU has the op, and its gradient, in this precision."""
    try:
        results(case, *leaves(case, KINDS[kind][0]))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False
    return True


@grouped(
    "case, kind",
    [pytest.param(case, kind, id=f"{kind}-{case}") for kind in KINDS for op in cases.ops() for case in cases.of(op)[:1]],
    by=lambda case, kind: f"{kind} {cases.family(case.op)}",
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_ops_in_other_precisions(case, kind, gpu):
    if ran_by(case, kind):
        run(case, *KINDS[kind])


def leaves(case, dtype):
    """The inputs of a call, floats in `dtype`; and what its results' gradients are weighed with."""
    arrays = [x.astype(dtype) if isinstance(x, numpy.ndarray) and x.dtype == numpy.float64 else x for x in draw(case)]
    return [
        engine.tensor(x, requires_grad=floating(y)) if isinstance(x, numpy.ndarray) else x for x, y in zip(arrays, draw(case), strict=True)
    ]


def results(case, *inputs):
    """What a call gives, and the gradients of its inputs."""
    found = cases.call(case, list(inputs))
    live = [r for r in cases.smooth(case, found) if r.requires_grad]
    wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    rng = rng_of(case)
    weights = [engine.tensor(normal_like(wide(r), rng)).to(r.device, r.dtype) for r in live]
    return found, engine.autograd.grad(live, wanted, weights, allow_unused=True) if live and wanted else ()


def wide(x):
    """A tensor's elements in double precision."""
    host = x.detach()._host()
    return host.astype(numpy.complex128 if host.dtype.kind == "c" else numpy.float64)


def run(case, dtype, rtol, atol):
    host = leaves(case, dtype)
    there = [on_gpu(x) for x in host]
    for on_cpu, on_cuda in zip(results(case, *host), results(case, *there), strict=True):
        for a, b in zip(on_cuda, on_cpu, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert a.is_cuda or case.op.name == "to_device"
                assert a.dtype is b.dtype
                numpy.testing.assert_allclose(wide(a), wide(b), rtol, atol)


SCATTERED = {
    "index_add": lambda x, i, src: x.index_add(0, i, src),
    "index_put": lambda x, i, src: x.index_put((i,), src, accumulate=True),
    "scatter_add": lambda x, i, src: x.scatter_add(0, i, src),
    "amax": lambda x, i, src: x.scatter_reduce(0, i, src, "amax"),
    "prod": lambda x, i, src: x.scatter_reduce(0, i, src, "prod"),
}


@pytest.mark.parametrize("name", SCATTERED)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "complex64"])
def test_places_that_occur_twice(name, dtype, gpu):
    """CuPy adds atomically in some dtypes only."""
    if dtype == "complex64" and name == "amax":
        pytest.skip("complex numbers have no order")
    found = {}
    for device in ("cpu", "cuda"):
        x, src = (engine.tensor([1, 0, 1, 1], device=device).to(getattr(engine, dtype)) for _ in range(2))
        found[device] = SCATTERED[name](x, engine.tensor([1, 1, 3, 0], device=device), src).tolist()
    assert found["cuda"] == found["cpu"]


# -- where the host waits ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_host_waits_only_where_the_table_says(stand_in):
    waiting = {}
    for case in (case for op in cases.ops() for case in cases.of(op)):
        inputs = [on_gpu(x) for x in leaves(case, numpy.float64)]
        syncs.found.clear()
        found = cases.call(case, inputs)
        live = [r for r in cases.smooth(case, found) if r.requires_grad]
        wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
        if live and wanted:
            engine.autograd.grad(live, wanted, [engine.ones_like(r) for r in live], allow_unused=True)
        for one in syncs.found:
            waiting.setdefault(one.primitive or one.op, one)
    known = waits.names(waits.OPS)
    assert {name: one for name, one in waiting.items() if name not in known} == {}
    assert known - set(waiting) == set(), "they no longer wait"


# -- tensors -----------------------------------------------------------------------------------------------------------------


def test_tensors_move(gpu):
    x = engine.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x.to("cuda")
    assert y.is_cuda and str(y.device) == "cuda:0" and not x.is_cuda
    (y * y).sum().backward()
    assert x.grad.tolist() == [[2, 4], [6, 8]] and not x.grad.is_cuda
    assert y.cpu().tolist() == x.tolist() and y.to("cuda") is y
    with pytest.raises(TypeError, match="copy the tensor to host memory"):
        y.detach().numpy()
    with pytest.raises(RuntimeError, match="ordinal"):
        x.to("cuda:99")


def test_bfloat16_has_its_place(gpu):
    x = engine.tensor([1.0, 2.5], dtype=engine.bfloat16, device="cuda", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.dtype is engine.bfloat16 and x.grad.tolist() == [2, 5] and engine.cuda.is_bf16_supported()
    with engine.autocast("cuda", engine.bfloat16):
        assert (engine.ones(2, 3, device="cuda") @ engine.ones(3, 2, device="cuda")).dtype is engine.bfloat16


def test_memory_is_shared_by_dlpack(gpu):
    x = engine.ones(2, 3, device="cuda")
    engine.from_dlpack(x)[0] = 5
    assert x.tolist() == [[5, 5, 5], [1, 1, 1]] and engine.from_dlpack(x).data_ptr() == x.data_ptr()


def test_devices_do_not_mix(gpu):
    with pytest.raises(RuntimeError, match="same device.*cpu.*cuda"):
        engine.ones(2) + engine.ones(2, device="cuda")
    assert (engine.ones(2, device="cuda") * engine.tensor(3.0)).tolist() == [3, 3]  # a 0-d CPU tensor may join


def test_second_derivatives(gpu):
    x = engine.tensor([0.5, 1.5], dtype=engine.float64, device="cuda", requires_grad=True)
    (first,) = engine.autograd.grad((x.tanh() * x).sum(), x, create_graph=True)
    (second,) = engine.autograd.grad(first.sum(), x)
    y = x.detach().cpu().requires_grad_()
    (g,) = engine.autograd.grad((y.tanh() * y).sum(), y, create_graph=True)
    (expected,) = engine.autograd.grad(g.sum(), y)
    assert second.is_cuda
    numpy.testing.assert_allclose(second._host(), expected.array)


def test_writes_through_views(gpu):
    x = engine.ones(2, 3, device="cuda", requires_grad=True)
    y = x * 2
    y[0].mul_(5)
    y.t()[2] = 7.0
    (y * y).sum().backward()
    assert y.tolist() == [[10, 10, 7], [2, 2, 7]] and x.grad.tolist() == [[200, 200, 0], [8, 8, 0]]


def test_writes_at_masks(gpu):
    found = {}
    for device in ("cpu", "cuda"):
        x = engine.arange(6.0, device=device).reshape(2, 3)
        x[x > 3] = -1
        x[engine.tensor([True, False], device=device)] = engine.tensor(4.0, device=device)
        x[x == 3] = engine.tensor([9.0], device=device)
        w = engine.ones(4, device=device, requires_grad=True)
        y = w * 3
        y[engine.tensor([True, False, False, True], device=device)] = 0
        y.sum().backward()
        found[device] = x.tolist(), w.grad.tolist()
    assert found["cuda"] == found["cpu"]


def test_a_path_of_views_is_read_and_written(gpu):
    x = engine.arange(12.0, dtype=engine.float64, device="cuda").reshape(3, 4).array
    xp = engine.core.devices.gpu
    path = ((registry["permute"], {"dims": (1, 0)}), (registry["reshape"], {"shape": (2, 6)}), (registry["diagonal"], {}))
    assert xp.read_through(x, path).tolist() == [0, 6]
    written = xp.write_through(x, -1, path).get()
    assert (written == -1).sum() == 2 and written[0, 0] == written[1, 2] == -1


def test_powers_of_halves_are_square_roots(gpu):
    x = engine.tensor([-0.0, -numpy.inf, 4.0], device="cuda")
    roots = (x**0.5)._host()
    numpy.testing.assert_array_equal(roots, [-0.0, numpy.nan, 2.0])
    assert numpy.signbit(roots[0])
    numpy.testing.assert_array_equal((x**-0.5)._host(), [-numpy.inf, numpy.nan, 0.5])
    n = engine.tensor([1, -1, 2], device="cuda")
    assert engine.core.devices.gpu.power(n.array, (n * 0 - 1).array).tolist() == [1, -1, 0]


def test_searches_and_counts(gpu):
    nan = float("nan")
    rows = [
        ([1.0, 2.0, 2.0, 3.0], [0.0, 2.0, 5.0, nan]),
        ([3.0, 1.0, 2.0], [2.0, 1.0, 4.0]),
        ([[1.0, 2.0], [4.0, 5.0]], [[2.0, 0.0], [9.0, 5.0]]),
    ]
    for ordered, values in rows:
        for right in (False, True):
            found = [
                engine.searchsorted(engine.tensor(ordered, device=d), engine.tensor(values, device=d), right=right) for d in ("cpu", "cuda")
            ]
            assert found[1].is_cuda and found[1].tolist() == found[0].tolist()
    x = [0.0, 0.5, 1.0, 1.0, 2.0, -3.0, nan, 9.0]
    for bins, low, high in ((4, 0.0, 2.0), (5, -1.0, 1.0), (3, 0.0, 0.5)):
        assert (
            engine.histc(engine.tensor(x, device="cuda"), bins, low, high).tolist()
            == engine.histc(engine.tensor(x), bins, low, high).tolist()
        )


@pytest.mark.parametrize("norm", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("most", [1.0, 1e3])
def test_clipped_gradients(norm, dtype, most, gpu):
    found = {}
    for device in ("cpu", "cuda"):
        params = [engine.nn.Parameter(engine.ones(3, device=device).to(getattr(engine, dtype)) * i) for i in (1, 2)]
        for p in params:
            p.grad = p.detach() * 5
        total = engine.nn.utils.clip_grad_norm_(params, most, norm)
        found[device] = [total, *(p.grad for p in params)]
    for a, b in zip(found["cuda"], found["cpu"], strict=True):
        assert a.is_cuda and a.dtype is b.dtype
        numpy.testing.assert_allclose(wide(a), wide(b), 1e-3 if dtype == "float16" else 1e-6)


MATRICES = {
    "inv": lambda d: engine.linalg.inv(engine.ones(3, 3, device=d)),
    "inv of several": lambda d: engine.linalg.inv(engine.ones(2, 3, 3, device=d)),
    "solve": lambda d: engine.linalg.solve(engine.ones(3, 3, device=d), engine.ones(3, 1, device=d)),
    "cholesky": lambda d: engine.linalg.cholesky(-engine.eye(3, device=d)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_singular_matrix_is_an_error(name, gpu):
    for device in ("cpu", "cuda"):
        with pytest.raises(engine.linalg.LinAlgError, match="singular|positive-definite"):
            MATRICES[name](device)


def test_one_right_side_for_several_matrices(gpu):
    a = engine.eye(3, device="cuda").expand(2, 3, 3) * 2
    assert engine.linalg.solve(a, engine.ones(3, 1, device="cuda")).tolist() == [[[0.5]] * 3] * 2


# -- memory ------------------------------------------------------------------------------------------------------------------


def test_a_full_gpu_is_a_runtime_error(stand_in):
    pool = stand_in.cupy.get_default_memory_pool()
    kept = engine.ones(2, device="cuda")
    gc.collect()  # what other tests left
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + 512)
    try:
        with pytest.raises(RuntimeError, match=r"CUDA out of memory. Tried to allocate 3.91 KiB. GPU 0 has a total capacity of") as raised:
            stand_in.cupy.empty(1000, "f")
        assert isinstance(raised.value, engine.cuda.OutOfMemoryError)
        assert isinstance(raised.value, stand_in.cupy.cuda.memory.OutOfMemoryError)
        with pytest.raises(engine.OutOfMemoryError, match="CUDA out of memory"):
            kept.expand(5000, 2) * 1
    finally:
        pool.set_limit(size=0)


def test_a_full_machine_is_a_runtime_error():
    for call in (lambda: engine.zeros(10**15), lambda: engine.empty(10**7, 10**8), lambda: engine.ones(1).expand(10**15) * 1):
        with pytest.raises(RuntimeError, match="out of memory"):
            call()
    assert issubclass(engine.OutOfMemoryError, RuntimeError) and issubclass(engine.OutOfMemoryError, MemoryError)


def test_without_a_gpu_the_error_says_what_is_missing():
    if engine.core.devices.cuda_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="CuPy|GPU"):
        engine.ones(2).to("cuda")
    with pytest.raises(RuntimeError, match="CuPy|GPU"):
        engine.ones(2, device="cuda")
