"""`pytest --device cuda`: the tests with every tensor on the GPU, as they are written; `--device stand-in`: on the stand-in for CuPy.

The default device is set before test modules are imported. Tests read results by NumPy, so here `numpy()` copies and `from_numpy` makes
tensors of the default device, and its comparisons take arrays on the GPU. `only_on_the_cpu.py` lists the tests that do not run, and why.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import engine
import only_on_the_cpu
from engine import Tensor
from engine.core import devices

HERE = Path(__file__).resolve().parent
_undone = contextlib.ExitStack()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--unpooled", action="store_true", help="allocate each array on a GPU by itself, for compute-sanitizer")
    parser.addoption("--device", choices=("cpu", "cuda", "stand-in"), default="cpu", help="where tensors are made by default")


def pytest_configure(config: pytest.Config) -> None:
    wanted = config.option.device
    if config.option.unpooled:
        _unpooled()
    if wanted == "cpu":
        return
    if wanted == "stand-in":
        sys.path.append(str(HERE / "cuda"))
        _undone.enter_context(importlib.import_module("on_stand_in").installed())
    elif not engine.cuda.is_available():
        raise pytest.UsageError("--device cuda: CuPy is not installed, or there is no NVIDIA GPU")
    patch = _undone.enter_context(pytest.MonkeyPatch.context())
    _copying(patch)
    engine.set_default_device("cuda")
    _undone.callback(engine.set_default_device, None)


def _unpooled() -> None:
    """Let CUDA allocate: where CuPy's pool puts arrays side by side, an access outside of one is inside of another."""
    engine.cuda.init()
    sys.modules["cupy"].cuda.set_allocator(None)


def pytest_unconfigure() -> None:
    _undone.close()


def _copying(patch: pytest.MonkeyPatch) -> None:
    """Let tests exchange values with NumPy, and compare arrays with NumPy's, as on the CPU; the memory is not shared."""
    to_numpy, from_numpy = Tensor.numpy, engine.from_numpy
    patch.setattr(Tensor, "numpy", lambda x, *, force=False: to_numpy(x if force or x.is_meta else x.cpu(), force=force))
    patch.setattr(engine, "from_numpy", lambda array: from_numpy(array).to(engine.get_default_device()))
    for module, names in ((numpy, ("allclose", "array_equal")), (numpy.testing, ("assert_allclose", "assert_array_equal"))):
        for name in names:
            patch.setattr(module, name, _on_the_host(getattr(module, name)))


def _on_the_host(compare: Callable) -> Callable:
    """A comparison of NumPy's that also takes arrays on a GPU, and lists of them."""

    def moved(x: Any) -> Any:
        if type(x) in (list, tuple):
            return type(x)(map(moved, x))
        return x.get() if devices.gpu_array is not None and isinstance(x, devices.gpu_array) else x

    @functools.wraps(compare)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compare(*map(moved, args), **kwargs)

    return call


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.device == "cpu":
        return
    for item in items:
        reason = only_on_the_cpu.reason(item.path.stem, item.name)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"on the CPU only: {reason}"))


@pytest.fixture(autouse=True)
def on_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test begins with the default device, and its work is done, and its errors raised, when it ends."""
    if request.config.option.device == "cpu":
        yield
        return
    engine.set_default_device("cuda")
    yield
    try:
        engine.cuda.synchronize()
    except (RuntimeError, IndexError):
        try:
            engine.cuda.synchronize()  # what an op noted is raised once, an error of the driver each time
        except RuntimeError as error:
            _lost(request.node.nodeid, error)
        raise


def _lost(test: str, error: RuntimeError) -> Any:
    """After an error of the driver nothing works in the process: end it. xdist reports the test and starts another worker."""
    told = f"the GPU's context is lost after {test}: {error}"
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.exit(told, 3)
    print(told, file=sys.__stderr__, flush=True)
    os._exit(3)
