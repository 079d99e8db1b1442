"""torchvision's pictures: grids, files, drawings; and the package."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from pictures import BYTES, PICTURE, R, array, same
from PIL import Image

import engine
from engine.base import addresses
from engine.compat import missing

V = engine.vision
T, U = V.transforms, V.utils


def test_make_grid():
    images = R.random((5, 3, 4, 6)).astype(np.float32)
    grid = U.make_grid(engine.tensor(images), nrow=3, padding=1, pad_value=0.5).numpy()
    assert grid.shape == (3, 11, 22)
    expected = np.full((3, 11, 22), 0.5, np.float32)
    for k in range(5):
        expected[:, k // 3 * 5 + 1 : k // 3 * 5 + 5, k % 3 * 7 + 1 : k % 3 * 7 + 7] = images[k]
    same(engine.tensor(grid), expected)
    assert U.make_grid(engine.zeros(64, 1, 28, 28)).shape == (3, 242, 242)
    assert U.make_grid(engine.zeros(4, 5)).shape == (3, 4, 5)
    assert U.make_grid([engine.zeros(3, 2, 2)] * 4, nrow=2, padding=0).shape == (3, 4, 4)
    x = engine.tensor(images * 9 - 3)
    low, high = float(x.min()), float(x.max())
    same(U.make_grid(x, nrow=5, padding=0, normalize=True)[:, :, :6], (x[0].numpy() - low) / (high - low), 1e-6)
    same(U.make_grid(x, nrow=5, padding=0, normalize=True, value_range=(0.0, 2.0))[:, :, :6], x[0].numpy().clip(0, 2) / 2, 1e-6)
    each = U.make_grid(x, nrow=5, padding=0, normalize=True, scale_each=True)
    assert float(each[:, :, 6:12].min()) == 0 and float(each[:, :, 6:12].max()) == pytest.approx(1)
    assert float(x.min()) == low  # not changed in place
    with pytest.raises(TypeError, match="tensor or list of tensors"):
        U.make_grid(3)


def test_save_image_and_io(tmp_path):
    io = V.io
    U.save_image(engine.tensor(BYTES / np.float32(255)), tmp_path / "a.png")
    same(io.read_image(tmp_path / "a.png"), BYTES)
    with open(tmp_path / "b.png", "wb") as file:
        U.save_image(engine.rand(3, 1, 5, 5), file, format="png", nrow=3, padding=0)
    assert io.read_image(tmp_path / "b.png").shape == (3, 5, 15)
    io.write_png(engine.tensor(BYTES), tmp_path / "c.png")
    same(io.decode_image(io.read_file(tmp_path / "c.png")), BYTES)
    same(io.decode_png(io.encode_png(engine.tensor(BYTES[:1]))), BYTES[:1])
    same(io.read_image(tmp_path / "c.png", io.ImageReadMode.GRAY), array(PICTURE.convert("L")))
    assert io.read_image(tmp_path / "c.png", io.ImageReadMode.RGB_ALPHA).shape == (4, 20, 26)
    assert io.decode_image(tmp_path / "c.png", "GRAY").shape == (1, 20, 26)
    smooth = engine.tensor(np.broadcast_to(np.linspace(0, 255, 26).astype(np.uint8), (3, 20, 26)).copy())
    io.write_jpeg(smooth, tmp_path / "d.jpg", quality=95)
    same(io.read_image(tmp_path / "d.jpg"), smooth.numpy(), 6)
    same(io.decode_jpeg(io.encode_jpeg(smooth, 95)), smooth.numpy(), 6)
    turned = Image.fromarray(np.ascontiguousarray(BYTES.transpose(1, 2, 0)))
    exif = turned.getexif()
    exif[0x0112] = 3  # upside down
    turned.save(tmp_path / "e.png", exif=exif)
    same(io.read_image(tmp_path / "e.png", apply_exif_orientation=True), BYTES[:, ::-1, ::-1])
    (tmp_path / "bad.png").write_bytes(b"not an image")
    for call in (
        lambda: io.read_image(tmp_path / "bad.png"),
        lambda: io.read_image(tmp_path / "none.png"),
        lambda: io.decode_image(engine.zeros(3)),
        lambda: io.decode_jpeg(io.read_file(tmp_path / "c.png")),
        lambda: io.decode_png(io.read_file(tmp_path / "c.png")[:200]),
        lambda: io.encode_png(engine.zeros(3, 2, 2)),
        lambda: io.write_file(tmp_path / "x", engine.zeros(2)),
    ):
        with pytest.raises(RuntimeError):
            call()


def test_drawings():
    white = engine.full((3, 20, 20), 255, dtype=engine.uint8)
    drawn = U.draw_bounding_boxes(white, engine.tensor([[2.0, 3, 10, 12]]), colors="red")
    outline = np.zeros((20, 20), bool)
    outline[3:13, 2:11] = True
    outline[4:12, 3:10] = False
    same(drawn, np.where(outline, np.array([255, 0, 0])[:, None, None], 255))
    filled = U.draw_bounding_boxes(white, engine.tensor([[2.0, 3, 10, 12]]), colors=[(0, 0, 255)], fill=True, labels=["a"])
    assert filled[:, 10, 9].tolist() == [155, 155, 255]  # 100 of 255 blue
    assert U.draw_bounding_boxes(engine.zeros(1, 9, 9), engine.tensor([[1, 1, 4, 4]])).shape == (3, 9, 9)
    mask = np.zeros((20, 20), bool)
    mask[5:9, 5:9] = True
    painted = U.draw_segmentation_masks(white, engine.tensor(mask), alpha=0.5, colors=["black"])
    same(painted, np.where(mask, 127, np.full((3, 20, 20), 255)))
    points = U.draw_keypoints(white, engine.tensor([[[4, 5], [12, 9]]]), colors="blue", radius=1, connectivity=[(0, 1)])
    assert points[:, 5, 4].tolist() == [0, 0, 255] or points[:, 5, 4].tolist() == [255, 255, 255]
    assert (points != white).any()
    hidden = U.draw_keypoints(white, engine.tensor([[[4, 5]]]), colors="blue", visibility=engine.tensor([[False]]))
    same(hidden, white.numpy())
    for wrong, kind in (
        (lambda: U.draw_bounding_boxes(white[None], engine.zeros(0, 4)), ValueError),
        (lambda: U.draw_bounding_boxes(white, engine.tensor([[5.0, 1, 2, 3]])), ValueError),
        (lambda: U.draw_bounding_boxes(white, engine.ones(1, 4), labels=["a", "b"]), ValueError),
        (lambda: U.draw_segmentation_masks(white, engine.zeros(20, 20)), ValueError),
        (lambda: U.draw_segmentation_masks(BYTES, engine.zeros(20, 20)), TypeError),
    ):
        with pytest.raises(kind):
            wrong()


def test_the_package():
    assert V.get_image_backend() == "PIL"
    V.set_image_backend("PIL")
    with pytest.raises(ValueError, match="Invalid backend"):
        V.set_image_backend("accimage")
    with pytest.raises(AttributeError, match="did you mean 'RandomCrop'"):
        T.RandomCorp  # noqa: B018
    assert int(V.__version__.split(".")[1]) > 12


def test_what_torchvision_has_and_the_engine_has_not():
    with pytest.raises(AttributeError, match=r"torchvision has torchvision\.datasets\.ImageNet, this engine does not"):
        V.datasets.ImageNet  # noqa: B018
    with pytest.raises(ImportError, match=r"torchvision has torchvision\.models\.segmentation, this engine does not"):
        from engine.vision.models import segmentation  # noqa: F401
    with pytest.raises(AttributeError) as caught:
        V.datasets.Nonsense  # noqa: B018
    assert "torchvision has" not in str(caught.value) and "PyTorch" not in str(caught.value)
    told = str(missing.module("torchvision.models.detection"))
    assert told == "No module named 'torchvision.models.detection' in this engine, though torchvision has it"
    lines = (Path(V.__file__).parent / "names.txt").read_text(encoding="utf-8").splitlines()[1:]
    for home, names in ((line.split()[0], line.split()[1:]) for line in lines if len(line.split()) > 1):
        here = importlib.import_module(addresses.ours(home))
        assert not set(names) & set(vars(here)), home  # what is built leaves the list
