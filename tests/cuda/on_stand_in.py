"""The engine on the stand-in for CuPy: `with installed():` makes device="cuda" work where there is no GPU."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import emulate
import pytest
import syncs

from engine.core import devices

BACKEND = "engine.backends.gpu"


@contextlib.contextmanager
def installed(gpus: int = 1) -> Iterator[Any]:
    """Import the GPU backend on a stand-in with so many GPUs; inside, `import cupy` finds it too. Afterwards everything is as before."""
    import host_cuda  # here, so that collecting tests does not import CuPy
    import strict

    stand_in_modules = strict.modules()
    ours = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in ("cupy", "cupyx") or name.startswith(f"{BACKEND}.")
    }
    before = devices.gpu, devices.mixed, devices.several
    package = importlib.import_module(BACKEND)
    names = dict(vars(package))
    _forget()
    sys.modules.update(stand_in_modules)
    devices.gpu, devices.mixed, devices.several = None, False, False
    syncs.found.clear()
    host_cuda.reset(gpus)
    allocators = host_cuda._allocator[-1], host_cuda._pinned_allocator[-1]
    emulate.Emulator.submit = staticmethod(host_cuda.submit)
    importlib.import_module(f"{BACKEND}.launch").driver = emulate.Emulator()
    try:
        yield devices.cuda()
    finally:
        devices.gpu, devices.mixed, devices.several = before
        host_cuda.reset(1)
        host_cuda.set_allocator(allocators[0]), host_cuda.set_pinned_memory_allocator(allocators[1])
        emulate.Emulator.submit = staticmethod(lambda run: run())
        _forget()
        sys.modules.update(ours)
        vars(package).clear()
        vars(package).update(names)


def _forget() -> None:
    package = sys.modules[BACKEND]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx") or name.startswith(f"{BACKEND}.")]:
        del sys.modules[name]
        if name.startswith(f"{BACKEND}."):  # else `from . import` would find the module there
            vars(package).pop(name.rpartition(".")[2], None)


@pytest.fixture
def stand_in() -> Iterator[Any]:
    """The GPU backend on the stand-in for CuPy; `device="cuda"` works."""
    with installed() as backend:
        yield backend
