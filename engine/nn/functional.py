"""`engine.nn.functional`: the computations of the layers as functions, with PyTorch's signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops  # noqa: F401  loading them fills the table of functions
from ..core.op import functions as _functions
from ..core.public import publish as _publish
from . import variants

_HOME = "nn.functional."
_SHARED = (
    "adaptive_avg_pool1d",
    "avg_pool1d",
    "bilinear",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "dropout",
    "hardshrink",
    "layer_norm",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "native_channel_shuffle",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "softmax",
    "tanh",
    "threshold",
    "threshold_",
)  # fmt: skip  these exist in both namespaces in PyTorch too
_APART = ("rms_norm", "sigmoid", "tanh")  # two separate functions each; the others are one function

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = sorted(
    {name.removeprefix(_HOME) for name in _functions if name.startswith(_HOME)} | {name for name in _SHARED if name in _functions}
)  # pyright: ignore[reportUnsupportedDunderAll]
_found = {name: _functions.get(_HOME + name) or _functions[name] for name in __all__}
_shared = {name: f for name, f in _found.items() if f is _functions.get(name) and name not in _APART}
globals().update(_publish(_shared) | _publish({name: f for name, f in _found.items() if name not in _shared}, "nn.functional"))

_variants = variants.made(_HOME)
__all__ = sorted({*__all__, *_variants})  # pyright: ignore[reportUnsupportedDunderAll]
globals().update(_publish(_variants, "nn.functional"))
_in_projection_packed, _in_projection = variants.in_projection_packed, variants.in_projection  # used by hand-written attention
