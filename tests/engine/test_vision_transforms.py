"""torchvision's transforms: what they do to images, their texts and what they refuse."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pictures import BATCH, BYTES, PICTURE, array
from PIL import Image

import engine
from grouping import grouped

T = engine.vision.transforms


def test_containers():
    add, double = (lambda x: x + 1), (lambda x: x * 2)
    assert T.Compose([add, double])(3) == 8 and T.Lambda(add)(1) == 2
    assert T.RandomApply([add, double], p=1.0)(3) == 8 and T.RandomApply([add], p=0.0)(3) == 3
    random.seed(0)
    assert {T.RandomOrder([add, double])(3) for _ in range(30)} == {7, 8}
    assert {T.RandomChoice([add, double])(3) for _ in range(30)} == {4, 6}
    assert {T.RandomChoice([add, double], p=[0, 1])(3) for _ in range(9)} == {6}
    modules = engine.nn.Sequential(T.CenterCrop(4), T.ConvertImageDtype(engine.float32))
    assert modules(engine.tensor(BYTES)).shape == (3, 4, 4)
    for wrong, kind in (
        (lambda: T.Lambda(3), TypeError),
        (lambda: T.RandomChoice(3), TypeError),
        (lambda: T.RandomChoice([add], p=3), TypeError),
    ):
        with pytest.raises(kind):
            wrong()


TEXTS = [
    (lambda: T.ToTensor(), "ToTensor()"),
    (lambda: T.ToPILImage(), "ToPILImage()"),
    (lambda: T.ToPILImage("RGB"), "ToPILImage(mode=RGB)"),
    (lambda: T.Normalize((0.5,), (0.5,)), "Normalize(mean=(0.5,), std=(0.5,))"),
    (lambda: T.Resize(8), "Resize(size=8, interpolation=bilinear, max_size=None, antialias=True)"),
    (lambda: T.CenterCrop(8), "CenterCrop(size=(8, 8))"),
    (lambda: T.Pad(2), "Pad(padding=2, fill=0, padding_mode=constant)"),
    (lambda: T.RandomCrop(8, padding=2), "RandomCrop(size=(8, 8), padding=2)"),
    (lambda: T.RandomHorizontalFlip(), "RandomHorizontalFlip(p=0.5)"),
    (
        lambda: T.RandomResizedCrop(8),
        "RandomResizedCrop(size=(8, 8), scale=(0.08, 1.0), ratio=(0.75, 1.3333), interpolation=bilinear, antialias=True)",
    ),
    (lambda: T.RandomRotation(10), "RandomRotation(degrees=[-10.0, 10.0], interpolation=nearest, expand=False, fill=0)"),
    (
        lambda: T.RandomAffine(10, translate=(0.1, 0.2), shear=3),
        "RandomAffine(degrees=[-10.0, 10.0], translate=(0.1, 0.2), shear=[-3.0, 3.0])",
    ),
    (lambda: T.RandomPerspective(), "RandomPerspective(p=0.5)"),
    (lambda: T.ColorJitter(0.5), "ColorJitter(brightness=(0.5, 1.5), contrast=None, saturation=None, hue=None)"),
    (lambda: T.Grayscale(), "Grayscale(num_output_channels=1)"),
    (lambda: T.RandomGrayscale(), "RandomGrayscale(p=0.1)"),
    (lambda: T.GaussianBlur(3), "GaussianBlur(kernel_size=(3, 3), sigma=(0.1, 2.0))"),
    (lambda: T.RandomErasing(), "RandomErasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False)"),
    (lambda: T.RandomPosterize(2), "RandomPosterize(bits=2,p=0.5)"),
    (lambda: T.TrivialAugmentWide(), "TrivialAugmentWide(num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST, fill=None)"),
    (lambda: T.RandomApply([T.ToTensor()]), "RandomApply(\n    p=0.5\n    ToTensor()\n)"),
    (lambda: T.Compose([T.ToTensor(), T.CenterCrop(2)]), "Compose(\n    ToTensor()\n    CenterCrop(size=(2, 2))\n)"),
]


TEXTS += [  # what was given as a list is told as one; a random crop makes a tuple of it
    (lambda: T.CenterCrop([3, 4]), "CenterCrop(size=[3, 4])"),
    (lambda: T.CenterCrop([3]), "CenterCrop(size=(3, 3))"),
    (lambda: T.FiveCrop([3, 4]), "FiveCrop(size=[3, 4])"),
    (lambda: T.RandomCrop([3, 4]), "RandomCrop(size=(3, 4), padding=None)"),
    (lambda: T.GaussianBlur([3, 5]), "GaussianBlur(kernel_size=[3, 5], sigma=(0.1, 2.0))"),
]


@pytest.mark.parametrize(("make", "text"), TEXTS, ids=[text.split("(")[0] for _, text in TEXTS])
def test_texts(make, text):
    assert repr(make()) == text


RANDOM = [
    *(T.RandomCrop(8, padding=2, padding_mode="reflect"), T.RandomResizedCrop(8), T.RandomHorizontalFlip(), T.RandomVerticalFlip(1.0)),
    *(T.RandomRotation(30, expand=True), T.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), (-5, 5, -5, 5), fill=3), T.RandomPerspective(p=1.0)),
    *(T.ColorJitter(0.4, 0.4, 0.4, 0.2), T.RandomGrayscale(1.0), T.GaussianBlur((3, 5)), T.RandomInvert(1.0), T.RandomPosterize(3, 1.0)),
    *(T.RandomSolarize(99, 1.0), T.RandomAdjustSharpness(2, 1.0), T.RandomAutocontrast(1.0), T.RandomEqualize(1.0)),
    *(T.ElasticTransform(20.0, 2.0), T.RandAugment(), T.TrivialAugmentWide(), T.AugMix(), T.AugMix(all_ops=False, chain_depth=2)),
    *(T.AutoAugment(policy, fill=[1, 2, 3]) for policy in T.AutoAugmentPolicy),
]


@grouped("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_random_transforms(transform):
    for image in (PICTURE, engine.tensor(BYTES), engine.tensor(BATCH)):
        for seed in range(4):
            engine.manual_seed(seed)
            first = transform(image)
            engine.manual_seed(seed)
            assert np.array_equal(array(first), array(transform(image)))
            assert type(first) is type(image) and array(first).dtype == np.uint8
            assert array(first).shape[:-2] == array(image).shape[:-2]


def test_transforms_that_need_room():
    found = T.RandomCrop((30, 40), pad_if_needed=True, fill=9)(engine.tensor(BYTES))
    assert found.shape == (3, 30, 40) and (found == 9).sum() > 3 * (30 * 40 - 20 * 26) - 1
    with pytest.raises(ValueError, match="larger than input image size"):
        T.RandomCrop(30)(PICTURE)
    image = engine.tensor(BYTES / np.float32(255))
    erased = T.RandomErasing(p=1.0, value=(2.0, 3.0, 4.0), scale=(0.2, 0.3))(image)
    changed = (erased != image).any(0)
    assert 0.1 < float(changed.float().mean()) < 0.4
    assert all(set(erased[c][changed].tolist()) == {value} for c, value in enumerate((2.0, 3.0, 4.0)))
    assert T.RandomErasing(p=0.0)(image) is image
    assert T.RandomErasing(p=1.0, inplace=True)(image) is image
    assert T.RandomResizedCrop.get_params(engine.zeros(1, 4, 40), (5.0, 6.0), (3 / 4, 4 / 3)) == (0, 17, 4, 5)  # no draw fits


@grouped(
    ("make", "kind"),
    [
        (lambda: T.RandomErasing(value="x"), ValueError),
        (lambda: T.RandomErasing(p=2), ValueError),
        (lambda: T.RandomErasing(scale=0.3), TypeError),
        (lambda: T.ColorJitter(-1), ValueError),
        (lambda: T.ColorJitter(hue=0.7), ValueError),
        (lambda: T.ColorJitter("1"), TypeError),
        (lambda: T.RandomRotation(-3), ValueError),
        (lambda: T.RandomRotation([1, 2, 3]), ValueError),
        (lambda: T.RandomAffine(3, translate=(2, 2)), ValueError),
        (lambda: T.RandomAffine(3, scale=(-1, 2)), ValueError),
        (lambda: T.GaussianBlur(4), ValueError),
        (lambda: T.GaussianBlur(3, sigma=0), ValueError),
        (lambda: T.CenterCrop((1, 2, 3)), ValueError),
        (lambda: T.Resize(1.5), TypeError),
        (lambda: T.Pad([1, 2, 3]), ValueError),
        (lambda: T.RandomPerspective(fill={}), TypeError),
        (lambda: T.ElasticTransform(alpha="x"), TypeError),
        (lambda: T.AugMix(severity=11), ValueError),
        (lambda: T.AutoAugment("imagenet"), ValueError),
        (lambda: T.LinearTransformation(engine.zeros(2, 3), engine.zeros(2)), ValueError),
    ],
)
def test_wrong_settings(make, kind):
    with pytest.raises(kind):
        make()


def test_the_memory_of_a_converted_image_is_in_torchvisions_order():
    from engine.vision.transforms import functional, v2

    image = Image.fromarray(np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3))
    assert functional.to_tensor(image).stride() == functional.to_tensor(np.array(image)).stride() == (20, 4, 1)
    bytes_ = functional.pil_to_tensor(image)
    assert bytes_.stride() == v2.ToImage()(image).stride() == (1, 12, 3) and bytes_[1, 2, 3].item() == 34
    assert v2.functional.to_dtype(bytes_, engine.float32, scale=True).stride() == (1, 12, 3)
