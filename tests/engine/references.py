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
    "squeeze": lambda input, dim=None: np.squeeze(
        input, dim if dim is None else tuple(d for d in np.atleast_1d(dim) if input.shape[d] == 1)
    ),
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
        "clamp": lambda input, min=None, max=None: np.array(
            [np.clip(x, low, high) for x, low, high in np.broadcast(input, min, max)]
        ).reshape(np.broadcast(input, min, max).shape),
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
        "gelu_slope": lambda input, approximate="none": scipy.special.ndtr(input) + input * np.exp(-input * input / 2) / np.sqrt(2 * np.pi),
        "threshold": lambda input, threshold=0.0, value=0.0: np.where(input > threshold, input, value),
        "celu": lambda input, alpha=1.0: np.maximum(input, 0) + np.minimum(0, alpha * np.expm1(input / alpha)),
        "selu": lambda input: 1.0507009873554804934 * np.where(input > 0, input, 1.6732632423543772848 * np.expm1(input)),
        "hardsigmoid": lambda input: np.clip(input / 6 + 0.5, 0, 1),
        "hardswish": lambda input: input * np.clip(input / 6 + 0.5, 0, 1),
        "softsign": lambda input: input / (1 + np.abs(input)),
        "tanhshrink": lambda input: input - np.tanh(input),
        "softshrink": lambda input, lambd=0.5: np.sign(input) * np.maximum(np.abs(input) - lambd, 0),
        "hardshrink": lambda input, lambd=0.5: input * (np.abs(input) > lambd),
        "prelu_kernel": lambda input, weight: np.where(input > 0, input, weight * input),
    }
)

# -- along a dimension -----------------------------------------------------------------------------------------------------


def _dims(dim):
    return tuple(dim) if isinstance(dim, list) else dim


def _var(input, dim=None, correction=1, keepdim=False):
    mean = input.mean(_dims(dim), keepdims=True)
    count = input.size // mean.size
    return (abs(input - mean) ** 2).sum(_dims(dim), keepdims=keepdim) / (count - correction)


def _vector_norm(input, ord=2, dim=None, keepdim=False):
    size = np.abs(input)
    if ord == 0:
        return (size != 0).sum(dim, keepdims=keepdim).astype(float)
    if abs(ord) == np.inf:
        return (size.max if ord > 0 else size.min)(dim, keepdims=keepdim)
    return (size**ord).sum(dim, keepdims=keepdim) ** (1 / ord)


def _along(f):
    """A function of one line, applied to every line along `dim`: what it returns, one by one."""

    def whole(input, dim=-1, keepdim=False, **attrs):
        if input.ndim == 0:
            return tuple(np.asarray(x) for x in f([input.item()], **attrs))
        lines = np.moveaxis(input, dim, -1)
        found = [f(list(line), **attrs) for line in lines.reshape(-1, lines.shape[-1])]
        parts = [np.array(x).reshape(lines.shape[:-1]) for x in zip(*found, strict=True)]
        return tuple(np.expand_dims(x, dim) if keepdim else x for x in parts)

    return whole


def _nth(line, n):
    place = sorted(range(len(line)), key=line.__getitem__)[n]
    return line[place], place


def _mode(line):
    """The most frequent element, the smallest of several, and where it is last."""
    value = min(set(line), key=lambda v: (-line.count(v), v))
    return value, len(line) - 1 - line[::-1].index(value)


def _running(input, dim, better):
    def line(values):
        best, found = 0, []
        for i, v in enumerate(values):
            best = i if better(v, values[best]) else best
            found.append(best)
        return found

    if input.ndim == 0:
        return input, np.zeros((), int)
    places = np.apply_along_axis(line, dim, input)
    return np.take_along_axis(input, places, dim), places


def _add_along(input, indices, size, axis):
    shape = list(input.shape)
    shape[axis] = size
    return _scattered(np.zeros(shape), indices, input, axis, np.add)


def _ranked(input, positions, dim):
    order = np.argsort(input, dim, kind="stable")
    return np.take(np.sort(input, dim), positions, dim), np.take(order, positions, dim)


def _search(input, values, right=False, out_int32=False):
    side = "right" if right else "left"
    if input.ndim == 1:
        return np.searchsorted(input, values, side)
    return np.stack([np.searchsorted(a, v, side) for a, v in zip(input, values, strict=True)])


def plain(name):
    return lambda input, dim=None, keepdim=False: getattr(np, name)(input, axis=_dims(dim), keepdims=keepdim)


ALONG = {
    "softmax": lambda input, dim: scipy.special.softmax(input, dim),
    "log_softmax": lambda input, dim: scipy.special.log_softmax(input, dim),
    **{name: plain(name) for name in ("sum", "mean", "prod", "all", "any", "amax", "amin")},
    "var": _var,
    "std": lambda input, **attrs: np.sqrt(_var(input, **attrs)),
    "logsumexp": lambda input, dim, keepdim=False: scipy.special.logsumexp(input, _dims(dim), keepdims=keepdim),
    "vector_norm": _vector_norm,
    "max": _along(lambda line: (max(line), line.index(max(line)))),
    "min": _along(lambda line: (min(line), line.index(min(line)))),
    "argmax": lambda input, dim=None, keepdim=False: np.argmax(input, dim, keepdims=keepdim),
    "argmin": lambda input, dim=None, keepdim=False: np.argmin(input, dim, keepdims=keepdim),
    "count_nonzero": lambda input, dim=None: np.count_nonzero(input, dim),
    "cumsum": lambda input, dim: np.cumsum(input, dim).reshape(input.shape),
    "cumprod": lambda input, dim: np.cumprod(input, dim).reshape(input.shape),
    "logcumsumexp": lambda input, dim: np.log(np.cumsum(np.exp(input), dim)).reshape(input.shape),
    "cummax": lambda input, dim: _running(input, dim, lambda a, b: a >= b),
    "cummin": lambda input, dim: _running(input, dim, lambda a, b: a <= b),
    "add_along_axis": _add_along,
    "ranked": _ranked,
    "kthvalue": _along(lambda line, k: _nth(line, k - 1)),
    "median": _along(lambda line: _nth(line, (len(line) - 1) // 2)),
    "nanmedian": _along(lambda line: _nth(line, (len(line) - 1) // 2)),
    "median_of_all": lambda input, skip_nan=False: np.sort(input, None)[(input.size - 1) // 2],
    "mode": _along(_mode),
    "bincount": lambda input, weights=None, minlength=0: np.bincount(input, weights, minlength),
    "histc": lambda input, bins=100, min=0, max=0: np.histogram(input, bins, (min, max) if min != max else None)[0].astype(input.dtype),
    "searchsorted": _search,
}

# -- normalisation ---------------------------------------------------------------------------------------------------------


def _standard(x, axes, eps):
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)


def _channels(w, ndim):
    return w.reshape(-1, *(1,) * (ndim - 2))


def _affine(x, weight, bias):
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _trailing(shape):
    return tuple(range(-len(np.atleast_1d(shape)), 0))


def _layer_norm(input, weight=None, bias=None, *, normalized_shape, eps=1e-5):
    return _affine(_standard(input, _trailing(normalized_shape), eps), weight, bias)


def _group_norm(input, weight=None, bias=None, *, num_groups, eps=1e-5):
    grouped = input.reshape(len(input), num_groups, -1)
    x = _standard(grouped, 2, eps).reshape(input.shape)
    return _affine(x, *[None if w is None else _channels(w, input.ndim) for w in (weight, bias)])


def _batch_norm(input, weight=None, bias=None, eps=1e-5):
    axes = (0, *range(2, input.ndim))
    x = _affine(_standard(input, axes, eps), *[None if w is None else _channels(w, input.ndim) for w in (weight, bias)])
    return x, input.mean(axes), input.var(axes)


def _rms_norm(input, weight=None, *, normalized_shape, eps=None):
    eps = np.finfo(input.dtype).eps if eps is None else eps
    x = input / np.sqrt((input**2).mean(_trailing(normalized_shape), keepdims=True) + eps)
    return _affine(x, weight, None)


NORM = {"layer_norm": _layer_norm, "group_norm": _group_norm, "batch_normalize": _batch_norm, "rms_norm": _rms_norm}

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
    windows = [
        x[..., i : i + dilation[0] * kernel[0] : dilation[0], j : j + dilation[1] * kernel[1] : dilation[1]] for i in rows for j in columns
    ]
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

# -- pools, one window at a time -------------------------------------------------------------------------------------------


def _pool_windows(sizes, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """For each dimension, for each window, the places that it covers; those outside of the input are left out, the count of all is kept."""
    n = len(sizes)
    kernel, padding, dilation = _each(kernel, n), _each(padding, n), _each(dilation, n)
    stride = kernel if stride is None else _each(stride, n)
    found = []
    for size, k, t, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        span, windows, start = d * (k - 1) + 1, [], -p
        while start + span <= size + p or (ceil_mode and start < size and start + span - t < size + p):
            places = range(start, start + span, d)
            windows.append(
                (
                    [i for i in places if 0 <= i < size],
                    sum(i < size + p for i in places),
                    [j for j, i in enumerate(places) if 0 <= i < size],
                )
            )
            start += t
        found.append(windows)
    return found, kernel


def _over_windows(input, sizes, kernel, settings, make):
    windows, kernel = _pool_windows(sizes, kernel, *settings)
    out = None
    for at in np.ndindex(*map(len, windows)):
        chosen = [w[i] for w, i in zip(windows, at, strict=True)]
        value = make([c[0] for c in chosen], [c[1] for c in chosen], [c[2] for c in chosen], kernel)
        if out is None:
            out = np.zeros((*value.shape, *map(len, windows)), value.dtype)
        out[(..., *at)] = value
    return out


def _max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, n=None, what="value"):
    sizes = input.shape[-n:]
    lead = input.shape[:-n]

    def largest(places, _, taps, kernel):
        part = input[(..., *np.ix_(*places))].reshape(*lead, -1)
        flat = np.array([np.ravel_multi_index(p, sizes) for p in itertools.product(*places)])
        tap = np.array([np.ravel_multi_index(p, kernel) for p in itertools.product(*taps)])
        best = part.argmax(-1)
        return {"value": part.max(-1), "index": flat[best], "tap": tap[best]}[what]

    return _over_windows(input, sizes, kernel_size, (stride, padding, dilation, ceil_mode), largest)


def _with_indices(input, n, kernel_size, **attrs):
    return _max_pool(input, kernel_size, n=n, **attrs), _max_pool(input, kernel_size, n=n, what="index", **attrs)


def _avg_pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    n = len(kernel_size)

    def mean(places, counts, _, kernel):
        total = input[(..., *np.ix_(*places))].sum(tuple(range(-n, 0)))
        return total / (divisor_override or np.prod(counts if count_include_pad else [len(p) for p in places]))

    return _over_windows(input, input.shape[-n:], kernel_size, (stride, padding, 1, ceil_mode), mean)


def _parts(size, count):
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive_max(input, output_size):
    n = len(output_size)
    sizes, lead = input.shape[-n:], input.shape[:-n]
    out, index = np.zeros((*lead, *output_size)), np.zeros((*lead, *output_size), int)
    parts = [_parts(size, count) for size, count in zip(sizes, output_size, strict=True)]
    for at in np.ndindex(*output_size):
        places = [p[i] for p, i in zip(parts, at, strict=True)]
        part = input[(..., *np.ix_(*places))].reshape(*lead, -1)
        flat = np.array([np.ravel_multi_index(p, sizes) for p in itertools.product(*places)])
        out[(..., *at)], index[(..., *at)] = part.max(-1), flat[part.argmax(-1)]
    return out, index


def _cubic(t, a=-0.75):
    t = abs(t)
    return (a + 2) * t**3 - (a + 3) * t**2 + 1 if t <= 1 else a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def _resampling(size, count, mode, align, scale):
    """The matrix (count, size) that resamples one dimension."""
    out = np.zeros((count, size))
    step = 1 / scale if scale else size / count
    for i in range(count):
        if mode == "mean":
            out[i, list(_parts(size, count)[i])] = 1 / len(_parts(size, count)[i])
            continue
        if mode.startswith("nearest"):
            out[i, min(int((i + 0.5) * step if mode == "nearest-exact" else i * step), size - 1)] = 1
            continue
        if align:
            x = i * (size - 1) / (count - 1) if count > 1 else 0.0
        else:
            x = (i + 0.5) * step - 0.5
        if mode == "linear":
            x = max(x, 0.0)
            low = min(int(x), size - 1)
            out[i, low] += 1 - (x - low)
            out[i, min(low + 1, size - 1)] += x - low
        else:
            low = int(np.floor(x))
            for j in range(low - 1, low + 3):
                out[i, min(max(j, 0), size - 1)] += _cubic(x - j)
    return out


def _resample(input, size, mode, align=False, scales=()):
    n = len(size)
    for d, count, scale in zip(range(-n, 0), size, scales or (None,) * n, strict=True):
        input = np.moveaxis(np.moveaxis(input, d, -1) @ _resampling(input.shape[d], count, mode, align, scale).T, -1, d)
    return input


def _tapped(input, taps, kernel, **attrs):
    """Window by window, the element at a tap: the transpose of `tap_scatter`."""
    n = len(kernel)
    windows, _ = _pool_windows(input.shape[-n:], kernel, **attrs)
    out = np.zeros(taps.shape)
    for place in np.ndindex(*taps.shape):
        inside = np.unravel_index(taps[place], kernel)
        source = [windows[d][place[len(place) - n + d]][0][inside[d]] for d in range(n)]
        out[place] = input[(*place[:-n], *source)]
    return out


def _flat(input, index, size, n):
    return np.take_along_axis(input.reshape(*input.shape[:-n], -1), index.reshape(*index.shape[: input.ndim - n], -1), -1).reshape(
        index.shape
    )


POOL = {
    **{f"max_pool{n}d": lambda input, kernel_size, n=n, **attrs: _max_pool(input, kernel_size, n=n, **attrs) for n in (1, 2, 3)},
    "max_pool_with_indices": _with_indices,
    "avg_pool": _avg_pool,
    "avg_pool_back": lambda input, size, **attrs: _transpose_of(lambda x: _avg_pool(x, **attrs), size, input),
    "adaptive_max": _adaptive_max,
    "resample": _resample,
    "resample_back": lambda input, size, mode, **attrs: _transpose_of(
        lambda x: _resample(x, input.shape[-len(size) :], mode, **attrs), (*input.shape[: -len(size)], *size), input
    ),
    "tap_gather": _tapped,
    "tap_scatter": lambda input, taps, size, kernel, **attrs: _transpose_of(lambda x: _tapped(x, taps, kernel, **attrs), size, input),
    "flat_gather": _flat,
    "flat_scatter": lambda input, index, size: _transpose_of(
        lambda x: _flat(x, index, None, len(size)), (*input.shape[: input.ndim - 1], *size), input
    ),
}

# -- products --------------------------------------------------------------------------------------------------------------


def _cofactor(input):
    n = input.shape[-1]
    out = np.zeros_like(input)
    for *lead, i, j in np.ndindex(*input.shape):
        minor = np.delete(np.delete(input[tuple(lead)], i, 0), j, 1)
        out[(*lead, i, j)] = (-1) ** (i + j) * (np.linalg.det(minor) if n > 1 else 1.0)
    return out


def _matmul(a, b):
    """One sum of products for each element."""
    x, y = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    out = (x[..., :, :, None] * y[..., None, :, :]).sum(-2)
    out = out[..., 0] if b.ndim == 1 else out
    return out[..., 0, :] if a.ndim == 1 and b.ndim > 1 else out[..., 0] if a.ndim == 1 else out


LINEAR = {
    "matmul": _matmul,
    "linear": lambda input, weight, bias=0.0: np.einsum("...i,oi->...o", input, weight) + bias,
    "contract": lambda operands, equation="ij,jk->ik": np.einsum(equation, *operands),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "cofactor": _cofactor,
    "slogdet": lambda input: (np.sign(np.linalg.det(input)), np.log(np.abs(np.linalg.det(input)))),
    "solve_matrix": lambda input, other: np.linalg.inv(input) @ other,
    "cholesky": lambda input, upper=False: np.linalg.cholesky(input).swapaxes(-1, -2).conj() if upper else np.linalg.cholesky(input),
    "qr": lambda input, mode="reduced": tuple(np.linalg.qr(input, mode)),
    "eigh": lambda input, UPLO="L": tuple(np.linalg.eigh(input, UPLO)),
    "eigvalsh": lambda input, UPLO="L": np.sort(np.linalg.eigvals(input).real, -1),
    "svdvals": lambda input: np.linalg.norm(np.linalg.svd(input, full_matrices=False)[0].swapaxes(-1, -2) @ input, axis=-1),
    "svd": lambda input, full_matrices=True: tuple(np.linalg.svd(input, full_matrices)),
    "pinv": lambda input, rtol=None, hermitian=False: np.linalg.pinv(input),
}

# -- losses ----------------------------------------------------------------------------------------------------------------


def _reduced(each, reduction="mean"):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](each)


def _huber(input, target, reduction="mean", delta=1.0):
    d = np.abs(input - target)
    return _reduced(np.where(d < delta, d * d / 2, delta * (d - delta / 2)), reduction)


def _picked(input, target, weight=None, ignore_index=-100):
    """input[n, target[n], ...] * weight[target[n]], 0 where the target is ignored."""
    out = np.zeros(target.shape)
    for n, *at in np.ndindex(*target.shape):
        c = target[(n, *at)]
        if c != ignore_index:
            out[(n, *at)] = input[(n, c, *at)] * (1 if weight is None else weight[c])
    return out


def _spread(input, target, weight=None, size=(), ignore_index=-100):
    return _transpose_of(lambda x: _picked(x, target, weight, ignore_index), size, input)


def _nll(input, target, weight=None, ignore_index=-100, reduction="mean"):
    each = -_picked(input, target, weight, ignore_index)
    return (
        each.sum() / _picked(np.ones_like(input), target, weight, ignore_index).sum() if reduction == "mean" else _reduced(each, reduction)
    )


def _cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    logs = scipy.special.log_softmax(input, 1)
    each = -_picked(logs, target, weight, ignore_index)
    w = np.ones(input.shape[1]) if weight is None else weight
    all_classes = -(logs * w.reshape(-1, *(1,) * (input.ndim - 2))).sum(1) * (target != ignore_index)
    each = (1 - label_smoothing) * each + label_smoothing / input.shape[1] * all_classes
    return (
        each.sum() / _picked(np.ones_like(input), target, weight, ignore_index).sum() if reduction == "mean" else _reduced(each, reduction)
    )


def _bce(input, target, weight=None, reduction="mean"):
    each = -(target * np.log(input) + (1 - target) * np.log(1 - input))
    return _reduced(each if weight is None else each * weight, reduction)


def _bce_logits(input, target, weight=None, pos_weight=None, reduction="mean"):
    p = scipy.special.expit(input)
    each = -((1 if pos_weight is None else pos_weight) * target * np.log(p) + (1 - target) * np.log(1 - p))
    return _reduced(each if weight is None else each * weight, reduction)


def _ctc(log_probs, targets, input_lengths, target_lengths, blank=0):
    """Every path is tried."""
    out = []
    for n, (steps, length) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        total = 0.0
        for path in itertools.product(range(log_probs.shape[2]), repeat=int(steps)):
            shown = [c for i, c in enumerate(path) if c != blank and (i == 0 or path[i - 1] != c)]
            if shown == list(targets[n, :length]):
                total += np.exp(sum(log_probs[t, n, c] for t, c in enumerate(path)))
        out.append(-np.log(total))
    return np.array(out)


LOSS = {
    "mse_loss": lambda input, target, reduction="mean": _reduced((input - target) ** 2, reduction),
    "l1_loss": lambda input, target, reduction="mean": _reduced(np.abs(input - target), reduction),
    "huber_loss": _huber,
    "smooth_l1_loss": lambda input, target, reduction="mean", beta=1.0: _huber(input, target, reduction, beta) / beta,
    "class_pick": _picked,
    "class_spread": _spread,
    "nll_loss": _nll,
    "cross_entropy": _cross_entropy,
    "binary_cross_entropy": _bce,
    "binary_cross_entropy_with_logits": _bce_logits,
    "ctc": _ctc,
}

TABLE = SHAPE | INDEX | ELEMENTWISE | ALONG | NORM | CONVOLUTION | POOL | LINEAR | LOSS
