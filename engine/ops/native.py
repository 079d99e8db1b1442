"""Functions of `torch` itself that layers and losses are made of, with its argument lists: all positional, reductions and modes as numbers."""

from __future__ import annotations

from typing import Any

from ..dtypes import float64
from ..op import functions
from ..tensor import Tensor
from . import bag, conv, ctc, distance, embedding, loss, norm, pool, random, shape  # noqa: F401  their functions get further names
from . import grid as _grid  # noqa: F401
from .front import front
from .split import split

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _F(name: str, *args: Any, **kwargs: Any) -> Any:
    """The function of that name in `nn.functional`."""
    return functions[f"nn.functional.{name}"](*args, **kwargs)


def _reduction(number: Any) -> str:
    """PyTorch's functions take any other number for no reduction, and none is their default."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"argument 'reduction' must be int, not {type(number).__name__}; the functions in nn.functional take words")
    return {1: "mean", 2: "sum"}.get(number, "none")


def _word(words: tuple[str, ...], number: Any, what: str) -> str:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"argument '{what}' must be int, not {type(number).__name__}; the functions in nn.functional take words")
    if not 0 <= number < len(words):
        raise RuntimeError(f"{what} must be one of {', '.join(f'{i} ({w})' for i, w in enumerate(words))}, but got {number}")
    return words[number]


for _name in ("bilinear", "cosine_similarity", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
    functions[_name] = functions[f"nn.functional.{_name}"]
functions["native_channel_shuffle"] = functions["channel_shuffle"]


# -- losses ------------------------------------------------------------------------------------------------------------------------


@front("kl_div", method=False)
def _kl_div(input, target, reduction=0, *, log_target=False):
    """`nn.functional.kl_div`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    word = _reduction(reduction)
    out = _F("kl_div", input, target, reduction="none" if word == "mean" else word, log_target=log_target)
    return out.mean() if word == "mean" else out  # nn.functional warns of "mean"


@front("ctc_loss", method=False)
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
    """`nn.functional.ctc_loss`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("ctc_loss", log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)


@front("margin_ranking_loss", method=False)
def _margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    """`nn.functional.margin_ranking_loss`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("margin_ranking_loss", input1, input2, target, margin, reduction=_reduction(reduction))


@front("hinge_embedding_loss", method=False)
def _hinge_embedding_loss(input, target, margin=1.0, reduction=0):
    """`nn.functional.hinge_embedding_loss`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("hinge_embedding_loss", input, target, margin, reduction=_reduction(reduction))


@front("cosine_embedding_loss", method=False)
def _cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    """`nn.functional.cosine_embedding_loss`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("cosine_embedding_loss", input1, input2, target, margin, reduction=_reduction(reduction))


@front("triplet_margin_loss", method=False)
def _triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=0):
    """`nn.functional.triplet_margin_loss`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("triplet_margin_loss", anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction))


@front("poisson_nll_loss", method=False)
def _poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """`nn.functional.poisson_nll_loss`; `reduction` is 0 (none), 1 (mean) or 2 (sum)."""
    return _F("poisson_nll_loss", input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


@front("binary_cross_entropy_with_logits", method=False)
def _binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0):
    """`nn.functional.binary_cross_entropy_with_logits`; `reduction` is 0 (none, the default here), 1 (mean) or 2 (sum)."""
    return _F("binary_cross_entropy_with_logits", input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight)


# -- normalisation, dropout ----------------------------------------------------------------------------------------------------------


@front("batch_norm", method=False)
def _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True):
    """`nn.functional.batch_norm`; `cudnn_enabled` cannot change the result."""
    return _F("batch_norm", input, running_mean, running_var, weight, bias, training, momentum, eps)


@front("instance_norm", method=False)
def _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=True):
    """`nn.functional.instance_norm`; `cudnn_enabled` cannot change the result."""
    return _F("instance_norm", input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@front("layer_norm", method=False)
def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """`nn.functional.layer_norm`; `cudnn_enable` cannot change the result."""
    return _F("layer_norm", input, normalized_shape, weight, bias, eps)


@front("group_norm", method=False)
def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """`nn.functional.group_norm`; `cudnn_enabled` cannot change the result."""
    return norm.group_norm.call(input, num_groups, weight, bias, eps)


def _spread(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    return x.mean(dims, keepdim=True), (x.var(dims, correction=0, keepdim=True) + eps).rsqrt()


@front("native_layer_norm", method=False, out=True)
def _native_layer_norm(input, normalized_shape, weight, bias, eps):
    """`layer_norm`, and the means and the inverse standard deviations that it divided by, as constants."""
    return (_layer_norm(input, normalized_shape, weight, bias, eps), *_spread(input.detach(), tuple(range(-len(normalized_shape), 0)), eps))


@front("native_group_norm", method=False, out=True)
def _native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """`group_norm`, and the means and inverse standard deviations of each group (N, group)."""
    spread = _spread(input.reshape((N, group, C // group * HxW)), (-1,), eps)
    return (_group_norm(input, group, weight, bias, eps), *(s[..., 0] for s in spread))


@front("native_batch_norm", method=False, out=True)
def _native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """`batch_norm`, and the batch's means and inverse standard deviations (C), as constants; empty when it used the running ones."""
    out = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    return (out, *(s.reshape(-1) for s in _spread(input.detach(), tuple(d for d in range(input.ndim) if d != 1), eps)))


def _dropouts() -> None:
    for name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
        wordy = functions.setdefault(f"nn.functional.{name}", functions[name])

        def call(input, p, train, *, of=wordy):
            return of(input, p, train)

        call.__doc__ = wordy.__doc__
        front(name, method=False)(call)


_dropouts()


@front("feature_dropout", method=False)
def _feature_dropout(input, p, train):
    """Whole channels (N, C, ...) set to 0 with probability `p`, the others scaled by 1 / (1 - p)."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    kept = functions["dropout"](input.new_ones((*input.shape[:2], *[1] * (input.ndim - 2))), p, train)
    return input * kept


@front("native_dropout", method=False)
def _native_dropout(input, p, train):
    """`dropout`, and the mask of what was kept."""
    if not train and train is not None or p == 0:
        return input, input.new_ones(tuple(input.shape)).bool()
    kept = functions["dropout"](input.new_ones(tuple(input.shape)), p, True)
    return input * kept, kept != 0


@front("rrelu", method=False)
def _rrelu(input, lower=0.125, upper=1 / 3, training=False, generator=None):
    """`nn.functional.rrelu`: negative numbers times a slope between `lower` and `upper`, drawn for each when training."""
    if generator is not None:
        raise ValueError("rrelu: a generator of its own is not supported; it draws from the default generator")
    return _F("rrelu", input, lower, upper, training)


# -- convolution, pooling, sampling ----------------------------------------------------------------------------------------------------


@front("convolution", method=False)
def _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """`conv1d` to `conv3d`, or with `transposed` `conv_transpose1d` to `conv_transpose3d`, by the weight's dimensions."""
    n = weight.ndim - 2
    if transposed:
        return _F(f"conv_transpose{n}d", input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _F(f"conv{n}d", input, weight, bias, stride, padding, dilation, groups)


@front("conv_tbc", method=False)
def _conv_tbc(input, weight, bias, pad=0):
    """A convolution over time of an input (time, batch, in) with a weight (width, in, out) and a bias (out): (time', batch, out)."""
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise RuntimeError("conv_tbc: Input and weight must have 3 dims: time, batch, in_channel and width, in_channel, out_channel; bias 1")
    return _F("conv1d", input.permute((1, 2, 0)), weight.permute((2, 1, 0)), bias, 1, pad).permute((2, 0, 1))


functions["nn.functional.conv_tbc"] = _conv_tbc


@front("max_pool1d_with_indices", method=False)
def _max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """`max_pool1d`, and where each maximum stood."""
    return _F("max_pool1d", input, kernel_size, None if stride is None or stride == [] else stride, padding, dilation, ceil_mode, True)


@front("adaptive_max_pool1d", method=False)
def _adaptive_max_pool1d(input, output_size):
    """`nn.functional.adaptive_max_pool1d`, and where each maximum stood."""
    return _F("adaptive_max_pool1d", input, output_size, True)


@front("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", method=False)
def _grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """`nn.functional.grid_sample`; modes are 0 (bilinear), 1 (nearest), 2 (bicubic), paddings 0 (zeros), 1 (border), 2 (reflection)."""
    return _F("grid_sample", input, grid, _word(_MODES, interpolation_mode, "interpolation_mode"), _word(_PADDINGS, padding_mode, "padding_mode"), align_corners)


@front("affine_grid_generator", method=False)
def _affine_grid_generator(theta, size, align_corners):
    """`nn.functional.affine_grid`."""
    return _F("affine_grid", theta, size, align_corners)


@front("embedding", method=False)
def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """The rows of `weight` that `indices` name; `padding_idx` -1 is none."""
    return _F("embedding", indices, weight, None if padding_idx == -1 else padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


_BAGS = ("sum", "mean", "max")


@front("embedding_bag", "_embedding_bag", method=False)
def _embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """`nn.functional.embedding_bag` and what PyTorch keeps of it: `(output, offset2bag, bag_size, max_indices)`; `mode` is 0 (sum), 1 (mean) or 2 (max).

    `offset2bag` is the bag of each index, `bag_size` how many indices count in each bag, and for the maximum `max_indices` the row each element
    came from. Of a sum they are, as in PyTorch, zeros, and `offset2bag` is empty unless the table is of float64 or `padding_idx` is given.
    """
    word = _word(_BAGS, mode, "mode")
    if indices.ndim != 1: raise RuntimeError(f"embedding_bag: indices must have 1 dimension, but got {indices.ndim}")
    if weight.ndim != 2: raise RuntimeError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if per_sample_weights is not None and word != "sum": raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    if padding_idx is not None and not -len(weight) <= padding_idx < len(weight):
        raise RuntimeError(f"padding_idx must be within the number of embeddings, {-len(weight)} through {len(weight) - 1}, but got {padding_idx}")
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


@front("_weight_norm", method=False)
def weight_norm(v, g, dim=0):
    """g v / ||v||, with the norm over all dimensions but `dim`."""
    return v * (g / functions["norm_except_dim"](v, 2, dim))


# -- pieces ----------------------------------------------------------------------------------------------------------------------


@front("split_with_sizes", "unsafe_split_with_sizes", method=False)
def _split_with_sizes(input, split_sizes, dim=0):
    """Views of pieces of the given sizes along a dimension."""
    return split(input, list(split_sizes), dim)
