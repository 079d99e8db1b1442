"""Causal masks for `scaled_dot_product_attention`, aligned to the first or to the last position."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ...core.create import ones
from ...core.tensor import Tensor


class CausalVariant(IntEnum):
    """Which corner a causal mask that is not square keeps."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


def CausalBias(variant: CausalVariant, seq_len_q: int, seq_len_kv: int, device: Any = None) -> Tensor:
    """A boolean mask `(seq_len_q, seq_len_kv)`: True where a query may look."""
    if not isinstance(variant, CausalVariant):
        raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
    shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
    return ones(seq_len_q, seq_len_kv, device=device).tril(shift).bool()


def causal_upper_left(*size: int) -> Tensor:
    """Query i looks at keys up to i: the mask that `is_causal=True` stands for."""
    if len(size) != 2:
        raise AssertionError(f"causal_upper_left only supports 2D tensors, got {len(size)} sizes")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> Tensor:
    """The last query looks at all keys, the one before it at all but the last, and so on."""
    if len(size) != 2:
        raise AssertionError(f"causal_lower_right only supports 2D tensors, got {len(size)} sizes")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
