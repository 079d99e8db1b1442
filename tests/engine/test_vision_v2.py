"""torchvision's transforms v2: samples of images and other things, changed by what v1 does with one image."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from PIL import Image

import engine
from grouping import grouped

v1, v2 = engine.vision.transforms, engine.vision.transforms.v2
R = np.random.default_rng(0)
BYTES = R.integers(0, 256, (3, 20, 26), dtype=np.uint8)
PICTURE = Image.fromarray(np.ascontiguousarray(BYTES.transpose(1, 2, 0)))


def array(image):
    return image.numpy() if isinstance(image, engine.Tensor) else np.asarray(image)


SETTINGS = {
    **{"Resize": (8,), "CenterCrop": (8,), "Pad": (2,), "RandomCrop": (8,), "RandomResizedCrop": (8,), "RandomRotation": (20,)},
    **{"RandomAffine": (20,), "GaussianBlur": (3,), "RandomPosterize": (3, 1.0), "RandomSolarize": (99, 1.0), "FiveCrop": (5,)},
    **{"RandomAdjustSharpness": (2, 1.0), "ColorJitter": (0.4, 0.4), "TenCrop": (5,), "ElasticTransform": (20.0, 2.0)},
}
OWN = {"AutoAugmentPolicy", "InterpolationMode", "Compose", "RandomApply", "RandomChoice", "RandomOrder", "Lambda"}
OWN |= {"ConvertImageDtype", "ToTensor", "ToPILImage", "Normalize", "LinearTransformation", "RandomErasing"}


@grouped("name", sorted(set(v1.__all__) - OWN))
def test_one_image_is_as_in_v1(name):
    settings = SETTINGS.get(name, ())
    for seed in range(3):
        for image in (PICTURE,) if name == "PILToTensor" else (PICTURE, engine.tensor(BYTES)):
            engine.manual_seed(seed)
            old = getattr(v1, name)(*settings)(image)
            engine.manual_seed(seed)
            new, label = getattr(v2, name)(*settings)(image, 5)
            assert label == 5
            for a, b in zip(old, new, strict=True) if isinstance(old, tuple) else [(old, new)]:
                assert np.array_equal(array(a), array(b))


def test_samples():
    crop = v2.RandomResizedCrop(8)
    engine.manual_seed(0)
    a, b = crop(PICTURE, PICTURE)
    assert np.array_equal(array(a), array(b))  # the same place
    after = engine.rand(1)
    engine.manual_seed(0)
    crop(PICTURE)
    assert float(engine.rand(1)) == float(after)  # drawn once
    sample = {"image": engine.tensor(BYTES), "label": engine.tensor(3), "names": ["a", None, (1, 2)]}
    found = crop(sample)
    assert found["image"].shape == (3, 8, 8) and found["label"] is sample["label"] and found["names"] == ["a", None, (1, 2)]
    image, tensor = v2.CenterCrop(4)(PICTURE, engine.zeros(3, 9, 9))
    assert image.size == (4, 4) and tensor.shape == (3, 9, 9)  # beside a picture tensors are no images
    whole = v2.Compose(
        [v2.ToImage(), v2.RandomHorizontalFlip(1.0), v2.ToDtype(engine.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)]
    )
    x, y = whole(PICTURE, 7)
    assert y == 7 and np.allclose(x.numpy(), (BYTES[:, :, ::-1] / 255 - 0.5) / 0.25, atol=1e-6)
    assert repr(v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip()])) == "Compose(\n      ToImage()\n      RandomHorizontalFlip(p=0.5)\n)"
    assert pickle.loads(pickle.dumps(v2.RandomCrop(8))).size == (8, 8)


def test_conversions():
    assert np.array_equal(v2.ToImage()(PICTURE).numpy(), BYTES) and np.array_equal(v2.ToImage()(np.asarray(PICTURE)).numpy(), BYTES)
    assert (
        v2.ToDtype(engine.float32)(engine.tensor(BYTES)).max() > 1
        and v2.ToDtype(engine.float64, scale=True)(engine.tensor(BYTES)).max() <= 1
    )
    assert v2.ConvertImageDtype(engine.float32)(engine.tensor(BYTES)).max() <= 1
    assert v2.ToPILImage()(engine.tensor(BYTES)).size == (26, 20) and v2.Identity()(1, 2) == (1, 2) and v2.ToPureTensor()(3) == 3
    with pytest.warns(UserWarning, match="deprecated"):
        make = v2.ToTensor()
    assert np.allclose(make(PICTURE, 1)[0].numpy(), BYTES / 255)
    assert v2.Lambda(lambda x: x + 1, int)({"a": 1, "b": "x"}) == {"a": 2, "b": "x"}
    erased = v2.RandomErasing(p=1.0)(engine.tensor(BYTES / 255), 4)
    assert erased[1] == 4 and bool((erased[0] == 0).any())
    f = v2.functional
    assert f.get_size(PICTURE) == [20, 26] and f.get_num_channels(PICTURE) == 3 and f.horizontal_flip is f.hflip
    assert np.array_equal(f.to_dtype(f.to_image(PICTURE), engine.float32).numpy(), BYTES) and f.resize(PICTURE, [4, 5]).size == (5, 4)
    with pytest.raises(TypeError, match="pure Tensor, a numpy array, or a PIL image"):
        f.to_image(3)
    with pytest.raises(ValueError, match=r"torch\.dtype"):
        v2.ToDtype({"image": engine.float32})


def test_containers():
    add, double = v2.Lambda(lambda x: x + 1), v2.Lambda(lambda x: x * 2)
    assert v2.Compose([add, double])(3) == 8 and v2.Compose([add])(1, 2) == (2, 3)
    assert v2.RandomApply([add], p=1.0)(1) == 2 and v2.RandomApply([add], p=0.0)(1, 2) == (1, 2)
    engine.manual_seed(0)
    assert {v2.RandomOrder([add, double])(3) for _ in range(30)} == {7, 8}
    assert {v2.RandomChoice([add, double])(3) for _ in range(30)} == {4, 6} and {
        v2.RandomChoice([add, double], p=[0, 2])(3) for _ in range(9)
    } == {6}
    for wrong, kind in (
        (lambda: v2.Compose([]), ValueError),
        (lambda: v2.Compose(3), TypeError),
        (lambda: v2.RandomApply([add], p=2), ValueError),
        (lambda: v2.RandomChoice([add], p=[1, 2]), ValueError),
        (lambda: v2.Lambda(3), TypeError),
    ):
        with pytest.raises(kind):
            wrong()


@pytest.mark.parametrize("kind", ["MixUp", "CutMix"])
def test_mixing(kind):
    images = np.stack([np.full((3, 8, 10), value) for value in (0.0, 1.0, 2.0)])
    labels = engine.tensor([2, 0, 1])
    for seed in range(8):
        engine.manual_seed(seed)
        x, y = getattr(v2, kind)(alpha=0.8, num_classes=4)(engine.tensor(images), labels)
        own = y.numpy()[0, 2]
        before = np.roll(images, 1, 0)
        expected = own * images.mean((1, 2, 3)) + (1 - own) * before.mean((1, 2, 3))
        assert np.allclose(x.numpy().mean((1, 2, 3)), expected, atol=1e-6) and np.allclose(y.numpy().sum(1), 1)
        assert math.isclose(y.numpy()[1, 2], 1 - own, abs_tol=1e-6)
        if kind == "CutMix":
            assert set(np.unique(x.numpy()[1])) <= {0.0, 1.0}
    for wrong, error in ((((engine.zeros(3, 2, 2), labels),), ValueError), ((engine.tensor(images), labels[:2]), ValueError)):
        with pytest.raises(error):
            getattr(v2, kind)(num_classes=3)(*wrong)
    with pytest.raises(ValueError, match="num_classes must be passed"):
        getattr(v2, kind)()(engine.tensor(images), labels)
    with pytest.raises(NotImplementedError, match="labels_getter"):
        getattr(v2, kind)(labels_getter=None)


def test_grey_becomes_colour_and_colour_stays():
    colour, grey = engine.tensor(BYTES), engine.tensor(BYTES[:1])
    made = v2.functional.grayscale_to_rgb(grey)
    assert made.dtype is engine.uint8 and np.array_equal(made.numpy(), np.repeat(BYTES[:1], 3, 0)) and made.is_contiguous()
    assert v2.functional.grayscale_to_rgb(colour) is colour
    assert v2.RGB()((PICTURE.convert("L"), 3))[0].mode == "RGB" and v2.RGB()(grey[None]).shape == (1, 3, 20, 26)
