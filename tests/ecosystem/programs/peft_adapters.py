"""Adapters of peft on a small GPT-2: LoRA and its relatives, merged, saved and loaded."""

import json
import time

import torch
from peft import (
    AdaLoraConfig,
    IA3Config,
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    TaskType,
    VeraConfig,
    get_peft_model,
)
from transformers import GPT2Config, GPT2LMHeadModel, set_seed


def base():
    set_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2))


TASK = TaskType.CAUSAL_LM
CONFIGS = {
    "lora": LoraConfig(task_type=TASK, r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True),
    "dora": LoraConfig(task_type=TASK, r=4, use_dora=True, target_modules=["c_attn"], fan_in_fan_out=True),
    "rslora": LoraConfig(
        task_type=TASK, r=4, use_rslora=True, init_lora_weights="gaussian", target_modules=["c_attn", "c_fc"], fan_in_fan_out=True
    ),
    "pissa": LoraConfig(task_type=TASK, r=4, init_lora_weights="pissa", target_modules=["c_attn"], fan_in_fan_out=True),
    "adalora": AdaLoraConfig(task_type=TASK, total_step=10, init_r=6, target_r=4, target_modules=["c_attn"], fan_in_fan_out=True),
    "ia3": IA3Config(task_type=TASK, target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"], fan_in_fan_out=True),
    "vera": VeraConfig(task_type=TASK, r=4, target_modules=["c_attn"], fan_in_fan_out=True),
    "prompt": PromptTuningConfig(task_type=TASK, num_virtual_tokens=4),
    "prefix": PrefixTuningConfig(task_type=TASK, num_virtual_tokens=4),
}

seconds = 0.0
for name, config in CONFIGS.items():
    model = get_peft_model(base(), config)
    model.train()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    tokens = torch.randint(3, 64, (4, 12))
    started = time.perf_counter()
    for _ in range(3):
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(json.dumps({"adapter": name, "loss": loss.item(), "trained": model.get_nb_trainable_parameters()[0]}))
    seconds += time.perf_counter() - started
    model.eval()
    if name in ("lora", "dora"):
        with torch.no_grad():
            before = model(tokens).logits
            model.save_pretrained(name)
            loaded = PeftModel.from_pretrained(base(), name).eval()(tokens).logits
            merged = model.merge_and_unload()(tokens).logits
        print(json.dumps({"loaded": torch.equal(before, loaded), "merged": torch.allclose(before, merged, atol=1e-5)}))
print(json.dumps({"seconds": seconds}))
