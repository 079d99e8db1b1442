"""torchvision's models: published numbers of parameters and names, one pass through each kind, weights from the local cache."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import engine
from engine import hub
from engine.nn import init

V = engine.vision
M = V.models

# torchvision's documentation
PARAMETERS = {
    **{"alexnet": 61100840, "densenet121": 7978856, "densenet161": 28681000, "densenet169": 14149480, "densenet201": 20013928},
    **{"efficientnet_b0": 5288548, "efficientnet_b1": 7794184, "efficientnet_b2": 9109994, "efficientnet_b3": 12233232},
    **{"efficientnet_b4": 19341616, "googlenet": 13004888, "inception_v3": 27161264, "mobilenet_v2": 3504872},
    **{
        "mobilenet_v3_large": 5483032,
        "mobilenet_v3_small": 2542856,
        "resnet18": 11689512,
        "resnet34": 21797672,
        "resnet50": 25557032,
        "resnet101": 44549160,
    },
    **{"resnet152": 60192808, "resnext50_32x4d": 25028904, "resnext101_32x8d": 88791336, "squeezenet1_0": 1248424},
    **{"squeezenet1_1": 1235496, "vgg11": 132863336, "vgg11_bn": 132868840, "vgg13": 133047848, "vgg13_bn": 133053736},
    **{"vgg16": 138357544, "vgg16_bn": 138365992, "vgg19": 143667240, "vgg19_bn": 143678248, "vit_b_16": 86567656},
    **{"vit_b_32": 88224232, "vit_l_16": 304326632, "vit_l_32": 306535400, "wide_resnet50_2": 68883240},
    **{"wide_resnet101_2": 126886696},
}


@pytest.fixture
def undrawn(monkeypatch):
    """Parameters stay as their memory comes: nothing is drawn, and nothing touched, so large models cost nothing."""
    for name in ("normal_", "uniform_", "zero_", "fill_"):
        monkeypatch.setattr(engine.Tensor, name, lambda self, *args, **kwargs: self)
    for name in dir(init):
        if name.endswith("_") and not name.startswith("_"):
            monkeypatch.setattr(init, name, lambda tensor, *args, **kwargs: tensor)


@pytest.mark.filterwarnings("ignore:The default weight initialization:FutureWarning")
@pytest.mark.parametrize("name", PARAMETERS)
def test_counts(undrawn, name):
    model = M.get_model(name)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]
    expected = 6624904 if name == "googlenet" else PARAMETERS[name]  # its weights come without the second classifiers
    assert M.get_model_weights(name).DEFAULT.meta["num_params"] == expected


def test_list():
    assert M.list_models() == sorted(PARAMETERS) == M.list_models(M)
    assert M.list_models(include="resnet*", exclude=["*1*"]) == ["resnet34", "resnet50"]
    assert M.get_model_builder("ResNet18") is M.resnet18 is M.__dict__["resnet18"]
    with pytest.raises(ValueError, match="Unknown model resnet19"):
        M.get_model("resnet19")
    assert str(inspect.signature(M.resnet18)).startswith("(*, weights")
    archs = sorted(n for n in M.__dict__ if n.islower() and not n.startswith("__") and callable(M.__dict__[n]))
    assert set(PARAMETERS) <= set(archs)


NAMES = {  # some of torchvision's, in its order
    "resnet18": ["conv1.weight", "bn1.weight", "layer2.0.downsample.0.weight", "layer4.1.bn2.bias", "fc.weight", "fc.bias"],
    "resnet50": ["layer1.0.conv3.weight", "layer1.0.bn3.weight", "layer1.0.downsample.1.bias", "layer4.2.conv3.weight"],
    "alexnet": ["features.0.weight", "features.3.bias", "features.10.weight", "classifier.1.weight", "classifier.6.bias"],
    "vgg16": ["features.0.weight", "features.28.bias", "classifier.0.weight", "classifier.3.weight", "classifier.6.bias"],
    "vgg11_bn": ["features.0.weight", "features.1.bias", "features.4.weight", "features.26.bias", "classifier.6.bias"],
    "mobilenet_v2": ["features.0.0.weight", "features.1.conv.0.0.weight", "features.1.conv.1.weight", "features.1.conv.2.bias", "features.17.conv.2.weight", "features.18.1.bias", "classifier.1.bias"],
    "mobilenet_v3_small": ["features.0.0.weight", "features.1.block.0.0.weight", "features.1.block.1.fc1.weight", "features.1.block.2.1.bias", "features.12.0.weight", "classifier.0.weight", "classifier.3.bias"],
    "densenet121": ["features.conv0.weight", "features.norm0.bias", "features.denseblock1.denselayer1.norm1.weight", "features.denseblock1.denselayer6.conv2.weight", "features.transition1.norm.weight", "features.transition3.conv.weight", "features.denseblock4.denselayer16.conv2.weight", "features.norm5.bias", "classifier.weight"],
    "squeezenet1_0": ["features.0.weight", "features.3.squeeze.weight", "features.3.expand3x3.bias", "features.12.expand1x1.weight", "classifier.1.bias"],
    "squeezenet1_1": ["features.3.squeeze.weight", "features.6.squeeze.bias", "features.12.expand3x3.bias", "classifier.1.weight"],
    "googlenet": ["conv1.conv.weight", "conv1.bn.bias", "inception3a.branch1.conv.weight", "inception3a.branch2.0.conv.weight", "inception5b.branch4.1.bn.bias", "aux1.conv.conv.weight", "aux2.fc2.bias", "fc.weight"],
    "inception_v3": ["Conv2d_1a_3x3.conv.weight", "Mixed_5b.branch1x1.conv.weight", "Mixed_5d.branch_pool.bn.bias", "Mixed_6e.branch7x7dbl_5.conv.weight", "AuxLogits.fc.bias", "Mixed_7a.branch3x3_1.conv.weight", "Mixed_7c.branch3x3dbl_3b.conv.weight", "fc.bias"],
    "efficientnet_b0": ["features.0.0.weight", "features.1.0.block.0.0.weight", "features.1.0.block.1.fc1.weight", "features.2.0.block.3.1.bias", "features.8.1.bias", "classifier.1.weight"],
    "vit_b_16": ["class_token", "conv_proj.weight", "encoder.pos_embedding", "encoder.layers.encoder_layer_0.ln_1.weight", "encoder.layers.encoder_layer_0.self_attention.in_proj_weight", "encoder.layers.encoder_layer_11.mlp.0.weight", "encoder.layers.encoder_layer_11.mlp.3.bias", "encoder.ln.bias", "heads.head.weight"],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:The default weight initialization:FutureWarning")
@pytest.mark.parametrize("name", NAMES)
def test_names(undrawn, name):
    keys = list(M.get_model(name).state_dict())
    places = [keys.index(key) for key in NAMES[name]]
    assert places == sorted(places)
    assert [keys[0], keys[-1]] == [keys[min(places)] if places[0] == 0 else keys[0], keys[-1]]


STEM = M.vision_transformer.ConvStemConfig
SMALL = {
    "resnet18": (lambda: M.resnet18(num_classes=3), 32),
    "resnext": (lambda: M.ResNet(M.resnet.Bottleneck, [1, 1, 1, 1], 3, groups=4, width_per_group=8, replace_stride_with_dilation=[False, True, True]), 32),
    "vgg": (lambda: engine.nn.Sequential(M.vgg.make_layers([4, "M", 8, "M"], True), engine.nn.Flatten(), engine.nn.Linear(128, 3)), 16),
    "mobilenet_v2": (lambda: M.mobilenet_v2(num_classes=3, width_mult=0.25), 32),
    "mobilenet_v3": (lambda: M.mobilenet_v3_small(num_classes=3, width_mult=0.5, reduced_tail=True), 32),
    "squeezenet": (lambda: M.squeezenet1_1(num_classes=3), 32),
    "densenet": (lambda: M.DenseNet(4, (2, 2), 8, num_classes=3, drop_rate=0.1, memory_efficient=True), 32),
    "googlenet": (lambda: M.GoogLeNet(3, aux_logits=True, init_weights=False), 32),
    "inception": (lambda: M.Inception3(3, aux_logits=False, init_weights=False, dropout=0.0), 80),
    "efficientnet": (lambda: M.efficientnet_b0(num_classes=3), 32),
    "vit_stem": (lambda: M.VisionTransformer(16, 8, 1, 2, 8, 16, num_classes=3, conv_stem_configs=[STEM(4, 3, 2), STEM(6, 3, 4)]), 16),
    "vit": (lambda: M.VisionTransformer(16, 8, 2, 2, 8, 16, num_classes=3, representation_size=5), 16),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_passes(name):
    make, size = SMALL[name]
    engine.manual_seed(0)
    model = make()
    x = engine.randn(2, 3, size, size)
    out = model(x)
    if name == "googlenet":
        assert [y.shape for y in out] == [(2, 3)] * 3
        out = out.logits + out.aux_logits1 + out.aux_logits2
    assert out.shape == (2, 3)
    (out**2).sum().backward()
    unused = [key for key, p in model.named_parameters() if p.grad is None or not bool(engine.isfinite(p.grad).all())]
    assert unused == []
    model.eval()
    with engine.no_grad():
        a, b = model(x), model(x)
    assert a.shape == (2, 3) and np.array_equal(a.numpy(), b.numpy())
    again = make()
    again.load_state_dict(model.state_dict())
    assert np.array_equal(again.eval()(x).detach().numpy(), a.numpy())


@pytest.mark.slow
def test_first_values():
    engine.manual_seed(0)
    net = M.resnet18(num_classes=2, zero_init_residual=True)
    assert net.conv1.weight.std().item() == pytest.approx((2 / (64 * 49)) ** 0.5, rel=0.03)  # fan out
    assert float(net.layer1[0].bn2.weight.abs().max()) == 0 and float(net.bn1.weight.min()) == 1
    plain, seeded = M.resnet18(num_classes=2), {}
    for key, p in plain.named_parameters():
        seeded[key] = p
    engine.manual_seed(0)
    same = M.resnet18(num_classes=2)
    assert np.array_equal(same.fc.weight.detach().numpy(), net.fc.weight.detach().numpy())
    vit = M.VisionTransformer(16, 8, 1, 2, 8, 16)
    assert float(vit.heads.head.weight.abs().max()) == 0


@pytest.fixture
def cache(tmp_path):
    before = hub.get_dir()
    hub.set_dir(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    yield tmp_path / "checkpoints"
    hub.set_dir(before)


def test_weights(cache, monkeypatch):
    with pytest.raises(
        FileNotFoundError,
        match=r"SqueezeNet1_1_Weights.IMAGENET1K_V1: nothing is downloaded here. Put torchvision's file squeezenet1_1-b8a52dc0.pth",
    ):
        M.squeezenet1_1(weights="DEFAULT")
    engine.manual_seed(1)
    trained = M.squeezenet1_1()
    engine.save(trained.state_dict(), cache / "squeezenet1_1-b8a52dc0.pth")
    with pytest.raises(RuntimeError, match="invalid hash value"):  # a file of that name that is not torchvision's
        M.squeezenet1_1(weights="DEFAULT")
    monkeypatch.setattr(hub, "HASH_REGEX", __import__("re").compile("no hash"))
    expected = trained.classifier[1].weight.detach().numpy()
    W = M.SqueezeNet1_1_Weights
    for call in (
        lambda: M.squeezenet1_1(weights="DEFAULT"),
        lambda: M.squeezenet1_1(weights="IMAGENET1K_V1"),
        lambda: M.squeezenet1_1(weights=W.DEFAULT),
        lambda: M.get_model("squeezenet1_1", weights="SqueezeNet1_1_Weights.DEFAULT"),
    ):
        assert np.array_equal(call().classifier[1].weight.detach().numpy(), expected)
    since = "deprecated since 0.13 and may be removed in the future"
    first = (
        f"Arguments other than a weight enum or `None` for 'weights' are {since}. The current behavior is equivalent to passing `weights="
    )
    newest = (
        "SqueezeNet1_1_Weights.IMAGENET1K_V1`. You can also use `weights=SqueezeNet1_1_Weights.DEFAULT` to get the most up-to-date weights."
    )
    for call, right, said in (
        (lambda: M.squeezenet1_1(weights=True), True, [first + newest]),
        (
            lambda: M.squeezenet1_1(pretrained=True),
            True,
            [f"The parameter 'pretrained' is {since}, please use 'weights' instead.", first + newest],
        ),
        (
            lambda: M.squeezenet1_1(False),
            False,
            [f"Using 'weights' as positional parameter(s) is {since}. Please use keyword parameter(s) instead.", first + "None`."],
        ),
    ):
        with pytest.warns(UserWarning, match="deprecated") as told:
            found = call()
        assert [str(w.message) for w in told] == said
        assert np.array_equal(found.classifier[1].weight.detach().numpy(), expected) == right
    with pytest.raises(ValueError, match="'num_classes' expected value 1000 but got 10 instead"):
        M.squeezenet1_1(weights="DEFAULT", num_classes=10)
    with pytest.raises(TypeError, match="expected SqueezeNet1_1_Weights but received SqueezeNet1_0_Weights"):
        M.squeezenet1_1(weights=M.SqueezeNet1_0_Weights.DEFAULT)
    with pytest.raises(KeyError, match="has no weights 'V9'"):
        M.squeezenet1_1(weights="V9")


def test_positions_of_vision_transformers_are_interpolated():
    state = M.VisionTransformer(16, 8, 1, 2, 8, 16, num_classes=3).state_dict()
    ramp = engine.tensor([0.0, 1, 2, 3]).reshape(1, 4, 1).expand(1, 4, 8)  # of the rows and columns of a 2 x 2 grid
    state["encoder.pos_embedding"] = engine.cat([engine.full((1, 1, 8), 7.0), ramp], 1)
    found = M.vision_transformer.interpolate_embeddings(24, 8, dict(state), "bilinear", reset_heads=True)
    expected = [7, 0, 0.5, 1, 1, 1.5, 2, 2, 2.5, 3]
    assert np.allclose(found["encoder.pos_embedding"][0, :, 3].numpy(), expected)
    assert {key.partition(".")[0] for key in state} - {key.partition(".")[0] for key in found} == {"heads"}
    same = M.vision_transformer.interpolate_embeddings(16, 8, state, reset_heads=True)
    assert same is state
    with pytest.raises(ValueError, match="not a perfect square"):
        M.vision_transformer.interpolate_embeddings(16, 8, {"encoder.pos_embedding": engine.zeros(1, 8, 4)})


def test_old_names_of_densenet():
    state = M.DenseNet(4, (2, 1), 8, num_classes=3).state_dict()
    new = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}  # files of 2017 have none
    old = {
        key.replace("norm1.", "norm.1.").replace("conv2.", "conv.2.") if "denselayer" in key else key: value for key, value in new.items()
    }
    assert old.keys() != new.keys() and list(M.densenet._renamed(old)) == list(new)


def test_enums():
    W = M.ResNet50_Weights
    assert W.DEFAULT is W.IMAGENET1K_V2 and repr(W.IMAGENET1K_V1) == "ResNet50_Weights.IMAGENET1K_V1"
    assert W.IMAGENET1K_V1.url == "resnet50-0676ba61.pth" and M.get_weight("ResNet50_Weights.IMAGENET1K_V2") is W.DEFAULT
    assert M.get_model_weights("resnet50") is W is M.get_model_weights(M.resnet50)
    preset = W.DEFAULT.transforms()
    assert preset.resize_size == [232] and preset.crop_size == [224]
    image = engine.tensor(np.full((3, 300, 400), 128, np.uint8))
    found = preset(image)
    assert found.shape == (3, 224, 224)
    expected = (128 / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    assert np.allclose(found.numpy().mean((1, 2)), expected, atol=1e-5)
    assert repr(preset).splitlines()[:2] == ["ImageClassification(", "    crop_size=[224]"]
    with pytest.raises(KeyError, match="not part of this package"):
        W.DEFAULT.meta["categories"]
    assert M.ViT_B_16_Weights.DEFAULT.name == "IMAGENET1K_V1" and M.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1.meta["min_size"] == (384, 384)
    with pytest.raises(ValueError, match="Invalid weight name"):
        M.get_weight("ResNet50")


def test_refusals():
    for call, kind in (
        (lambda: M.ResNet(M.resnet.BasicBlock, [1, 1, 1, 1], groups=2), ValueError),
        (lambda: M.ResNet(M.resnet.BasicBlock, [1, 1, 1, 1], replace_stride_with_dilation=[True]), ValueError),
        (lambda: M.SqueezeNet("2"), ValueError),
        (lambda: M.MobileNetV2(inverted_residual_setting=[]), ValueError),
        (lambda: M.MobileNetV3([], 8), ValueError),
        (lambda: M.EfficientNet([], 0.1), ValueError),
        (lambda: M.VisionTransformer(15, 8, 1, 1, 8, 8), AssertionError),
        (lambda: M.VisionTransformer(16, 8, 1, 1, 8, 8)(engine.zeros(1, 3, 8, 8)), AssertionError),
        (lambda: M.resnet18(3, 4), TypeError),
        (lambda: M.resnext50_32x4d(groups=1), ValueError),  # that would be another model
        (lambda: M.wide_resnet50_2(width_per_group=64), ValueError),
    ):
        with pytest.raises(kind):
            call()


def test_layers_in_the_middle():
    net = M.resnet18(num_classes=2)
    getter = M._init.IntermediateLayerGetter(net, {"layer1": "low", "layer3": "high"})
    out = getter(engine.zeros(1, 3, 32, 32))
    assert {key: value.shape for key, value in out.items()} == {"low": (1, 64, 8, 8), "high": (1, 256, 2, 2)}
    assert "fc" not in dict(getter.named_children())


def test_a_vision_transformer_may_start_with_several_convolutions():
    from engine.vision.models.vision_transformer import ConvStemConfig, VisionTransformer

    engine.manual_seed(0)
    stem = [ConvStemConfig(8, 3, 2), ConvStemConfig(8, 3, 2), ConvStemConfig(12, 3, 2)]
    net = VisionTransformer(32, 8, num_layers=1, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=4, conv_stem_configs=stem)
    assert [n for n, _ in net.conv_proj.named_children()] == ["conv_bn_relu_0", "conv_bn_relu_1", "conv_bn_relu_2", "conv_last"]
    engine.nn.init.normal_(net.heads.head.weight)
    out = net(engine.randn(2, 3, 32, 32))
    out.square().mean().backward()
    assert out.sum().item() == pytest.approx(10.458, rel=1e-3)
    assert net.conv_proj.conv_last.weight.grad.norm().item() == pytest.approx(28.0728, rel=1e-3)
