"""`engine.__future__`: PyTorch's switches for how `module.to()` converts parameters. They have no effect here."""

from __future__ import annotations

_overwrite_module_params_on_conversion = False
_swap_module_params_on_conversion = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Store the setting; parameters are always converted in place, as in PyTorch's default."""
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return the stored setting."""
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Store the setting; parameters always remain the same objects, as they do if PyTorch swaps them."""
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """Return the stored setting."""
    return _swap_module_params_on_conversion
