"""The GPU backend. Its code runs on NumPy standing in for CuPy everywhere; on a GPU, the generic bodies run on cuda tensors."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import numpy
import pytest
import scipy.special

import cases
import engine
from cases import draw, floating, normal_like, rng_of
from engine import Tensor
from engine.backends import cpu, reference
from engine.backends.primitives import PRIMITIVES
from engine.core.op import registry

# -- without a GPU ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stand_in():
    """engine.backends.gpu.namespace with NumPy under CuPy's name: its own kernels, checked on any machine."""
    fake = types.ModuleType("cupy")
    fake.__dict__.update({n: getattr(numpy, n) for n in dir(numpy) if not n.startswith("__")}, asnumpy=numpy.asarray)
    names = {"cupy": fake, "cupyx": types.ModuleType("cupyx"), "cupyx.scipy": scipy, "cupyx.scipy.special": scipy.special}
    path = Path(engine.__file__).parent / "backends" / "gpu" / "namespace.py"
    spec = importlib.util.spec_from_file_location("engine.backends.gpu.on_numpy", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for name, stand_in_for in names.items():
            patch.setitem(sys.modules, name, stand_in_for)
        spec.loader.exec_module(module)
    return module


def test_a_full_gpu_is_a_runtime_error(stand_in, monkeypatch):
    """The allocator is CuPy's; its error has these three arguments."""

    class Full(MemoryError):
        def __init__(self, size, total, limit=0):
            super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes).")

    class Memory:
        allocate = staticmethod(lambda size: bytearray(size))

        def __call__(self, size):
            if size > 10:
                raise Full(size, 4)
            return self.allocate(size)

    used = [Memory()]
    cuda = types.SimpleNamespace(
        get_allocator=lambda: used[0],
        set_allocator=lambda allocate: used.insert(0, allocate),
        memory=types.SimpleNamespace(OutOfMemoryError=Full),
        runtime=types.SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=OSError),
    )
    monkeypatch.setattr(stand_in.cupy, "cuda", cuda, raising=False)
    stand_in.require_device()
    assert len(used[0](3)) == 3
    with pytest.raises(RuntimeError, match=r"CUDA out of memory. Tried to allocate 4,000 bytes. .*allocated so far: 4 bytes") as raised:
        used[0](4000)
    assert isinstance(raised.value, engine.cuda.OutOfMemoryError) and isinstance(raised.value, Full)

    class spends(engine.core.op.Op):
        home, exempt = "", dict.fromkeys(("promotion", "zero_size"), "of this test")

        def forward(xp, x): return used[0](4000)  # fmt: skip  # noqa: E704

    try:
        with pytest.raises(engine.OutOfMemoryError, match="CUDA out of memory"):
            spends.call(engine.ones(1))
    finally:
        del registry["spends"]


def test_a_full_machine_is_a_runtime_error():
    for call in (lambda: engine.zeros(10**15), lambda: engine.empty(10**7, 10**8), lambda: engine.ones(1).expand(10**15) * 1):
        with pytest.raises(RuntimeError, match="out of memory"):
            call()
    assert issubclass(engine.OutOfMemoryError, RuntimeError) and issubclass(engine.OutOfMemoryError, MemoryError)


def test_it_has_every_primitive(stand_in):
    assert {*PRIMITIVES, "pi", "inf", "nan"} - set(vars(stand_in)) == set()


@cases.each("stand_in")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_it_computes_what_the_cpu_computes(case, stand_in):
    op, xs = case.op, draw(case)
    attrs = {**op.defaults, **case.attrs}
    results = []
    for xp in (cpu, stand_in):
        if op.variadic:
            found = op.forward(xp, list(xs), **attrs)
        else:
            found = op.forward(xp, *xs, *[op.optional[n] for n in op.inputs[len(xs) :]], **attrs)
        results.append(found if isinstance(found, tuple) else (found,))
    for a, b in zip(*results, strict=True):
        assert numpy.shape(a) == numpy.shape(b)
        assert numpy.allclose(a, b, rtol=1e-12, equal_nan=True)


def test_what_programs_ask_of_gpus_is_asked_of_cupy(stand_in, monkeypatch):
    """Every function of engine.cuda, against a CuPy that says for which GPU it was asked."""
    current = [1]

    class Device:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            self.before, current[0] = current[0], self.index

        def __exit__(self, *error):
            current[0] = self.before

        def synchronize(self):
            waited.append(self.index)

    class Pool:
        def used_bytes(self):
            return 100 * current[0]

        def total_bytes(self):
            return 1000 * current[0]

        def free_all_blocks(self):
            freed.append(current[0])

    waited, freed = [], []
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 3, getDevice=lambda: current[0], getDeviceProperties=lambda index: {"name": b"GPU %d" % index}
    )
    monkeypatch.setattr(stand_in.cupy, "cuda", types.SimpleNamespace(runtime=runtime, Device=Device), raising=False)
    monkeypatch.setattr(stand_in.cupy, "get_default_memory_pool", Pool, raising=False)
    monkeypatch.setattr(engine.core.devices, "gpu", stand_in)
    noted: list[int] = []  # the GPUs whose memory was looked at before it was given back
    monkeypatch.setitem(sys.modules, "engine.backends.gpu.runtime", types.SimpleNamespace(note=noted.append))
    cuda = engine.cuda
    assert cuda.device_count() == 3 and cuda.current_device() == 1
    assert cuda.get_device_name() == "GPU 1" and cuda.get_device_name("cuda:2") == "GPU 2"
    assert (cuda.memory_allocated(), cuda.memory_allocated(2), cuda.memory_reserved("cuda:2")) == (100, 200, 2000)
    cuda.synchronize(2)
    cuda.empty_cache()
    assert waited == [2] and noted == [0, 1, 2] and freed == [1] and current == [1]


def test_a_path_of_views_is_walked_in_the_namespace_of_its_array(stand_in, monkeypatch):
    monkeypatch.setattr(reference, "module_of", lambda x: stand_in.cupy)
    monkeypatch.setitem(sys.modules, "engine.backends.gpu.namespace", stand_in)
    x = numpy.arange(12.0).reshape(3, 4)
    path = ((registry["permute"], {"dims": (1, 0)}), (registry["reshape"], {"shape": (2, 6)}), (registry["diagonal"], {}))
    assert stand_in.read_through(x, path).tolist() == [0, 6]
    written = stand_in.write_through(x, -1, path)
    assert (written == -1).sum() == 2 and written[0, 0] == written[1, 2] == -1


def test_without_a_gpu_the_error_says_what_is_missing():
    if engine.core.devices.cuda_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="CuPy|GPU"):
        engine.ones(2).to("cuda")
    with pytest.raises(RuntimeError, match="CuPy|GPU"):
        engine.ones(2, device="cuda")


# -- with one --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpu():
    if not engine.core.devices.cuda_available():
        pytest.skip("no CuPy, or no NVIDIA GPU")


def on_gpu(x):
    return x.to("cuda").detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x


@pytest.mark.gpu
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


@pytest.mark.gpu
def test_devices_do_not_mix(gpu):
    with pytest.raises(RuntimeError, match="same device.*cpu.*cuda"):
        engine.ones(2) + engine.ones(2, device="cuda")
    assert (engine.ones(2, device="cuda") * engine.tensor(3.0)).tolist() == [3, 3]  # a 0-d CPU tensor may join


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_op_gives_what_it_gives_on_the_cpu(gpu):
    wrong = {}
    for case in [case for op in cases.ops() for case in cases.of(op)]:
        try:
            compare(case)
        except (AssertionError, RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            wrong[str(case)] = f"{type(error).__name__}: {error}"[:200]
    assert wrong == {}


def compare(case):
    xs = draw(case)
    host, there = cases.leaves(xs), [on_gpu(x) for x in cases.leaves(xs)]
    expected, found = cases.call(case, host), cases.call(case, there)
    for a, b in zip(found, expected, strict=True):
        assert a.is_cuda or case.op.name == "to_device"
        assert numpy.allclose(a._host(), b.array, rtol=1e-9, atol=1e-12, equal_nan=True)
    ready = cases.smooth(case, expected)
    ws = [normal_like(r.array, rng_of(case)) for r in ready]
    live = [(r, s, w) for r, s, w in zip(ready, cases.smooth(case, found), ws, strict=True) if r.requires_grad]
    wanted = [i for i, x in enumerate(xs) if floating(x)]
    if live and wanted:
        on_cpu = engine.autograd.grad(
            [r for r, _, _ in live], [host[i] for i in wanted], [engine.tensor(w) for *_, w in live], allow_unused=True
        )
        on_cuda = engine.autograd.grad(
            [s for _, s, _ in live], [there[i] for i in wanted], [engine.tensor(w).to("cuda") for *_, w in live], allow_unused=True
        )
        for a, b in zip(on_cuda, on_cpu, strict=True):
            assert (a is None) == (b is None)
            assert a is None or numpy.allclose(a._host(), b.array, rtol=1e-9, atol=1e-12)


@pytest.mark.gpu
def test_second_derivatives(gpu):
    x = engine.tensor([0.5, 1.5], dtype=engine.float64, device="cuda", requires_grad=True)
    (first,) = engine.autograd.grad((x.tanh() * x).sum(), x, create_graph=True)
    (second,) = engine.autograd.grad(first.sum(), x)
    y = x.detach().cpu().requires_grad_()
    (g,) = engine.autograd.grad((y.tanh() * y).sum(), y, create_graph=True)
    (expected,) = engine.autograd.grad(g.sum(), y)
    assert second.is_cuda and numpy.allclose(second._host(), expected.array)


@pytest.mark.gpu
def test_writes_through_views(gpu):
    x = engine.ones(2, 3, device="cuda", requires_grad=True)
    y = x * 2
    y[0].mul_(5)
    y.t()[2] = 7.0
    (y * y).sum().backward()
    assert y.tolist() == [[10, 10, 7], [2, 2, 7]] and x.grad.tolist() == [[200, 200, 0], [8, 8, 0]]
