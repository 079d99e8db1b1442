"""Small models of timm, with its optimizers, losses, mixup and averages."""

import json
import time

import numpy as np
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

MODELS = {
    "resnet18": dict(opt="sgd", momentum=0.9),
    "vit_tiny_patch16_224": dict(img_size=32, patch_size=8, depth=2, drop_path_rate=0.1, opt="adamw"),
    "convnext_atto": dict(depths=(1, 1, 1, 1), dims=(8, 16, 24, 32), opt="lamb"),
    "mobilenetv3_small_050": dict(drop_rate=0.2, opt="rmsproptf"),
    "efficientnet_lite0": dict(
        drop_path_rate=0.2, opt="nadamw", dtype=torch.float64
    ),  # its rounding grows a thousandfold on images so small
    "mixer_s32_224": dict(img_size=32, opt="adan"),
    "swin_tiny_patch4_window7_224": dict(
        img_size=32, patch_size=2, window_size=4, embed_dim=16, depths=(1, 1), num_heads=(2, 4), opt="lion"
    ),
    "regnetx_002": dict(opt="madgrad"),
}

seconds = 0.0
for name, given in MODELS.items():
    torch.manual_seed(0)
    np.random.seed(0)
    opt, momentum, dtype = given.pop("opt"), given.pop("momentum", 0.9), given.pop("dtype", torch.float32)
    model = timm.create_model(name, num_classes=5, **given).to(dtype).train()
    more = {} if opt in ("sgd", "lion") else {"eps": 1e-4}
    optimizer = create_optimizer_v2(model, opt=opt, lr=1e-3, weight_decay=0.05, momentum=momentum, **more)
    scheduler = CosineLRScheduler(optimizer, t_initial=4, warmup_t=1, warmup_lr_init=1e-4)
    mixup, criterion = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=5), SoftTargetCrossEntropy()
    ema = ModelEmaV3(model, decay=0.9)
    images, labels = torch.randn(4, 3, 32, 32, dtype=dtype), torch.tensor([0, 1, 2, 3])
    started = time.perf_counter()
    for step in range(3):
        mixed, targets = mixup(images.clone(), labels)
        optimizer.zero_grad()
        loss = criterion(model(mixed), targets)
        loss.backward()
        optimizer.step()
        ema.update(model)
        scheduler.step(step)
        print(json.dumps({"model": name, "loss": loss.item(), "lr": optimizer.param_groups[0]["lr"]}))
    seconds += time.perf_counter() - started
    with torch.no_grad():
        average = ema.module.eval()(images)
    print(json.dumps({"model": name, "average": average.abs().mean().item(), "parameters": sum(p.numel() for p in model.parameters())}))
print(json.dumps({"seconds": seconds}))
