"""A small CLIP of open_clip, made from a configuration: three steps with its loss."""

import json
import time

import open_clip
import torch
from open_clip.loss import ClipLoss, SigLipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

for name, text, more, criterion in (
    ("clip", {}, {}, ClipLoss()),
    ("siglip", {"pool_type": "last"}, {"init_logit_scale": 2.3, "init_logit_bias": -10.0}, SigLipLoss()),
    ("resnet", {}, {}, ClipLoss()),
):
    torch.manual_seed(0)
    vision = (
        {"layers": (1, 1, 1, 1), "width": 8, "head_width": 8}
        if name == "resnet"
        else {"layers": 2, "width": 32, "head_width": 8, "patch_size": 8, "patch_dropout": 0.3}
    )
    model = CLIP(
        16,
        CLIPVisionCfg(image_size=32, **vision),
        CLIPTextCfg(context_length=12, vocab_size=64, width=32, heads=4, layers=2, **text),
        **more,
    )
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
    images = torch.randn(4, 3, 32, 32)
    tokens = torch.randint(1, 63, (4, 12))
    tokens[:, -1] = 63
    started = time.perf_counter()
    for _ in range(3):
        optimizer.zero_grad()
        features, words, scale, *bias = model(images, tokens)
        loss = criterion(features, words, scale, *bias)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6052)
        norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
        print(json.dumps({"model": name, "loss": loss.item(), "norm": norm.item(), "scale": model.logit_scale.exp().item()}))
    print(json.dumps({"seconds": time.perf_counter() - started}))
    if name == "clip":
        model.eval()
        model.set_grad_checkpointing()
        similarity = model.encode_image(images, normalize=True) @ model.encode_text(tokens, normalize=True).T
        print(json.dumps({"similarity": similarity.tolist(), "models": len(open_clip.list_models()) > 50}))
