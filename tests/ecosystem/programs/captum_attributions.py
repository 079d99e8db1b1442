"""captum's attributions of a small convolutional network and of an embedding."""

import json
import time
import warnings

import torch
from captum.attr import (
    LRP,
    Deconvolution,
    DeepLift,
    DeepLiftShap,
    FeatureAblation,
    FeaturePermutation,
    GradientShap,
    GuidedBackprop,
    GuidedGradCam,
    InputXGradient,
    IntegratedGradients,
    InternalInfluence,
    KernelShap,
    LayerActivation,
    LayerConductance,
    LayerDeepLift,
    LayerGradCam,
    LayerGradientXActivation,
    LayerIntegratedGradients,
    Lime,
    NeuronConductance,
    NeuronGradient,
    NoiseTunnel,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)  # fmt: skip
from torch import nn

warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(16, 8)
        self.relu2 = nn.ReLU()
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.relu2(self.fc(self.pool(self.relu(self.conv(x))).flatten(1))))


model = Net().eval()
x = torch.randn(2, 1, 6, 6, requires_grad=True)
base = torch.randn(5, 1, 6, 6) * 0.1
mask = torch.arange(36).reshape(1, 1, 6, 6) // 9


def told(name, value):
    value = value[0] if isinstance(value, tuple) else value
    print(json.dumps({"method": name, "shape": list(value.shape), "sum": value.sum().item(), "norm": value.norm().item()}))


started = time.perf_counter()
told("IntegratedGradients", IntegratedGradients(model).attribute(x, target=1, n_steps=20, return_convergence_delta=True))
told("Saliency", Saliency(model).attribute(x, target=1))
told("InputXGradient", InputXGradient(model).attribute(x, target=1))
told("DeepLift", DeepLift(model).attribute(x, target=1))
told("DeepLiftShap", DeepLiftShap(model).attribute(x, base, target=1))
told("GuidedBackprop", GuidedBackprop(model).attribute(x, target=1))
told("Deconvolution", Deconvolution(model).attribute(x, target=1))
told("GuidedGradCam", GuidedGradCam(model, model.conv).attribute(x, target=1))
told("LRP", LRP(model).attribute(x, target=1))
told("Occlusion", Occlusion(model).attribute(x, (1, 2, 2), target=1, strides=(1, 2, 2)))
told("FeatureAblation", FeatureAblation(model).attribute(x, target=1, feature_mask=mask))
told("LayerGradCam", LayerGradCam(model, model.conv).attribute(x, target=1))
told("LayerActivation", LayerActivation(model, model.fc).attribute(x))
told("LayerConductance", LayerConductance(model, model.fc).attribute(x, target=1, n_steps=10))
told("LayerIntegratedGradients", LayerIntegratedGradients(model, model.conv).attribute(x, target=1, n_steps=10))
told("LayerDeepLift", LayerDeepLift(model, model.conv).attribute(x, target=1))
told("LayerGradientXActivation", LayerGradientXActivation(model, model.fc).attribute(x, target=1))
told("InternalInfluence", InternalInfluence(model, model.fc).attribute(x, target=1, n_steps=10))
told("NeuronGradient", NeuronGradient(model, model.fc).attribute(x, 2))
told("NeuronConductance", NeuronConductance(model, model.fc).attribute(x, 2, target=1, n_steps=10))
for name, make in (
    ("GradientShap", lambda: GradientShap(model).attribute(x, base, n_samples=4, target=1)),
    ("NoiseTunnel", lambda: NoiseTunnel(Saliency(model)).attribute(x, nt_type="smoothgrad_sq", nt_samples=4, target=1)),
    ("FeaturePermutation", lambda: FeaturePermutation(model).attribute(x, target=1, feature_mask=mask)),
    ("ShapleyValueSampling", lambda: ShapleyValueSampling(model).attribute(x, target=1, feature_mask=mask, n_samples=4)),
    ("Lime", lambda: Lime(model).attribute(x[:1], target=1, feature_mask=mask, n_samples=20)),
    ("KernelShap", lambda: KernelShap(model).attribute(x[:1], target=1, feature_mask=mask, n_samples=20)),
):
    torch.manual_seed(3)
    import numpy

    numpy.random.seed(3)
    told(name, make())
words = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2))
told(
    "embedding",
    LayerIntegratedGradients(words, words[0]).attribute(torch.tensor([[1, 2, 3]]), torch.zeros(1, 3, dtype=torch.long), target=0),
)
print(json.dumps({"seconds": time.perf_counter() - started}))
