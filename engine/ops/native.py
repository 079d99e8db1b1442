"""Functions of `torch` itself behind layers and losses, with its signatures: positional arguments, reductions and modes as ints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtypes import fitting, float64, int32, int64
from ..core import casting, tape
from ..core.arguments import parsed
from ..core.op import functions
from ..core.tensor import Tensor
from . import bag, conv, ctc, distance, embedding, loss, norm, pool, random, shape  # noqa: F401  registered under further names below
from . import grid as _grid
from . import margin as _margin
from .front import front, refuse_gradients, refuse_whole_numbers
from .pad import constant_pad
from .split import split

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _F(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call the function of that name in `nn.functional`."""
    return functions[f"nn.functional.{name}"](*args, **kwargs)


def native(*names: str, out: bool = False) -> Callable:
    """Publish a function of `torch` itself; as by PyTorch's parser, arguments of other types than declared raise TypeError."""
    return lambda fn: front(*names, method=False, out=out)(parsed(fn))


def _cast(name: str, fn: Any, *args: Any) -> Any:
    """Call a function with its arguments cast as autocast casts those of the loss of that name."""
    chosen = casting.asked(casting.policy(name, "nn.functional"), (args, {})) if casting.on else None
    return fn(*args) if chosen is None else casting.run(chosen, args, lambda given: fn(*given))


def _reduction(number: int) -> str:
    """Return the name of a reduction; as in PyTorch, any number but 1 and 2 means none."""
    return {1: "mean", 2: "sum"}.get(number, "none")


def _word(words: tuple[str, ...], number: int, what: str) -> str:
    if not 0 <= number < len(words):
        raise RuntimeError(f"{what} must be one of {', '.join(f'{i} ({w})' for i, w in enumerate(words))}, but got {number}")
    return words[number]


for _name in ("bilinear", "cosine_similarity", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
    functions[_name] = functions[f"nn.functional.{_name}"]
functions["native_channel_shuffle"] = functions["channel_shuffle"]


# -- losses ------------------------------------------------------------------------------------------------------------------------


@native("kl_div")
def _kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Any:
    """`nn.functional.kl_div`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    word = _reduction(reduction)
    out = _F("kl_div", input, target, reduction="none" if word == "mean" else word, log_target=log_target)
    return out.mean() if word == "mean" else out  # nn.functional warns about "mean"


@native("ctc_loss")
def _ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int], target_lengths: Tensor | Sequence[int], blank: int = 0, reduction: int = 0, zero_infinity: bool = False) -> Any:
    """`nn.functional.ctc_loss`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("ctc_loss", log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)


@native("margin_ranking_loss")
def _margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Any:
    """`nn.functional.margin_ranking_loss` for tensors that broadcast; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _cast("margin_ranking_loss", _margin.ranked, input1, input2, target, margin, _reduction(reduction))


@native("hinge_embedding_loss")
def _hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Any:
    """`nn.functional.hinge_embedding_loss`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("hinge_embedding_loss", input, target, margin, reduction=_reduction(reduction))


@native("cosine_embedding_loss")
def _cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0) -> Any:
    """`nn.functional.cosine_embedding_loss`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("cosine_embedding_loss", input1, input2, target, margin, reduction=_reduction(reduction))


@native("triplet_margin_loss")
def _triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: int = 0) -> Any:
    """`nn.functional.triplet_margin_loss` with any margin; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _cast("triplet_margin_loss", _margin.triplet, anchor, positive, negative, margin, p, eps, swap, _reduction(reduction))


@native("poisson_nll_loss")
def _poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    """`nn.functional.poisson_nll_loss`; `reduction` is 0 (none), 1 (mean) or 2 (sum)."""
    return _F("poisson_nll_loss", input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


@native("binary_cross_entropy_with_logits")
def _binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 0) -> Any:
    """`nn.functional.binary_cross_entropy_with_logits` with broadcasting; `reduction` is 0 (none, the default), 1 (mean) or 2 (sum)."""
    refuse_gradients("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    logs = _F("logsigmoid", input)
    logs = logs if pos_weight is None else logs.mul_((pos_weight - 1) * target + 1)
    each = (1 - target).mul_(input).sub_(logs)
    return loss.finish(each if weight is None else each.mul_(weight), _reduction(reduction))


# -- normalization, dropout ----------------------------------------------------------------------------------------------------------


@native("batch_norm")
def _batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool) -> Any:
    """`nn.functional.batch_norm`, also for one value per channel; `cudnn_enabled` has no effect."""
    return norm.normalized(input, running_mean, running_var, weight, bias, training, momentum, eps)


@native("instance_norm")
def _instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool) -> Any:
    """`nn.functional.instance_norm`, also for one value per channel; `cudnn_enabled` has no effect."""
    return norm.of_samples(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@native("layer_norm")
def _layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True) -> Any:
    """`nn.functional.layer_norm`; `cudnn_enable` has no effect."""
    return _F("layer_norm", input, normalized_shape, weight, bias, eps)


@native("rms_norm")
def _rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Any:
    """`nn.functional.rms_norm`."""
    return norm.rms_norm.call(input, normalized_shape, weight, eps)


@native("group_norm")
def _group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True) -> Any:
    """`nn.functional.group_norm`, also for one value per group; `cudnn_enabled` has no effect."""
    input.size(1)  # IndexError without channels
    return norm.group_norm.call(input, num_groups, weight, bias, eps)


def _spread(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    return x.mean(dims, keepdim=True), (x.var(dims, correction=0, keepdim=True) + eps).rsqrt()


def _wide(input: Tensor, *weights: Tensor | None) -> Tensor:
    """Cast the input to the dtype of its statistics: float32 for half precision with float32 weights."""
    return input.float() if norm.mixed(input, *weights) else input


@native("native_layer_norm", out=True)
def _native_layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """`layer_norm`, and the means and inverse standard deviations that it used, as constants."""
    return (_layer_norm(input, normalized_shape, weight, bias, eps), *_spread(_wide(input.detach(), weight, bias), tuple(range(-len(normalized_shape), 0)), eps))


@native("native_group_norm", out=True)
def _native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    """`group_norm`, and the means and inverse standard deviations of each group (N, group)."""
    spread = _spread(_wide(input, weight, bias).reshape((N, group, C // group * HxW)), (-1,), eps)
    return (_group_norm(input, group, weight, bias, eps), *(s[..., 0] for s in spread))


@native("native_batch_norm", out=True)
def _native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: bool, momentum: float, eps: float) -> Any:
    """`batch_norm`, and the batch's means and inverse standard deviations (C), as constants; empty if it used the running ones."""
    out = norm.normalized(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    return (out, *(s.reshape(-1) for s in _spread(_wide(input.detach(), running_mean, running_var, weight, bias), tuple(d for d in range(input.ndim) if d != 1), eps)))


def _dropouts() -> None:
    for name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
        wordy = functions.setdefault(f"nn.functional.{name}", functions[name])

        def call(input, p, train, *, of=wordy):
            return of(input, p, train)

        call.__doc__ = wordy.__doc__
        front(name, method=False)(call)


_dropouts()


@native("feature_dropout")
def _feature_dropout(input: Tensor, p: float, train: bool) -> Any:
    """Zero whole channels (N, C, ...) with probability `p`, and scale the others by 1 / (1 - p)."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    kept = functions["dropout"](input.new_ones((*input.shape[:2], *[1] * (input.ndim - 2))), p, train)
    return input * kept


@native("native_dropout")
def _native_dropout(input: Tensor, p: float, train: bool | None) -> Any:
    """`dropout`, and the mask of the elements it kept."""
    if not train and train is not None or p == 0:
        return input, input.new_ones(tuple(input.shape)).bool()
    kept = functions["dropout"](input.new_ones(tuple(input.shape)), p, True)
    return input * kept, kept != 0


@native("rrelu")
def _rrelu(input: Tensor, lower: complex = 0.125, upper: complex = 1 / 3, training: bool = False, generator=None) -> Any:
    """`nn.functional.rrelu`: negative elements times a slope between `lower` and `upper`, drawn for each in training."""
    if generator is not None:
        raise ValueError("rrelu: a generator of its own is not supported; it draws from the default generator")
    return _F("rrelu", input, lower, upper, training)


# -- convolution, pooling, sampling ----------------------------------------------------------------------------------------------------


@native("convolution")
def _convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int) -> Any:
    """`conv1d` to `conv3d`, or with `transposed` `conv_transpose1d` to `conv_transpose3d`, by the weight's dimensions."""
    n = weight.ndim - 2
    if n < 1: raise RuntimeError("weight should have at least three dimensions")
    if n > 3: raise RuntimeError(f"convolution: expected a weight of 3 to 5 dimensions, but got {weight.ndim}")
    if transposed:
        return _F(f"conv_transpose{n}d", input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _F(f"conv{n}d", input, weight, bias, stride, padding, dilation, groups)


@native("conv_tbc")
def _conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Any:
    """Convolution over time of an input (time, batch, in) with a weight (width, in, out) and a bias (out): (time', batch, out)."""
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise RuntimeError("conv_tbc: Input and weight must have 3 dims: time, batch, in_channel and width, in_channel, out_channel; bias 1")
    return _F("conv1d", input.permute((1, 2, 0)), weight.permute((2, 1, 0)), bias, 1, pad).permute((2, 0, 1))


functions["nn.functional.conv_tbc"] = _conv_tbc


@native("constant_pad_nd")
def _constant_pad_nd(input: Tensor, pad: Sequence[int], value: complex = 0) -> Any:
    """Pad the tensor with `value`: `pad` holds (before, after) from the last dimension on, and negative sizes crop."""
    if len(pad) % 2: raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    return constant_pad.call(input, pad, fitting(value, input.dtype))


@native("max_pool1d_with_indices")
def _max_pool1d_with_indices(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> Any:
    """`max_pool1d`, and the index of each maximum."""
    return _F("max_pool1d", input, kernel_size, None if stride is None or stride == [] else stride, padding, dilation, ceil_mode, True)


@native("adaptive_max_pool1d")
def _adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> Any:
    """`nn.functional.adaptive_max_pool1d`, and the index of each maximum."""
    return _F("adaptive_max_pool1d", input, output_size, True)


@native("grid_sampler")
def _grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """`nn.functional.grid_sample`; modes are 0 (bilinear), 1 (nearest), 2 (bicubic), paddings 0 (zeros), 1 (border), 2 (reflection)."""
    _grid.refuse_unfit(input, grid)
    refuse_whole_numbers("grid_sampler", input)
    return _F("grid_sample", input, grid, _word(_MODES, interpolation_mode, "interpolation_mode"), _word(_PADDINGS, padding_mode, "padding_mode"), align_corners)


def _samplers() -> None:
    for n in (2, 3):

        def call(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool, *, n=n) -> Any:
            _grid.refuse_unfit(input, grid)
            if input.ndim != n + 2: raise RuntimeError(f"grid_sampler(): expected {n + 2}D input and grid with same number of dimensions, but got input with sizes {list(input.shape)}")
            return _grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

        call.__doc__ = f"`grid_sampler` for inputs of {n + 2} dimensions."
        native(f"grid_sampler_{n}d")(call)


_samplers()


@native("affine_grid_generator")
def _affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Any:
    """`nn.functional.affine_grid`."""
    if len(size) not in (4, 5): raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    if min(size) < 0: raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if theta.dtype.name in ("bool", "uint16", "uint32", "uint64"): raise NotImplementedError(f"affine_grid_generator: not implemented for {theta.dtype.name}")
    return _grid.places(theta, size, align_corners)


@native("embedding")
def _embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    """Rows of `weight` at `indices`; a `padding_idx` outside the table is ignored."""
    _refuse_no_table(weight)
    if indices.numel() and not len(weight): raise RuntimeError("embedding: indices into a table without rows")
    return _F("embedding", indices, weight, padding_idx if 0 <= padding_idx < len(weight) else None, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def _refuse_no_table(weight: Tensor) -> None:
    if weight.requires_grad and tape.mode.grad: weight.size(0)  # for the gradient, PyTorch first reads the number of rows
    if weight.ndim != 2: raise RuntimeError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")


_BAGS = ("sum", "mean", "max")


@native("embedding_bag", "_embedding_bag")
def _embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None) -> Any:
    """`nn.functional.embedding_bag` and what PyTorch saves of it: `(output, offset2bag, bag_size, max_indices)`.

    `mode` is 0 (sum), 1 (mean) or 2 (max). `offset2bag` is the bag of each index, `bag_size` the number of indices that count in each bag,
    and for the maximum `max_indices` the row each element came from. For a sum they are zeros, as in PyTorch, and `offset2bag` is empty
    unless the table is float64 or `padding_idx` is given.
    """
    if padding_idx is not None and not -weight.size(0) <= padding_idx < weight.size(0):
        raise RuntimeError(f"padding_idx must be within the number of embeddings, {-len(weight)} through {len(weight) - 1}, but got {padding_idx}")
    _refuse_no_table(weight)
    if indices.dtype not in (int32, int64) or offsets.dtype not in (int32, int64) or not weight.is_floating_point():
        raise RuntimeError(f"embedding_bag: expected indices and offsets of int64 or int32 and a floating weight, but got {indices.dtype.name}, {offsets.dtype.name} and {weight.dtype.name}")
    if per_sample_weights is not None and mode: raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    if indices.ndim == 2 and offsets.size(0) and offsets.ndim > 1 and not offsets.reshape(-1)[0].item(): raise IndexError(f"index_add_(): Index is supposed to be a vector, but got dim: {offsets.ndim}")
    if indices.ndim != 1 or offsets.ndim != 1: raise RuntimeError(f"embedding_bag: indices and offsets must have 1 dimension, but have {indices.ndim} and {offsets.ndim}")
    word = _word(_BAGS, mode, "mode")
    if per_sample_weights is not None and per_sample_weights.shape != indices.shape: raise RuntimeError(f"expected per_sample_weights of the same shape as indices, but got {list(per_sample_weights.shape)} and {list(indices.shape)}")
    out = _F("embedding_bag", indices, weight, offsets, None, 2.0, scale_grad_by_freq, word, sparse, per_sample_weights, include_last_offset, padding_idx)
    count, none = out.shape[0], offsets.new_zeros((0,))
    if not indices.shape[0] or word == "sum" and padding_idx is None and weight.dtype is not float64:
        whole = none
    else:
        whole = bag.of_each(indices, offsets, include_last_offset)
    if word == "sum" or not indices.shape[0]:
        zeros = offsets.new_zeros(offsets.shape if word == "sum" else (count,))
        return out, whole, zeros, zeros.new_zeros((count, weight.shape[1])) if word == "max" else zeros
    counted = whole if padding_idx is None else whole[indices != padding_idx % len(weight)]
    sizes = offsets.new_zeros((count,)).index_add(0, counted, offsets.new_ones(counted.shape))
    if word == "mean": return out, whole, sizes, sizes
    if padding_idx is not None: indices = indices[indices != padding_idx % len(weight)]
    return out, whole, sizes, bag.largest(weight, indices, counted, count)


@native("_weight_norm")
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """`g * v / ||v||`, with the norm over all dimensions but `dim`."""
    return v * (g / functions["norm_except_dim"](v, 2, dim))


# -- splitting -------------------------------------------------------------------------------------------------------------------


@native("split_with_sizes", "unsafe_split_with_sizes")
def _split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Views of pieces of the given sizes along a dimension."""
    return split(input, list(split_sizes), dim)
