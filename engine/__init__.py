"""An eager deep-learning engine with PyTorch's names."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from . import autograd, late, ops
from .autograd import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from .base import addresses
from .base.dtypes import (
    bfloat16,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from .base.dtypes import bool_ as bool
from .base.layout import *  # noqa: F403
from .core import legacy
from .core.casting import *  # noqa: F403
from .core.create import *  # noqa: F403
from .core.devices import device
from .core.from_data import *  # noqa: F403
from .core.printing import set_printoptions
from .core.public import of_home as _public
from .core.ranges import *  # noqa: F403
from .core.storage import TypedStorage, UntypedStorage
from .core.storage import types as _storages
from .core.tensor import Size, Tensor
from .core.traits import *  # noqa: F403
from .settings import *  # noqa: F403

half, float, double, short, int, long = float16, float32, float64, int16, int32, int64
cfloat, cdouble = complex64, complex128
__version__ = "0.1.0"

globals().update(_public(""))
globals().update(legacy.cpu)  # FloatTensor, ...
globals().update(_storages)  # FloatStorage, ...

from .core import subclasses  # noqa: E402  later classes are a program's

_LATER = frozenset(
    {
        "accelerator",
        "amp",
        "ao",
        "array_api",
        "compiler",
        "cpu",
        "cuda",
        "data",
        "distributed",
        "distributions",
        "fft",
        "func",
        "functional",
        "futures",
        "fx",
        "hub",
        "jit",
        "library",
        "linalg",
        "masked",
        "mps",
        "mtia",
        "multiprocessing",
        "nn",
        "onnx",
        "optim",
        "overrides",
        "profiler",
        "quasirandom",
        "serialization",
        "serialize",
        "signal",
        "sparse",
        "special",
        "testing",
        "torch_version",
        "types",
        "utils",
        "version",
        "vision",
        "xpu",
        "_C",
        "_VF",
        "_dynamo",
        "_higher_order_ops",
        "_jit_internal",
        "_subclasses",
        "_tensor_str",
        "_utils",
        "_vmap_internals",
    }
)  # subpackages that are imported at first use, so that `import engine` stays fast


def vmap(func: Any, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: Any = None) -> Any:
    """Vectorize a function of single samples over batches: see `engine.func.vmap`."""
    from .func import vmap

    return vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: Any = 2, _use_new_zipfile_serialization: Any = True,
    _disable_byteorder_record: Any = False,
) -> None:  # fmt: skip
    """Write an object to a path or an open file, in a format that PyTorch reads: see `engine.serialize.save`."""
    from .serialize import save

    save(obj, f, pickle_module, pickle_protocol, _use_new_zipfile_serialization, _disable_byteorder_record)


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: Any = True, mmap: Any = None, **pickle_load_args: Any
) -> Any:  # fmt: skip
    """Read a checkpoint from a path or an open binary file: see `engine.serialize.load`."""
    from .serialize import load

    return load(f, map_location, pickle_module, weights_only=weights_only, mmap=mmap, **pickle_load_args)


def install_as_torch() -> Any:
    """Make `import torch` import the engine from now on: see `engine.compat.as_torch`."""
    return importlib.import_module(f"{__package__}.compat.as_torch").install_as_torch()


def __getattr__(name: str) -> Any:
    __tracebackhide__ = True
    if name in ("__config__", "__future__"):
        return importlib.import_module(f"{__package__}.{name}")
    if name == "torch" and sys.modules.get("torch") is sys.modules[__package__]:
        return sys.modules["torch"]  # PyTorch's module has itself as an attribute
    if name.startswith("_foreach_"):
        return getattr(importlib.import_module(f"{__package__}.compat.foreach"), name)
    return addresses.attribute(__package__, name, 2)


def _sentence(*missing: Any) -> str:
    return importlib.import_module(f"{__package__}.compat.missing").sentence(*missing)


addresses.sentence = _sentence
addresses.watch()
