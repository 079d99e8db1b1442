"""Mixed precision: a model of transformers under accelerate's bfloat16, and under the Trainer's."""

# rtol: 5e-3, because bfloat16 has eight bits, and where PyTorch rounds within an op the engine rounds once behind it

import json
import time

import torch
from accelerate import Accelerator
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


def model():
    set_seed(0)
    return BertForSequenceClassification(
        BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_labels=2)
    )


tokens, labels = torch.randint(0, 64, (24, 10), generator=torch.Generator().manual_seed(0)), torch.arange(24) % 2
accelerator = Accelerator(cpu=True, mixed_precision="bf16")
net = model()
net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
started = time.perf_counter()
for _ in range(3):
    out = net(input_ids=tokens, labels=labels)
    with accelerator.autocast():
        product = net.classifier.weight @ net.classifier.weight.T
    optimizer.zero_grad()
    accelerator.backward(out.loss)
    norm = accelerator.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    print(json.dumps({"loss": out.loss.item(), "norm": norm.item(), "logits": str(out.logits.dtype), "product": str(product.dtype)}))
print(json.dumps({"seconds": time.perf_counter() - started}))

rows = [{"input_ids": t, "labels": n} for t, n in zip(tokens, labels)]
arguments = TrainingArguments(
    "bf16",
    bf16=True,
    bf16_full_eval=True,
    max_steps=3,
    logging_steps=1,
    report_to="none",
    use_cpu=True,
    save_strategy="no",
    optim="sgd",
    learning_rate=0.1,
)
trainer = Trainer(model=model(), args=arguments, train_dataset=rows, eval_dataset=rows[:8])
trainer.train()
for logs in trainer.state.log_history[:-1]:
    print(json.dumps({"loss": logs["loss"], "norm": float(logs["grad_norm"])}))
print(json.dumps({"evaluated": trainer.evaluate()["eval_loss"]}))
