"""`engine.__future__`: PyTorch's switches for how `module.to()` changes parameters. What comes of it is the same here with each setting."""

from __future__ import annotations

_overwrite_module_params_on_conversion = False
_swap_module_params_on_conversion = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Note a wish; the parameters stay the same objects and take new data, as is PyTorch's default."""
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What was set last."""
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Note a wish; the parameters stay the same objects, as they do where PyTorch swaps."""
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """What was set last."""
    return _swap_module_params_on_conversion
