"""Op by op, an independent expression in NumPy or SciPy: called like the op's `forward`, on float64 arrays, without `xp`."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.special

# -- shapes ----------------------------------------------------------------------------------------------------------------


def _padded(x, pad, value=0):
    """Borders added element by element; negative sizes cut off."""
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    out = np.full([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)], value, x.dtype)
    for place in np.ndindex(*out.shape):
        source = tuple(p - a for p, (a, _) in zip(place, pairs, strict=True))
        if all(0 <= s < n for s, n in zip(source, x.shape, strict=True)):
            out[place] = x[source]
    return out


def _on_diagonal(x, shape, offset=0, dim1=0, dim2=1):
    out = np.zeros(shape)
    for i in range(x.shape[-1]):
        place = [slice(None)] * len(shape)
        place[dim1], place[dim2] = i + max(-offset, 0), i + max(offset, 0)
        out[tuple(place)] = x[..., i]
    return out


def _windows(x, dimension, size, step):
    x = np.moveaxis(x, dimension, -1)
    found = np.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, step)], -2)
    return np.moveaxis(found, -2, dimension if dimension >= 0 else dimension - 1)


def _from_windows(x, shape, dimension, size, step):
    out = np.zeros(shape)
    for i in range(x.shape[dimension]):
        for k in range(size):
            place = [slice(None)] * len(shape)
            place[dimension] = i * step + k
            out[tuple(place)] += np.take(x, i, dimension)[..., k]
    return out


def _written(x, other, path=()):
    """Which element of the base each element of the view is, by sending element numbers down the path."""
    numbers = _seen(np.arange(x.size).reshape(x.shape), path)
    out = x.copy().reshape(-1)
    out[numbers] = other
    return out.reshape(x.shape)


def _seen(x, path=()):
    plain = {"permute": lambda a, dims: a.transpose(dims), "reshape": lambda a, shape: a.reshape(shape), "diagonal": np.diagonal}
    for op, attrs in path:
        x = plain[op.name](x, **attrs)
    return x


def _triangle(x, keep):
    rows, columns = np.indices(x.shape[-2:])
    return np.where(keep(columns - rows), x, 0)


SHAPE = {
    "to_dtype": lambda input, dtype: input.astype(dtype.name),
    "to_device": lambda input, device, source: input,
    "complex": lambda real, imag: real + 1j * imag,
    "reshape": lambda input, shape: input.reshape(shape),
    "view": lambda input, shape: input.reshape(shape),
    "view_as_dtype": lambda input, dtype: np.frombuffer(input.tobytes(), dtype.name),
    "squeeze": lambda input, dim=None: np.squeeze(input, dim if dim is None else tuple(d for d in np.atleast_1d(dim) if input.shape[d] == 1)),
    "unsqueeze": lambda input, dim: np.expand_dims(input, dim),
    "transpose": lambda input, dim0, dim1: np.swapaxes(input, dim0, dim1),
    "permute": lambda input, dims: np.transpose(input, dims),
    "movedim": lambda input, source, destination: np.moveaxis(input, source, destination),
    "expand": lambda input, size: input + np.zeros([n if n != -1 else input.shape[i - len(size)] for i, n in enumerate(size)]),
    "broadcast_to": lambda input, size: input + np.zeros(size),
    "diagonal": lambda input, offset=0, dim1=0, dim2=1: np.diagonal(input, offset, dim1, dim2),
    "put_diagonal": _on_diagonal,
    "unfold": _windows,
    "put_windows": _from_windows,
    "clone": lambda input: input,
    "flip": lambda input, dims: np.flip(input, dims),
    "roll": lambda input, shifts, dims=None: np.roll(input, shifts, dims),
    "tril": lambda input, diagonal=0: _triangle(input, lambda d: d <= diagonal),
    "triu": lambda input, diagonal=0: _triangle(input, lambda d: d >= diagonal),
    "write_view": _written,
    "read_view": _seen,
    "cat": lambda tensors, dim=0: np.concatenate(tensors, dim),
    "stack": lambda tensors, dim=0: np.stack(tensors, dim),
    "tile": lambda input, dims: np.tile(input, dims),
    "constant_pad": _padded,
}

# -- indices ---------------------------------------------------------------------------------------------------------------


def _at(input, index, value, combine):
    out = input.copy()
    value = np.broadcast_to(value, out[index].shape)
    numbers = np.arange(out.size).reshape(out.shape)[index]
    flat = out.reshape(-1)
    for n, v in zip(np.ravel(numbers), np.ravel(value), strict=True):
        flat[n] = combine(flat[n], v)
    return flat.reshape(out.shape)


def _scattered(input, index, src, dim, combine):
    """One element at a time, in the order of the index."""
    out = input.copy()
    for place in np.ndindex(*index.shape):
        target = list(place)
        target[dim] = index[place]
        out[tuple(target)] = combine(out[tuple(target)], src[place])
    return out


def _gathered(input, index, dim):
    out = np.zeros(index.shape)
    for place in np.ndindex(*index.shape):
        source = list(place)
        source[dim] = index[place]
        out[place] = input[tuple(source)]
    return out


def _slices(input, index, source, dim, combine):
    out = np.moveaxis(input.copy(), dim, 0)
    for i, piece in zip(index, np.moveaxis(source, dim, 0), strict=True):
        out[i] = combine(out[i], piece)
    return np.moveaxis(out, 0, dim)


def _sorted(input, dim=-1, descending=False, stable=False):
    order = np.argsort(-input if descending else input, axis=dim, kind="stable")
    return np.take_along_axis(input, order, dim), order


def _topk(input, k, dim=-1, largest=True):
    values, order = _sorted(input, dim, largest)
    return np.take(values, range(k), dim), np.take(order, range(k), dim)


def _rows_added(input, index, count, padding_idx=None, scale=False):
    out = np.zeros((count, input.shape[-1]))
    often = np.bincount(index.ravel(), minlength=count)
    for i, row in zip(index.ravel(), input.reshape(-1, input.shape[-1]), strict=True):
        if i != padding_idx:
            out[i] += row / (often[i] if scale else 1)
    return out


def _rows_read(input, index, count, padding_idx=None, scale=False):
    often = np.bincount(index.ravel(), minlength=count)
    rows = [input[i] * (i != padding_idx) / (often[i] if scale else 1) for i in index.ravel()]
    return np.array(rows).reshape(*index.shape, -1)


second = lambda old, new: new  # noqa: E731

INDEX = {
    "getitem": lambda input, index: input[index],
    "put_zeros": lambda input, shape, index: _at(np.zeros(shape), index, input, np.add),
    "copy": lambda input, src: np.zeros_like(input) + src,
    "fill": lambda input, value: np.full(input.shape, value),
    "index_put": lambda input, values, indices, accumulate=False: _at(input, indices, values, np.add if accumulate else second),
    "gather": lambda input, index, dim: _gathered(input, index, dim),
    "scatter": lambda input, index, src, dim: _scattered(input, index, src, dim, second),
    "scatter_add": lambda input, index, src, dim: _scattered(input, index, src, dim, np.add),
    "scatter_prod": lambda input, index, src, dim: _scattered(input, index, src, dim, np.multiply),
    "scatter_extreme": lambda input, index, src, dim, reduce: _scattered(input, index, src, dim, {"amax": max, "amin": min}[reduce]),
    "index_add": lambda input, index, source, dim, alpha=1: _slices(input, index, alpha * source, dim, np.add),
    "index_copy": lambda input, index, source, dim: _slices(input, index, source, dim, second),
    "index_select": lambda input, index, dim: np.stack([np.take(input, i, dim) for i in index], dim),
    "masked_fill": lambda input, mask, value: np.where(mask, value, input),
    "sort": _sorted,
    "topk": _topk,
    "embedding": lambda input, weight: weight[input],
    "add_rows": _rows_added,
    "read_rows": _rows_read,
}

# -- element by element ----------------------------------------------------------------------------------------------------


def same(names):
    return {name: getattr(np, name) for name in names.split()}


def scipys(names):
    return {name: getattr(scipy.special, name) for name in names.split()}


def _gelu(input, approximate="none"):
    if approximate == "tanh":
        return input / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (input + 0.044715 * input**3)))
    return input * scipy.special.ndtr(input)


ELEMENTWISE = (
    same("exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal hypot logaddexp logaddexp2 fmod sign abs sin cos tan sinh cosh tanh")
    | same("ceil floor trunc deg2rad rad2deg real imag conj isnan isinf isfinite isposinf isneginf isreal signbit isclose")
    | same("logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not")
    | same("maximum minimum fmax fmin copysign heaviside sinc floor_divide remainder angle nextafter gcd lcm")
    | scipys("erf erfc erfinv digamma i0 i1 i0e i1e xlogy xlog1py logit entr ndtri log_ndtr ndtr erfcx")
    | {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "trunc_divide": lambda input, other: np.trunc(input / other),
        "neg": np.negative,
        "sgn": lambda input: input / np.abs(input),
        "pow": np.power,
        "rsqrt": lambda input: input**-0.5,
        "lerp": lambda input, end, weight: (1 - weight) * input + weight * end,
        "addcmul": lambda input, tensor1, tensor2, value=1: input + value * tensor1 * tensor2,
        "addcdiv": lambda input, tensor1, tensor2, value=1: input + value * tensor1 / tensor2,
        "round": lambda input, decimals=0: np.rint(input * 10.0**decimals) / 10.0**decimals,
        "frac": lambda input: np.fmod(input, 1),
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "bitwise_left_shift": np.left_shift,
        "bitwise_right_shift": np.right_shift,
        "where": np.where,
        "clamp": lambda input, min=None, max=None: np.array([np.clip(x, low, high) for x, low, high in np.broadcast(input, min, max)]).reshape(
            np.broadcast(input, min, max).shape
        ),
        "clamp_min": np.maximum,
        "clamp_max": np.minimum,
        "nan_to_num": np.nan_to_num,
        "asin": np.arcsin,
        "acos": np.arccos,
        "atan": np.arctan,
        "atan2": np.arctan2,
        "asinh": np.arcsinh,
        "acosh": np.arccosh,
        "atanh": np.arctanh,
        "lgamma": scipy.special.gammaln,
        "polygamma": lambda input, n=1: scipy.special.polygamma(n, input),
        "sigmoid": scipy.special.expit,
        "relu": lambda input: np.where(input > 0, input, 0),
        "gelu": _gelu,
        "silu": lambda input: input * scipy.special.expit(input),
        "mish": lambda input: input * np.tanh(np.log1p(np.exp(input))),
        "softplus": lambda input, beta=1, threshold=20: np.log1p(np.exp(beta * input)) / beta,
        "elu": lambda input, alpha=1.0: np.where(input > 0, input, alpha * np.expm1(input)),
        "leaky_relu": lambda input, negative_slope=0.01: np.where(input > 0, input, negative_slope * input),
        "hardtanh": lambda input, min_val=-1.0, max_val=1.0: np.clip(input, min_val, max_val),
        "relu6": lambda input: np.clip(input, 0, 6),
        "logsigmoid": lambda input: -np.logaddexp(0, -input),
    }
)

# -- convolutions, one product at a time -----------------------------------------------------------------------------------


def _each(value, n):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


def _convolve(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The definition: each result is a sum of products over the channels of its group and the places of the kernel."""
    n = weight.ndim - 2
    x = input if input.ndim == n + 2 else input[None]
    stride, dilation, kernel = _each(stride, n), _each(dilation, n), weight.shape[2:]
    if padding == "same":
        pads = [(d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2) for d, k in zip(dilation, kernel, strict=True)]
    else:
        pads = [(p, p) for p in _each(padding, n)]
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    sizes = [(s - d * (k - 1) - 1) // t + 1 for s, d, k, t in zip(x.shape[2:], dilation, kernel, stride, strict=True)]
    out = np.zeros((len(x), len(weight), *sizes))
    per_in, per_out = weight.shape[1], len(weight) // groups
    for b, o, *at in np.ndindex(*out.shape):
        first = o // per_out * per_in
        places = itertools.product(*[[a * t + j * d for j in range(k)] for a, t, d, k in zip(at, stride, dilation, kernel, strict=True)])
        for place, w in zip(places, weight[o].reshape(per_in, -1).T, strict=True):
            out[(b, o, *at)] += x[(b, slice(first, first + per_in), *place)] @ w
    out = out if bias is None else out + bias.reshape(-1, *(1,) * n)
    return out if input.ndim == n + 2 else out[0]


def _transpose_of(f, shape, g):
    """The transpose of a linear function, column by column."""
    out = np.zeros(shape)
    for place in np.ndindex(*shape):
        unit = np.zeros(shape)
        unit[place] = 1
        image = f(unit)
        front = tuple(slice(n) for n in g.shape)
        out[place] = (image[front] * g).sum()
    return out


def _deconvolve(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Every element spreads the kernel over the result, `stride` apart; `padding` is cut off at each side."""
    n = weight.ndim - 2
    x = input if input.ndim == n + 2 else input[None]
    stride, padding, extra, dilation = _each(stride, n), _each(padding, n), _each(output_padding, n), _each(dilation, n)
    kernel, per_out, per_in = weight.shape[2:], weight.shape[1], len(weight) // groups
    full = [(m - 1) * t + d * (k - 1) + 1 + e for m, t, d, k, e in zip(x.shape[2:], stride, dilation, kernel, extra, strict=True)]
    out = np.zeros((len(x), per_out * groups, *full))
    for b, c, *at in np.ndindex(*x.shape):
        group = c // per_in
        for o, *k in np.ndindex(*weight.shape[1:]):
            place = [a * t + j * d for a, t, j, d in zip(at, stride, k, dilation, strict=True)]
            out[(b, group * per_out + o, *place)] += x[(b, c, *at)] * weight[(c, o, *k)]
    out = out[(..., *[slice(p, size - p) for p, size in zip(padding, full, strict=True)])]
    out = out if bias is None else out + bias.reshape(-1, *(1,) * n)
    return out if input.ndim == n + 2 else out[0]


def _columns(input, kernel_size, dilation=1, padding=0, stride=1):
    kernel, dilation, stride = _each(kernel_size, 2), _each(dilation, 2), _each(stride, 2)
    x = np.pad(input, [(0, 0)] * (input.ndim - 2) + [(p, p) for p in _each(padding, 2)])
    rows, columns = [range(0, s - d * (k - 1), t) for s, d, k, t in zip(x.shape[-2:], dilation, kernel, stride, strict=True)]
    windows = [x[..., i : i + dilation[0] * kernel[0] : dilation[0], j : j + dilation[1] * kernel[1] : dilation[1]] for i in rows for j in columns]
    return np.stack([w[..., : kernel[0], : kernel[1]].reshape(*x.shape[:-3], -1) for w in windows], -1)


def _from_columns(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    k = _each(kernel_size, 2)
    shape = (*input.shape[:-2], input.shape[-2] // (k[0] * k[1]), *_each(output_size, 2))
    return _transpose_of(lambda x: _columns(x, kernel_size, dilation, padding, stride), shape, input)


CONVOLUTION = {
    "convolution": lambda input, weight, **attrs: _convolve(input, weight, **attrs),
    "convolution_input": lambda grad, weight, size, **attrs: _transpose_of(lambda x: _convolve(x, weight, **attrs), size, grad),
    "convolution_weight": lambda grad, input, size, **attrs: _transpose_of(lambda w: _convolve(input, w, **attrs), size, grad),
    **{f"conv{n}d": _convolve for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _deconvolve for n in (1, 2, 3)},
    "im2col": _columns,
    "col2im": _from_columns,
}

TABLE = SHAPE | INDEX | ELEMENTWISE | CONVOLUTION
