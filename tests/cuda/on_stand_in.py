"""The engine on the stand-ins for CuPy and cuDNN: `with installed():` makes device="cuda" work where there is no GPU."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import syncs

from engine.backends import cudnn
from engine.core import devices

BACKEND = "engine.backends.gpu"


@contextlib.contextmanager
def installed(gpus: int = 1) -> Iterator[Any]:
    """Import the GPU backend on stand-ins for CuPy, with so many GPUs, and for cuDNN, without TF32; programs inside find them too.

    Afterwards everything is as before.
    """
    import host_cuda  # here, so that collecting tests does not import CuPy
    import host_cudnn
    import strict

    stand_in_modules = strict.modules()
    ours = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in ("cupy", "cupyx") or name.startswith(f"{BACKEND}.")
    }
    before = devices.gpu, devices.mixed
    package = importlib.import_module(BACKEND)
    names = dict(vars(package))
    _forget()
    sys.modules.update(stand_in_modules)
    devices.gpu, devices.mixed = None, False
    syncs.found.clear()
    host_cuda.count = gpus
    try:
        with host_cudnn.installed(), cudnn.flags(enabled=True, allow_tf32=False):
            yield devices.cuda()
    finally:
        devices.gpu, devices.mixed = before
        host_cuda.Device(0).use()
        _forget()
        sys.modules.update(ours)
        vars(package).clear()
        vars(package).update(names)


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx") or name.startswith(f"{BACKEND}.")]:
        del sys.modules[name]


@pytest.fixture
def stand_in() -> Iterator[Any]:
    """The GPU backend on the stand-in for CuPy; `device="cuda"` works."""
    with installed() as backend:
        yield backend
