"""The choice between kernels compiled by Numba (`compiled.py`), if it is installed, and NumPy.

A process loads them at its first op on LEAST elements. If Numba has not yet kept them on disk, it compiles them then, which takes 10 to
20 seconds once per installation; `python -m engine.backends` does so beforehand. All processes compute with them or none does, so that
they agree to the bit. GRADIENT_WORKBENCH_KERNELS=numpy leaves them out.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from ..base.dtypes import F32
from .workers import share

LEAST = 1 << 12  # elements; for fewer, NumPy is as fast
_here = Path(__file__).with_name("compiled.py")
_kernels: Any = None  # the module, or False if there are no compiled kernels


def kernel(name: str, *arrays: Any, least: int = LEAST) -> Callable | None:
    """Return the compiled kernel, if there is one and it takes these arrays: float32, C-contiguous, aligned, and not small.

    The kernels are loaded for LEAST elements; a lower `least` is for results that do not depend on what computes them.
    """
    if _kernels is False or arrays[0].__class__ is not numpy.ndarray:
        return None
    size = arrays[0].size
    if size < least or size < LEAST and _kernels is None:
        return None
    for a in arrays:
        if a.__class__ is not numpy.ndarray or a.dtype != F32 or not a.flags.carray:
            return None
    return getattr(found, name) if (found := module()) else None


def module() -> Any:
    """Return the module of the compiled kernels, loaded at the first call; None if there are none."""
    return (_load() if _kernels is None else _kernels) or None


def each(name: str, *arrays: Any, numbers: tuple = ()) -> Any:
    """Return the elementwise kernel's result for arrays of one shape and numbers; None if there is no kernel for them."""
    run = kernel(name, *arrays)
    if run is None or any(a.shape != arrays[0].shape for a in arrays[1:]) or not all(n.__class__ in (int, float) for n in numbers):
        return None
    out = numpy.empty_like(arrays[0])
    share(run, tuple([a.reshape(-1) for a in arrays]), *numbers, last=(out.reshape(-1),))
    return out


def each_row(name: str, axis: int, *arrays: Any) -> Any:
    """Return the kernel's result for arrays of one shape, in rows along the last axis; None if there is no kernel or it is another axis."""
    shape = arrays[0].shape
    if axis not in (-1, len(shape) - 1) or any(a.shape != shape for a in arrays[1:]) or (run := kernel(name, *arrays)) is None:
        return None
    out, width = numpy.empty_like(arrays[0]), shape[-1]
    share(run, tuple([a.reshape(-1, width) for a in arrays]), last=(out.reshape(-1, width),))
    return out


# -- the cache --------------------------------------------------------------------------------------------------------------------


def _load() -> Any:
    global _kernels
    if os.environ.get("GRADIENT_WORKBENCH_KERNELS") == "numpy" or not installed():
        _kernels = False
        return False
    if not built():
        told = "engine: compiling the CPU kernels with Numba, once per installation (set GRADIENT_WORKBENCH_KERNELS=numpy to do without)"
        print(told, file=sys.stderr, flush=True)
    try:
        _kernels = build()
    except Exception as error:  # no place to keep them, a Numba that does not go with this NumPy, or one that is too old for the code
        warnings.warn(f"Numba cannot be used. NumPy computes everything, which may be slower: {error}", stacklevel=2)
        _kernels = False
    return _kernels


def installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def built() -> bool:
    """Whether Numba is installed and has compiled the kernels as they are."""
    return installed() and _mark().exists()


def status() -> str:
    """Say what computes compound ops, for `show_config`."""
    if os.environ.get("GRADIENT_WORKBENCH_KERNELS") == "numpy":
        return "NumPy (GRADIENT_WORKBENCH_KERNELS=numpy)"
    if not installed():
        return "NumPy (Numba is not installed)"
    if _kernels is False:
        return "NumPy (Numba cannot be used: see the warning)"
    return "Numba" if built() else f"Numba (kernels are compiled at first use, or now by python -m {__package__})"


def _mark() -> Path:
    """The file that says that all kernels are in the cache, named by what they were compiled from."""
    source, numba = _here.stat(), importlib.import_module("importlib.metadata").version("numba")  # its import takes 10 ms
    name = f"compiled-{sys.implementation.cache_tag}-numba{numba}-{source.st_size}-{source.st_mtime_ns}.built"
    beside = Path(os.environ.get("NUMBA_CACHE_DIR") or _here.with_name("__pycache__"))
    return (beside if os.access(beside, os.W_OK) else Path.home() / ".cache" / "gradient-workbench") / name


def build() -> Any:
    """Return the kernels, compiled into Numba's cache or loaded from it.

    Raises ImportError if Numba is not installed or does not go with this NumPy, OSError or RuntimeError if there is no place to keep them.
    """
    kernels = importlib.import_module(f"{__package__}.compiled")
    if not (mark := _mark()).exists():
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return kernels
