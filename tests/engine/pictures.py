"""Pictures that the tests of `engine.vision` share, and how results are compared."""

from __future__ import annotations

import numpy as np
from PIL import Image

import engine

R = np.random.default_rng(0)
BYTES = R.integers(0, 256, (3, 20, 26), dtype=np.uint8)  # (C, H, W)
PICTURE = Image.fromarray(np.ascontiguousarray(BYTES.transpose(1, 2, 0)))
GREY = Image.fromarray(BYTES[0])
BATCH = R.integers(0, 256, (2, 3, 20, 26), dtype=np.uint8)


def array(image):
    """(C, H, W) of a Pillow image or a tensor."""
    if isinstance(image, engine.Tensor):
        return image.numpy()
    if isinstance(image, np.ndarray):
        return image
    found = np.asarray(image)
    return found[None] if found.ndim == 2 else found.transpose(2, 0, 1)


def same(ours, expected, by=0):
    ours, expected = array(ours), np.asarray(expected)
    assert ours.shape == expected.shape
    assert np.abs(ours.astype(float) - expected.astype(float)).max(initial=0) <= by
