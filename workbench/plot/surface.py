"""The loss surface of a model along two directions (Li, Xu, Taylor, Studer, Goldstein, "Visualizing the Loss Landscape", 2018)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy

from engine import no_grad
from engine.core import devices
from engine.core.tensor import Tensor
from engine.nn import Module

from ..base import generators
from ..inspector.numbers import wide
from ..training.curve import as_number
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Direction = Mapping[str, Any]  # parameter name -> array of its shape


@dataclass(frozen=True)
class Landscape:
    """The loss at `w + a d1 + b d2` around a model's parameters w, along two directions; `wb.plot.landscape` returns it.

    Attributes:
        across: the values of a, float64 (points,).
        up: the values of b, float64 (points,).
        loss: `loss[i, j]` is at a = across[j], b = up[i]; float64 (points, points), may have NaN and Inf.
        here: the loss at w.
        words: the directions in words.
    """

    across: numpy.ndarray
    up: numpy.ndarray
    loss: numpy.ndarray
    here: float
    words: str


def random_directions(model: Module, seed: int = 0) -> tuple[dict[str, numpy.ndarray], dict[str, numpy.ndarray]]:
    """Draw two random Gaussian directions, filter-normalized: `d_i <- d_i |w_i| / |d_i|` for each filter i (Li et al. 2018, section 4).

    A filter is `weight[i]`, the weights of one output. Parameters with fewer than two dimensions (biases, batch norm) have direction 0, as
    in the authors' code.

    Args:
        model: the model.
        seed: the seed of the draw.

    Returns:
        For each direction a dict from names of parameters to arrays of their shapes.

    Raises:
        TypeError: the model is not an `engine.nn.Module`.

    Example::

        >>> first, second = wb.plot.random_directions(engine.nn.Linear(3, 2))
        >>> {name: d.shape for name, d in first.items()}
        {'weight': (2, 3), 'bias': (2,)}
    """
    if not isinstance(model, Module):
        raise TypeError(f"wb.plot.random_directions takes an engine.nn.Module, got {type(model).__name__}.")
    draw = numpy.random.default_rng(seed)
    return _random(model, draw), _random(model, draw)


def _random(model: Module, draw: numpy.random.Generator) -> dict[str, numpy.ndarray]:
    found = {}
    for name, p in model.named_parameters():
        w = wide(p.array)
        d = numpy.zeros_like(w)
        if w.ndim >= 2:
            d += draw.standard_normal(w.shape)
            if w.dtype.kind == "c":
                d += 1j * draw.standard_normal(w.shape)
            flat, weights = d.reshape(len(d), -1), w.reshape(len(w), -1)
            flat *= (numpy.linalg.norm(weights, axis=1) / (numpy.linalg.norm(flat, axis=1) + 1e-10))[:, None]
        found[name] = d
    return found


def landscape(
    model: Module,
    loss: Callable[[], Tensor | float],
    directions: tuple[Direction, Direction] | None = None,
    span: float = 1.0,
    points: int = 21,
    seed: int = 0,
) -> Landscape:
    """Compute the loss on a grid around a model's parameters, along two directions; calls `loss()` points² + 1 times.

    Parameters, buffers and the random state are restored exactly, even if `loss` fails or is interrupted.

    Args:
        model: the model.
        loss: a function that returns the model's current loss: `lambda: F.cross_entropy(model(x), y)`. It runs under no_grad and each time
            from the same random state, so that dropout is the same at every point.
        directions: two dicts from names of parameters to arrays of their shapes (missing ones are 0), used without normalization. By
            default, those of `wb.plot.random_directions`.
        span: the grid goes from -span to span in both directions.
        points: the number of points in each direction.
        seed: the seed of the random directions.

    Returns:
        The grid and its losses.

    Raises:
        TypeError: the model is not an `engine.nn.Module`, or `loss` is not a function that returns a number.
        ValueError: `points` is less than 3 or `span` is not positive.

    Example::

        >>> model, x = engine.nn.Linear(2, 1), engine.ones(4, 2)
        >>> land = wb.plot.landscape(model, lambda: model(x).square().mean(), points=5)
        >>> land.loss.shape
        (5, 5)
    """
    if not isinstance(model, Module):
        raise TypeError(f"wb.plot.landscape takes an engine.nn.Module, got {type(model).__name__}.")
    if not callable(loss):
        raise TypeError(f"wb.plot.landscape: loss is a function without arguments that computes the loss, got {type(loss).__name__}.")
    if not isinstance(points, int) or points < 3:
        raise ValueError(f"wb.plot.landscape: points is an integer, 3 or more; got {points!r}.")
    if not span > 0:
        raise ValueError(f"wb.plot.landscape: span is larger than 0, got {span!r}.")
    words = f"random filter-normalized directions, seed {seed}" if directions is None else "given directions"
    given = random_directions(model, seed) if directions is None else directions
    parameters = dict(model.named_parameters())
    first, second = (_checked(one, parameters) for one in _two(given))
    places = numpy.linspace(-span, span, points)
    found = numpy.full((points, points), numpy.nan)
    with no_grad(), _put_back(model) as begin:
        begin()
        here = as_number("the loss", loss(), "wb.plot.landscape")
        start = {name: p.array.copy() for name, p in parameters.items()}
        for i, b in enumerate(places.tolist()):
            for j, a in enumerate(places.tolist()):
                begin()
                for name, p in parameters.items():
                    p.array[...] = (start[name] + a * first[name] + b * second[name]).astype(p.array.dtype)
                found[i, j] = as_number("the loss", loss(), "wb.plot.landscape")
    return Landscape(places, places, found, here, words)


def _two(directions: Any) -> tuple[Direction, Direction]:
    if not isinstance(directions, (tuple, list)) or len(directions) != 2 or not all(isinstance(d, Mapping) for d in directions):
        raise TypeError("wb.plot.landscape: directions are two dicts from names of parameters to arrays.")
    return directions[0], directions[1]


def _checked(direction: Direction, parameters: dict[str, Any]) -> dict[str, Any]:
    """Validate a direction, and return one for every parameter, on its device."""
    unknown = [name for name in direction if name not in parameters]
    if unknown:
        raise ValueError(f"wb.plot.landscape: the model has no parameter named {unknown[0]!r}; it has {', '.join(parameters)}.")
    found = {}
    for name, p in parameters.items():
        d = direction.get(name, 0.0)
        d = wide(d.array if isinstance(d, Tensor) else d)
        if name in direction and d.shape != tuple(p.shape):
            raise ValueError(f"wb.plot.landscape: {name} has shape {tuple(p.shape)}, but its direction has shape {d.shape}.")
        if d.dtype.kind == "c" and p.array.dtype.kind != "c":
            raise TypeError(f"wb.plot.landscape: {name} is real, but its direction is complex.")
        kind = numpy.float32 if p.array.dtype.itemsize <= 4 else numpy.complex128 if d.dtype.kind == "c" else numpy.float64
        found[name] = devices.move(numpy.broadcast_to(d, p.array.shape).astype(kind), p.device)
    return found


@contextmanager
def _put_back(model: Module) -> Iterator[Callable[[], None]]:
    """Yield a function that restores buffers and the random state; at exit, restore them and the parameters.

    The arrays are written without increasing the engine's version counters: the values end up unchanged, so existing graphs stay valid.
    """
    buffers = [(b, b.array, b.array.copy()) for b in model.buffers()]
    parameters = [(p, p.array, p.array.copy()) for p in model.parameters()]
    state = generators.state()

    def restore(tensors: list) -> None:
        for one, array, copy in tensors:
            one.array = array
            array[...] = copy

    def begin() -> None:
        restore(buffers)
        generators.restore(state)

    try:
        yield begin
    finally:
        restore(parameters)
        begin()


def loss_surface(
    source: Module | Landscape,
    loss: Callable[[], Tensor | float] | None = None,
    directions: tuple[Direction, Direction] | None = None,
    span: float = 1.0,
    points: int = 21,
    seed: int = 0,
    kind: Literal["contour", "3d"] = "contour",
    log: bool | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the loss surface around a model as contours or as a 3-D surface; the cross marks the current parameters.

    Values that are not finite stay blank.

    Args:
        source: a module, or a `Landscape` that has been computed.
        loss: for a module, as in `wb.plot.landscape`, like the next four.
        directions: the two directions.
        span: the grid goes from -span to span in both directions.
        points: the number of points in each direction.
        seed: the seed of the random directions.
        kind: "contour" or "3d".
        log: draw the logarithm of the loss; by default if all losses are positive and the largest is more than 100 times the smallest.
        ax: the axes to draw on; by default, those of a new figure. For "3d" they need `projection="3d"`.

    Returns:
        The axes.

    Raises:
        TypeError: `loss` is missing for a module.
        ValueError: no loss is finite, or `kind` and `ax` do not fit.

    Example::

        >>> model, x = engine.nn.Linear(2, 1), engine.ones(4, 2)
        >>> ax = wb.plot.loss_surface(model, lambda: model(x).square().mean(), points=5)
    """
    if kind not in ("contour", "3d"):
        raise ValueError(f'wb.plot.loss_surface: kind is "contour" or "3d", got {kind!r}.')
    if kind == "3d" and ax is not None and getattr(ax, "name", "") != "3d":
        raise ValueError('wb.plot.loss_surface: kind="3d" needs Axes made with projection="3d".')
    if isinstance(source, Landscape):
        land = source
    elif loss is None:
        raise TypeError("wb.plot.loss_surface: with a module it takes loss, a function without arguments that computes the loss.")
    else:
        land = landscape(source, loss, directions, span, points, seed)
    fine = numpy.isfinite(land.loss)
    if not fine.any():
        raise ValueError("wb.plot.loss_surface: the loss is not finite at any place. Try a smaller span.")
    low, high = land.loss[fine].min(), land.loss[fine].max()
    log = bool(low > 0 and high > 100 * low) if log is None else log
    if log and low <= 0:
        raise ValueError(f"wb.plot.loss_surface: log=True needs a loss above 0, and the least is {low:.4g}.")
    z = numpy.full(land.loss.shape, numpy.nan)
    z[fine] = numpy.log10(land.loss[fine]) if log else land.loss[fine]
    ax = style.axes(ax, (7.2, 5.6), "3d" if kind == "3d" else None)
    (_contour if kind == "contour" else _surface)(ax, land, z, "log₁₀ loss" if log else "loss", log)
    ax.set_xlabel("along direction 1")
    ax.set_ylabel("along direction 2")
    lost = int((~fine).sum())
    ax.title.set_text("Loss surface" + (f" ({lost} of {fine.size} places not finite)" if lost else ""))
    return ax


def _contour(ax: Any, land: Landscape, z: numpy.ndarray, label: str, log: bool) -> None:
    masked = numpy.ma.masked_invalid(z)
    ax.set_facecolor("#d9d9d9")
    size = style.tick_size(ax)
    if masked.min() == masked.max():
        filled = ax.pcolormesh(land.across, land.up, masked, cmap=style.SEQUENTIAL)
    else:
        filled = ax.contourf(land.across, land.up, masked, 24, cmap=style.SEQUENTIAL)
        lines = ax.contour(land.across, land.up, masked, 10, colors="white", linewidths=0.7, alpha=0.8)
        ax.clabel(lines, fontsize=0.8 * size)
    ax.plot([0], [0], "+", color=style.RED, markersize=14, markeredgewidth=3)
    ax.annotate(f"{land.here:.4g}", (0, 0), (8, 8), textcoords="offset points", color="white", size=size, weight="bold")
    bar = ax.figure.colorbar(filled, ax=ax, pad=0.02)
    bar.set_label(label, size=ax.yaxis.label.get_fontsize())
    bar.ax.tick_params(labelsize=size)
    ax.set_aspect("equal")


def _surface(ax: Any, land: Landscape, z: numpy.ndarray, label: str, log: bool) -> None:
    a, b = numpy.meshgrid(land.across, land.up)
    ax.plot_surface(a, b, z, cmap=style.SEQUENTIAL, rstride=1, cstride=1, linewidth=0.2, edgecolor="#ffffff60", antialiased=True)
    here = numpy.log10(land.here) if log and land.here > 0 else land.here
    ax.plot([0], [0], [here], "P", color=style.RED, markersize=10, zorder=10)
    ax.set_zlabel(label)
    ax.locator_params(nbins=5)
    ax.set_box_aspect(None, zoom=0.85)  # otherwise the labels are cut off
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.labelpad = 10
