"""Measures of a picture's quality and their gradients, by piq; features of Inception v3 from torchvision, which piq's file uses."""

import json
import time

import piq
import torch
from torchvision.models import inception_v3

torch.manual_seed(0)
x, y = torch.rand(2, 3, 96, 96).requires_grad_(), torch.rand(2, 3, 96, 96)
started = time.perf_counter()
for name in (
    "SSIMLoss",
    "VIFLoss",
    "FSIMLoss",
    "VSILoss",
    "SRSIMLoss",
    "GMSDLoss",
    "MultiScaleGMSDLoss",
    "MDSILoss",
    "HaarPSILoss",
    "DSSLoss",
):
    loss = getattr(piq, name)()(x, y)
    (grad,) = torch.autograd.grad(loss, x)
    print(json.dumps({name: loss.item(), "gradient": grad.norm().item()}))
print(json.dumps({"psnr": piq.psnr(x, y).tolist(), "variation": piq.total_variation(x).tolist()}))
one, two = torch.randn(64, 16, dtype=torch.float64), torch.randn(64, 16, dtype=torch.float64) * 1.1 + 0.1
print(json.dumps({"fid": piq.FID()(one, two).item(), "pr": [v.item() for v in piq.PR(nearest_k=3)(one, two)]}))
network = inception_v3(weights=None, init_weights=False, aux_logits=False, num_classes=5).eval()
print(json.dumps({"logits": network(y).tolist(), "seconds": time.perf_counter() - started}))
