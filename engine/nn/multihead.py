"""`MultiheadAttention`, scaled dot-product attention in several heads."""

from __future__ import annotations

import math
from typing import Any

from ..core.tensor import Tensor
from ..ops.attention import additive
from ..ops.join import cat
from . import functional as F
from . import init
from .linear import NonDynamicallyQuantizableLinear
from .module import Module
from .parameter import Parameter, blank


class MultiheadAttention(Module):
    """Multi-head attention: softmax(Q Kᵀ / sqrt(head_dim)) V per head, between learned projections (Vaswani et al. 2017).

    `forward(query, key, value)` takes `(L, N, E)`, `(S, N, kdim)` and `(S, N, vdim)`, batch first with `batch_first`, or without N. It
    returns the output `(L, N, E)` and the weights `(N, L, S)`: None without `need_weights`, `(N, num_heads, L, S)` without
    `average_attn_weights`. `attn_mask` is `(L, S)` or `(N * num_heads, L, S)`, `key_padding_mask` `(N, S)`; True in a boolean mask means
    not attended.
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead")
        super().__init__()
        self.embed_dim, self.kdim, self.vdim = embed_dim, embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        make = {"device": device, "dtype": dtype}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = blank(3 * embed_dim, embed_dim, **make)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = blank(embed_dim, embed_dim, **make)
            self.k_proj_weight = blank(embed_dim, self.kdim, **make)
            self.v_proj_weight = blank(embed_dim, self.vdim, **make)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", blank(3 * embed_dim, **make) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **make)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, blank(1, 1, embed_dim, **make) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)  # type: ignore[arg-type]
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        batched = self._check_dims(query, key, value, key_padding_mask, attn_mask)
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        if not batched or not self.batch_first:
            # a tensor passed twice stays one, so that `_projected` projects it once
            given = {id(x): x for x in (query, key, value)}
            turned = {k: x.transpose(0, 1) if batched else x.unsqueeze(0) for k, x in given.items()}
            query, key, value = (turned[id(x)] for x in (query, key, value))
        if not batched and key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}")
        if tuple(key.shape[:2]) != tuple(value.shape[:2]):
            raise AssertionError(f"key's sequence and batch dims {tuple(key.shape[:2])} do not match value's {tuple(value.shape[:2])}")
        q, k, v = self._projected(query, key, value)
        if self.bias_k is not None and self.bias_v is not None:
            batch = (k.shape[0], 1, self.embed_dim)
            k, v = cat([k, self.bias_k.expand(batch)], 1), cat([v, self.bias_v.expand(batch)], 1)
        if self.add_zero_attn:
            zeros = k.new_zeros((k.shape[0], 1, self.embed_dim))
            k, v = cat([k, zeros], 1), cat([v, zeros], 1)
        mask = self._mask(attn_mask, key_padding_mask, q, k.shape[1], key.shape[1])
        out, weights = self._attend(self._heads(q), self._heads(k), self._heads(v), mask, need_weights)
        # projected in the order (L, N, E), as in PyTorch: a subsequent dropout draws in memory order
        out = self.out_proj(out.permute(2, 0, 1, 3).reshape(q.shape[1], q.shape[0], self.embed_dim))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return out.squeeze(1), None if weights is None else weights.squeeze(0)
        return (out.transpose(0, 1) if self.batch_first else out), weights

    def _check_dims(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None) -> bool:
        if query.ndim not in (2, 3):
            raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor")
        n = query.ndim
        if key.ndim != n or value.ndim != n:
            raise AssertionError(
                f"For {'batched' if n == 3 else 'unbatched'} ({n}-D) `query`, expected `key` and `value` to be {n}-D but found "
                f"{key.ndim}-D and {value.ndim}-D tensors respectively"
            )
        if key_padding_mask is not None and key_padding_mask.ndim != n - 1:
            raise AssertionError(
                f"expected `key_padding_mask` to be `None` or {n - 1}-D but found {key_padding_mask.ndim}-D tensor instead"
            )
        if attn_mask is not None and attn_mask.ndim not in (2, 3):
            raise AssertionError(f"expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.ndim}-D tensor instead")
        return n == 3

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        bias = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        if self.in_proj_weight is None:
            weights: Any = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif query is key and key is value:
            q, k, v = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            return q, k, v
        else:
            weights = self.in_proj_weight.chunk(3)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, bias, strict=True))
        return q, k, v

    def _heads(self, x: Tensor) -> Tensor:
        """Split `(N, S, E)` into heads: `(N, heads, S, head_dim)`."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).transpose(1, 2)

    def _mask(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, q: Tensor, sources: int, given: int) -> Tensor | None:
        """Combine both masks into one, which is added to the scores `(N, heads, L, S)`."""
        n, targets, extra = q.shape[0], q.shape[1], sources - given
        mask = additive(attn_mask, "attn_mask", q)
        if mask is not None:
            shapes = ((targets, given), (n * self.num_heads, targets, given))
            if tuple(mask.shape) not in shapes:
                raise RuntimeError(
                    f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {shapes[mask.ndim - 2]}."
                )
            mask = F.pad(mask, (0, extra)) if extra else mask
            mask = mask.reshape(1, 1, targets, sources) if mask.ndim == 2 else mask.reshape(n, self.num_heads, targets, sources)
        padding = additive(key_padding_mask, "key_padding_mask", q)
        if padding is not None:
            if tuple(padding.shape) != (n, given):
                raise AssertionError(f"expected key_padding_mask of shape {(n, given)}, but got {tuple(padding.shape)}")
            padding = (F.pad(padding, (0, extra)) if extra else padding).reshape(n, 1, 1, sources)
            mask = padding if mask is None else mask + padding
        return mask

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:  # fmt: skip
        """Combine both masks; return `(mask, type)` as PyTorch does.

        `key_padding_mask` `(N, S)` alone is returned unchanged, with type 1; otherwise the mask is `(N, heads, S, S)`, with type 2; no
        masks give `(None, None)`. `attn_mask` is `(S, S)` or `(N * heads, S, S)` and `query` `(N, S, E)`; masks are added, so boolean ones
        are combined by or.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, s, _ = query.shape
        if attn_mask.ndim == 3:
            merged = attn_mask.view(n, -1, s, s)
        else:
            merged = attn_mask.view(1, 1, s, s).expand(n, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(n, 1, 1, s).expand(-1, self.num_heads, -1, -1)
        return merged, 2

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        drop = self.dropout if self.training else 0.0
        if not need_weights:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop), None
        scores = (q * (1.0 / math.sqrt(self.head_dim))) @ k.transpose(-2, -1)
        weights = F.softmax(scores if mask is None else scores + mask, -1)
        if drop:
            weights = F.dropout(weights, drop)
        return weights @ v, weights
