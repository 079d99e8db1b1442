"""What a tensor looks like: counts and moments, histogram, heat map, facts, and why its gradient is missing."""

from __future__ import annotations

import math
from typing import Any

import numpy

from engine import devices, inplace
from engine.tensor import Tensor

from .protocol import Buffer, Fact, Heat, Histogram, Summary
from .recording import Recording

FEW = 6  # so many elements are shown as numbers
BINS = 64
CELLS = 128  # rows and columns of a heat map at most
SAMPLE = 1 << 16
SAMPLED_FROM = 1_000_000  # elements; from here on the first histogram is of a sample
_CHUNK = 1 << 15  # elements that fit into the processor's cache, in double precision too


def host(array: Any) -> numpy.ndarray:
    """The array in the host's memory, in a type that NumPy computes with."""
    if not isinstance(array, (numpy.ndarray, numpy.generic)):
        array = array.get() if hasattr(array, "get") else numpy.asarray(array)
    array = numpy.asarray(array)
    if array.dtype.kind in "fiubc" and array.dtype.itemsize > 1 or array.dtype.kind == "b":
        return array if array.dtype != numpy.float16 else array.astype(numpy.float32)
    return array.astype(numpy.float32) if array.dtype.kind not in "iu" else array


def summary(array: Any, dtype: str | None = None) -> Summary:
    """The tensor's health, exact, in one pass over memory. Of complex numbers it is that of their magnitudes."""
    name = dtype or getattr(getattr(array, "dtype", None), "name", type(array).__name__)
    data = host(array)
    shape, size = list(data.shape), data.size
    values = plain_values(data) if size <= FEW else None
    if data.dtype.kind == "c":
        data = numpy.abs(data)
    m = _moments(data)
    n = m.finite
    mean = m.mean if n else None
    std = math.sqrt(m.squares / (n - 1)) if n > 1 else None
    norm = None if m.nan or m.pos_inf or m.neg_inf else _norm(m)
    low, high = (_number(m.low), _number(m.high)) if n else (None, None)
    counted = size - m.nan - m.negative - m.zero - m.neg_inf
    s = Summary(shape, name, size, m.nan, m.pos_inf, m.neg_inf, m.negative, m.zero, counted - m.pos_inf, low, high, _number(mean),
                _number(std), _number(norm), values, "")  # fmt: skip
    return Summary(**{**s.__dict__, "text": sentence(s)})


class _Moments:
    finite = nan = pos_inf = neg_inf = negative = zero = 0
    mean = squares = 0.0
    low, high = math.inf, -math.inf


def _moments(data: numpy.ndarray) -> _Moments:
    m = _Moments()
    flat = data.reshape(-1) if data.flags.c_contiguous else numpy.ravel(data, order="K")
    with numpy.errstate(all="ignore"):
        for start in range(0, flat.size, _CHUNK):
            chunk = flat[start : start + _CHUNK]
            low, high = chunk.min(), chunk.max()
            if not (math.isfinite(low) and math.isfinite(high)):
                m.nan += int(numpy.count_nonzero(chunk != chunk))
                m.pos_inf += int(numpy.count_nonzero(chunk == numpy.inf))
                m.neg_inf += int(numpy.count_nonzero(chunk == -numpy.inf))
                chunk = chunk[numpy.isfinite(chunk)]
                if not chunk.size:
                    continue
                low, high = chunk.min(), chunk.max()
            n = chunk.size
            m.low, m.high = min(m.low, float(low)), max(m.high, float(high))
            m.zero += n - int(numpy.count_nonzero(chunk))
            if low < 0:
                m.negative += n if high < 0 else int(numpy.count_nonzero(chunk < 0))
            wide = chunk.astype(numpy.float64)
            mean = float(wide.sum()) / n
            wide -= mean
            squares = float(numpy.einsum("i,i->", wide, wide))  # not `dot`: BLAS would wake its threads for each chunk
            # two parts' moments joined: Chan, Golub and LeVeque, 1979
            gap, total = mean - m.mean, m.finite + n
            m.squares += squares + gap * gap * m.finite * n / total
            m.mean += gap * n / total
            m.finite = total
    return m


def _norm(m: _Moments) -> float:
    if not m.finite:
        return 0.0
    total = m.squares + m.finite * m.mean * m.mean
    return math.sqrt(total)


def _number(x: Any) -> float | None:
    return None if x is None or not math.isfinite(x) else float(x)


def plain_values(data: numpy.ndarray) -> list:
    """The elements as JSON can carry them: what is not finite becomes text."""

    def one(x: Any) -> Any:
        if isinstance(x, complex):
            return f"{x.real:.4g}{x.imag:+.4g}i"
        return str(x) if isinstance(x, float) and not math.isfinite(x) else x

    return [one(x) for x in data.reshape(-1).tolist()]


def shape_text(shape: Any) -> str:
    """4×3, or "scalar"."""
    return "×".join(map(str, shape)) if len(shape) else "scalar"


def number_text(x: Any) -> str:
    """Four significant digits, as a reader wants them."""
    if x is None:
        return "–"
    if isinstance(x, (bool, str)):
        return str(x)
    return f"{x:.4g}".replace("-", "−")


def bytes_text(n: int) -> str:
    """1.5 kB: decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(n) < 1000 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000  # type: ignore[assignment]
    raise AssertionError


def sentence(s: Summary) -> str:
    """The tensor in one line."""
    parts = [f"{s.dtype} {shape_text(s.shape)}"]
    if s.values is not None and s.size:
        parts.append(f"value{'s' if s.size > 1 else ''} {', '.join(number_text(v) for v in s.values)}")
    elif s.min is not None:
        parts.append(f"from {number_text(s.min)} to {number_text(s.max)}, mean {number_text(s.mean)}, std {number_text(s.std)}")
    elif not s.size:
        parts.append("no elements")
    bad = [f"{count} {name}" for name, count in (("NaN", s.nan), ("+Inf", s.pos_inf), ("−Inf", s.neg_inf)) if count]
    if bad:
        parts.append("with " + " and ".join(bad))
    if s.size > FEW and s.zero == s.size:
        parts.append("all zero")
    return ", ".join(parts)


# -- pictures ------------------------------------------------------------------------------------------------------------------


def histogram(array: Any, exact: bool = False) -> Histogram | None:
    """Counts of the finite elements in 64 equal bins. From 1,000,000 elements on, unless `exact`, of an even sample."""
    data = host(array)
    if data.dtype.kind == "c":
        data = numpy.abs(data)
    sampled = not exact and data.size > SAMPLED_FROM
    if sampled:
        flat = data.reshape(-1) if data.flags.c_contiguous else data.flat
        step = data.size // SAMPLE
        data = numpy.asarray(flat[::step])
    flat = data.reshape(-1)
    if flat.dtype.kind == "b":
        flat = flat.astype(numpy.uint8)
    if not flat.size:
        return None
    low, high = flat.min(), flat.max()
    if not (math.isfinite(low) and math.isfinite(high)):
        flat = flat[numpy.isfinite(flat)]
        if not flat.size:
            return None
        low, high = flat.min(), flat.max()
    low, high = float(low), float(high)
    if high == low:
        low, high = low - 0.5, high + 0.5
    counts = numpy.zeros(BINS, numpy.int64)
    scale = BINS / (high - low) if math.isfinite(high - low) and high - low > 0 else 0.0
    for start in range(0, flat.size, _CHUNK):
        at = ((flat[start : start + _CHUNK] - low) * scale).astype(numpy.int32)
        numpy.clip(at, 0, BINS - 1, out=at)
        counts += numpy.bincount(at, minlength=BINS)
    return Histogram(low, high, counts.tolist(), sampled)


def heat(array: Any, index: list[int], first_buffer: int = 0) -> tuple[Heat | None, list[bytes], list[int]]:
    """A heat map of the last two axes, at `index` of the leading ones (zeros where it is short): `(Heat, buffers, index)`.

    Each cell pools a block of elements; NaN and Inf are marks of their own and never averaged away.
    """
    data = host(array)
    lead = data.shape[:-2]
    at = [min(max(index[i] if i < len(index) else 0, 0), n - 1) for i, n in enumerate(lead)]
    if not data.size:
        return None, [], at
    plane = data[tuple(at)] if lead else data
    plane = plane.reshape((1,) * (2 - plane.ndim) + plane.shape)
    if plane.dtype.kind == "c":
        plane = numpy.abs(plane)
    elif plane.dtype.kind == "b":
        plane = plane.astype(numpy.uint8)
    rows, cols = plane.shape
    r, c = _edges(rows), _edges(cols)
    with numpy.errstate(all="ignore"):
        low, high = _pool(numpy.minimum, plane, r, c), _pool(numpy.maximum, plane, r, c)
        bad = numpy.zeros(low.shape, numpy.uint8)
        if plane.dtype.kind == "f" and not (numpy.isfinite(low).all() and numpy.isfinite(high).all()):
            marks = numpy.isnan(plane) | (plane == numpy.inf).view(numpy.uint8) << 1 | (plane == -numpy.inf).view(numpy.uint8) << 2
            bad = _pool(numpy.bitwise_or, marks.astype(numpy.uint8), r, c)
            fine = marks == 0
            low = _pool(numpy.minimum, numpy.where(fine, plane, numpy.inf), r, c)
            high = _pool(numpy.maximum, numpy.where(fine, plane, -numpy.inf), r, c)
            count = _pool(numpy.add, fine.astype(numpy.float64), r, c)
            total = _pool(numpy.add, numpy.where(fine, plane, 0), r, c, numpy.float64)
            empty = count == 0
            low[empty] = high[empty] = 0
            count[empty] = 1
        else:
            count = numpy.outer(numpy.diff([*r, rows]), numpy.diff([*c, cols]))
            total = _pool(numpy.add, plane, r, c, numpy.float64)
    mean = (total / count).astype("<f4")
    absmax = numpy.maximum(numpy.abs(low.astype(numpy.float64)), numpy.abs(high.astype(numpy.float64))).astype("<f4")
    shape = [len(r), len(c)]
    buffers = [mean.tobytes(), absmax.tobytes(), bad.astype(numpy.uint8).tobytes()]
    kinds = ("float32", "float32", "uint8")
    mean_at, absmax_at, bad_at = (Buffer(first_buffer + i, kind, shape) for i, kind in enumerate(kinds))  # type: ignore[arg-type]
    return Heat(rows, cols, mean_at, absmax_at, bad_at), buffers, at


def _edges(n: int) -> numpy.ndarray:
    cells = min(n, CELLS)
    return numpy.arange(cells) * n // cells


def _pool(op: Any, plane: numpy.ndarray, rows: numpy.ndarray, cols: numpy.ndarray, dtype: Any = None) -> numpy.ndarray:
    if len(rows) == plane.shape[0] and len(cols) == plane.shape[1]:
        return plane.astype(dtype or plane.dtype)
    if len(rows) == plane.shape[0]:
        tall = plane
    elif plane.size > 1 << 20:  # block by block: whole rows at a time stay in the cache
        ends = [*rows[1:], plane.shape[0]]
        tall = numpy.stack([op.reduce(plane[a:b], axis=0, dtype=dtype) for a, b in zip(rows, ends, strict=True)])
    else:
        tall = op.reduceat(plane, rows, axis=0, dtype=dtype)
    return op.reduceat(tall, cols, axis=1, dtype=dtype)


# -- words ---------------------------------------------------------------------------------------------------------------------


def facts(array: Any, tensor: Tensor | None = None, recording: Recording | None = None, row: int = -1) -> list[Fact]:
    """The inspector's header. `tensor` when it is still alive, `row` when it is in the recording."""
    shape = tuple(getattr(array, "shape", ()))
    found = [Fact("shape", str(shape)), Fact("dtype", array.dtype.name if hasattr(array, "dtype") else type(array).__name__)]
    if not hasattr(array, "nbytes"):
        return found
    found.append(Fact("device", str(devices.of(array))))
    found.append(Fact("size", f"{array.size:,} elements, {bytes_text(array.nbytes)}"))
    strides = tuple(s // array.dtype.itemsize for s in array.strides)
    found.append(Fact("strides", f"{strides}{'' if array.flags.c_contiguous else ', not contiguous'}"))
    if tensor is not None and tensor._base is not None:
        base = recording.find(tensor._base) if recording is not None else -1
        found.append(Fact("view of", f"#{base}" if base >= 0 else f"a tensor of shape {tuple(tensor._base.shape)}"))
    elif array.base is not None and inplace.storage(array) is not array:
        found.append(Fact("view of", f"memory of {bytes_text(inplace.storage(array).nbytes)}"))
    version = inplace.version(array)
    if version:
        found.append(Fact("version", f"{version} ({'once' if version == 1 else f'{version} times'} written in place)"))
    if tensor is not None:
        found.append(Fact("requires_grad", str(tensor.requires_grad)))
        found.append(Fact("leaf", str(tensor.is_leaf)))
        if tensor.grad_fn is not None:
            found.append(Fact("grad_fn", repr(tensor.grad_fn)))
    elif recording is not None and row >= 0:
        found.append(Fact("requires_grad", str(recording.grad[row])))
    return found


def why_no_grad(recording: Recording, row: int, passes: int) -> str:
    """Why there is no gradient to show for this row, in a sentence."""
    kind, tensor = recording.kind[row], recording.tensor(row)
    dtype = recording.dtype[row]
    if kind == "constant":
        return "A number has no gradient: only tensors with requires_grad=True do."
    if dtype is not None and not isinstance(dtype, str) and not numpy.issubdtype(_kind(dtype), numpy.inexact):
        return f"Its dtype is {dtype.name}; only floating-point and complex tensors have gradients."
    if not recording.grad[row]:
        inputs = [source for source, _ in recording.inputs(row)]
        if recording.op_name(row) in ("detach", "detach_"):
            return "It was detached here, so no gradient passes."
        if any(recording.grad[source] for source in inputs):
            return "It was computed under no_grad(), or by an op that has no derivative, so the tape does not know how it was made."
        if kind == "op":
            return "None of the tensors it was computed from requires grad."
        return "It does not require grad. Set requires_grad=True before it is used to get a gradient."
    if recording.root >= 0 and row not in recording.reachable(recording.root):
        return "The loss does not depend on it, so no gradient reaches it."
    if kind == "op" and (tensor is None or not tensor.retains_grad):
        if passes:
            return "It is no leaf, and backward() keeps .grad of leaves only. Call retain_grad() on it before backward(), or step the pass."
        return (
            "Backward has not run yet; and of a tensor that is no leaf it keeps .grad only after retain_grad(). Stepping shows it anyway."
        )
    if not passes:
        return "Backward has not run yet."
    return "Backward has run, but no gradient reached it, or .grad was set back to None since."


def _kind(dtype: Any) -> Any:
    return numpy.float32 if dtype.name in ("bfloat16",) or dtype.name.startswith("float8") else dtype
