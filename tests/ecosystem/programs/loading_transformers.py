"""A small model of transformers is saved and loaded from a local folder: whole, in shards, in another dtype, through the device "meta"."""

import importlib.metadata
import json
import os

import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

print(json.dumps({"torch": importlib.metadata.version("torch").split("+")[0]}))


def loss_of(model, tokens):
    with torch.no_grad():
        return model(tokens, labels=tokens).loss.item()


torch.manual_seed(0)
tokens = torch.randint(3, 60, (2, 12))
llama = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
gpt2 = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
for name, model in (("llama", LlamaForCausalLM(llama)), ("gpt2", GPT2LMHeadModel(gpt2))):
    model.eval()
    model.save_pretrained(name)
    model.save_pretrained(f"{name}-sharded", max_shard_size="20KB")
    print(json.dumps({"model": name, "loss": loss_of(model, tokens), "files": len(os.listdir(f"{name}-sharded")) > 3}))
    loaded = type(model).from_pretrained(name)
    print(json.dumps({"from_pretrained": loss_of(loaded, tokens), "training": loaded.training, "device": loaded.device.type}))
    ways = {
        "low_cpu_mem_usage": (name, {"low_cpu_mem_usage": True}),
        "sharded": (f"{name}-sharded", {}),
        "sharded and low": (f"{name}-sharded", {"low_cpu_mem_usage": True}),
        "bfloat16": (name, {"dtype": torch.bfloat16}),
        "float64": (name, {"dtype": torch.float64}),
        "device_map": (name, {"device_map": "cpu"}),
        "eager": (name, {"attn_implementation": "eager"}),
    }
    for way, (folder, how) in ways.items():
        loaded = AutoModelForCausalLM.from_pretrained(folder, **how)
        line = {"way": way, "dtype": str(loaded.dtype), "class": type(loaded).__name__}
        if way != "bfloat16":  # rounding differs, and much
            line["loss"] = loss_of(loaded, tokens)
        line["sum"] = sum(p.double().sum().item() for p in loaded.parameters())
        print(json.dumps(line))
    body, info = AutoModel.from_pretrained(name, output_loading_info=True)
    print(json.dumps({"body": type(body).__name__, "missing": sorted(info["missing_keys"]), "unexpected": sorted(info["unexpected_keys"])}))
    print(json.dumps({"generated": loaded.generate(tokens[:, :4], max_new_tokens=5, do_sample=False, pad_token_id=0).tolist()}))
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name))
    print(json.dumps({"meta": sorted({p.device.type for p in empty.parameters()}), "parameters": empty.num_parameters()}))
    print(json.dumps({"logits on meta": list(empty(tokens.to("meta")).logits.shape)}))
    optimizer = torch.optim.AdamW(loaded.train().parameters(), lr=1e-3)
    for _ in range(3):
        loss = loaded(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(json.dumps({"training": loss.item()}))
