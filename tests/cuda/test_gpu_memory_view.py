"""The memory view of programs on a GPU: what it says of each GPU, and of a recording whose tensors are there."""

from __future__ import annotations

import sys
import types

import pytest
from on_stand_in import installed

import engine
import workbench as wb
from engine.core import devices
from workbench.memory_use import device, predict


@pytest.fixture
def two_gpus():
    with installed(gpus=2) as backend:
        engine.cuda.empty_cache()
        yield backend


def test_before_a_gpu_is_used_there_is_nothing_to_tell():
    assert devices.gpu is not None or device.gpus() == []


def test_each_gpu_is_told_with_its_pool_and_its_memory(two_gpus):
    cuda = engine.cuda
    for index in (0, 1):
        cuda.reset_peak_memory_stats(index)
    (before,) = device.gpus() if len(device.gpus()) == 1 else (device.gpus()[0],)
    x = engine.empty(1024, device="cuda:0")
    freed = engine.empty(2048, device="cuda:0")
    y = engine.empty(4096, device="cuda:1")
    del freed
    first, second = device.gpus()
    assert (first.index, second.index, first.name, first.total) == (0, 1, "Stand-in", 1 << 34)
    assert (first.used - before.used, first.held - before.held, first.peak - before.used) == (4096, 12288, 12288)
    assert first.taken - before.taken == 12288
    assert second.used >= 16384 and second.peak >= 16384
    with cuda.device(1):
        assert [one.index for one in device.gpus()] == [1, 0]
    assert x.is_cuda and y.is_cuda


class Nvml(types.ModuleType):
    """NVIDIA's library, of two GPUs."""

    NVMLError = OSError

    def __init__(self, error=None):
        super().__init__("pynvml")
        self.error, self.asked = error, []

    def nvmlInit(self):
        if self.error:
            raise OSError(self.error)

    def nvmlDeviceGetHandleByUUID(self, uuid):
        self.asked.append(uuid)
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle):
        return types.SimpleNamespace(gpu=37)


@pytest.mark.parametrize(
    ("library", "busy", "missing"),
    [
        (None, None, "How busy the GPU is can be read when nvidia-ml-py is installed: pip install nvidia-ml-py."),
        (Nvml(), 37, ""),
        (Nvml("Driver Not Loaded"), None, "The driver does not tell how busy the GPU is: Driver Not Loaded."),
    ],
)
def test_how_busy_a_gpu_is_the_driver_tells(library, busy, missing, stand_in, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", library)
    (found,) = device.gpus()
    assert (found.utilisation, found.missing) == (busy, missing)
    assert library is None or library.error or library.asked == ["GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"]


def trained(place):
    """A recorded step of training; what the Memory tab says of it."""
    engine.manual_seed(0)
    model = engine.nn.Sequential(engine.nn.Linear(8, 16), engine.nn.Tanh(), engine.nn.Linear(16, 1)).to(place)
    optimizer = engine.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    batch = engine.ones(4, 8)
    with wb.record() as session:
        x = batch.to(place)
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
    ((message, _),) = session.handle({"v": 1, "id": 1, "type": "ask_memory"})
    ((moment, _),) = session.handle({"v": 1, "id": 2, "type": "ask_moment", "event": -1})
    ((predictions, _),) = session.handle({"v": 1, "id": 3, "type": "ask_predictions", "node": -1})
    return message, moment, predictions, (model, loss, x)


def test_a_recording_on_a_gpu_has_the_memory_of_the_cpu(stand_in):
    """But for the batch, which is on both, and the memory in which the CPU's optimizer computes."""
    (here, *_), (there, at_peak, predicted, kept) = trained("cpu"), trained("cuda")
    copy = 4 * 8 * 4
    totals = [{one["category"]: (one["now"], one["peak"]) for one in told["totals"]} for told in (there, here)]
    for category in ("parameter", "gradient", "activation", "saved", "input"):
        assert totals[0][category] == totals[1][category], category
    scratch = sum(one["bytes"] for one in here["holdings"] if one["name"] == "room to compute in")
    assert there["live"] == here["live"] - scratch + copy
    assert [(one["device"], one["now"], one["peak"]) for one in there["devices"]] == [
        ("cpu", copy, copy), ("cuda:0", there["live"] - copy, there["peak"] - copy)
    ]  # fmt: skip
    assert here["devices"] == []
    assert {"0.weight", "0.weight.grad", "momentum_buffer of 0.weight"} <= {one["name"] for one in at_peak["holdings"]}
    assert {one["what"] for one in predicted["found"]} == {"half", "no_grad", "batch"} and kept
    assert "cuda:0" in str(wb.memory())


def test_the_predicted_peak_under_no_grad_is_what_it_then_is_on_a_gpu(stand_in):
    x, weights = engine.ones(64, 32, device="cuda"), [engine.ones(32, 32, device="cuda", requires_grad=True) for _ in range(4)]

    def forward():
        y = x
        for w in weights:
            y = (y @ w).tanh()
        return y.sum()

    with wb.record() as session:
        forward().backward()
    found = predict.predictions(session.recording, None, session.graph, -1).found
    with wb.record() as session, engine.no_grad():
        forward()
    assert next(one.peak for one in found if one.what == "no_grad") == pytest.approx(session.recording.peak, rel=0.01)


def test_the_memory_of_two_gpus_is_counted_apart():
    with installed(gpus=2):
        x = engine.ones(1000, device="cuda:0")
        y = engine.ones(500, device="cuda:1")
        with wb.record() as session:
            z, u = x * 2, y * 2
        ((told, _),) = session.handle({"v": 1, "id": 1, "type": "ask_memory"})
        assert [(one["device"], one["now"]) for one in told["devices"]] == [("cuda:0", 8000), ("cuda:1", 4000)]
        assert z.is_cuda and u.is_cuda
