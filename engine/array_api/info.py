"""The namespace's capabilities, devices and dtypes."""

from __future__ import annotations

from typing import Any

import engine

from ..base.dtypes import dtype
from ..core.devices import cuda, cuda_available
from .dtypes import KINDS, STANDARD, isdtype


class Info:
    """The result of `__array_namespace_info__()`."""

    def capabilities(self) -> dict[str, Any]:
        """Optional features: boolean indexing and data-dependent shapes are supported; arrays have up to 64 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> engine.device:
        """Return the default device."""
        return engine.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtype]:
        """Return the default dtype of each kind; `engine.set_default_dtype` changes the first two."""
        real = engine.get_default_dtype()
        kinds = {"real floating": real, "complex floating": real.to_complex()}
        return kinds | {"integral": engine.int64, "indexing": engine.int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtype]:
        """Return the standard's dtypes by name: all, or those of one or several kinds (see `isdtype`)."""
        kind = ("bool", "numeric") if kind is None else kind
        for word in kind if isinstance(kind, tuple) else (kind,):
            if word not in KINDS:
                raise ValueError(f"dtypes: expected a kind among {', '.join(map(repr, KINDS))}, got {word!r}")
        return {name: d for name, d in STANDARD.items() if isdtype(d, kind)}

    def devices(self) -> tuple[engine.device, ...]:
        """Return the CPU and all available GPUs."""
        gpus = cuda().device_count() if cuda_available() else 0
        return engine.device("cpu"), *(engine.device("cuda", i) for i in range(gpus))


def __array_namespace_info__() -> Info:
    """Return the namespace's `Info`."""
    return Info()
