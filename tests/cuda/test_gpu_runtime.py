"""`engine.cuda` on the stand-in for CuPy: GPUs, streams and events, and how memory and its peaks are counted."""

from __future__ import annotations

import importlib

import pytest
import syncs
from on_stand_in import installed

import engine


@pytest.fixture
def three_gpus():
    with installed(gpus=3) as backend:
        yield backend


def test_peaks_are_counted_from_the_reset_on(stand_in):
    cuda = engine.cuda
    first = engine.ones(1000, device="cuda")
    assert cuda.max_memory_allocated() >= 4096  # an upper bound, before anything is counted
    cuda.reset_peak_memory_stats()
    start = cuda.memory_allocated("cuda:0")
    assert cuda.max_memory_allocated() == start
    second = engine.empty(2000, device="cuda")
    assert cuda.memory_allocated() == start + 8192 == cuda.max_memory_allocated()
    del second
    assert cuda.memory_allocated() == start and cuda.max_memory_allocated() == start + 8192
    held = cuda.max_memory_reserved()
    cuda.empty_cache()
    assert cuda.memory_reserved() < held == cuda.max_memory_reserved() == cuda.memory_stats()["reserved_bytes.all.peak"]
    cuda.reset_peak_memory_stats(0)
    assert cuda.max_memory_allocated() == start and cuda.max_memory_reserved() < held
    assert first.sum().item() == 1000


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_writing_in_place_takes_no_memory_and_one_kernel(stand_in, name):
    def made(device):
        x = engine.arange(12, dtype=getattr(engine, name), device=device).reshape(3, 4) + 1
        return x, x[1], engine.arange(1, 5, dtype=x.dtype, device=device), engine.ones_like(x)

    def written(x, view, row, other):
        x.add_(1.5).mul_(row).lerp_(other, 0.25).sub_(row.expand(3, 4)).abs_().sqrt_().clamp_(0, 2)
        view.addcmul_(row, row, value=0.1)
        return x, view

    driver = importlib.import_module("engine.backends.gpu.launch").driver
    tensors, expected = made("cuda"), written(*made("cpu"))
    engine.cuda.reset_peak_memory_stats()
    before = engine.cuda.memory_allocated()
    driver.launches.clear()
    x, view = written(*tensors)
    assert len(driver.launches) == 8 and engine.cuda.max_memory_allocated() == before
    engine.testing.assert_close((x.cpu(), view.cpu()), expected)
    assert x._version == expected[0]._version == 8


def test_properties_of_the_gpu(stand_in):
    cuda = engine.cuda
    found = cuda.get_device_properties("cuda:0")
    assert (found.name, found.total_memory, found.multi_processor_count) == ("Stand-in", 1 << 34, 132)
    assert cuda.get_device_capability() == (9, 0) and cuda.mem_get_info()[1] == 1 << 34 and engine.version.cuda == "12.8"
    assert cuda.is_available() and cuda.is_initialized() and engine.accelerator.current_accelerator() == engine.device("cuda")
    assert engine.backends.cudnn.is_available() and engine.backends.cuda.is_built()
    assert issubclass(cuda.OutOfMemoryError, MemoryError) and len(cuda.get_rng_state_all()) == 1
    assert cuda.is_bf16_supported() and cuda.is_bf16_supported(including_emulation=False)
    with pytest.raises(RuntimeError, match="invalid device ordinal 3; there is 1"):
        cuda.set_device(3)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        cuda.set_device("cpu")
    before = engine.initial_seed()
    cuda.manual_seed_all(5)
    assert cuda.initial_seed() == 5 and engine.initial_seed() == before


def test_each_of_several_gpus_is_asked_for_itself(three_gpus):
    cuda = engine.cuda
    assert cuda.device_count() == 3 and cuda.current_device() == 0 and cuda.get_device_name("cuda:2") == "Stand-in"
    used = [cuda.memory_allocated(i) for i in range(3)]
    x = engine.ones(1000, device="cuda:2")
    assert [cuda.memory_allocated(i) - n for i, n in enumerate(used)] == [0, 0, 4096] and str(x.device) == "cuda:2"
    cuda.set_device(1)
    assert cuda.current_device() == 1 and str(engine.ones(2, device="cuda").device) == "cuda:1"
    with cuda.device(2):
        assert (x + 1).sum().item() == 2000
    assert cuda.current_device() == 1 and x.to("cuda:0").tolist() == x.tolist()
    syncs.found.clear()
    cuda.synchronize(2)
    assert [one.what for one in syncs.found] == ["Device.synchronize"]


def test_a_limit_is_a_fraction_of_the_gpu(stand_in):
    cuda = engine.cuda
    cuda.set_per_process_memory_fraction(1e-6)
    try:
        with pytest.raises(cuda.OutOfMemoryError, match=r"Tried to allocate 38.15 MiB.*16.78 KiB"):
            engine.empty(10**7, device="cuda")
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    assert engine.empty(10**4, device="cuda").is_cuda


def test_streams_and_events(stand_in):
    cuda = engine.cuda
    stream, default = cuda.Stream(), cuda.default_stream()
    assert default.cuda_stream == 0 and stream.cuda_stream != 0 and stream.query()
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    with cuda.stream(stream):
        assert cuda.current_stream().cuda_stream == stream.cuda_stream
        begin.record()
        y = engine.ones(3, device="cuda") * 2
        end.record()
    assert cuda.current_stream().cuda_stream == 0 and y.tolist() == [2, 2, 2]
    end.wait(stream)
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) >= 0
