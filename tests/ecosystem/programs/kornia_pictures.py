"""kornia: filters, colors, geometry, augmentation with gradients, losses, features."""

import json
import time

import kornia as K
import torch

torch.manual_seed(0)
x = torch.rand(2, 3, 24, 24, requires_grad=True)


def told(name, value):
    value = value[0] if isinstance(value, (tuple, list)) else value
    value = value.to_tensor() if hasattr(value, "to_tensor") else value
    row = {"name": name, "shape": list(value.shape), "mean": value.float().mean().item(), "std": value.float().std().item()}
    if value.requires_grad:
        row["gradient"] = torch.autograd.grad(value.float().pow(2).sum(), x, allow_unused=True)[0].norm().item()
    print(json.dumps(row))


started = time.perf_counter()
for name, function in {
    "blur": lambda: K.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), "sobel": lambda: K.filters.sobel(x), "canny": lambda: K.filters.canny(x)[0],
    "median": lambda: K.filters.median_blur(x, (3, 3)), "bilateral": lambda: K.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
    "unsharp": lambda: K.filters.unsharp_mask(x, (5, 5), (1.5, 1.5)), "motion": lambda: K.filters.motion_blur(x, 5, 35.0, 0.5),
    "lab": lambda: K.color.rgb_to_lab(x), "hsv": lambda: K.color.rgb_to_hsv(x), "ycbcr": lambda: K.color.rgb_to_ycbcr(x), "luv": lambda: K.color.rgb_to_luv(x),
    "rotate": lambda: K.geometry.rotate(x, torch.tensor([20.0, -35.0])), "resize": lambda: K.geometry.resize(x, (17, 13), antialias=True),
    "warp": lambda: K.geometry.warp_perspective(x, torch.eye(3)[None].repeat(2, 1, 1) + 0.01, (20, 20)), "pyramid": lambda: K.geometry.pyrdown(x),
    "elastic": lambda: K.geometry.transform.elastic_transform2d(x, torch.rand(2, 2, 24, 24)), "crop": lambda: K.geometry.center_crop(x, (10, 12)),
    "equalize": lambda: K.enhance.equalize_clahe(x.detach()), "sharp": lambda: K.enhance.sharpness(x, 1.5), "posterize": lambda: K.enhance.posterize(x.detach(), 3),
    "jpeg": lambda: K.enhance.jpeg_codec_differentiable(x[..., :16, :16], torch.tensor([50.0, 80.0])), "adjust": lambda: K.enhance.adjust_hue(x, 0.3),
    "dilation": lambda: K.morphology.dilation(x, torch.ones(3, 3)), "ssim": lambda: K.losses.ssim_loss(x, x.detach().flip(0), 5), "tv": lambda: K.losses.total_variation(x),
    "focal": lambda: K.losses.focal_loss(x, torch.randint(0, 3, (2, 24, 24)), 0.5, reduction="mean"), "dice": lambda: K.losses.dice_loss(x, torch.randint(0, 3, (2, 24, 24))),
    "harris": lambda: K.feature.harris_response(x), "sift": lambda: K.feature.SIFTDescriptor(24)(x[:, :1]), "hardnet": lambda: K.feature.laf_to_boundary_points(torch.rand(1, 2, 2, 3)),
    "quaternion": lambda: K.geometry.Quaternion.from_axis_angle(torch.rand(2, 3)).matrix(), "fundamental": lambda: K.geometry.epipolar.normalize_points(torch.rand(1, 8, 2))[0],
}.items():  # fmt: skip
    told(name, function())
torch.manual_seed(2)
chain = K.augmentation.AugmentationSequential(
    K.augmentation.RandomHorizontalFlip(p=0.5), K.augmentation.RandomAffine(20.0, (0.1, 0.1), p=1.0), K.augmentation.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0),
    K.augmentation.RandomErasing(p=1.0), K.augmentation.RandomGaussianNoise(p=1.0), data_keys=["input", "mask"],
)  # fmt: skip
told("augmented", chain(x, torch.rand(2, 1, 24, 24)))
told("inverse", chain.inverse(x, torch.rand(2, 1, 24, 24)))
print(json.dumps({"seconds": time.perf_counter() - started}))
