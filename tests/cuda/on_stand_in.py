"""The engine on the stand-ins for CuPy, cuBLASLt and cuDNN: `with installed():` makes device="cuda" work where there is no GPU."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import emulate
import pytest
import syncs

from engine.backends import cudnn
from engine.base import errors
from engine.core import devices

BACKEND = "engine.backends.gpu"
for _files in ("strict", "host_"):  # what stands in for CuPy's code; of the tests next to it, errors name the lines
    errors.hide(f"{Path(__file__).parent}/{_files}", tool=False)


@contextlib.contextmanager
def installed(gpus: int = 1) -> Iterator[Any]:
    """Import the GPU backend on stand-ins: for CuPy, with so many GPUs, for cuBLASLt, and for cuDNN, without TF32; programs find them too.

    Afterwards everything is as before.
    """
    import host_cublaslt  # here, so that collecting tests does not import CuPy
    import host_cuda
    import host_cudnn
    import strict

    stand_in_modules = {**strict.modules(), "nvmath.bindings.cublasLt": host_cublaslt}
    ours = {name: sys.modules[name] for name in _replaced()}
    before = devices.gpu, devices.gpu_array, devices.mixed, devices.several
    package = importlib.import_module(BACKEND)
    names = dict(vars(package))
    _forget()
    sys.modules.update(stand_in_modules)
    devices.gpu, devices.gpu_array, devices.mixed, devices.several = None, None, False, False
    syncs.found.clear()
    host_cuda.reset(gpus)
    allocators = host_cuda._allocator[-1], host_cuda._pinned_allocator[-1]
    emulate.Emulator.submit, host_cublaslt.submit = staticmethod(host_cuda.submit), host_cuda.submit
    importlib.import_module(f"{BACKEND}.launch").driver = emulate.Emulator()
    try:
        with host_cudnn.installed(), cudnn.flags(enabled=True, allow_tf32=False):
            yield devices.cuda()
    finally:
        devices.gpu, devices.gpu_array, devices.mixed, devices.several = before
        host_cuda.reset(1)
        host_cuda.set_allocator(allocators[0]), host_cuda.set_pinned_memory_allocator(allocators[1])
        emulate.Emulator.submit, host_cublaslt.submit = staticmethod(lambda run: run()), lambda work: work()
        _forget()
        sys.modules.update(ours)
        vars(package).clear()
        vars(package).update(names)


def _replaced() -> list[str]:
    """The names of the imported modules that stand-ins replace, and of those that import them."""
    packages = ("cupy", "cupyx", "nvmath")
    return [name for name in sys.modules if name.partition(".")[0] in packages or name.startswith(f"{BACKEND}.")]


def _forget() -> None:
    """Unload them: `from . import elementwise` would find a module that is still an attribute of the package."""
    for name in _replaced():
        del sys.modules[name]
        package, _, last = name.rpartition(".")
        if package == BACKEND:
            vars(sys.modules[package]).pop(last, None)  # else `from . import` finds the module that is forgotten


@pytest.fixture
def stand_in() -> Iterator[Any]:
    """The GPU backend on the stand-in for CuPy; `device="cuda"` works."""
    with installed() as backend:
        yield backend
