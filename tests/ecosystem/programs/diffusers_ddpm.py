"""Diffusion models with diffusers: a U-Net learns to take noise away, then schedulers and pipelines draw from it."""

import json
import time

import diffusers
import torch
from diffusers import AutoencoderKL, DDPMPipeline, DDPMScheduler, UNet2DConditionModel, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)  # fmt: skip
scheduler = DDPMScheduler(num_train_timesteps=100, beta_schedule="squaredcos_cap_v2")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-5)
rate = get_cosine_schedule_with_warmup(optimizer, 1, 5)
ema = EMAModel(model.parameters(), decay=0.9)
images = torch.rand(4, 1, 16, 16) * 2 - 1
started = time.perf_counter()
for _ in range(3):
    noise = torch.randn_like(images)
    steps = torch.randint(0, 100, (4,))
    predicted = model(scheduler.add_noise(images, noise, steps), steps).sample
    loss = torch.nn.functional.mse_loss(predicted, noise)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    rate.step()
    optimizer.zero_grad()
    ema.step(model.parameters())
    print(json.dumps({"loss": loss.item(), "norm": norm.item(), "lr": rate.get_last_lr()[0]}))
print(json.dumps({"seconds": time.perf_counter() - started}))

ema.copy_to(model.parameters())
model.eval()
pipeline = DDPMPipeline(unet=model, scheduler=scheduler)
pipeline.set_progress_bar_config(disable=True)
drawn = pipeline(batch_size=2, num_inference_steps=5, generator=torch.Generator().manual_seed(0), output_type="np").images
print(json.dumps({"pipeline": drawn.tolist()[0][0], "mean": float(drawn.mean())}))

for name in (
    "DDIMScheduler", "PNDMScheduler", "EulerDiscreteScheduler", "EulerAncestralDiscreteScheduler", "DPMSolverMultistepScheduler", "HeunDiscreteScheduler",
    "UniPCMultistepScheduler", "DEISMultistepScheduler", "LMSDiscreteScheduler", "KDPM2DiscreteScheduler", "DPMSolverSinglestepScheduler",
    "FlowMatchEulerDiscreteScheduler",
):  # fmt: skip
    other = getattr(diffusers, name)(num_train_timesteps=100)
    other.set_timesteps(4)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 1, 16, 16, generator=generator) * getattr(other, "init_noise_sigma", 1.0)
    with torch.no_grad():
        for t in other.timesteps:
            given = other.scale_model_input(x, t) if hasattr(other, "scale_model_input") else x
            more = {"generator": generator} if name in ("EulerAncestralDiscreteScheduler", "DDIMScheduler") else {}
            x = other.step(model(given, t).sample, t, x, **more).prev_sample
    print(json.dumps({"scheduler": name, "mean": x.mean().item(), "std": x.std().item()}))

torch.manual_seed(0)
vae = AutoencoderKL(
    block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4
)
unet = UNet2DConditionModel(
    sample_size=8, block_out_channels=(8, 16), layers_per_block=1, cross_attention_dim=16, attention_head_dim=4, norm_num_groups=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
)  # fmt: skip
unet.enable_gradient_checkpointing()
unet.train()
optimizer = torch.optim.SGD([*unet.parameters(), *vae.parameters()], lr=0.1)
pictures, text = torch.randn(2, 3, 16, 16), torch.randn(2, 5, 16)
for _ in range(3):
    posterior = vae.encode(pictures).latent_dist
    latents = posterior.sample()
    noise, steps = torch.randn_like(latents), torch.randint(0, 100, (2,))
    predicted = unet(scheduler.add_noise(latents, noise, steps), steps, encoder_hidden_states=text).sample
    loss = (predicted - noise).pow(2).mean() + (vae.decode(latents).sample - pictures).pow(2).mean() + 1e-3 * posterior.kl().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(json.dumps({"latent loss": loss.item()}))

pipeline.save_pretrained("pipeline")
loaded = DDPMPipeline.from_pretrained("pipeline")
print(json.dumps({"loaded": all(torch.equal(a, b) for a, b in zip(loaded.unet.parameters(), model.parameters()))}))
