"""Convert the memory format of convolution weights, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from ..conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..module import Module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Convert the weights of all 2D convolutions in a module to `memory_format`, in place; results are unchanged."""
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Convert the weights of all 3D convolutions in a module to `memory_format`, in place; results are unchanged."""
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)


def _converted(module: Module, kinds: tuple[type[Module], ...], memory_format: Any) -> Module:
    for one in module.modules():
        if isinstance(one, kinds):
            one.weight.data = one.weight.detach().clone(memory_format=memory_format)  # type: ignore[attr-defined]
    return module
