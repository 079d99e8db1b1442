"""`FakeData`: reproducible random images with random classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import engine

from ..transforms import functional as F
from .vision import VisionDataset


class FakeData(VisionDataset):
    """`size` Pillow images of normal noise with `num_classes` classes. Image i is drawn with the seed `random_offset` + i."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        random_offset: int = 0,
    ):
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.num_classes, self.image_size, self.random_offset = size, num_classes, image_size, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        state = engine.get_rng_state()
        engine.manual_seed(index + self.random_offset)
        image = engine.randn(*self.image_size)
        target = int(engine.randint(0, self.num_classes, size=(1,), dtype=engine.int64)[0])
        engine.set_rng_state(state)
        return self._transformed(F.to_pil_image(image), target)

    def __len__(self) -> int:
        return self.size
