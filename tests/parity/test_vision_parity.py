"""torchvision's names against PyTorch: resizing, random draws in torchvision's order, and networks written out in plain torch.nn."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import engine

torch = pytest.importorskip("torch", reason="torch is not installed: make parity")
pytestmark = pytest.mark.torch
nn, TF = torch.nn, torch.nn.functional
R = np.random.default_rng(5)
T, F, M, ops = engine.vision.transforms, engine.vision.transforms.functional, engine.vision.models, engine.vision.ops


def pair(x):
    return engine.tensor(x), torch.tensor(x)


def close(ours, theirs, rtol=1e-5, atol=1e-6):
    ours, theirs = ours.detach().numpy(), theirs.detach().numpy()
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


IMAGE = R.integers(0, 256, (3, 23, 31), dtype=np.uint8)


# -- resizing ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(7, 9), (16, 5), (1, 4)])
def test_antialias(mode, size):
    for want, align, dtype in itertools.product([(3, 4), (9, 20), (1, 1)], [False, True], ["float32", "float64"]):
        a, b = pair(R.random((2, 3, *size)).astype(dtype))
        a.requires_grad_(), b.requires_grad_()
        ya = engine.nn.functional.interpolate(a, want, mode=mode, align_corners=align, antialias=True)
        yb = TF.interpolate(b, want, mode=mode, align_corners=align, antialias=True)
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        close(ya, yb, tolerance, tolerance)
        g = R.random(yb.shape).astype(dtype)
        ya.backward(engine.tensor(g)), yb.backward(torch.tensor(g))
        close(a.grad, b.grad, 1e-4 if dtype == "float32" else 1e-12, 1e-4 if dtype == "float32" else 1e-12)
    a, b = pair(R.random((2, 3, *size)))
    ours = engine.nn.functional.interpolate(a, scale_factor=(1.3, 0.6), mode=mode, antialias=True)
    close(ours, TF.interpolate(b, scale_factor=(1.3, 0.6), mode=mode, antialias=True), 1e-12, 1e-12)


def test_antialias_refusals():
    for module, x in ((engine, engine.zeros(1, 1, 4, 4)), (torch, torch.zeros(1, 1, 4, 4))):
        with pytest.raises(ValueError, match="Anti-alias option is restricted"):
            module.nn.functional.interpolate(x, 2, mode="nearest", antialias=True)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
def test_resize(mode, antialias):
    smooth = {"align_corners": False, "antialias": antialias} if mode.startswith("bi") else {}
    interpolation = T.InterpolationMode(mode)
    for dtype in ("float32", "float64", "uint8", "int16"):
        a, b = pair((IMAGE if dtype == "uint8" else IMAGE / 255 if dtype[0] == "f" else IMAGE.astype(int) - 128).astype(dtype))
        for want in ((11, 40), (30, 8)):
            floats = b[None] if b.is_floating_point() else b[None].float()
            there = TF.interpolate(floats, want, mode=mode, **smooth)[0]
            if mode == "bicubic" and dtype == "uint8":
                there = there.clamp(0, 255)
            there = there if b.is_floating_point() else there.round().to(b.dtype)
            ours = F.resize(a, list(want), interpolation, antialias=antialias)
            if b.is_floating_point():
                close(ours, there, 1e-5, 1e-5)
            else:  # a sum at a half may round either way
                assert ours.dtype == a.dtype and np.abs(ours.numpy().astype(int) - there.numpy().astype(int)).max() <= 1
                assert (ours.numpy() != there.numpy()).mean() < 0.01


# -- what transforms do to tensors -----------------------------------------------------------------------------------------------------


def test_warps_are_what_grid_sample_gives():
    """torch's affine_grid takes its matrix in units of half the image; ours is made of the same numbers."""
    x = R.random((2, 3, 17, 17)).astype(np.float32)
    a, b = pair(x)
    angle = 33.0
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    theta = torch.tensor([[[c, -s, 0.0], [s, c, 0.0]]]).expand(2, -1, -1)  # square images: the units are alike
    grid = TF.affine_grid(theta, list(b.shape), align_corners=False)
    theirs = TF.grid_sample(b, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    close(F.rotate(a, angle, T.InterpolationMode.BILINEAR), theirs, 1e-4, 1e-5)
    close(F.affine(a, -angle, [0, 0], 1.0, [0.0, 0.0], T.InterpolationMode.BILINEAR), theirs, 1e-4, 1e-5)
    filled = F.rotate(a, angle, T.InterpolationMode.BILINEAR, fill=[1.0, 2.0, 3.0])
    mask = TF.grid_sample(torch.ones_like(b), grid, align_corners=False)
    close(filled, theirs * mask + (1 - mask) * torch.tensor([1.0, 2.0, 3.0])[:, None, None], 1e-4, 1e-5)
    theta = torch.tensor([[[0.5, 0.0, 0.2], [0.0, 0.5, -0.1]]]).expand(2, -1, -1)
    grid = TF.affine_grid(theta, list(b.shape), align_corners=False)
    moved = [-0.2 / 0.5 * 8.5, 0.1 / 0.5 * 8.5]
    ours = F.affine(a, 0.0, moved, 2.0, [0.0, 0.0], T.InterpolationMode.BILINEAR)
    close(ours, TF.grid_sample(b, grid, align_corners=False), 1e-4, 1e-5)


def test_gaussian_blur():
    a, b = pair(R.random((2, 3, 12, 15)))
    kernels = [np.exp(-0.5 * ((np.arange(n) - n // 2) / s) ** 2) for n, s in ((3, 0.7), (5, 1.5))]
    columns, rows = (torch.tensor(k / k.sum()) for k in kernels)
    padded = TF.pad(b, (1, 1, 2, 2), mode="reflect")
    theirs = TF.conv2d(padded, torch.outer(rows, columns).expand(3, 1, 5, 3), groups=3)
    close(F.gaussian_blur(a, [3, 5], [0.7, 1.5]), theirs, 1e-10, 1e-12)


def test_pad_and_dtypes():
    a, b = pair(IMAGE)
    close(F.pad(a, [1, 2, 3, 4], 7), TF.pad(b, (1, 3, 2, 4), value=7))
    close(F.pad(a, [1, 2, 3, 4], padding_mode="reflect"), TF.pad(b.float()[None], (1, 3, 2, 4), mode="reflect")[0].byte())
    close(F.pad(a, [1, 2, 3, 4], padding_mode="edge"), TF.pad(b.float()[None], (1, 3, 2, 4), mode="replicate")[0].byte())
    close(F.to_tensor(IMAGE.transpose(1, 2, 0)), b.float().div(255))
    close(F.convert_image_dtype(a, engine.float64), b.double() / 255)
    close(F.convert_image_dtype(a.float() / 255, engine.uint8), (b.float() / 255 * 255.999).byte())
    close(
        F.normalize(a.double(), [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]),
        (b - torch.tensor([1.0, 2, 3]).double()[:, None, None]) / torch.tensor([4.0, 5, 6]).double()[:, None, None],
    )


# -- the draws ------------------------------------------------------------------------------------------------------------------------


def seeded(work, seed):
    engine.manual_seed(seed)
    ours = work()
    torch.manual_seed(seed)
    return ours


def uniform(low, high):
    return torch.empty(1).uniform_(low, high).item()


def integer(low, high):
    return torch.randint(low, high, (1,)).item()


@pytest.mark.parametrize("seed", range(6))
def test_draws(seed):
    image = engine.tensor(IMAGE)
    crop = seeded(lambda: T.RandomCrop((9, 11))(image), seed)
    i, j = integer(0, 23 - 9 + 1), integer(0, 31 - 11 + 1)
    assert np.array_equal(crop.numpy(), IMAGE[:, i : i + 9, j : j + 11])
    for flip, axis in ((T.RandomHorizontalFlip(0.4), 2), (T.RandomVerticalFlip(0.6), 1)):
        flipped = seeded(lambda flip=flip: flip(image), seed)
        assert np.array_equal(flipped.numpy(), np.flip(IMAGE, axis) if torch.rand(1) < flip.p else IMAGE)
    box = seeded(lambda: T.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)), seed)
    log = torch.log(torch.tensor((3 / 4, 4 / 3)))
    for _ in range(10):
        area, ratio = 23 * 31 * uniform(0.08, 1.0), torch.exp(torch.empty(1).uniform_(log[0], log[1])).item()
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= 31 and 0 < h <= 23:
            assert box == (integer(0, 23 - h + 1), integer(0, 31 - w + 1), h, w)
            break
    drawn = seeded(lambda: T.ColorJitter.get_params((0.5, 1.5), None, (0.2, 1.8), (-0.1, 0.1)), seed)
    order = torch.randperm(4)
    assert drawn[0].tolist() == order.tolist()
    assert drawn[1:] == (uniform(0.5, 1.5), None, uniform(0.2, 1.8), uniform(-0.1, 0.1))
    assert seeded(lambda: T.RandomRotation.get_params([-20.0, 30.0]), seed) == uniform(-20, 30)
    assert seeded(lambda: T.GaussianBlur.get_params(0.1, 2.0), seed) == uniform(0.1, 2.0)
    affine = seeded(lambda: T.RandomAffine.get_params([-5.0, 5.0], (0.1, 0.3), (0.5, 2.0), [-3.0, 3.0, -4.0, 4.0], (31, 23)), seed)
    angle = uniform(-5, 5)
    right, down = round(uniform(-31 * 0.1, 31 * 0.1)), round(uniform(-23 * 0.3, 23 * 0.3))
    assert affine == (angle, (right, down), uniform(0.5, 2.0), (uniform(-3, 3), uniform(-4, 4)))
    starts, ends = seeded(lambda: T.RandomPerspective.get_params(31, 23, 0.5), seed)
    x, y = 7, 5  # half of half of the sides, whole pixels
    left, right, top, bottom = (0, x + 1), (31 - x - 1, 31), (0, y + 1), (23 - y - 1, 23)
    assert ends == [[integer(*h), integer(*v)] for h, v in ((left, top), (right, top), (right, bottom), (left, bottom))]
    assert starts == [[0, 0], [30, 0], [30, 22], [0, 22]]
    erased = seeded(lambda: T.RandomErasing(p=1.0, value="random")(image.float()), seed)
    torch.rand(1)
    log = torch.log(torch.tensor((0.3, 3.3)))
    area, ratio = 23 * 31 * uniform(0.02, 0.33), torch.exp(torch.empty(1).uniform_(log[0], log[1])).item()
    h, w = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
    if h < 23 and w < 31:
        noise = torch.empty([3, h, w]).normal_()
        i, j = integer(0, 23 - h + 1), integer(0, 31 - w + 1)
        there = torch.tensor(IMAGE).float()
        there[:, i : i + h, j : j + w] = noise
        close(erased, there)
    field = seeded(lambda: T.ElasticTransform.get_params([50.0, 20.0], [0.0, 0.0], [5, 7]), seed)
    dx = (torch.rand(1, 1, 5, 7) * 2 - 1) * 50 / 5
    close(field, torch.cat([dx, (torch.rand(1, 1, 5, 7) * 2 - 1) * 20 / 7], 1).permute(0, 2, 3, 1))


@pytest.mark.parametrize("seed", range(6))
def test_draws_of_policies(seed):
    image = engine.tensor(IMAGE)
    seen = []
    taken = T.autoaugment._apply
    try:
        T.autoaugment._apply = lambda img, name, magnitude, *rest: seen.append((name, magnitude)) or img
        seeded(lambda: T.RandAugment(num_ops=3, magnitude=12)(image), seed)
        names = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness"]
        names += ["Posterize", "Solarize", "AutoContrast", "Equalize"]
        width = 150 / 331
        most = dict(zip(names[1:10], [0.3, 0.3, width * 31, width * 23, 30.0, 0.9, 0.9, 0.9, 0.9]))
        expected = []
        for _ in range(3):
            name = names[integer(0, 14)]
            size = torch.linspace(0, most[name], 31)[12].item() if name in most else 0.0
            size = 6.0 if name == "Posterize" else torch.linspace(255, 0, 31)[12].item() if name == "Solarize" else size
            expected.append((name, -size if name in most and integer(0, 2) else size))
        assert seen == expected
        seen.clear()
        seeded(lambda: T.TrivialAugmentWide()(image), seed)
        name = names[integer(0, 14)]
        wide = dict(zip(names[1:10], [0.99, 0.99, 32.0, 32.0, 135.0, 0.99, 0.99, 0.99, 0.99]))
        if name in wide:
            size = torch.linspace(0, wide[name], 31)[integer(0, 31)].item()
            assert seen == [(name, -size if integer(0, 2) else size)]
        else:
            assert seen[0][0] == name
    finally:
        T.autoaugment._apply = taken
    fake = engine.vision.datasets.FakeData(8, (3, 4, 5), 7, transform=T.PILToTensor(), random_offset=3)
    state = engine.get_rng_state()
    ours, label = fake[seed]
    assert np.array_equal(engine.get_rng_state().numpy(), state.numpy())
    torch.manual_seed(seed + 3)
    close(ours, torch.randn(3, 4, 5).mul(255).byte())
    assert label == integer(0, 7)


@pytest.mark.parametrize("mode", ["row", "batch"])
def test_stochastic_depth(mode):
    a, b = pair(R.random((5, 2, 3)).astype(np.float32))
    ours = seeded(lambda: ops.stochastic_depth(a, 0.4, mode), 3)
    kept = torch.empty([5 if mode == "row" else 1, 1, 1]).bernoulli_(0.6)
    close(ours, b * kept / 0.6)


# -- networks -------------------------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, i, o, stride, deep):
        super().__init__()
        out = 4 * o if deep else o
        self.deep = deep
        if deep:
            self.conv1, self.bn1 = nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o)
            self.conv2, self.bn2 = nn.Conv2d(o, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.conv3, self.bn3 = nn.Conv2d(o, out, 1, bias=False), nn.BatchNorm2d(out)
        else:
            self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        y = self.bn3(self.conv3(y.relu())) if self.deep else y
        return (y + (self.downsample(x) if hasattr(self, "downsample") else x)).relu()


class Resnet(nn.Module):
    def __init__(self, counts, deep, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        wide = 64
        for k, count in enumerate(counts):
            blocks = []
            for n in range(count):
                stride, o = 2 if k and not n else 1, 64 * 2**k
                out = 4 * o if deep else o
                shortcut = (
                    nn.Sequential(nn.Conv2d(wide, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if stride == 2 or wide != out else None
                )
                blocks.append(Residual(wide, o, stride, deep))
                if shortcut is not None:
                    blocks[-1].downsample = shortcut  # drawn before the block's own weights
                wide = out
            setattr(self, f"layer{k + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(wide, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = TF.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        for k in range(4):
            x = getattr(self, f"layer{k + 1}")(x)
        return self.fc(x.mean((2, 3)))


def conv6(i, o, k, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o), nn.ReLU6())


class Inverted(nn.Module):
    def __init__(self, i, o, stride, expand):
        super().__init__()
        h = i * expand
        self.same = stride == 1 and i == o
        self.conv = nn.Sequential(
            *([conv6(i, h, 1)] if expand > 1 else []), conv6(h, h, 3, stride, h), nn.Conv2d(h, o, 1, bias=False), nn.BatchNorm2d(o)
        )

    def forward(self, x):
        return x + self.conv(x) if self.same else self.conv(x)


class Mobile(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers, i = [conv6(3, 32, 3, 2)], 32
        for t, c, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for k in range(n):
                layers.append(Inverted(i, c, s if k == 0 else 1, t))
                i = c
        self.features = nn.Sequential(*layers, conv6(320, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01), nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Dense(nn.Module):
    """DenseNet with one block of two layers and one of three."""

    class Layer(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.norm1, self.conv1 = nn.BatchNorm2d(i), nn.Conv2d(i, 4 * 8, 1, bias=False)
            self.norm2, self.conv2 = nn.BatchNorm2d(4 * 8), nn.Conv2d(4 * 8, 8, 3, 1, 1, bias=False)

        def forward(self, x):
            return torch.cat([x, self.conv2(self.norm2(self.conv1(self.norm1(x).relu())).relu())], 1)

    def __init__(self, classes):
        super().__init__()
        f = self.features = nn.Sequential()
        f.add_module("conv0", nn.Conv2d(3, 16, 7, 2, 3, bias=False)), f.add_module("norm0", nn.BatchNorm2d(16))
        f.add_module("relu0", nn.ReLU()), f.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        i = 16
        for k, count in ((1, 2), (2, 3)):
            block = nn.Sequential()
            for n in range(count):
                block.add_module(f"denselayer{n + 1}", Dense.Layer(i))
                i += 8
            f.add_module(f"denseblock{k}", block)
            if k == 1:
                half = nn.Sequential()
                half.add_module("norm", nn.BatchNorm2d(i)), half.add_module("relu", nn.ReLU())
                half.add_module("conv", nn.Conv2d(i, i // 2, 1, bias=False)), half.add_module("pool", nn.AvgPool2d(2))
                f.add_module("transition1", half)
                i //= 2
        f.add_module("norm5", nn.BatchNorm2d(i))
        self.classifier = nn.Linear(i, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
            elif isinstance(m, nn.Linear):
                nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.classifier(self.features(x).relu().mean((2, 3)))


NETS = {
    "resnet18": (lambda: M.resnet18(num_classes=5), lambda: Resnet([2, 2, 2, 2], False, 5)),
    "bottlenecks": (lambda: M.ResNet(M.resnet.Bottleneck, [1, 2, 1, 1], num_classes=5), lambda: Resnet([1, 2, 1, 1], True, 5)),
    "mobilenet_v2": (lambda: M.mobilenet_v2(num_classes=5), lambda: Mobile(5)),
    "densenet": (lambda: M.DenseNet(8, (2, 3), 16, num_classes=5), lambda: Dense(5)),
}


@pytest.mark.parametrize("name", NETS)
def test_networks(name):
    ours, theirs = NETS[name]
    engine.manual_seed(7)
    a = ours()
    torch.manual_seed(7)
    b = theirs()
    mine, yours = a.state_dict(), b.state_dict()
    assert set(mine) == set(yours) and sorted(map(tuple, (v.shape for v in mine.values()))) == sorted(
        map(tuple, (v.shape for v in yours.values()))
    )
    for key in mine:  # the same draws in the same order
        close(mine[key], yours[key], 1e-4, 1e-6)
    a.double().load_state_dict({key: engine.tensor(value.numpy()) for key, value in b.double().state_dict().items()})
    for net in (a, b):
        for m in net.modules():
            if type(m).__name__ == "Dropout":
                m.p = 0.0
    x = R.standard_normal((3, 3, 40, 40))
    ya, yb = a(engine.tensor(x)), b(torch.tensor(x))
    close(ya, yb, 1e-8, 1e-9)
    g = R.standard_normal((3, 5))
    ya.backward(engine.tensor(g)), yb.backward(torch.tensor(g))
    grads = {key: p.grad for key, p in b.named_parameters()}
    for key, p in a.named_parameters():
        scale = float(grads[key].abs().max())
        close(p.grad, grads[key], 1e-5, 1e-6 * max(scale, 1e-6) + 1e-9)
    a.eval(), b.eval()
    close(a(engine.tensor(x)), b(torch.tensor(x)), 1e-7, 1e-8)


def test_weights_travel_to_torch(tmp_path):
    net = M.squeezenet1_1(num_classes=3)
    engine.save(net.state_dict(), tmp_path / "net.pth")
    loaded = torch.load(tmp_path / "net.pth", weights_only=True)
    assert list(loaded) == list(net.state_dict())
    close(net.state_dict()["classifier.1.weight"], loaded["classifier.1.weight"])


def test_focal_loss():
    x, y = R.standard_normal((4, 5)), R.integers(0, 2, (4, 5)).astype(float)
    (a, b), (ta, tb) = pair(x), pair(y)
    a.requires_grad_(), b.requires_grad_()
    p = torch.sigmoid(b)
    right = torch.where(tb == 1, p, 1 - p)
    theirs = (torch.where(tb == 1, 0.25, 0.75) * -((1 - right) ** 2) * torch.log(right)).mean()
    ours = ops.sigmoid_focal_loss(a, ta, reduction="mean")
    close(ours, theirs, 1e-12, 1e-14)
    ours.backward(), theirs.backward()
    close(a.grad, b.grad, 1e-10, 1e-13)
