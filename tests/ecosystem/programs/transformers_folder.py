"""Models of transformers written to a folder and read back: shards, half precision, a device map, empty weights, pipelines."""

import json
import os
import warnings

import torch
from accelerate import cpu_offload, disk_offload, infer_auto_device_map, init_empty_weights, load_checkpoint_and_dispatch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file, save_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    pipeline,
    set_seed,
)  # fmt: skip

warnings.simplefilter("ignore")
set_seed(0)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "a", "mat", "and", "dog", "saw", "bird", "of", "house"]
tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
names = dict(
    unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", bos_token="[CLS]", eos_token="[SEP]"
)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def tell(**named):
    print(json.dumps(named))


def total(model):
    return sum(p.double().abs().sum().item() for p in model.parameters())


llama = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64, bos_token_id=2, eos_token_id=3, pad_token_id=0, initializer_range=0.2,
    )
).eval()  # fmt: skip
llama.save_pretrained("llama", max_shard_size="20KB")
tokenizer.save_pretrained("llama")
tell(shards=len([f for f in os.listdir("llama") if f.endswith(".safetensors")]), total=total(llama))
tokens = tokenizer("the cat sat on", return_tensors="pt")["input_ids"]
expected = llama(tokens).logits
for given in (
    {}, {"dtype": torch.bfloat16}, {"dtype": "auto"}, {"device_map": "cpu"}, {"low_cpu_mem_usage": True}, {"attn_implementation": "eager"},
):  # fmt: skip
    loaded = AutoModelForCausalLM.from_pretrained("llama", **given)
    logits = loaded(tokens).logits
    tell(
        given=sorted(given),
        dtype=str(logits.dtype),
        near=torch.allclose(logits.float(), expected, atol=0.1 if given.get("dtype") == torch.bfloat16 else 1e-5),
    )

with init_empty_weights():
    empty = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("llama"))
tell(device=str(next(empty.parameters()).device), map=sorted(infer_auto_device_map(empty, max_memory={"cpu": "1GB"})))
llama.save_pretrained("whole")
filled = load_checkpoint_and_dispatch(empty, "whole", device_map={"": "cpu"}, strict=False)
filled.tie_weights()
tell(filled=torch.allclose(filled(tokens).logits, expected, atol=1e-5))
offloaded = disk_offload(LlamaForCausalLM.from_pretrained("llama"), "offloaded", execution_device="cpu")
tell(offloaded=torch.allclose(offloaded(tokens).logits, expected, atol=1e-5))
offloaded = cpu_offload(LlamaForCausalLM.from_pretrained("llama"), execution_device="cpu")
tell(offloaded=torch.allclose(offloaded(tokens).logits, expected, atol=1e-5))

bert = BertConfig(vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, num_labels=3)
BertForSequenceClassification(bert).save_pretrained("bert")
tokenizer.save_pretrained("bert")
classify = pipeline("text-classification", model="bert", tokenizer=tokenizer, top_k=None, device="cpu")
tell(
    classified=[
        {d["label"]: d["score"] for d in one} for one in classify(["the cat sat", "a dog saw the bird and the house"], batch_size=2)
    ]
)
fill = pipeline("fill-mask", model=BertForMaskedLM(bert).eval(), tokenizer=tokenizer, device="cpu")
tell(filled=[(d["token_str"], d["score"]) for d in fill("the [MASK] sat on a mat", top_k=3)])
write = pipeline("text-generation", model="llama", tokenizer=tokenizer, device="cpu")
tell(written=write("the cat", max_new_tokens=6, do_sample=False)[0]["generated_text"])
features = pipeline("feature-extraction", model=AutoModel.from_pretrained("bert"), tokenizer=tokenizer, device="cpu")("the mat")
tell(features=float(sum(sum(map(abs, row)) for row in features[0])))
resized = AutoModelForSequenceClassification.from_pretrained("bert", num_labels=5, ignore_mismatched_sizes=True)
tell(labels=resized.classifier.out_features, embeddings=resized.resize_token_embeddings(20).weight.shape[0])

save_file({"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}, "two.safetensors", metadata={"made": "here"})
with safe_open("two.safetensors", framework="pt", device="cpu") as file:
    tell(
        keys=sorted(file.keys()), metadata=file.metadata(), part=file.get_slice("a")[:, 1:].tolist(), dtype=str(file.get_tensor("b").dtype)
    )
tell(loaded={k: v.float().tolist() for k, v in load_file("two.safetensors").items()})
save_model(llama, "model.safetensors")
missing, unexpected = load_model(filled, "model.safetensors")
tell(missing=sorted(missing), unexpected=sorted(unexpected), same=total(filled))
