"""Vision transformers (Dosovitskiy et al. 2020) on patches of an image."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import engine
from engine import Tensor, nn
from engine.nn import functional as F
from engine.nn import init

from ..ops.misc import MLP, Conv2dNormActivation
from ..transforms.functional.images import InterpolationMode
from ._api import builder, imagenet

_NORM = partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """One convolution, with norm and activation, of a stem that takes the place of the patches' convolution (Xiao et al. 2021)."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Callable[..., nn.Module] = nn.BatchNorm2d
    activation_layer: Callable[..., nn.Module] = nn.ReLU


class MLPBlock(MLP):
    """Two linear layers with GELU and dropout."""

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float):
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                init.xavier_uniform_(m.weight)
                init.normal_(m.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: dict, *args: Any, **kwargs: Any) -> None:
        if (local_metadata.get("version") or 1) < 2:  # older files use linear_1 and linear_2
            for i in range(2):
                for kind in ("weight", "bias"):
                    old = f"{prefix}linear_{i + 1}.{kind}"
                    if old in state_dict:
                        state_dict[f"{prefix}{3 * i}.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)


class EncoderBlock(nn.Module):
    """Pre-norm self-attention and MLP, each with a residual connection."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = _NORM,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x = self.dropout(self.self_attention(x, x, x, need_weights=False)[0]) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Position embedding, blocks and a final norm."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = _NORM,
    ):
        super().__init__()
        self.pos_embedding = nn.Parameter(engine.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i in range(num_layers):
            layers[f"encoder_layer_{i}"] = EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        self.layers = nn.Sequential(layers)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 3:
            raise AssertionError(f"Expected (batch_size, seq_length, hidden_dim) got {tuple(input.shape)}")
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Encode a class token and the patches of a square image; the head classifies the encoded class token."""

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Callable[..., nn.Module] = _NORM,
        conv_stem_configs: list[ConvStemConfig] | None = None,
    ):
        super().__init__()
        if image_size % patch_size:
            raise AssertionError("Input shape indivisible by patch size!")
        self.image_size, self.patch_size, self.hidden_dim, self.mlp_dim = image_size, patch_size, hidden_dim, mlp_dim
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.num_classes, self.representation_size, self.norm_layer = num_classes, representation_size, norm_layer
        if conv_stem_configs is None:
            self.conv_proj = last = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        else:
            stem: OrderedDict[str, nn.Module] = OrderedDict()
            channels = 3
            for i, config in enumerate(conv_stem_configs):
                stem[f"conv_bn_relu_{i}"] = Conv2dNormActivation(channels, **config._asdict())
                channels = config.out_channels
            stem["conv_last"] = last = nn.Conv2d(channels, hidden_dim, kernel_size=1)
            self.conv_proj = nn.Sequential(stem)
        self.class_token = nn.Parameter(engine.zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is not None:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
        heads["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads = nn.Sequential(heads)
        if conv_stem_configs is None:
            init.trunc_normal_(last.weight, std=math.sqrt(1 / (3 * patch_size * patch_size)))
        else:
            init.normal_(last.weight, std=math.sqrt(2 / last.out_channels))
        init.zeros_(last.bias)
        if representation_size is not None:
            init.trunc_normal_(self.heads.pre_logits.weight, std=math.sqrt(1 / hidden_dim))
            init.zeros_(self.heads.pre_logits.bias)
        init.zeros_(self.heads.head.weight)
        init.zeros_(self.heads.head.bias)

    def _process_input(self, x: Tensor) -> Tensor:
        for name, size in zip(("height", "width"), x.shape[-2:], strict=True):
            if size != self.image_size:
                raise AssertionError(f"Wrong image {name}! Expected {self.image_size} but got {size}!")
        return self.conv_proj(x).flatten(2).permute(0, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self._process_input(x)
        x = engine.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


def interpolate_embeddings(
    image_size: int, patch_size: int, model_state: OrderedDict, interpolation_mode: str = "bicubic", reset_heads: bool = False
) -> OrderedDict:
    """Fit the positions in a model's state to another size of image or patches; `reset_heads` leaves out the heads if they changed."""
    positions = model_state["encoder.pos_embedding"]
    n, length, channels = positions.shape
    if n != 1:
        raise ValueError(f"Unexpected position embedding shape: {positions.shape}")
    old, new = math.isqrt(length - 1), image_size // patch_size
    if new**2 == length - 1:
        return model_state
    if old**2 != length - 1:
        square = f"seq_length_1d * seq_length_1d = {old**2} and seq_length = {length - 1}"
        raise ValueError(f"seq_length is not a perfect square! Instead got {square}")
    grid = positions[:, 1:].permute(0, 2, 1).reshape(1, channels, old, old)
    grid = F.interpolate(grid, size=new, mode=interpolation_mode, align_corners=True).flatten(2).permute(0, 2, 1)
    model_state["encoder.pos_embedding"] = engine.cat([positions[:, :1], grid], dim=1)
    return OrderedDict((k, v) for k, v in model_state.items() if not k.startswith("heads")) if reset_heads else model_state


def _fixed(weights: Any) -> dict[str, Any]:
    return {"image_size": weights.meta["min_size"][0]}


def _swag(size: int, params: int) -> dict[str, Any]:
    preset = {"crop_size": size, "resize_size": size, "interpolation": InterpolationMode.BICUBIC}
    return {**preset, "num_params": params, "min_size": (size, size)}


_SIZE = (224, 224)
ViT_B_16_Weights = imagenet(
    "ViT_B_16_Weights",
    86567656,
    _SIZE,
    "IMAGENET1K_V1",
    IMAGENET1K_V1=("vit_b_16-c867db91.pth", {}),
    IMAGENET1K_SWAG_E2E_V1=("vit_b_16_swag-9ac1b537.pth", _swag(384, 86859496)),
    IMAGENET1K_SWAG_LINEAR_V1=("vit_b_16_lc_swag-4e70ced5.pth", _swag(224, 86567656)),
)
ViT_B_32_Weights = imagenet("ViT_B_32_Weights", 88224232, _SIZE, IMAGENET1K_V1=("vit_b_32-d86f8d99.pth", {}))
ViT_L_16_Weights = imagenet(
    "ViT_L_16_Weights",
    304326632,
    _SIZE,
    "IMAGENET1K_V1",
    IMAGENET1K_V1=("vit_l_16-852ce7e3.pth", {"resize_size": 242}),
    IMAGENET1K_SWAG_E2E_V1=("vit_l_16_swag-4f3808c9.pth", _swag(512, 305174504)),
    IMAGENET1K_SWAG_LINEAR_V1=("vit_l_16_lc_swag-4d563306.pth", _swag(224, 304326632)),
)
ViT_L_32_Weights = imagenet("ViT_L_32_Weights", 306535400, _SIZE, IMAGENET1K_V1=("vit_l_32-c7638314.pth", {}))


def _model(patch_size: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int, **kwargs: Any) -> VisionTransformer:
    image_size = kwargs.pop("image_size", 224)
    return VisionTransformer(image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **kwargs)


@builder(ViT_B_16_Weights, _fixed)
def vit_b_16(**kwargs: Any) -> VisionTransformer:
    """ViT-B/16: 86.6 million parameters."""
    return _model(16, 12, 12, 768, 3072, **kwargs)


@builder(ViT_B_32_Weights, _fixed)
def vit_b_32(**kwargs: Any) -> VisionTransformer:
    """ViT-B/32: 88.2 million parameters."""
    return _model(32, 12, 12, 768, 3072, **kwargs)


@builder(ViT_L_16_Weights, _fixed)
def vit_l_16(**kwargs: Any) -> VisionTransformer:
    """ViT-L/16: 304.3 million parameters."""
    return _model(16, 24, 16, 1024, 4096, **kwargs)


@builder(ViT_L_32_Weights, _fixed)
def vit_l_32(**kwargs: Any) -> VisionTransformer:
    """ViT-L/32: 306.5 million parameters."""
    return _model(32, 24, 16, 1024, 4096, **kwargs)
