"""Aliases of the layers' modules at PyTorch's import paths, such as `engine.nn.modules.conv` for `engine.nn.conv`."""

import importlib
import sys

from .. import *  # noqa: F403
from .. import __all__ as _layers
from .. import (
    activation,
    adaptive,
    container,
    conv,
    distance,
    dropout,
    embedding,
    flatten,
    fold,
    lazy,
    linear,
    loss,
    module,
    normalization,
    padding,
    pixelshuffle,
    pooling,
    rnn,
    transformer,
    upsampling,
)  # fmt: skip
from . import batchnorm

_ELSEWHERE = {
    "channelshuffle": pixelshuffle, "instancenorm": normalization, "sparse": embedding,
    **{m.__name__.rpartition(".")[2]: m for m in (
        activation, adaptive, container, conv, distance, dropout, flatten, fold, lazy, linear, loss, module, normalization, padding,
        pixelshuffle, pooling, rnn, transformer, upsampling,
    )},
}  # fmt: skip
utils = importlib.import_module(f"{__name__}.utils")  # `from . import` would find the `utils` of the layers
for _name, _module in _ELSEWHERE.items():
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module

__all__ = [name for name in _layers if name[0].isupper()]  # pyright: ignore[reportUnsupportedDunderAll]
__all__ += [name for name in dir(module) if name.startswith("register_module_")]
globals().update({name: getattr(module, name) for name in __all__ if name.startswith("register_module_")})
