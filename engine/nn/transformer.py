"""Transformer layers and stacks, as in "Attention Is All You Need" (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy

from ..autograd import is_grad_enabled
from ..backends.mha import get_fastpath_enabled
from ..base import dtypes
from ..core import devices
from ..core.casting import is_autocast_enabled
from ..core.tensor import Tensor
from . import functional as F
from . import init
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .multihead import MultiheadAttention
from .normalization import LayerNorm


def _get_activation_fn(activation: str) -> Callable:
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


class _Layer(Module):
    """Base of encoder and decoder layers: self-attention and a feed-forward network of two linear layers."""

    blocks: ClassVar[int]  # sublayers with residual and norm; the decoder's third attends to the encoder's output

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = F.relu,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        make = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **make)
        if self.blocks == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **make)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **make)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **make)
        self.norm_first = norm_first
        for i in range(1, self.blocks + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **make))
        for i in range(1, self.blocks + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def _sa_block(self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Tensor:
        return self.dropout1(self._attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Tensor) -> Tensor:
        return getattr(self, f"dropout{self.blocks}")(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    @staticmethod
    def _attended(attention: Module, x: Tensor, memory: Tensor, mask: Any, padding: Any, is_causal: bool) -> Tensor:
        return attention(x, memory, memory, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False)[0]


class TransformerEncoderLayer(_Layer):
    """Encoder layer: self-attention and a feed-forward network, each with dropout, residual connection and layer norm.

    `src` is `(S, N, E)`, or `(N, S, E)` with `batch_first`; the norm is applied first with `norm_first`, else last. The output has its
    shape.
    """

    blocks = 2

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))


class TransformerDecoderLayer(_Layer):
    """Decoder layer: self-attention, attention to the encoder's output, and a feed-forward network.

    `tgt` is `(T, N, E)` and `memory` `(S, N, E)`, batch first with `batch_first`; the output has the shape of `tgt`.
    """

    blocks = 3

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            x = x + self._mha_block(self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(x + self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(self, x: Tensor, mem: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Tensor:
        return self.dropout2(self._attended(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))


class TransformerEncoder(Module):
    """Stack of `num_layers` copies of an encoder layer, followed by an optional norm.

    Where PyTorch uses nested tensors, the output is 0 at padded positions, before the final norm. It does so if the layers are in eval
    mode, no gradient is required, `src_key_padding_mask` pads only sequence ends, `mask` is None and `enable_nested_tensor` is True.
    Otherwise padded positions have arbitrary values. `mask_check` has no effect: the padding is always checked.
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True, mask_check: bool = True
    ):
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _fusible(encoder_layer)

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None
    ) -> Tensor:
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        if src_key_padding_mask is not None and mask is None and self._nests(src):
            padded = src_key_padding_mask != 0
            if devices.known((padded[:, 1:] >= padded[:, :-1]).all()):
                out = out.masked_fill(padded[..., None], 0)
        return out if self.norm is None else self.norm(out)

    def _nests(self, src: Tensor) -> bool:
        """Return whether PyTorch would convert this batch to a nested tensor."""
        first = self.layers[0]
        if not (self.use_nested_tensor and get_fastpath_enabled() and src.ndim == 3) or first.training or is_autocast_enabled():
            return False
        return not (is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in first.parameters())))


def _fusible(layer: Module) -> bool:
    """Return whether PyTorch has a fused kernel for the whole layer."""
    return (
        isinstance(layer, TransformerEncoderLayer)
        and not layer.norm_first
        and layer.self_attn.batch_first
        and layer.self_attn.in_proj_weight is not None
        and layer.self_attn.in_proj_bias is not None
        and layer.activation in (F.relu, F.gelu)
        and layer.norm1.eps == layer.norm2.eps
        and layer.self_attn.num_heads % 2 == 0
    )


class TransformerDecoder(Module):
    """Stack of `num_layers` copies of a decoder layer, followed by an optional norm."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        out = tgt
        for layer in self.layers:
            out = layer(
                out, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal), memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """Transformer encoder and decoder: `src` `(S, N, E)` and `tgt` `(T, N, E)` to `(T, N, E)`, batch first with `batch_first`."""

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6, dim_feedforward: int = 2048,
        dropout: float = 0.1, activation: Any = F.relu, custom_encoder: Any = None, custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        make = {"device": device, "dtype": dtype}
        how = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*how, **make)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **make))
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            decoder_layer = TransformerDecoderLayer(*how, **make)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **make))
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.ndim > 1:
                init.xavier_uniform_(param)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        at = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[at] != tgt.shape[at]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the causal mask `(sz, sz)`: 0 on and below the diagonal, -inf above it."""
        d = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
        mask = numpy.triu(numpy.full((sz, sz), -numpy.inf), 1).astype(d.numpy)
        return Tensor._wrap(devices.move(mask, devices.get_default_device() if device is None else devices.device(device)))
