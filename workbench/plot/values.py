"""Plots of tensors: values as a heat map, and batches of images as a grid."""

from __future__ import annotations

import math
import operator
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy

from engine.core.tensor import Tensor

from .. import inspector
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 64  # images per grid at most
_NUMBERS = 10  # rows and columns at most for values to be written into the cells
_MARKS = ((1, "x", "✕", "NaN"), (2, "^", "▲", "+Inf"), (4, "v", "▼", "−Inf"))  # bits of inspector.heat, marker, its glyph, word
_BAD = (0.8, 0.0, 0.8)  # the color of pixels that are not finite


def tensor(x: Any, index: int | Sequence[int] = (), numbers: bool | None = None, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the values of a tensor as a heat map: white is 0, blue negative, red positive, on one symmetric scale; NaN and Inf are marked.

    More than 128 rows or columns are pooled: a cell is then the mean of its block, and marked if the block has a NaN or Inf. Complex values
    are drawn as magnitudes.

    Args:
        x: a tensor, an array, or nested lists of numbers. One dimension is drawn as one row.
        index: with more than two dimensions, the position on the leading axes; the last two are drawn.
        numbers: write the values into the cells; by default up to 10 x 10.
        title: a title; by default, dtype and shape.
        ax: the axes to draw on; by default, those of a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: `x` is not numbers.
        ValueError: `x` is empty, or `index` has the wrong length.
        IndexError: `index` is out of range.

    Example::

        >>> ax = wb.plot.tensor(engine.eye(4))
    """
    array = _array(x, "wb.plot.tensor")
    if array.size == 0:
        raise ValueError(f"wb.plot.tensor: a tensor of shape {array.shape} has no elements to draw.")
    lead = array.shape[:-2]
    index = tuple(map(operator.index, (index,) if isinstance(index, int) else index))
    if len(index) != len(lead):
        raise ValueError(
            f"wb.plot.tensor: a tensor of shape {array.shape} needs an index of {len(lead)} numbers for the axes before the last two, "
            f"got {index!r}."
        )
    for axis, (i, n) in enumerate(zip(index, lead, strict=True)):
        if not -n <= i < n:
            raise IndexError(f"wb.plot.tensor: index {i} is out of range for axis {axis} of size {n}.")
    mean, bad, rows, cols = _pooled(array, [i % n for i, n in zip(index, lead, strict=True)])
    shape, pooled = mean.shape, mean.shape != (rows, cols)
    hidden = (bad > 0) & (mean == 0)  # cells without a finite element
    top = float(numpy.abs(mean).max()) or 1.0
    ax = style.axes(ax, (7.0, max(1.8, min(6.0, 6.2 * shape[0] / shape[1] + 0.9))))
    drawn = numpy.ma.masked_array(mean, hidden)
    picture = ax.imshow(
        drawn, cmap=style.DIVERGING, vmin=-top, vmax=top, interpolation="nearest", aspect="auto" if min(shape) == 1 else "equal"
    )
    ax.set_facecolor("#d9d9d9")
    size = style.tick_size(ax)
    marked = []
    for bit, marker, glyph, word in _MARKS:
        down, across = numpy.nonzero(bad & bit)
        if len(down):
            area = min(90.0, 60000 / max(shape) ** 2 + 12)
            ax.scatter(across, down, 2.2 * area, "white", marker=marker, linewidths=4)
            ax.scatter(across, down, area, "black", marker=marker, linewidths=1.6)
            marked.append(f"{glyph} {word} in {len(down)} cell{'s' * (len(down) != 1)}")
    if numbers if numbers is not None else max(shape) <= _NUMBERS:
        _write(ax, mean, bad, top)
    bar = ax.figure.colorbar(picture, ax=ax, pad=0.02, shrink=0.9)
    bar.ax.tick_params(labelsize=size)
    if array.ndim < 2:
        ax.set_yticks([])
    if pooled:
        ends = [f"{name} 0 to {n - 1}" for name, n in (("row", rows), ("column", cols))]
        ax.set_xticks([0, shape[1] - 1], ["0", str(cols - 1)])
        ax.set_yticks([0, shape[0] - 1], ["0", str(rows - 1)])
        ax.set_xlabel(f"{', '.join(ends)}; a cell is the mean of a block", size=size)
    place = f"[{', '.join(map(str, index))}]" if lead else ""
    head = title or f"{array.dtype.name} {inspector.shape_text(array.shape)} {place}".strip()
    ax.title.set_text("\n".join([head, *([", ".join(marked)] if marked else [])]))
    ax.title.set_parse_math(False)
    return ax


def _pooled(array: numpy.ndarray, lead: list[int]) -> tuple[numpy.ndarray, numpy.ndarray, int, int]:
    """The inspector's heat map of the last two axes: means, marks of NaN and Inf, and the numbers of rows and columns before pooling."""
    n, none = array.ndim, inspector.NONE
    look = inspector.Look(n - 2 if n > 1 else none, n - 1 if n else none, none, [*lead, *[0] * min(n, 2)])
    heat, buffers = inspector.heat(array, look)
    assert heat is not None  # it has elements
    values = numpy.frombuffer(buffers[heat.values.index], "<f4").reshape(heat.values.shape)[0]
    if heat.marks is not None:
        return values, numpy.frombuffer(buffers[heat.marks.index], numpy.uint8).reshape(heat.marks.shape)[0], heat.rows, heat.cols
    marks = numpy.zeros(values.shape, numpy.uint8)
    for bit, at in ((1, numpy.isnan(values)), (2, numpy.isposinf(values)), (4, numpy.isneginf(values))):
        marks[at] = bit
    return numpy.where(marks > 0, 0, values), marks, heat.rows, heat.cols


def _write(ax: Axes, values: numpy.ndarray, bad: numpy.ndarray, top: float) -> None:
    """Write the values into the cells, as large as they fit, unless they would be too small to read."""
    texts = {at: f"{value:.2g}".replace("-", "−") for at, value in numpy.ndenumerate(values) if not bad[at]}
    longest = max(map(len, texts.values()), default=1)
    width = ax.get_window_extent().width * 72 / ax.figure.dpi / values.shape[1]  # of a cell, in points
    size = min(0.9 * style.tick_size(ax), width / (0.68 * longest))
    if size >= 4.5:
        for (i, j), text in texts.items():
            color = "white" if abs(values[i, j]) > 0.6 * top else "black"
            ax.text(j, i, text, ha="center", va="center", color=color, size=size)


def images(
    batch: Any,
    channels: Literal["first", "last"] = "first",
    value_range: tuple[float, float] | Literal["each"] | None = None,
    columns: int | None = None,
    titles: Any = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw a batch of at most 64 images as a grid, with a caption that says how values map to brightness.

    By default, uint8 ranges from 0 to 255, bool and floats within [0, 1] from 0 to 1; others are stretched from the minimum to the maximum
    of the finite values in the batch. Pixels that are not finite are magenta and counted.

    Args:
        batch: with `channels="first"`, as in PyTorch, (N, C, H, W), (N, H, W) or (H, W) in gray, or (C, H, W) with 3 or 4 channels for one
            image in color; with `channels="last"`, (N, H, W, C) and (H, W, C). C is 1 (gray), 3 (RGB) or 4 (RGBA).
        channels: "first" or "last".
        value_range: a pair sets the range and clips values beyond it; "each" stretches each image separately.
        columns: the number of columns.
        titles: a list, array or tensor of texts to write above the images.
        ax: the axes to draw on; by default, those of a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: `batch` is not real numbers.
        ValueError: the shape, `channels`, `value_range`, `columns` or the number of titles does not fit.

    Example::

        >>> images, labels = wb.samples.fashion_mnist(train=False)
        >>> ax = wb.plot.images(images[:8], titles=labels[:8])
    """
    array = _array(batch, "wb.plot.images")
    if channels not in ("first", "last"):
        raise ValueError(f'wb.plot.images: channels is "first" (N, C, H, W) or "last" (N, H, W, C), got {channels!r}.')
    pictures, order = _as_nhwc(array, channels)
    total, pictures = len(pictures), pictures[:MOST]
    if not pictures.size:
        raise ValueError(f"wb.plot.images: a batch of shape {array.shape} has no pixels to draw.")
    n, height, width, _ = pictures.shape
    if columns is not None and (not isinstance(columns, int) or columns < 1):
        raise ValueError(f"wb.plot.images: columns is an integer, 1 or more; got {columns!r}.")
    heads = [str(one) for one in (titles.tolist() if hasattr(titles, "tolist") else titles)]
    if heads and len(heads) < n:
        raise ValueError(f"wb.plot.images: {n} images, but {len(heads)} titles.")
    low, high, rule = _range(pictures, value_range)
    across = columns or _columns(n, height / width)
    rows = -(-n // across)
    bad = int(array.size - numpy.isfinite(array).sum()) if array.dtype.kind == "f" else 0
    words = [f"{n} of {total}" if n < total else f"{n} image{'s' * (n != 1)}", f"{order}, {array.dtype.name}", rule]
    words += [f"{bad} value{'s are' if bad > 1 else ' is'} not finite (magenta)"] if bad else []
    tall, head, gap = height / width, 0.26 if heads else 0.0, 0.06
    wide = max(4.0, min(9.0, 1.3 * across))
    lines = textwrap.wrap(", ".join(words), int(wide * 10))
    ax = style.axes(ax, (wide, rows * (tall + head + gap) * (wide - 0.2) / across / (1 + gap) + 0.24 * len(lines) + 0.3))
    for i, picture in enumerate(pictures):
        x, y = (i % across) * (1 + gap), (i // across) * (tall + head + gap) + head
        ax.imshow(_rgba(picture, low[i], high[i]), extent=(x, x + 1, y + tall, y), interpolation="nearest")
        if heads:
            ax.text(x + 0.5, y - 0.04, heads[i], ha="center", va="bottom", size=style.tick_size(ax), parse_math=False)
    ax.set_xlim(-gap / 2, across * (1 + gap) - gap / 2)
    ax.set_ylim(rows * (tall + head + gap), -gap / 2)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_xlabel("\n".join(lines), size=style.tick_size(ax))
    return ax


def _columns(n: int, tall: float) -> int:
    """The number of columns for a grid about as wide as a slide, with few empty cells."""
    near = max(1, round(math.sqrt(n * 1.6 * tall)))
    return min(n, min(range(max(1, near - 1), near + 2), key=lambda columns: (-n % columns, -columns)))


def _array(x: Any, who: str) -> numpy.ndarray:
    if hasattr(x, "detach") and not isinstance(x, Tensor):
        x = x.detach().cpu().numpy()  # a PyTorch tensor
    try:
        array = inspector.host(x.array if isinstance(x, Tensor) else x if hasattr(x, "dtype") else numpy.asarray(x))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{who} takes a tensor, an array or nested lists of numbers, got {type(x).__name__}: {error}.") from error
    if array.dtype.kind not in "fiubc":
        raise TypeError(f"{who} draws numbers, got dtype {array.dtype}.")
    return array


def _as_nhwc(array: numpy.ndarray, channels: str) -> tuple[numpy.ndarray, str]:
    """Return the batch as (N, H, W, C), and the axis order of the input."""
    if array.dtype.kind == "c":
        raise TypeError("wb.plot.images: complex values cannot be drawn; use abs().")
    first = channels == "first"
    if array.ndim == 2:
        return array[None, :, :, None], "HW"
    if array.ndim == 3 and array.shape[0 if first else 2] in (3, 4):
        return (numpy.moveaxis(array, 0, 2) if first else array)[None], "CHW" if first else "HWC"
    if array.ndim == 3:
        return array[..., None], "NHW"
    if array.ndim != 4:
        raise ValueError(f"wb.plot.images takes 2 to 4 dimensions, got shape {array.shape}.")
    found = array.shape[1 if first else 3]
    if found not in (1, 3, 4):
        other = "last" if first else "first"
        hint = (
            f'It looks like channels="{other}".'
            if array.shape[3 if first else 1] in (1, 3, 4)
            else "Of feature maps draw one: maps[i], whose channels are then the images."
        )
        raise ValueError(
            f'wb.plot.images: with channels="{channels}" shape {array.shape} has {found} channels; 1, 3 or 4 are drawn. {hint}'
        )
    return (numpy.moveaxis(array, 1, 3) if first else array), "NCHW" if first else "NHWC"


def _range(pictures: numpy.ndarray, wanted: Any) -> tuple[list[float], list[float], str]:
    """The values drawn black and white in each image, and the rule in words."""
    n = len(pictures)
    if isinstance(wanted, str) or wanted is None:
        if wanted not in (None, "each"):
            raise ValueError(f'wb.plot.images: value_range is a pair (low, high) or "each", got {wanted!r}.')
    else:
        low, high = map(float, wanted)
        if not low < high:
            raise ValueError(f"wb.plot.images: value_range is (low, high) with low < high, got {wanted!r}.")
        return [low] * n, [high] * n, f"values {low:g} to {high:g}, beyond that cut off"
    if wanted == "each":
        ends = [_ends(one) for one in pictures]
        return [a for a, _ in ends], [b for _, b in ends], "each image stretched from its least to its largest value"
    if pictures.dtype == numpy.uint8:
        return [0.0] * n, [255.0] * n, "values 0 to 255"
    low, high = _ends(pictures)
    if pictures.dtype.kind == "b" or (pictures.dtype.kind == "f" and low >= 0 and high <= 1):
        return [0.0] * n, [1.0] * n, "values 0 to 1"
    return [low] * n, [high] * n, f"values stretched from {low:.3g} to {high:.3g}, the least and largest"


def _ends(pictures: numpy.ndarray) -> tuple[float, float]:
    fine = pictures[numpy.isfinite(pictures)]
    return (float(fine.min()), float(fine.max())) if fine.size else (0.0, 1.0)


def _rgba(picture: numpy.ndarray, low: float, high: float) -> numpy.ndarray:
    """Convert (H, W, C) to float RGB(A) in [0, 1]. The alpha channel is not stretched: its range is 0 to 1, or 0 to 255 for uint8."""
    wide = picture.astype(numpy.float64)
    fine = numpy.isfinite(wide)
    color = numpy.clip((numpy.where(fine, wide, low) - low) / ((high - low) or 1.0), 0, 1)
    if picture.shape[2] == 4:
        full = 255.0 if picture.dtype == numpy.uint8 else 1.0
        color[..., 3] = numpy.clip(numpy.where(fine[..., 3], wide[..., 3], full) / full, 0, 1)
    elif picture.shape[2] == 1:
        color = numpy.repeat(color, 3, axis=2)
    bad = ~fine.all(axis=2)
    color[bad, :3] = _BAD
    return color
