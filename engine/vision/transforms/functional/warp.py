"""Functional transforms by resampling: rotations, affine and perspective transforms, and elastic displacements."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy

import engine
from engine import Tensor
from engine.nn import functional as F

from .convert import pil_to_tensor, to_pil_image
from .images import InterpolationMode, checked, float_like, get_dimensions, in_floats, interpolation_of, pil_fill, pil_modes_mapping

_AFFINE, _PERSPECTIVE = 0, 2  # Pillow's codes of its transforms


def _inverse_affine_matrix(center: Any, angle: float, translate: Any, scale: float, shear: Any) -> list[float]:
    """Return six coefficients that map output to input pixels: the inverse of T C R Shear Scale C^-1 (degrees; x, y).

    C moves the center to 0, T translates, and R rotates clockwise on the screen. The 2 x 2 part of R Shear has determinant 1, so its
    inverse is its adjugate.
    """
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    xx, xy, yx, yy = (one / scale for one in (d, -b, -c, a))
    x, y = -center[0] - translate[0], -center[1] - translate[1]
    return [xx, xy, xx * x + xy * y + center[0], yx, yy, yx * x + yy * y + center[1]]


def _affine_grid(matrix: list[float], size: tuple[int, int], new: tuple[int, int], img: Tensor) -> Tensor:
    """Return sampling positions (1, H', W', 2) for `grid_sample`, by a matrix relative to the image center."""
    theta = engine.tensor(matrix, dtype=float_like(img), device=img.device).reshape(2, 3)
    (h, w), (rows, columns) = size, new
    grid = _pixels(rows, columns, img, -columns * 0.5 + 0.5, -rows * 0.5 + 0.5)
    half = engine.tensor([0.5 * w, 0.5 * h], dtype=theta.dtype, device=img.device)
    return (grid @ (theta.T / half)).view(1, rows, columns, 2)


def _pixels(rows: int, columns: int, img: Tensor, x: float, y: float) -> Tensor:
    """Return (x, y, 1) for every pixel in row order, starting at the given x and y."""
    kind = {"dtype": float_like(img), "device": img.device}
    ys = engine.linspace(y, y + rows - 1, rows, **kind)
    xs = engine.linspace(x, x + columns - 1, columns, **kind)
    grid = engine.meshgrid(ys, xs, indexing="ij")
    return engine.stack([grid[1], grid[0], engine.ones_like(grid[0])], dim=-1).reshape(-1, 3)


def _sampled(img: Tensor, grid: Tensor, interpolation: InterpolationMode, fill: Any, modes: tuple[str, ...]) -> Tensor:
    mode, channels = interpolation.value, get_dimensions(img)[0]
    if mode not in modes:
        raise ValueError(f"Interpolation mode '{mode}' is unsupported with Tensor input")
    colours = list(fill) if isinstance(fill, (tuple, list)) else None if fill is None else [float(fill)]
    if colours is not None and len(colours) not in (1, channels):
        raise ValueError(
            f"The number of elements in 'fill' cannot broadcast to match the number of channels of the image ({len(colours)} != {channels})"
        )

    def work(x: Tensor) -> Tensor:
        lead, x = x.shape[:-3], x.reshape(-1, *x.shape[-3:])
        places = grid.to(x.dtype).expand(x.shape[0], -1, -1, -1)
        inside = engine.ones_like(x[:, :1])  # coverage of each new pixel by the old image
        both = x if colours is None else engine.cat([x, inside], dim=1)
        both = F.grid_sample(both, places, mode=mode, padding_mode="zeros", align_corners=False)
        if colours is not None:
            both, inside = both[:, :-1], both[:, -1:]
            around = engine.tensor(colours, dtype=x.dtype, device=x.device).view(1, -1, 1, 1)
            both = engine.where(inside < 0.5, around, both) if mode == "nearest" else both * inside + (1.0 - inside) * around
        return both.reshape(*lead, *both.shape[-3:])

    return in_floats(img, (grid.dtype,), work)


def affine(
    img: Any,
    angle: float,
    translate: list[int],
    scale: float,
    shear: list[float],
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
    center: list[int] | None = None,
) -> Any:
    """Rotate clockwise by `angle` degrees, shear by degrees (x, y), scale about the center, and translate by pixels (x, y).

    Tensors support the modes nearest and bilinear.
    """
    interpolation = interpolation_of(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if not isinstance(translate, (list, tuple)):
        raise TypeError("Argument translate should be a sequence")
    if len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if not isinstance(shear, (numbers.Number, list, tuple)):
        raise TypeError("Shear should be either a single value or a sequence of two values")
    angles: Any = [shear, 0.0] if isinstance(shear, numbers.Number) else list(shear) * 2 if len(shear) == 1 else list(shear)
    if len(angles) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    centre = _centre(center)
    _, height, width = get_dimensions(img)
    if checked(img):
        origin = [0.0, 0.0] if centre is None else [centre[0] - width * 0.5, centre[1] - height * 0.5]
        matrix = _inverse_affine_matrix(origin, angle, translate, scale, angles)
        grid = _affine_grid(matrix, (height, width), (height, width), img)
        return _sampled(img, grid, interpolation, fill, ("nearest", "bilinear"))
    matrix = _inverse_affine_matrix(centre or [width * 0.5, height * 0.5], angle, translate, scale, angles)
    return img.transform((width, height), _AFFINE, matrix, pil_modes_mapping[interpolation], fillcolor=pil_fill(fill, img))


def _centre(center: Any) -> Any:
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")
    if center is not None and len(center) != 2:
        raise ValueError("Argument center should be a sequence of length 2")
    return center


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False,
    center: list[int] | None = None,
    fill: Any = None,
) -> Any:
    """Rotate counterclockwise by `angle` degrees about `center` (x, y), by default the middle. `expand` fits the whole rotated image."""
    interpolation = interpolation_of(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    centre = _centre(center)
    if not checked(img):
        return img.rotate(angle, pil_modes_mapping[interpolation], expand, centre, fillcolor=pil_fill(fill, img))
    height, width = img.shape[-2:]
    origin = [0.0, 0.0] if centre is None else [centre[0] - width * 0.5, centre[1] - height * 0.5]
    matrix = _inverse_affine_matrix(origin, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    new = _expanded(matrix, width, height) if expand else (height, width)
    return _sampled(img, _affine_grid(matrix, (height, width), new, img), interpolation, fill, ("nearest", "bilinear"))


def _expanded(matrix: list[float], width: int, height: int) -> tuple[int, int]:
    """Return (rows, columns) of the whole pixels spanned by the transformed corners, ignoring differences below 1e-4."""
    corners = numpy.array([(x * width, y * height, 1.0) for x in (-0.5, 0.5) for y in (-0.5, 0.5)], numpy.float32)
    places = corners @ numpy.array(matrix, numpy.float32).reshape(2, 3).T + numpy.array([width * 0.5, height * 0.5], numpy.float32)
    low, high = (numpy.trunc(end / numpy.float32(1e-4)) * numpy.float32(1e-4) for end in (places.min(0), places.max(0)))
    columns, rows = numpy.ceil(high) - numpy.floor(low)
    return int(rows), int(columns)


def _perspective_coeffs(startpoints: Any, endpoints: Any) -> list[float]:
    """Solve for a..h in x' = (ax + by + c) / (gx + hy + 1), y' = (dx + ey + f) / (gx + hy + 1), which map end to start points."""
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(f"Please provide exactly four corners, got {len(startpoints)} startpoints and {len(endpoints)} endpoints.")
    rows = []
    for (u, v), (x, y) in zip(startpoints, endpoints, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    found = numpy.linalg.lstsq(numpy.array(rows, numpy.float64), numpy.array(startpoints, numpy.float64).reshape(8), rcond=None)[0]
    return found.astype(numpy.float32).tolist()


def perspective(
    img: Any,
    startpoints: list[list[int]],
    endpoints: list[list[int]],
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None,
) -> Any:
    """Apply the perspective transform that moves four `startpoints` [x, y] to the `endpoints`."""
    interpolation = interpolation_of(interpolation)
    a, b, c, d, e, f, g, h = coeffs = _perspective_coeffs(startpoints, endpoints)
    if not checked(img):
        return img.transform(img.size, _PERSPECTIVE, coeffs, pil_modes_mapping[interpolation], fillcolor=pil_fill(fill, img))
    rows, columns = img.shape[-2:]
    kind = {"dtype": float_like(img), "device": img.device}
    pixels = _pixels(rows, columns, img, 0.5, 0.5)
    above = pixels @ (engine.tensor([[a, b, c], [d, e, f]], **kind).T / engine.tensor([0.5 * columns, 0.5 * rows], **kind))
    below = pixels @ engine.tensor([[g, h, 1.0]], **kind).T
    return _sampled(img, (above / below - 1.0).view(1, rows, columns, 2), interpolation, fill, ("nearest", "bilinear"))


def elastic_transform(img: Any, displacement: Tensor, interpolation: Any = InterpolationMode.BILINEAR, fill: Any = None) -> Any:
    """Read every pixel at an offset of `displacement` (1, H, W, 2), as (x, y) in units of half the image."""
    interpolation = interpolation_of(interpolation)
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    tensor = checked(img)
    _, height, width = get_dimensions(img)
    if tuple(displacement.shape) != (1, height, width, 2):
        raise ValueError(f"Argument displacement shape should be {(1, height, width, 2)}, but given {tuple(displacement.shape)}")
    x = img if tensor else pil_to_tensor(img)
    ys, xs = (engine.linspace((1 - size) / size, (size - 1) / size, size, device=x.device) for size in (height, width))
    rows, columns = engine.meshgrid(ys, xs, indexing="ij")
    grid = (engine.stack([columns, rows], dim=-1)[None] + displacement.to(x.device)).to(float_like(x))
    moved = _sampled(x, grid, interpolation, fill, ("nearest", "bilinear"))
    return moved if tensor else to_pil_image(moved, mode=img.mode)
