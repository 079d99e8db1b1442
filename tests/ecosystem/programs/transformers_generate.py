"""Text from small models of transformers: greedy, beams, samples, contrastive penalties, with a cache and without."""

import json
import time

import torch
import transformers as tf
from transformers import GenerationConfig

SIZES = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
SPECIAL = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)

MODELS = {
    "gpt2": lambda: tf.GPT2LMHeadModel(
        tf.GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, initializer_range=0.3, bos_token_id=1, eos_token_id=2)
    ),
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**SIZES, **SPECIAL, num_key_value_heads=2, initializer_range=0.3)),
    "t5": lambda: tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    ),
    "mamba": lambda: tf.MambaForCausalLM(tf.MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4, **SPECIAL)),
}
WAYS = {
    "greedy": dict(do_sample=False),
    "without cache": dict(do_sample=False, use_cache=False),
    "beams": dict(num_beams=3, num_return_sequences=2, length_penalty=0.8, early_stopping=True),
    "samples": dict(do_sample=True, temperature=0.9, top_k=20, top_p=0.9),
    "typical": dict(do_sample=True, typical_p=0.8, min_p=0.01),
    "beams drawn": dict(do_sample=True, num_beams=2),
    "penalties": dict(do_sample=False, repetition_penalty=1.3, no_repeat_ngram_size=2, min_new_tokens=4),
    "static cache": dict(do_sample=False, cache_implementation="static"),
}

seconds = 0.0
for name, make in MODELS.items():
    tf.set_seed(0)
    model = make().eval()
    prompt = torch.randint(3, 64, (2, 5))
    mask = torch.ones_like(prompt)
    for way, given in WAYS.items():
        if name == "mamba" and ("cache" in way or "beams" in way) or name == "t5" and "static" in way:
            continue
        tf.set_seed(1)
        started = time.perf_counter()
        config = GenerationConfig(max_new_tokens=10, pad_token_id=0, eos_token_id=2, decoder_start_token_id=0, **given)
        out = model.generate(prompt, attention_mask=mask, generation_config=config, return_dict_in_generate=True, output_scores=True)
        seconds += time.perf_counter() - started
        last = torch.where(torch.isfinite(out.scores[-1]), out.scores[-1], 0.0).sum().item()
        print(json.dumps({"model": name, "way": way, "tokens": out.sequences.tolist(), "score": last}))
print(json.dumps({"seconds": seconds}))
