"""Language models of a dozen families, made from small configurations: three steps of SGD with dropout on."""

import json
import time

import torch
import transformers as tf

SIZES = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
SPECIAL = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
DECODER = SIZES | SPECIAL | dict(num_key_value_heads=2)

MODELS = {
    "gpt2": lambda: tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)),
    "bert": lambda: tf.BertForMaskedLM(tf.BertConfig(**SIZES)),
    "roberta": lambda: tf.RobertaForMaskedLM(tf.RobertaConfig(**SIZES)),
    "albert": lambda: tf.AlbertForMaskedLM(tf.AlbertConfig(**SIZES, embedding_size=16)),
    "electra": lambda: tf.ElectraForMaskedLM(tf.ElectraConfig(**SIZES, embedding_size=16)),
    "deberta-v2": lambda: tf.DebertaV2ForMaskedLM(tf.DebertaV2Config(**SIZES, relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "distilbert": lambda: tf.DistilBertForMaskedLM(tf.DistilBertConfig(vocab_size=64, dim=32, n_layers=2, n_heads=4, hidden_dim=64)),
    "t5": lambda: tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    ),
    "bart": lambda: tf.BartForConditionalGeneration(
        tf.BartConfig(
            vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, **SPECIAL,
        )
    ),
    "llama": lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**DECODER)),
    "mistral": lambda: tf.MistralForCausalLM(tf.MistralConfig(**DECODER, sliding_window=8)),
    "mixtral": lambda: tf.MixtralForCausalLM(tf.MixtralConfig(**DECODER, num_local_experts=4, output_router_logits=True)),
    "qwen2": lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**DECODER)),
    "gemma": lambda: tf.GemmaForCausalLM(tf.GemmaConfig(**DECODER, head_dim=8)),
    "phi": lambda: tf.PhiForCausalLM(tf.PhiConfig(**DECODER)),
    "gpt-neox": lambda: tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**SIZES, **SPECIAL)),
    "opt": lambda: tf.OPTForCausalLM(
        tf.OPTConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, word_embed_proj_dim=32, **SPECIAL)
    ),
    "bloom": lambda: tf.BloomForCausalLM(tf.BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4, **SPECIAL)),
    "mamba": lambda: tf.MambaForCausalLM(tf.MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4, **SPECIAL)),
    "mamba2": lambda: tf.Mamba2ForCausalLM(
        tf.Mamba2Config(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=2, chunk_size=8, **SPECIAL)
    ),
}  # fmt: skip

seconds = 0.0
for name, make in MODELS.items():
    tf.set_seed(0)
    model = make().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tokens = torch.randint(3, 64, (4, 8)).repeat(1, 2)
    mask = torch.ones_like(tokens)
    mask[0, 12:] = 0
    labels = tokens.masked_fill(mask == 0, -100)
    started = time.perf_counter()
    for _ in range(3):
        loss = model(input_ids=tokens, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(json.dumps({"model": name, "loss": loss.item(), "norm": norm.item()}))
    seconds += time.perf_counter() - started
print(json.dumps({"seconds": seconds}))
