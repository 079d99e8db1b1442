"""The memory view: what a program needs when and why, its categories, its peak, and what would change it."""

from __future__ import annotations

import mmap
import sys
import types

import pytest

import engine
import workbench as wb
from engine import devices
from workbench import surface
from workbench.memory_use import device
from workbench.recording import recent


def ask(session, **request):
    """The answer of a session to one request, and its buffers."""
    ((message, buffers),) = session.handle({"v": 1, "id": 1, **request})
    assert message["type"] != "problem", message
    return message, buffers


# -- the machine -----------------------------------------------------------------------------------------------------------


class FakePool:
    def used_bytes(self):
        return 300

    def total_bytes(self):
        return 512


class FakeRuntime:
    getDevice = staticmethod(lambda: 1)
    memGetInfo = staticmethod(lambda: (1000, 4096))
    getDeviceProperties = staticmethod(lambda index: {"name": f"GPU {index}".encode()})
    deviceGetPCIBusId = staticmethod(lambda index: "0000:0A:00.0")


class FakeNvml(types.ModuleType):
    NVMLError = OSError
    seen: list

    def nvmlInit(self):
        self.seen.append("init")

    def nvmlDeviceGetHandleByPciBusId(self, bus):
        self.seen.append(bus)
        return "handle"

    def nvmlDeviceGetUtilizationRates(self, handle):
        assert handle == "handle"
        return types.SimpleNamespace(gpu=37)


@pytest.fixture
def fake_gpu(monkeypatch):
    """A GPU made of numbers, where CuPy would be."""
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=FakeRuntime), get_default_memory_pool=FakePool)
    monkeypatch.setattr(devices, "gpu", types.SimpleNamespace(cupy=cupy))


def test_a_gpus_pool_is_told_as_used_and_held_and_the_device_as_taken(fake_gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    found = device.gpu()
    assert (found.name, found.index, found.used, found.held, found.taken, found.total) == ("GPU 1", 1, 300, 512, 3096, 4096)
    assert found.utilisation is None and "nvidia-ml-py" in found.missing


def test_utilisation_is_asked_of_the_driver_by_the_address_on_the_bus(fake_gpu, monkeypatch):
    nvml = FakeNvml("pynvml")
    nvml.seen = []
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    found = device.gpu()
    assert found.utilisation == 37 and found.missing == ""
    assert nvml.seen == ["init", b"0000:0A:00.0"]


def test_a_driver_that_refuses_is_told_as_a_sentence(fake_gpu, monkeypatch):
    nvml = FakeNvml("pynvml")
    nvml.seen = []
    monkeypatch.setattr(nvml, "nvmlInit", lambda: (_ for _ in ()).throw(OSError("Driver Not Loaded")), raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert device.gpu().missing == "The driver does not tell how busy the GPU is: Driver Not Loaded."


def test_the_process_memory_is_what_the_system_says():
    before = device.resident()
    with mmap.mmap(-1, 64 << 20) as pages:  # new ones, not what malloc has kept
        pages.write(b"x" * (64 << 20))
        assert 60 << 20 <= device.resident() - before <= 140 << 20  # and perhaps the text that was written


def test_the_kernels_bytes_are_of_its_newest_recording_whichever_session_is_asked():
    with wb.record():
        x = engine.ones(1000) * 2
    older = surface.remembered({})
    with wb.record():
        y = engine.ones(10) * 2
        engine.ones(50) * 2
    told, _ = ask(older, type="ask_bytes")
    newest = list(recent.values())[-1]
    assert told["newest"] == newest.name and told["running"] is False and told["gpu"] is None
    assert told["live"] == newest.now and told["peak"] == newest.peak and told["peak"] >= 2 * 200
    assert told["resident"] > 10 << 20
    del x, y
