"""Pipelines of diffusers made of small parts: Stable Diffusion and its relatives, DiT, Flux, with adapters; a training step of each network."""

import json

import torch
from diffusers import (
    AutoencoderKL,
    ControlNetModel,
    DDIMScheduler,
    DiTPipeline,
    DiTTransformer2DModel,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxTransformer2DModel,
    PixArtTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusionControlNetPipeline,
    StableDiffusionImg2ImgPipeline,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)  # fmt: skip
from peft import LoraConfig

torch.manual_seed(0)
BLOCKS = dict(block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4)
vae = AutoencoderKL(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **BLOCKS).eval()
unet = UNet2DConditionModel(
    sample_size=8, cross_attention_dim=16, attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), **BLOCKS,
)  # fmt: skip
prompt, nothing = torch.randn(1, 6, 16), torch.randn(1, 6, 16)
parts = dict(
    vae=vae, text_encoder=None, tokenizer=None, unet=unet, safety_checker=None, feature_extractor=None, requires_safety_checker=False
)
given = dict(prompt_embeds=prompt, negative_prompt_embeds=nothing, num_inference_steps=3, guidance_scale=4.0, output_type="np")


def tell(name, images):
    print(json.dumps({"name": name, "mean": float(images.mean()), "std": float(images.std()), "row": images[0, 0, :, 0].tolist()}))


pipe = StableDiffusionPipeline(scheduler=DDIMScheduler(), **parts)
pipe.set_progress_bar_config(disable=True)
tell("text to image", pipe(height=16, width=16, generator=torch.Generator().manual_seed(0), **given).images)
pipe.enable_attention_slicing()
vae.enable_tiling()
tell("sliced", pipe(height=16, width=16, generator=torch.Generator().manual_seed(0), **given).images)
other = StableDiffusionImg2ImgPipeline(scheduler=EulerDiscreteScheduler(), **parts)
other.set_progress_bar_config(disable=True)
picture = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))
tell("image to image", other(image=picture, strength=0.7, generator=torch.Generator().manual_seed(0), **given).images)
control = ControlNetModel(
    cross_attention_dim=16, attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), conditioning_embedding_out_channels=(8, 16), **BLOCKS
)  # fmt: skip
led = StableDiffusionControlNetPipeline(controlnet=control, scheduler=DDIMScheduler(), **parts)
led.set_progress_bar_config(disable=True)
tell("led by an image", led(image=picture, height=16, width=16, generator=torch.Generator().manual_seed(0), **given).images)
dit = DiTTransformer2DModel(
    sample_size=8, num_layers=2, patch_size=2, attention_head_dim=8, num_attention_heads=2, in_channels=4, out_channels=8, attention_bias=True,
    num_embeds_ada_norm=1000, activation_fn="gelu-approximate", norm_type="ada_norm_zero", norm_elementwise_affine=False,
)  # fmt: skip
classes = DiTPipeline(transformer=dit.eval(), vae=vae, scheduler=DDIMScheduler())
classes.set_progress_bar_config(disable=True)
tell("classes", classes(class_labels=[1, 5], num_inference_steps=2, generator=torch.Generator().manual_seed(0), output_type="np").images)

flow = FlowMatchEulerDiscreteScheduler()
flux = FluxTransformer2DModel(
    patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16,
    pooled_projection_dim=16, axes_dims_rope=(4, 4, 8), guidance_embeds=True,
)  # fmt: skip
sd3 = SD3Transformer2DModel(
    sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16, caption_projection_dim=16,
    pooled_projection_dim=16, out_channels=4, pos_embed_max_size=8,
)  # fmt: skip
pixart = PixArtTransformer2DModel(
    sample_size=8, num_layers=2, patch_size=2, attention_head_dim=8, num_attention_heads=2, in_channels=4, cross_attention_dim=16, out_channels=8,
    caption_channels=16, norm_num_groups=4, use_additional_conditions=False,
)  # fmt: skip
text, pooled, latents, times = torch.randn(2, 6, 16), torch.randn(2, 16), torch.randn(2, 4, 8, 8), torch.tensor([100.0, 700.0])
NETWORKS = {
    "flux": (
        flux,
        lambda: flux(
            latents.flatten(2).transpose(1, 2), encoder_hidden_states=text, pooled_projections=pooled, timestep=times / 1000, guidance=torch.ones(2),
            img_ids=torch.randn(64, 3, generator=torch.Generator().manual_seed(0)), txt_ids=torch.zeros(6, 3),
        ).sample,
    ),
    "sd3": (sd3, lambda: sd3(latents, encoder_hidden_states=text, pooled_projections=pooled, timestep=times).sample),
    "pixart": (pixart, lambda: pixart(latents, encoder_hidden_states=text, timestep=times).sample),
    "unet": (unet, lambda: unet(latents, times, encoder_hidden_states=text).sample),
    "unet with an adapter": (unet, lambda: unet(latents, times, encoder_hidden_states=text).sample),
}  # fmt: skip
for name, (model, run) in NETWORKS.items():
    torch.manual_seed(0)
    model.train()
    if "adapter" in name:
        model.requires_grad_(False)
        model.add_adapter(LoraConfig(r=2, init_lora_weights="gaussian", target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.05)
    for _ in range(3):
        out = run()
        loss = (out - 0.5).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        print(json.dumps({"network": name, "loss": loss.item(), "norm": norm.item(), "trained": len(trained)}))
