"""`cuda` on a stand-in for CuPy: what is asked of it, and how peaks are counted. On a GPU the same questions go to CuPy itself."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
import types
from pathlib import Path

import numpy
import pytest

import engine


class Pool:
    used, held = 100, 400

    def used_bytes(self):
        return self.used

    def total_bytes(self):
        return self.held


class Hook:
    def __enter__(self):
        Hook.current = self
        return self


@pytest.fixture
def runtime(monkeypatch):
    pool = Pool()
    told = {"name": b"NVIDIA H200", "major": 9, "minor": 0, "totalGlobalMem": 1 << 37, "multiProcessorCount": 132, "warpSize": 32}
    told |= {"maxThreadsPerMultiProcessor": 2048, "l2CacheSize": 1 << 26, "integrated": 0, "isMultiGpuBoard": 0}
    library = types.SimpleNamespace(
        getDeviceCount=lambda: 1, getDeviceProperties=lambda i: told, runtimeGetVersion=lambda: 12080, memGetInfo=lambda: (5, 7)
    )
    memory = types.SimpleNamespace(OutOfMemoryError=type("OutOfMemoryError", (MemoryError,), {}))
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        memory=memory, MemoryHook=Hook, Device=lambda i: contextlib.nullcontext(), runtime=library
    )
    cupy.get_default_memory_pool = lambda: pool  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    path = Path(engine.__file__).parent / "backends" / "gpu" / "runtime.py"
    spec = importlib.util.spec_from_file_location("engine.backends.gpu.runtime", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "engine.backends.gpu.runtime", module)
    backend = types.SimpleNamespace(
        device_count=lambda: 1, current_device=lambda: 0, memory_used=lambda i: pool.used, memory_held=lambda i: pool.held
    )
    monkeypatch.setattr(engine.core.devices, "gpu", backend)
    return pool


def test_peaks_are_counted_from_the_reset_on(runtime):
    cuda = engine.cuda
    assert cuda.max_memory_allocated() == 400  # an upper bound, before anything is counted
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == 100
    count = Hook.current
    count.malloc_postprocess(device_id=0, size=50, mem_size=64, mem_ptr=0, pmem_id=0)
    count.malloc_postprocess(device_id=1, size=50, mem_size=64, mem_ptr=0, pmem_id=0)
    count.free_postprocess(device_id=0, mem_size=64, mem_ptr=0, pmem_id=0)
    count.malloc_postprocess(device_id=0, size=10, mem_size=16, mem_ptr=0, pmem_id=0)
    assert cuda.max_memory_allocated() == 164 and cuda.memory_allocated("cuda:0") == 100
    runtime.held = 900
    assert cuda.max_memory_reserved() == 900
    runtime.held = 500
    assert cuda.max_memory_reserved() == 900 and cuda.memory_stats()["reserved_bytes.all.peak"] == 900
    cuda.reset_peak_memory_stats(0)
    assert cuda.max_memory_allocated() == 100 and cuda.max_memory_reserved() == 500


def test_questions_go_to_the_gpu(runtime):
    cuda = engine.cuda
    found = cuda.get_device_properties("cuda:0")
    assert (found.name, found.total_memory, found.multi_processor_count) == ("NVIDIA H200", 1 << 37, 132)
    assert cuda.get_device_capability() == (9, 0) and cuda.mem_get_info() == (5, 7) and engine.version.cuda == "12.8"
    assert cuda.is_available() and cuda.is_initialized() and engine.accelerator.current_accelerator() == engine.device("cuda")
    assert issubclass(cuda.OutOfMemoryError, MemoryError) and len(cuda.get_rng_state_all()) == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal 3; there is 1"):
        cuda.set_device(3)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.set_device("cpu")
    before = engine.initial_seed()
    cuda.manual_seed_all(5)
    assert cuda.initial_seed() == 5 and engine.initial_seed() == before


def test_powers_of_halves_are_square_roots():
    source = ast.parse((Path(engine.__file__).parent / "backends" / "gpu" / "namespace.py").read_text())
    source.body = [statement for statement in source.body if isinstance(statement, ast.FunctionDef) and statement.name == "power"]
    made: dict = {"cupy": numpy, "numpy": numpy, "Any": object}
    exec(compile(source, "power", "exec"), made)
    x = numpy.array([-0.0, -numpy.inf, 4.0])
    with numpy.errstate(invalid="ignore", divide="ignore"):
        roots, inverse = made["power"](x, 0.5), made["power"](x, -0.5)
    numpy.testing.assert_array_equal(roots, [-0.0, numpy.nan, 2.0])
    numpy.testing.assert_array_equal(inverse, [-numpy.inf, numpy.nan, 0.5])
    assert numpy.signbit(roots[0])
    numpy.testing.assert_array_equal(made["power"](numpy.array([1, -1, 2]), numpy.array([-1, -1, -1])), [1, -1, 0])
