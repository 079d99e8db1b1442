"""Attention: softmax(Q Kᵀ / sqrt(d)) V, by itself and between learned projections."""

import math

from ..core import random
from ..core.create import made
from ..core.devices import namespace
from ..core.op import Op, composite, functions


class attention(Op):
    """softmax(Q Kᵀ * scale + mask) V in one pass, where a device has a kernel for it; the weights are never in memory as a whole.

    `tensors` are query, key and value and, if `masked`, the mask and, with dropout, the state that it is drawn from. Heads, masks and the
    result are as in `scaled_dot_product_attention`. The mask gets a gradient with `to_mask`.
    """

    home, variadic, inputs, types, aux, halves = "", True, ("tensors",), "any", ("logsumexp",), True
    exempt = {"promotion": "Only scaled_dot_product_attention calls it, with tensors of one dtype.", "zero_size": "PyTorch has no function of this name; scaled_dot_product_attention is tested."}
    formula = "softmax(tensors[0] @ tensors[1].T * scale) @ tensors[2]"
    examples = ((((2, 3, 4), (2, 5, 4), (2, 5, 3)), {"scale": 0.5}), (((2, 4, 3, 4), (2, 2, 6, 4), (2, 2, 6, 3)), {"causal": True}))

    def forward(xp, tensors, scale=1.0, causal=False, masked=False, dropout=0.0, to_mask=False): return xp.attention(*operands(tensors, masked), scale, causal, dropout)
    def d_tensors(xp, g, tensors, out, logsumexp, scale, causal, masked, dropout, to_mask):
        found = xp.attention_back(g, *operands(tensors, masked), out, logsumexp, scale, causal, dropout, to_mask)
        return (found if masked else found[:3]) + [None] * bool(dropout)


def operands(tensors, masked):
    """Query, key, value, the mask or None, and the state of the dropout or None."""
    query, key, value, *more = tensors
    return query, key, value, more[0] if masked else None, more[-1] if len(more) > masked else None


@composite(home="nn.functional")
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(Q Kᵀ * scale + mask) V for query (..., L, E), key (..., S, E) and value (..., S, Ev); the scale is 1 / sqrt(E) by default.

    A boolean mask is True where attention is allowed; a float mask is added. `is_causal` lets position i attend to positions up to i. With
    `enable_gqa` each head of key and value serves several heads of the query. A fully masked row gives zeros.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 2: raise RuntimeError(f"scaled_dot_product_attention: Expected query, key, and value to all be at least 2 dimensional, but got {name} of shape {list(x.shape)}")
    if not query.dtype == key.dtype == value.dtype: raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype.name} key.dtype: {key.dtype.name} and value.dtype: {value.dtype.name} instead.")
    if is_causal and attn_mask is not None: raise RuntimeError("scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if attn_mask is not None and attn_mask.dtype.name not in ("bool", "float32") and attn_mask.dtype != query.dtype: raise RuntimeError(f"Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {attn_mask.dtype.name} and  query.dtype: {query.dtype.name} instead.")
    scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    if 0 <= dropout_p < 1 and namespace(query.array).whole_attention(*[x if x is None else x.array for x in (query, key, value, attn_mask)], enable_gqa):
        return in_one_pass(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if enable_gqa:
        heads = query.shape[-3]
        if heads % key.shape[-3] or heads % value.shape[-3]: raise RuntimeError(f"Number of heads in key and value must divide the number of heads in query, but got {heads}, {key.shape[-3]} and {value.shape[-3]}")
        key, value = (x.repeat_interleave(heads // x.shape[-3], -3) for x in (key, value))
    scores = (query * scale) @ key.transpose(-2, -1)
    if is_causal:
        scores = scores.masked_fill(later(query, key.shape[-2]), -math.inf)
    elif attn_mask is not None and attn_mask.dtype.name == "bool":
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.to(scores.dtype)
    weights = functions["_safe_softmax"](scores, -1)
    if dropout_p: weights = functions["nn.functional.dropout"](weights, dropout_p)
    return weights @ value


def in_one_pass(query, key, value, mask, dropout, causal, scale):
    """`scaled_dot_product_attention` as one op."""
    tensors, to_mask = [query, key, value] + [mask] * (mask is not None), mask is not None and mask.requires_grad
    if dropout:
        arrays = [None if x is None else x.array for x in (query, key, value, mask)]
        draws = namespace(query.array).attention_draws(*arrays, causal, to_mask, random.generator_of(query.device))
        tensors.append(made(draws, query.device))
    return attention(tensors, scale, causal, mask is not None, dropout, to_mask)


def later(query, sources):
    """Boolean mask (L, S), True where a position would attend to a later one."""
    xp = namespace(query.array)
    return made(xp.greater(xp.arange(sources), xp.arange(query.shape[-2])[:, None]), query.device)


@composite(home="nn.functional")
def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight,
    out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None,
    k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True, is_causal=False,
):  # fmt: skip
    """Multi-head attention with the given weights: query (L, N, E), key and value (S, N, ...), or without N.

    Returns the output (L, N, E) and, with `need_weights`, the attention weights, averaged over the heads (N, L, S) or (N, heads, L, S). In
    a boolean mask, True means that attention is not allowed.
    """
    linear, cat = functions["nn.functional.linear"], functions["cat"]
    batched = query.ndim == 3
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    targets, n, embed = query.shape
    if embed != embed_dim_to_check: raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed}")
    head = embed // num_heads
    if head * num_heads != embed: raise AssertionError(f"embed_dim {embed} not divisible by num_heads {num_heads}")
    if is_causal and attn_mask is None: raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight.chunk(3)
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    mask, padding = additive(attn_mask, "attn_mask", q), additive(key_padding_mask, "key_padding_mask", q)

    def heads(x, rows):
        return x.reshape(rows, n * num_heads, head).transpose(0, 1)

    extra = 0
    if bias_k is not None and bias_v is not None:
        k, v, extra = cat([k, bias_k.expand(1, n, embed)]), cat([v, bias_v.expand(1, n, embed)]), 1
    q = heads(q, targets)
    k, v = (heads(x, x.shape[0]) if given is None else given for x, given in ((k, static_k), (v, static_v)))
    if add_zero_attn:
        empty = k.new_zeros((n * num_heads, 1, head))
        k, v, extra = cat([k, empty], 1), cat([v, empty], 1), extra + 1
    sources = k.shape[1]
    if mask is not None:
        given = sources - extra
        shapes = (targets, given), (n * num_heads, targets, given)
        if tuple(mask.shape) not in shapes: raise RuntimeError(f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {shapes[mask.ndim == 3]}.")
        mask = _wider(mask, extra)
    if padding is not None:
        if tuple(padding.shape) != (n, sources - extra): raise AssertionError(f"expected key_padding_mask of shape {(n, sources - extra)}, but got {tuple(padding.shape)}")
        padding = _wider(padding, extra).reshape(n, 1, 1, sources).expand(n, num_heads, 1, sources).reshape(n * num_heads, 1, sources)
        mask = padding if mask is None else mask + padding
    scores = (q * (1 / math.sqrt(head))) @ k.transpose(1, 2)
    found = (scores if mask is None else scores + mask).softmax(-1)
    if training and dropout_p: found = functions["nn.functional.dropout"](found, dropout_p)
    out = linear((found @ v).transpose(0, 1).reshape(targets * n, embed), out_proj_weight, out_proj_bias).reshape(targets, n, -1)
    shown = None
    if need_weights:
        shown = found.reshape(n, num_heads, targets, sources)
        shown = shown.mean(1) if average_attn_weights else shown
    return (out, shown) if batched else (out.squeeze(1), None if shown is None else shown.squeeze(0))


def additive(mask, name, like):
    """Convert a boolean mask to one that is added to the scores: True becomes -inf, False 0. A float mask is unchanged."""
    if mask is None or mask.is_floating_point(): return mask
    if mask.dtype.name != "bool": raise AssertionError(f"only bool and floating types of {name} are supported")
    zeros = made(namespace(mask.array).zeros(mask.shape, like.array.dtype), mask.device)
    return zeros.masked_fill(mask, -math.inf)  # an op, so that observers see the mask


def _wider(mask, extra):
    """Extend a mask by the sources added at the end, to which all positions may attend."""
    return functions["nn.functional.pad"](mask, (0, extra)) if extra else mask
