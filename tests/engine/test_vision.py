"""torchvision's functions of images: expected values from Pillow, NumPy and mathematics."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from pictures import BATCH, BYTES, GREY, PICTURE, R, array, same
from PIL import Image, ImageEnhance, ImageOps

import engine

V = engine.vision
T, F = V.transforms, V.transforms.functional


# -- conversions ------------------------------------------------------------------------------------------------------------------------


def test_to_tensor():
    for picture, expected in ((PICTURE, BYTES / np.float32(255)), (GREY, BYTES[:1] / np.float32(255))):
        found = T.ToTensor()(picture)
        assert found.dtype == engine.float32 and found.is_contiguous()
        same(found, expected)
    same(T.ToTensor()(np.asarray(PICTURE)), BYTES / np.float32(255))
    same(T.ToTensor()(np.asarray(GREY)), BYTES[:1] / np.float32(255))
    floats = R.random((4, 5, 3))
    assert T.ToTensor()(floats).dtype == engine.float64  # only bytes are scaled
    same(T.ToTensor()(floats), floats.transpose(2, 0, 1))
    wide = Image.fromarray(np.arange(6, dtype=np.int32).reshape(2, 3) * 70000)
    assert T.ToTensor()(wide).tolist() == [[[0, 70000, 140000], [210000, 280000, 350000]]]
    bits = Image.fromarray(np.array([[True, False]]))
    assert T.ToTensor()(bits).tolist() == [[[1.0, 0.0]]]
    assert T.PILToTensor()(PICTURE).dtype == engine.uint8
    same(T.PILToTensor()(PICTURE), BYTES)
    with pytest.raises(TypeError, match="should be PIL Image or ndarray"):
        T.ToTensor()(engine.zeros(3))
    with pytest.raises(ValueError, match="2/3 dimensional"):
        T.ToTensor()(np.zeros(3))
    with pytest.raises(TypeError, match="should be PIL Image"):
        T.PILToTensor()(BYTES)


def test_to_pil_image():
    assert T.ToPILImage()(engine.tensor(BYTES)).mode == "RGB"
    same(T.ToPILImage()(engine.tensor(BYTES)), BYTES)
    same(T.ToPILImage()(engine.tensor(BYTES / np.float32(255))), np.trunc(BYTES / np.float32(255) * np.float32(255)))
    for channels, mode in ((1, "L"), (2, "LA"), (4, "RGBA")):
        image = T.ToPILImage()(np.repeat(BYTES[:1], channels, 0).transpose(1, 2, 0))
        assert image.mode == mode and image.size == (26, 20)
    hsv = F.to_pil_image(engine.tensor(BYTES), "HSV")
    assert hsv.mode == "HSV"
    same(hsv, BYTES)
    assert F.to_pil_image(R.random((3, 4)).astype(np.float32), "F").mode == "F"
    assert F.to_pil_image(engine.tensor([[1, 70000]], dtype=engine.int32)).mode == "I"
    for wrong, kind, words in (
        ((engine.zeros(2),), ValueError, "2/3 dimensional"),
        ((engine.zeros(5, 4, 4),), ValueError, "> 4 channels"),
        (([1],), TypeError, "Tensor or ndarray"),
        ((engine.tensor(BYTES), "L"), ValueError, "Only modes"),
        ((engine.tensor(BYTES[:1]), "RGB"), ValueError, "Incorrect mode"),
        ((np.zeros((2, 2), np.int64),), TypeError, "not supported"),
    ):
        with pytest.raises(kind, match=words):
            F.to_pil_image(*wrong)


def test_dtypes_and_normalize():
    x = engine.tensor([0, 1, 128, 255], dtype=engine.uint8)
    assert F.convert_image_dtype(x, engine.int16).tolist() == [0, 128, 16384, 32640]
    assert F.convert_image_dtype(engine.tensor([0, 300, 32767], dtype=engine.int16), engine.uint8).tolist() == [0, 2, 255]
    assert F.convert_image_dtype(engine.tensor([0.0, 0.5, 1.0]), engine.uint8).tolist() == [0, 127, 255]
    assert F.convert_image_dtype(x, engine.uint8) is x
    with pytest.raises(RuntimeError, match="cannot be performed safely"):
        F.convert_image_dtype(engine.zeros(2), engine.int32)
    image = engine.tensor(BYTES / 255)
    found = T.Normalize([0.5, 0.4, 0.3], [0.2, 0.1, 0.5])(image)
    same(found, (BYTES / 255 - np.array([0.5, 0.4, 0.3])[:, None, None]) / np.array([0.2, 0.1, 0.5])[:, None, None], 1e-12)
    assert F.normalize(image, [0.0], [2.0], inplace=True) is image
    for wrong, kind, words in (
        ((engine.tensor(BYTES), [0], [1]), TypeError, "float tensor"),
        ((engine.zeros(2, 2), [0], [1]), ValueError, r"\(\.\.\., C, H, W\)"),
        ((engine.zeros(1, 2, 2), [0.0], [0.0]), ValueError, "division by zero"),
        ((PICTURE, [0], [1]), TypeError, "Tensor Image"),
    ):
        with pytest.raises(kind, match=words):
            F.normalize(*wrong)
    matrix, mean = R.random((12, 12)), R.random(12)
    x = R.random((5, 3, 2, 2))
    whitened = T.LinearTransformation(engine.tensor(matrix), engine.tensor(mean))(engine.tensor(x))
    same(whitened, ((x.reshape(5, 12) - mean) @ matrix).reshape(5, 3, 2, 2), 1e-12)
    with pytest.raises(ValueError, match="incompatible shape"):
        T.LinearTransformation(engine.tensor(matrix), engine.tensor(mean))(engine.zeros(3, 3, 3))


# -- places -----------------------------------------------------------------------------------------------------------------------------


def test_three_means_do_not_fit_one_channel():
    grey = engine.rand(1, 4, 5)
    for inplace in (False, True):
        with pytest.raises(RuntimeError, match="shape"):  # as in-place arithmetic, which torchvision's first transforms use, refuses it
            T.Normalize([0.5] * 3, [0.5, 0.25, 1.0], inplace)(grey)
    found = T.v2.Normalize([0.5] * 3, [0.5, 0.25, 1.0])(grey)  # its second ones do not
    same(found, (grey.numpy() - 0.5) / np.array([0.5, 0.25, 1.0], np.float32)[:, None, None], 1e-6)
    with pytest.raises(RuntimeError, match="shape"):
        T.v2.Normalize([0.5] * 3, [0.5] * 3, inplace=True)(grey)
    x = engine.rand(2, 3, 4, 5, requires_grad=True)
    before = x.detach().clone()
    T.Normalize(0.5, [0.5, 0.25, 1.0])(x).sum().backward()
    same(x.grad, np.broadcast_to((1 / np.array([0.5, 0.25, 1.0]))[:, None, None], x.shape))
    same(x.detach(), before.numpy())


@pytest.mark.parametrize("image", [PICTURE, engine.tensor(BYTES)], ids=["picture", "tensor"])
def test_geometry(image):
    same(F.hflip(image), BYTES[:, :, ::-1])
    same(F.vflip(image), BYTES[:, ::-1])
    same(F.crop(image, 2, 3, 5, 7), BYTES[:, 2:7, 3:10])
    around = np.pad(BYTES, ((0, 0), (60, 60), (60, 60)))
    for top, left, height, width in ((-2, -3, 6, 8), (15, 20, 9, 9), (-3, 5, 30, 4), (25, 30, 2, 2), (-8, -8, 3, 3)):
        same(F.crop(image, top, left, height, width), around[:, top + 60 : top + 60 + height, left + 60 : left + 60 + width])
    same(F.center_crop(image, (6, 10)), BYTES[:, 7:13, 8:18])
    same(F.center_crop(image, 40), np.pad(BYTES, ((0, 0), (10, 10), (7, 7))))
    same(F.center_crop(image, [30, 10]), np.pad(BYTES, ((0, 0), (5, 5), (0, 0)))[:, :, 8:18])
    corners = [BYTES[:, :5, :6], BYTES[:, :5, -6:], BYTES[:, -5:, :6], BYTES[:, -5:, -6:], BYTES[:, 8:13, 10:16]]
    assert [array(a).tolist() for a in F.five_crop(image, (5, 6))] == [np.asarray(b).tolist() for b in corners]
    assert len(T.TenCrop((5, 6))(image)) == 10
    same(T.TenCrop((5, 6))(image)[5], BYTES[:, :5, :-7:-1])
    same(T.TenCrop((5, 6), vertical_flip=True)(image)[5], BYTES[:, :-6:-1, :6])
    with pytest.raises(ValueError, match="bigger than input size"):
        F.five_crop(image, 30)
    modes = {"edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}
    for mode in modes:
        same(F.pad(image, [1, 2, 3, 4], padding_mode=mode), np.pad(BYTES, ((0, 0), (2, 4), (1, 3)), mode))
    same(F.pad(image, 2, 9), np.pad(BYTES, ((0, 0), (2, 2), (2, 2)), constant_values=9))
    same(F.pad(image, (1, 2)), np.pad(BYTES, ((0, 0), (2, 2), (1, 1))))
    same(T.Pad([3])(image), np.pad(BYTES, ((0, 0), (3, 3), (3, 3))))
    same(F.pad(image, [-1, 2, 3, -4], padding_mode="symmetric"), np.pad(BYTES[:, :-4, 1:], ((0, 0), (2, 0), (0, 3)), "symmetric"))
    for wrong, kind, words in (
        (("x",), TypeError, "padding arg"),
        (([1, 2, 3],), ValueError, "1, 2, or 4 element"),
        ((1, {}), TypeError, "fill arg"),
        ((1, 0, "mirror"), ValueError, "Padding mode should be"),
    ):
        with pytest.raises(kind, match=words):
            F.pad(image, *wrong)
    same(F.rotate(image, 180), BYTES[:, ::-1, ::-1])
    same(F.rotate(image, 90, expand=True), np.rot90(BYTES, 1, (1, 2)))
    same(F.affine(image, 0, [3, -2], 1.0, [0.0, 0.0]), np.pad(BYTES, ((0, 0), (0, 2), (3, 0)))[:, 2:, :-3])
    same(F.affine(image, 0, [3, 0], 1.0, 0.0, fill=7), np.pad(BYTES, ((0, 0), (0, 0), (3, 0)), constant_values=7)[:, :, :-3])
    ends = [[0, 0], [25, 0], [25, 19], [0, 19]]
    same(F.perspective(image, ends, ends), BYTES, 1)
    moved = [[x + 2, y + 1] for x, y in ends]
    same(array(F.perspective(image, ends, moved))[:, 2:, 3:], BYTES[:, 1:-1, 1:-2], 1)
    same(F.elastic_transform(image, engine.zeros(1, 20, 26, 2)), BYTES)
    still = engine.zeros(1, 20, 26, 2)
    still[..., 0] = 2 / 26 * 3  # three pixels to the right, in units of half the width
    same(array(F.elastic_transform(image, still))[:, :, :-4], BYTES[:, :, 3:-1], 1)


def test_pictures_and_tensors_agree_on_warps():
    for call in (
        lambda x: F.rotate(x, 30, T.InterpolationMode.NEAREST),
        lambda x: F.rotate(x, -77, expand=True),
        lambda x: F.rotate(x, 12, center=[3, 4], fill=[5, 6, 7]),
        lambda x: F.affine(x, 20, [2, 3], 1.3, [5.0, -8.0]),
        lambda x: F.affine(x, 20, [2, 3], 0.7, [5.0], center=[4, 2]),
    ):
        ours, pillow = array(call(engine.tensor(BYTES))), array(call(PICTURE))
        assert ours.shape == pillow.shape
        assert (ours != pillow).mean() < 0.02  # places that fall between two pixels
    smooth = engine.tensor(np.broadcast_to(np.add.outer(np.arange(20.0), np.arange(26.0))[None], (3, 20, 26)).astype(np.uint8))
    ours = array(F.rotate(smooth, 25, T.InterpolationMode.BILINEAR)).astype(int)
    pillow = array(F.rotate(F.to_pil_image(smooth), 25, T.InterpolationMode.BILINEAR)).astype(int)
    assert np.abs(ours - pillow)[:, 6:14, 8:18].max() <= 1


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "F"])
def test_fills_of_pictures_are_whole_numbers(mode):
    image = PICTURE.convert(mode)
    for fill in (7.9, [7.9], (7.9,) * len(image.getbands())):
        corner = F.pad(image, 2, fill=fill).getpixel((0, 0))
        assert corner == (pytest.approx(7.9) if mode == "F" else 7 if mode == "L" else (7,) * len(image.getbands()))
        assert F.rotate(image, 45, fill=fill).getpixel((0, 0)) == corner
        assert F.affine(image, 0, [5, 5], 1.0, [0, 0], fill=fill).getpixel((0, 0)) == corner


def test_warp_refusals():
    x = engine.tensor(BYTES)
    for call, kind, words in (
        (lambda: F.rotate(x, "1"), TypeError, "angle"),
        (lambda: F.rotate(x, 1, center=3), TypeError, "center"),
        (lambda: F.rotate(x, 1, T.InterpolationMode.BICUBIC), ValueError, "unsupported with Tensor"),
        (lambda: F.rotate(x, 1, fill=[1, 2]), ValueError, "fill"),
        (lambda: F.affine(x, 1, [0], 1.0, [0.0, 0.0]), ValueError, "translate"),
        (lambda: F.affine(x, 1, [0, 0], 0.0, [0.0, 0.0]), ValueError, "scale"),
        (lambda: F.affine(x, 1, [0, 0], 1.0, [0.0, 0.0, 0.0]), ValueError, "Shear"),
        (lambda: F.elastic_transform(x, engine.zeros(1, 2, 2, 2)), ValueError, "displacement shape"),
        (lambda: F.perspective(x, [[0, 0]], [[0, 0]]), ValueError, "four corners"),
        (lambda: F.resize(x, 4, "bilinear"), TypeError, "interpolation"),
        (lambda: F.resize(x, [1, 2, 3]), ValueError, "1 or 2 element"),
        (lambda: F.resize(x, 5, T.InterpolationMode.LANCZOS), NotImplementedError, "tensors know"),
        (lambda: F.resize(x, [5, 6], max_size=7), ValueError, "max_size"),
        (lambda: F.resize(x, 5, max_size=4), ValueError, "strictly greater"),
        (lambda: F.hflip("x"), TypeError, "PIL Image or Tensor"),
        (lambda: F.hflip(engine.zeros(3)), TypeError, "not a torch image"),
    ):
        with pytest.raises(kind, match=words):
            call()


@pytest.mark.parametrize(
    ("size", "more", "shape"),
    [(10, None, (10, 13)), ([10], None, (10, 13)), ((7, 9), None, (7, 9)), (10, 11, (8, 11)), (40, None, (40, 52)), (20, None, (20, 26))],
)
def test_resize(size, more, shape):
    for image in (PICTURE, engine.tensor(BYTES), engine.tensor(BATCH)):
        assert array(F.resize(image, size, max_size=more)).shape[-2:] == shape
    same(F.resize(PICTURE, size, max_size=more), array(PICTURE.resize(shape[::-1], Image.Resampling.BILINEAR)))
    mild = BYTES // 3 + 80  # Pillow cuts at 0 and 255 between its two passes, which a mild picture does not reach
    picture = Image.fromarray(np.ascontiguousarray(mild.transpose(1, 2, 0)))
    for mode, pillow in ((T.InterpolationMode.BILINEAR, 2), (T.InterpolationMode.BICUBIC, 3)):  # Pillow's filters are the antialiased ones
        same(F.resize(engine.tensor(mild), size, mode, more), array(picture.resize(shape[::-1], pillow)), 1)
    exact = F.resize(engine.tensor(BYTES), size, T.InterpolationMode.NEAREST_EXACT, more)  # Pillow's nearest
    same(exact, array(PICTURE.resize(shape[::-1], 0)))


def test_resized_crop():
    found = F.resized_crop(PICTURE, 2, 3, 10, 12, (5, 6))
    same(found, array(PICTURE.crop((3, 2, 15, 12)).resize((6, 5), 2)))
    assert F.get_dimensions(PICTURE) == F.get_dimensions(engine.tensor(BYTES)) == [3, 20, 26]
    assert F.get_image_size(PICTURE) == [26, 20] and F.get_image_num_channels(GREY) == 1


# -- colors ----------------------------------------------------------------------------------------------------------------------------


def test_colours_of_pictures_are_pillows():
    for name, kind in (("brightness", "Brightness"), ("contrast", "Contrast"), ("saturation", "Color"), ("sharpness", "Sharpness")):
        same(getattr(F, f"adjust_{name}")(PICTURE, 1.7), array(getattr(ImageEnhance, kind)(PICTURE).enhance(1.7)))
    same(F.autocontrast(PICTURE), array(ImageOps.autocontrast(PICTURE)))
    same(F.equalize(PICTURE), array(ImageOps.equalize(PICTURE)))
    same(F.posterize(PICTURE, 3), BYTES & 0b11100000)
    same(F.solarize(PICTURE, 100), np.where(BYTES >= 100, 255 - BYTES, BYTES))
    same(F.invert(PICTURE), 255 - BYTES)
    same(F.rgb_to_grayscale(PICTURE), array(PICTURE.convert("L")))
    same(F.to_grayscale(PICTURE, 3), np.repeat(array(PICTURE.convert("L")), 3, 0))
    same(F.adjust_gamma(PICTURE, 2.0, 0.8), np.floor(255.999 * 0.8 * (BYTES / 255) ** 2).clip(0, 255))
    same(F.gaussian_blur(PICTURE, 3, 0.8), array(F.gaussian_blur(engine.tensor(BYTES), 3, 0.8)))
    assert F.adjust_hue(GREY, 0.3) is GREY


@pytest.mark.parametrize("call", ["adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_sharpness"])
@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 2.5])
def test_tensors_near_pillow(call, factor):
    ours = getattr(F, call)(engine.tensor(BYTES), factor)
    assert ours.dtype == engine.uint8
    same(ours, array(getattr(F, call)(PICTURE, factor)), 2 if factor <= 1 else 4)  # Pillow rounds gray and means
    floats = getattr(F, call)(engine.tensor(BYTES / np.float32(255)), factor)
    assert float(floats.min()) >= 0 and float(floats.max()) <= 1
    same(floats * 255, array(ours), 2.1 if call != "adjust_sharpness" else 4)
    batch = getattr(F, call)(engine.tensor(BATCH), factor)
    same(batch[1], array(getattr(F, call)(engine.tensor(BATCH[1]), factor)))
    with pytest.raises(ValueError, match="not non-negative"):
        getattr(F, call)(engine.tensor(BYTES), -1)
    with pytest.raises(TypeError, match="permitted channel values"):
        getattr(F, call)(engine.zeros(5, 4, 4), 1.0)


def test_colours_of_tensors():
    x = engine.tensor(BYTES)
    same(F.posterize(x, 3), BYTES & 0b11100000)
    same(F.posterize(x, 8), BYTES), same(F.posterize(x, 0), np.zeros_like(BYTES))
    same(F.solarize(x, 100), np.where(BYTES >= 100, 255 - BYTES, BYTES))
    same(F.invert(x), 255 - BYTES)
    same(F.invert(x / 255), 1 - BYTES / np.float32(255), 1e-7)
    same(F.equalize(x), array(ImageOps.equalize(PICTURE)))
    same(F.equalize(engine.tensor(BATCH))[1], array(F.equalize(engine.tensor(BATCH[1]))))
    same(
        F.autocontrast(engine.tensor(BYTES // 3 + 20)),
        array(ImageOps.autocontrast(Image.fromarray((BYTES // 3 + 20).transpose(1, 2, 0).copy()))),
        1,
    )
    flat = engine.full((3, 4, 4), 7, dtype=engine.uint8)
    same(F.autocontrast(flat), flat.numpy()), same(F.equalize(flat), flat.numpy())
    luma = 0.2989 * BYTES[0] + 0.587 * BYTES[1] + 0.114 * BYTES[2]
    same(F.rgb_to_grayscale(x), np.floor(luma)[None], 1)
    assert F.rgb_to_grayscale(x, 3).shape == (3, 20, 26)
    same(T.Grayscale(3)(engine.tensor(BYTES[:1])), np.repeat(BYTES[:1], 3, 0))
    same(F.adjust_gamma(x, 2.0, 0.8), np.floor(255.999 * 0.8 * (BYTES / 255) ** 2), 1)
    floats = R.random((3, 5, 6))
    for turn in (-0.5, -0.2, 0.0, 0.3):
        expected = np.empty_like(floats)
        for i, j in np.ndindex(5, 6):
            h, s, v = colorsys.rgb_to_hsv(*floats[:, i, j])
            expected[:, i, j] = colorsys.hsv_to_rgb((h + turn) % 1.0, s, v)
        same(F.adjust_hue(engine.tensor(floats), turn), expected, 1e-5)
    assert np.isfinite(F.adjust_hue(engine.full((3, 2, 2), 0.5), 0.2).numpy()).all()
    hue = np.asarray(PICTURE.convert("HSV")).transpose(2, 0, 1).copy()
    hue[0] += np.uint8(256 + int(-0.2 * 255))
    same(F.adjust_hue(PICTURE, -0.2), array(Image.frombytes("HSV", (26, 20), hue.transpose(1, 2, 0).tobytes()).convert("RGB")))
    for wrong, kind, words in (
        (lambda: F.adjust_hue(x, 0.6), ValueError, "hue_factor"),
        (lambda: F.adjust_gamma(x, -1), ValueError, "Gamma"),
        (lambda: F.posterize(x / 2, 3), TypeError, "uint8"),
        (lambda: F.posterize(x, 9), ValueError, "between 0 and 8"),
        (lambda: F.equalize(x / 2), TypeError, "uint8"),
        (lambda: F.solarize(x, 300), TypeError, "Threshold"),
        (lambda: F.rgb_to_grayscale(x, 2), ValueError, "1 or 3"),
        (lambda: F.to_grayscale(x), TypeError, "PIL Image"),
        (lambda: F.gaussian_blur(x, 4), ValueError, "odd and positive"),
        (lambda: F.gaussian_blur(x, 3, -1.0), ValueError, "positive values"),
        (lambda: F.gaussian_blur(x, "3"), TypeError, "kernel_size"),
    ):
        with pytest.raises(kind, match=words):
            wrong()
