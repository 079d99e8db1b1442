"""The data of the lessons: what its docstrings promise, and that it is what was published."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from workbench import samples

FOLDER = Path(samples.__file__).parent


def test_the_files_take_six_megabytes_at_most_and_have_their_licences_beside_them():
    files = [file for file in FOLDER.iterdir() if file.suffix not in (".py", ".md") and file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 6_000_000
    licences = (FOLDER / "LICENSES.md").read_text()
    assert files and all(f"`{file.name}`" in licences for file in files)


@pytest.mark.parametrize("train, n", [(True, 10_000), (False, 2_000)])
def test_clothing(train, n):
    images, labels = samples.fashion_mnist(train)
    assert images.shape == (n, 1, 28, 28) and images.dtype == engine.float32 and labels.dtype == engine.int64
    assert images.min() == 0 and images.max() == 1 and images.is_contiguous()
    assert labels.tolist() == [i % len(samples.CLOTHES) for i in range(n)]


def test_clothes_are_where_their_labels_say():
    """The nearest mean of training images is right for two thirds of the test images (0.686 on the whole of Fashion-MNIST)."""
    (images, labels), (other, truth) = samples.fashion_mnist(), samples.fashion_mnist(train=False)
    means = engine.stack([images[labels == c].mean(0) for c in range(10)]).flatten(1)
    assert 0.64 < (engine.cdist(other.flatten(1), means).argmin(1) == truth).float().mean() < 0.72
    trousers, bags = means[1].reshape(28, 28), means[8].reshape(28, 28)
    assert trousers[:, :4].max() < 0.05 < bags[14, :4].min()  # a trouser is narrow, a bag is as wide as the image


def test_names():
    names = samples.names()
    assert len(set(names)) == len(names) == 5163 and names[:2] == ["james", "john"] and "zoe" in names
    assert all(name.isalpha() and name.islower() and name.isascii() for name in names)


def test_plays():
    text = samples.shakespeare()
    assert len(text) > 1_000_000 and text.isascii() and "\r" not in text
    assert "Is this a dagger which I see before me" in text and "I come to bury Caesar, not to praise him" in text
    assert "gutenberg" not in text.lower()


def test_photographs():
    for name in samples.PHOTOS:
        photo = samples.photo(name)
        assert photo.shape == (3, 213, 320) and photo.dtype == engine.float32 and photo.min() >= 0 and photo.max() <= 1
    red, _, blue = samples.photo("flower")[:, 60:150, 110:210].mean((1, 2)).tolist()
    assert red > 2 * blue  # a red flower
    with pytest.raises(ValueError, match="expected one of china, flower, got 'cat'"):
        samples.photo("cat")


def test_digits_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    (images, labels), published = samples.digits(), datasets.load_digits()
    assert images.shape == (1797, 1, 8, 8) and images.dtype == engine.float32 and labels.dtype == engine.int64
    assert (images.flatten(1).numpy() * 16 == published.data).all() and (labels.numpy() == published.target).all()
