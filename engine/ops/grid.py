"""Sampling of images at arbitrary positions: `grid_sample`, `affine_grid`, and the old names of upsampling."""

from __future__ import annotations

import itertools
import math
from typing import Any

from ..backends.kernels_pool import cubic
from ..base import dtypes
from ..base.errors import warn
from ..core.create import ones_like
from ..core.op import composite, functions
from ..core.ranges import linspace
from ..core.tensor import Tensor
from .front import refuse_whole_numbers
from .linalg import bmm
from .scatter import gather
from .shape import expand, reshape


def refuse_unfit(input: Tensor, grid: Tensor) -> None:
    """Raise RuntimeError for an input and a grid that do not match; IndexError for a tensor without dimensions."""
    n, sizes = input.ndim - 2, f"but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.size(0) != grid.size(0):
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, {sizes}")
    if grid.shape[-1] != n:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {n} in last dimension, {sizes}")
    if not all(input.shape[2:]):
        raise RuntimeError(f"grid_sampler(): expected input to have non-empty spatial dimensions, {sizes}")
    if n not in (2, 3) or grid.ndim != input.ndim:
        raise RuntimeError(f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, {sizes}")


@composite(home="nn.functional")
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None) -> Tensor:
    """Sample images (N, C, H, W) at the positions `grid` (N, H', W', 2), or volumes (N, C, D, H, W) at (N, D', H', W', 3).

    A position is (x, y) or (x, y, z); -1 and 1 are the centers of the corner elements with `align_corners`, else their outer edges. `mode`
    between elements is "bilinear", "nearest" or "bicubic" (images only). `padding_mode` outside is "zeros", "border" or "reflection".
    """
    n = input.ndim - 2
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'")
    refuse_unfit(input, grid)
    if mode == "bicubic" and n == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    refuse_whole_numbers("grid_sample", input)
    if input.dtype != grid.dtype:
        raise RuntimeError(f"grid_sampler(): expected scalar type {input.dtype.name} but found {grid.dtype.name}")
    if align_corners is None:
        warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the old behavior is desired.")
    corners, sizes = bool(align_corners), tuple(input.shape[2:])
    places = reshape(grid, (grid.shape[0], math.prod(grid.shape[1:-1]), n))
    at = [((places[..., n - 1 - d] + 1) * size - 1) / 2 if not corners else (places[..., n - 1 - d] + 1) / 2 * (size - 1) for d, size in enumerate(sizes)]
    flat = reshape(input, (*input.shape[:2], math.prod(sizes)))
    if mode != "bicubic":
        at = [_inside(x, size, padding_mode, corners, n == 3) for x, size in zip(at, sizes, strict=True)]
    taps = [{"nearest": _nearest, "bilinear": _linear, "bicubic": _cubic}[mode](x) for x in at]
    out = None
    for chosen in itertools.product(*taps):
        weight, index, valid = None, None, None
        for (i, w), size in zip(chosen, sizes, strict=True):
            i = _inside(i, size, padding_mode, corners, False) if mode == "bicubic" else i
            here = (i >= 0) & (i <= size - 1)
            valid = here if valid is None else valid & here
            i = i.nan_to_num().clamp(0, size - 1).to(dtypes.int64)
            index = i if index is None else index * size + i
            weight = w if weight is None else weight if w is None else weight * w
        found = gather(flat, 2, expand(index.unsqueeze(1), (*flat.shape[:2], index.shape[-1])))
        outside = valid.logical_not().unsqueeze(1)
        if n == 2:  # for images, a nan position gives nan
            found = found.masked_fill(outside, 0)
        found = found if weight is None else found * weight.unsqueeze(1)
        if n == 3:
            found = found.masked_fill(outside, 0)
        out = found if out is None else out + found
    return reshape(out, (*input.shape[:2], *grid.shape[1:-1]))


def _filled(x: Tensor, value: float) -> Tensor:
    """A constant with a gradient of zeros."""
    return x.masked_fill(ones_like(x, dtype=dtypes.bool_), value)


def _inside(x: Tensor, size: int, padding: str, corners: bool, volume: bool) -> Tensor:
    """Move positions outside to the border, or reflect them at it."""
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            return _filled(x, 0.0)
        x = (x - low).abs()
        turns = (x.detach() / span).floor()
        rest = x - turns * span
        x = functions["where"](turns % 2 == 0, rest, span - rest) + low
    if padding == "zeros":
        return x
    # the gradient at the border is 0; as in PyTorch, nan goes to an image's first element and to a volume's last
    where, last = functions["where"], size - 1.0
    return where(x < last, where(x > 0, x, 0.0), last) if volume else where(x > 0, where(x < last, x, last), 0.0)


def _nearest(x: Tensor) -> list:
    # positions get a gradient of zeros: the weight is 1 everywhere
    weight = _filled(x, 1.0) if x.requires_grad else None
    return [(x.detach().round(), weight)]


def _linear(x: Tensor) -> list:
    below = x.detach().floor()
    share = x - below
    return [(below, 1 - share), (below + 1, share)]


def _cubic(x: Tensor) -> list:
    below = x.detach().floor()
    return [(below + i, weight) for i, weight in enumerate(cubic(x - below), -1)]


@composite(home="nn.functional")
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """Sampling positions of affine maps (N, 2, 3) for an output of `size` (N, C, H, W); (N, 3, 4) for (N, C, D, H, W)."""
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {tuple(size)}.")
    if tuple(theta.shape[1:]) != (n, n + 1) or theta.ndim != 3:
        raise ValueError(f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {tuple(size)}. Got {tuple(theta.shape)}.")
    if min(size) <= 0:
        raise ValueError("Expected non-zero, positive output size. Got " + str(tuple(size)))
    if align_corners is None:
        warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the old behavior is desired.")
    return places(theta, size, align_corners)


def places(theta: Tensor, size: Any, align_corners: bool | None) -> Tensor:
    """`affine_grid` for maps of any dtype."""
    n = len(size) - 2
    lines = [linspace(-1, 1, m, dtype=theta.dtype, device=theta.device) if m > 1 else theta.new_zeros(1) for m in size[2:]]
    if not align_corners:  # rounded twice, as in PyTorch: the gradient of an identity map depends on the last bit
        lines = [line * (m - 1) / m for line, m in zip(lines, size[2:], strict=True)]
    grids = functions["meshgrid"](*lines, indexing="ij")
    base = functions["stack"]([*reversed(grids), grids[0].new_ones(tuple(grids[0].shape))], -1)
    found = bmm(expand(reshape(base, (1, -1, n + 1)), (size[0], -1, -1)), theta.transpose(1, 2))
    return reshape(found, (theta.shape[0], *size[2:], n))


@composite(home="nn.functional")
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Old name of `interpolate` with mode "nearest"."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return functions["nn.functional.interpolate"](input, size, scale_factor, mode="nearest")


@composite(home="nn.functional")
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Old name of `interpolate` with mode "bilinear" and aligned corners."""
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return functions["nn.functional.interpolate"](input, size, scale_factor, mode="bilinear", align_corners=True)
