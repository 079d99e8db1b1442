"""An eager deep-learning engine with PyTorch's names."""

from __future__ import annotations

from typing import Any

from . import autograd, ops
from .autograd import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .create import *  # noqa: F403
from .devices import device
from .dtypes import (
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
from .dtypes import bool_ as bool
from .op import functions as _functions
from .printing import set_printoptions
from .tensor import Size, Tensor

half, float, double, short, int, long = float16, float32, float64, int16, int32, int64
cfloat, cdouble = complex64, complex128
__version__ = "0.1.0"

globals().update({name: function for name, function in _functions.items() if "." not in name})

from . import cuda, data, fft, linalg, nn, optim, signal, special, utils  # noqa: E402  they use the functions above
from .serialize import load, save  # noqa: E402
from .signal.windows import bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window  # noqa: E402


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    import difflib

    near = difflib.get_close_matches(name, [n for n in globals() if not n.startswith("_")], 1)
    raise AttributeError(f"module 'engine' has no attribute {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")
