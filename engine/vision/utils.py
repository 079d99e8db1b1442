"""`torchvision.utils`: image grids, saving, and drawing boxes, masks and keypoints."""

from __future__ import annotations

import math
from typing import Any

import numpy

import engine
from engine import Tensor

from .transforms.functional import convert_image_dtype, pil_to_tensor, to_pil_image


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Arrange images (N, C, H, W), or a list of equally sized images, in a grid (C, rows, columns) with `nrow` per row.

    `normalize` scales values to [0, 1] from `value_range` or from their minimum and maximum, per image with `scale_each`.
    """
    if not isinstance(tensor, Tensor) and not (isinstance(tensor, list) and all(isinstance(one, Tensor) for one in tensor)):
        raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
    images = engine.stack(tensor, dim=0) if isinstance(tensor, list) else tensor
    if images.ndim == 2:
        images = images[None]
    if images.ndim == 3:
        images = images[None]
    if images.ndim == 4 and images.shape[1] == 1:
        images = engine.cat((images, images, images), 1)
    with engine.no_grad():
        if normalize:
            images = _normalized(images, value_range, scale_each)
        if images.shape[0] == 1:
            return images[0]
        count, channels = images.shape[:2]
        columns = min(nrow, count)
        rows = math.ceil(count / columns)
        height, width = images.shape[2] + padding, images.shape[3] + padding
        grid = images.new_full((channels, height * rows + padding, width * columns + padding), pad_value)
        for k in range(count):
            y, x = k // columns * height + padding, k % columns * width + padding
            grid[:, y : y + images.shape[2], x : x + images.shape[3]] = images[k]
        return grid


def _normalized(images: Tensor, value_range: Any, scale_each: bool) -> Tensor:
    if value_range is not None and not isinstance(value_range, tuple):
        raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")

    def scaled(x: Tensor) -> Tensor:
        low, high = value_range or (float(x.min()), float(x.max()))
        return x.clamp(low, high).sub(low).div(max(high - low, 1e-5))

    return engine.stack([scaled(image) for image in images]) if scale_each else scaled(images)


def save_image(tensor: Any, fp: Any, format: str | None = None, **kwargs: Any) -> None:
    """Save images in [0, 1] to a path or open file; a batch is arranged by `make_grid`, with its arguments."""
    from PIL import Image

    grid = make_grid(tensor, **kwargs).detach()
    bytes_ = grid.mul(255).add(0.5).clamp(0, 255).permute(1, 2, 0).to("cpu", engine.uint8).numpy()
    Image.fromarray(numpy.ascontiguousarray(bytes_)).save(fp, format=format)


def _palette(count: int) -> list[Any]:
    """Return a palette of distinct colors."""
    return [tuple(i * part % 255 for part in (2**25 - 1, 2**15 - 1, 2**21 - 1)) for i in range(count)]


def _colours(colors: Any, count: int) -> list[tuple[int, ...]]:
    """Return one RGB tuple per object, from one color (name or tuple) for all or a list of colors."""
    from PIL import ImageColor

    if colors is None:
        colors = _palette(count)
    elif isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(f"Number of colors must be equal or larger than the number of objects, but got {len(colors)} < {count}.")
        colors = colors[:count]
    elif isinstance(colors, (str, tuple)):
        colors = [colors] * count
    else:
        raise ValueError(f"`colors` must be a tuple, a string, or a list of them, but got {type(colors)}.")
    return [ImageColor.getrgb(colour) if isinstance(colour, str) else tuple(colour) for colour in colors]


def _check_image(image: Any) -> None:
    if not isinstance(image, Tensor):
        raise TypeError(f"The image must be a tensor, got {type(image)}")
    if image.dtype != engine.uint8 and not image.is_floating_point():
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.ndim != 3:
        raise ValueError("Pass individual images, not batches")
    if image.shape[0] not in (1, 3):
        raise ValueError("Only grayscale and RGB images are supported")


def _drawn_on(image: Tensor, draw: Any) -> Tensor:
    """Return the image as RGB, in its own dtype, after `draw` on Pillow's canvas."""
    from PIL import ImageDraw

    own = image if image.shape[0] == 3 else image.expand(3, -1, -1)
    canvas = to_pil_image(own if own.dtype == engine.uint8 else convert_image_dtype(own, engine.uint8))
    draw(ImageDraw.Draw(canvas))
    drawn = pil_to_tensor(canvas).to(image.device)
    return drawn if image.dtype == engine.uint8 else convert_image_dtype(drawn, image.dtype)


def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: list[str | None] | None = None,
    colors: Any = None,
    fill: bool | None = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
    label_colors: Any = None,
) -> Tensor:
    """Draw boxes (N, 4), as (x1, y1, x2, y2) in pixels, and labels on an image (1 or 3, H, W); returns RGB."""
    from PIL import ImageDraw, ImageFont

    _check_image(image)
    if boxes.numel() and ((boxes[:, 0] > boxes[:, 2]).any() or (boxes[:, 1] > boxes[:, 3]).any()):
        raise ValueError("Boxes need to be in (xmin, ymin, xmax, ymax) format. Use torchvision.ops.box_convert to convert them")
    corners = boxes.to(engine.int64).tolist()
    if labels is not None and len(labels) != len(corners):
        raise ValueError(f"The number of boxes ({len(corners)}) and labels ({len(labels)}) mismatch. Please specify labels for each box.")
    if not corners:
        return image.clone()
    lines = _colours(colors, len(corners))
    words = lines if label_colors is None else _colours(label_colors, len(corners))
    letters = ImageFont.load_default() if font is None else ImageFont.truetype(font, font_size or 10)

    def draw(canvas: ImageDraw.ImageDraw) -> None:
        for i, box in enumerate(corners):
            canvas.rectangle(box, width=width, outline=lines[i])
            if labels is not None and labels[i] is not None:
                canvas.text((box[0] + width + 1, box[1] + width + 1), str(labels[i]), fill=words[i], font=letters)

    if not fill:
        return _drawn_on(image, draw)
    masks = engine.zeros(len(corners), *image.shape[-2:], dtype=engine.bool)
    for mask, (x1, y1, x2, y2) in zip(masks, corners, strict=True):
        mask[max(y1, 0) : y2 + 1, max(x1, 0) : x2 + 1] = True
    rgb = image if image.shape[0] == 3 else image.expand(3, -1, -1)
    return _drawn_on(draw_segmentation_masks(rgb, masks, 100 / 255, [tuple(one) for one in lines]), draw)


def draw_segmentation_masks(image: Tensor, masks: Tensor, alpha: float = 0.8, colors: Any = None) -> Tensor:
    """Overlay boolean masks (H, W) or (N, H, W) on an image (3, H, W), in colors with opacity `alpha`."""
    _check_image(image)
    if image.shape[0] != 3:
        raise ValueError("Pass an RGB image. Other Image formats are not supported")
    masks = masks[None] if masks.ndim == 2 else masks
    if masks.ndim != 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype != engine.bool:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    painted = image.detach().clone()
    for mask, colour in zip(masks, _colours(colors, len(masks)), strict=True):
        tint = engine.tensor(colour, dtype=engine.uint8, device=image.device)
        painted = engine.where(mask, convert_image_dtype(tint, image.dtype)[:, None, None], painted)
    return (image * (1 - alpha) + painted * alpha).to(image.dtype) if len(masks) else image


def draw_keypoints(
    image: Tensor,
    keypoints: Tensor,
    connectivity: list[tuple[int, int]] | None = None,
    colors: Any = None,
    radius: int = 2,
    width: int = 3,
    visibility: Tensor | None = None,
) -> Tensor:
    """Draw points (N, K, 2), as (x, y) in pixels, on an RGB image (3, H, W), with lines between the pairs in `connectivity`."""
    _check_image(image)
    if image.shape[0] != 3:
        raise ValueError("Pass an RGB image. Other Image formats are not supported")
    if keypoints.ndim != 3 or keypoints.shape[-1] != 2:
        raise ValueError(f"keypoints must be of shape (num_instances, K, 2), got {tuple(keypoints.shape)}")
    seen = engine.ones(keypoints.shape[:-1], dtype=engine.bool) if visibility is None else visibility.to(engine.bool)
    if seen.ndim == 3:
        seen = seen[..., 0]
    if seen.shape != keypoints.shape[:-1]:
        raise ValueError(f"keypoints and visibility must have the same shape, got {tuple(keypoints.shape)} and {tuple(seen.shape)}")
    colour = _colours(colors, 1)[0] if colors is not None else None

    def draw(canvas: Any) -> None:
        for points, visible in zip(keypoints.to(engine.int64).tolist(), seen.tolist(), strict=True):
            for (x, y), there in zip(points, visible, strict=True):
                if there:
                    canvas.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)
            for a, b in connectivity or ():
                if visible[a] and visible[b]:
                    canvas.line((*points[a], *points[b]), width=width)

    return _drawn_on(image, draw)
