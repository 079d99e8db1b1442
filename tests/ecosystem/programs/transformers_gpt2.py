"""A language model of transformers learns to repeat."""

import json
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2))
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens = torch.randint(3, 50, (8, 8)).repeat(1, 4)
started = time.perf_counter()
for _ in range(3):
    loss = model(tokens, labels=tokens).loss
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(json.dumps({"loss": loss.item(), "norm": norm.item()}))
print(json.dumps({"seconds": time.perf_counter() - started}))
