"""DataLoader, engine against PyTorch: images per second, 28 x 28 arrays in process and with 2 workers, and JPEG files with augmentation.

    python benchmarks/data.py [--rounds 7] [--json FILE]

The samples are NumPy's in both, so the loaders alone differ. The loaders take turns. The ratio is that of the times.
"""

from __future__ import annotations

import io
from typing import Any

import numpy

from measure import LIBRARIES, arguments, heading, interleaved, ratio_text, summary, write_json  # isort: skip


class Digits:
    """60,000 images of 28 x 28, as float32, with their labels."""

    def __init__(self, n: int = 12_800) -> None:
        self.images, self.n = numpy.random.default_rng(0).integers(0, 255, (n, 1, 28, 28), numpy.uint8), n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple:
        return self.images[i].astype(numpy.float32) / 255, i % 10


class Photos:
    """JPEG files of 256 x 256, cropped to 224 x 224 at random, mirrored at random, normalized."""

    def __init__(self, n: int = 256) -> None:
        from PIL import Image

        draw, self.files = numpy.random.default_rng(0), []
        for _ in range(n):
            file = io.BytesIO()
            Image.fromarray(draw.integers(0, 255, (32, 32, 3), numpy.uint8)).resize((256, 256)).save(file, "JPEG")
            self.files.append(file.getvalue())

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple:
        from PIL import Image

        draw = numpy.random.default_rng(i)
        x = numpy.asarray(Image.open(io.BytesIO(self.files[i])).convert("RGB"))
        top, left = draw.integers(0, 32, 2)
        x = x[top : top + 224, left : left + 224]
        x = x[:, ::-1] if draw.random() < 0.5 else x
        return numpy.ascontiguousarray(x.transpose(2, 0, 1).astype(numpy.float32) / 127.5 - 1), i


def passes(E: Any, data: Any, batch: int, workers: int) -> Any:
    """What makes one pass over the data; workers stay between passes, as their start is another matter."""
    loader = E.utils.data.DataLoader(data, batch_size=batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0)

    def run() -> None:
        for batch in loader:
            batch[0].sum()  # the numbers are looked at

    return run


def main() -> None:
    """Print the table."""
    options = arguments(__doc__, 7)
    digits, photos = Digits(), Photos()
    print(heading(), "\nmilliseconds per pass", f"{chr(32):7}engine     torch  ratio")
    rows = {}
    for name, data, batch, workers in (
        ("28x28 in process", digits, 128, 0), ("28x28, 2 workers", digits, 128, 2),
        ("3x224x224 JPEG in process", photos, 32, 0), ("3x224x224 JPEG, 2 workers", photos, 32, 2),
    ):  # fmt: skip
        found = interleaved({n: passes(E, data, batch, workers) for n, E in LIBRARIES.items()}, options.rounds, 1.0)
        rows[name] = summary(found) | {f"{n} images/s": len(data) / (summary(found)[n] * 1e-6) for n in LIBRARIES}
        print(f"{name:28} {ratio_text(rows[name], 1e3)}   {rows[name]['engine images/s']:,.0f} images/s", flush=True)
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
