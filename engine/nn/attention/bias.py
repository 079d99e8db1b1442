"""Causal masks for `scaled_dot_product_attention`, aligned to the upper left or the lower right corner."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ...core.create import ones
from ...core.tensor import Tensor


class CausalVariant(IntEnum):
    """The corner to which the diagonal of a non-square causal mask is aligned."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


def CausalBias(variant: CausalVariant, seq_len_q: int, seq_len_kv: int, device: Any = None) -> Tensor:
    """Return a boolean mask `(seq_len_q, seq_len_kv)`, True where a query attends to a key."""
    if not isinstance(variant, CausalVariant):
        raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
    shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
    return ones(seq_len_q, seq_len_kv, device=device).tril(shift).bool()


def causal_upper_left(*size: int) -> Tensor:
    """Return the causal mask in which query i attends to keys 0 to i, as with `is_causal=True`."""
    if len(size) != 2:
        raise AssertionError(f"causal_upper_left only supports 2D tensors, got {len(size)} sizes")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> Tensor:
    """Return the causal mask in which the last query attends to all keys, the previous one to all but the last, and so on."""
    if len(size) != 2:
        raise AssertionError(f"causal_lower_right only supports 2D tensors, got {len(size)} sizes")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
