"""`futures` and the small rooms of `utils`: capsules, older addresses."""

from __future__ import annotations

import inspect
import sys
import threading

import numpy
import pytest

import engine
from engine.futures import Future, collect_all, wait_all
from engine.utils import dlpack
from grouping import grouped


def test_a_future_is_waited_for():
    future = Future()
    later = future.then(lambda f: f.value() + 1)
    with pytest.raises(RuntimeError, match="only be called after the Future has completed"):
        future.value()
    threading.Timer(0.05, future.set_result, (1,)).start()
    assert future.wait() == 1 and later.wait() == 2 and future.done() and wait_all([future, later]) == [1, 2]
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        future.set_result(2)


def test_errors_of_futures_are_raised():
    future, seen = Future(), []
    future.add_done_callback(lambda f: seen.append(f.done()))
    later = future.then(lambda f: f.value())
    future.set_exception(KeyError("a"))
    future.add_done_callback(lambda f: seen.append("at once"))
    for wait in (future.wait, later.wait, lambda: wait_all([later])):
        with pytest.raises(KeyError, match="a"):
            wait()
    assert seen == [True, "at once"]
    with pytest.raises(AssertionError, match="not an Exception"):
        Future().set_exception(3)


def test_all_are_collected():
    futures = [Future(), Future()]
    both = collect_all(futures)
    futures[1].set_result(2)
    assert not both.done()
    futures[0].set_exception(ValueError("a"))
    assert both.wait() == futures and collect_all([]).wait() == []


def test_capsules_share_memory():
    x = engine.arange(3.0)
    y = dlpack.from_dlpack(dlpack.to_dlpack(x))
    y[0] = 7
    assert x[0].item() == 7
    array = numpy.arange(3)
    assert dlpack.from_dlpack(array).data_ptr() == array.ctypes.data
    assert dlpack.from_dlpack(array, copy=True).data_ptr() != array.ctypes.data
    assert engine.from_dlpack(x.__dlpack__()).data_ptr() == x.data_ptr()


REFUSED = {  # as PyTorch 2.13 refuses them
    "dlpack.from_dlpack([1])": (RuntimeError, "received an invalid capsule"),
    "dlpack.from_dlpack(x.__dlpack__(), copy=True)": (AssertionError, "device and copy kwargs not supported"),
    "x.__dlpack__(stream=1)": (AssertionError, "stream should be None on cpu"),
    "x.__dlpack__(stream='default')": (TypeError, "stream must be ``int`` or ``none``"),
    "x.requires_grad_().__dlpack__()": (BufferError, "Can't export tensors that require gradient"),
}


@grouped("call", REFUSED)
def test_capsules_are_refused(call):
    kind, words = REFUSED[call]
    with pytest.raises(kind, match=words):
        eval(call, {"x": engine.arange(3.0), "dlpack": dlpack})


def test_a_capsules_options_and_device():
    x = engine.arange(3.0)
    assert list(inspect.signature(x.__dlpack__).parameters) == ["stream", "max_version", "dl_device", "copy"]
    x.__dlpack__(stream=-1)
    x.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=True)
    assert x.__dlpack_device__() == (dlpack.DLDeviceType.kDLCPU, 0) and type(x.__dlpack_device__()[0]) is dlpack.DLDeviceType


def test_older_addresses():
    assert engine.utils.model_zoo.load_url is engine.hub.load_state_dict_from_url
    assert isinstance(engine.nn.Linear(1, 1).register_forward_hook(lambda *a: None), engine.utils.hooks.RemovableHandle)


def test_the_environment_is_told(capsys):
    told = engine.utils.collect_env.get_pretty_env_info()
    for words in (
        "PyTorch version: 2.13.0",
        "Is CUDA available: ",
        "OS: ",
        f"Python version: {sys.version_info.major}.",
        f"numpy=={numpy.__version__}",
    ):
        assert words in told
    engine.utils.collect_env.main()
    assert capsys.readouterr().out == told + "\n"
