"""Views, joins, padding and writes through views."""

from __future__ import annotations

import numpy as np


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


def _restrided(input, source, target):
    """Laid into an empty storage, and read there, element by element."""
    storage = np.zeros(99)
    for (size, stride, offset), write in ((source, True), (target, False)):
        out = np.zeros(size)
        for place in np.ndindex(*size):
            at = offset + sum(i * s for i, s in zip(place, stride, strict=True))
            if write:
                storage[at] += input[place]
            else:
                out[place] = storage[at]
    return out


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
    "strided_view": lambda input, size, stride, storage_offset, source: np.lib.stride_tricks.as_strided(
        input[storage_offset:], size, tuple(8 * s for s in stride)
    ),
    "restride": _restrided,
    "view_as_real": lambda input: np.stack([input.real, input.imag], -1),
    "view_as_complex": lambda input: input[..., 0] + 1j * input[..., 1],
    "cat": lambda tensors, dim=0: np.concatenate(tensors, dim),
    "stack": lambda tensors, dim=0: np.stack(tensors, dim),
    "tile": lambda input, dims: np.tile(input, dims),
    "constant_pad": _padded,
}
