"""transformers' Trainer on a small BERT that classifies: evaluation, checkpoints, and a second trainer that goes on from one."""

import json
import time

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed


class Sentences(torch.utils.data.Dataset):
    """Rows of word numbers; the class is whether the first word is among the larger numbers."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.rows = [rng.integers(3, 60, rng.integers(5, 13)).tolist() for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": int(self.rows[i][0] > 30)}


def collate(examples):
    longest = max(len(e["input_ids"]) for e in examples)
    ids = torch.tensor([e["input_ids"] + [0] * (longest - len(e["input_ids"])) for e in examples])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([e["labels"] for e in examples])}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


class Tell(TrainerCallback):
    def on_log(self, args, state, control, logs, **kwargs):
        told = {k: v for k, v in logs.items() if not any(word in k for word in ("runtime", "per_second", "flos"))}
        print(json.dumps({"step": state.global_step} | {k: float(v) for k, v in told.items()}))


def trainer(folder, **more):
    set_seed(0)
    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=8, per_device_eval_batch_size=16, learning_rate=1e-3, logging_steps=1, eval_strategy="steps", eval_steps=3,
        save_strategy="steps", save_steps=3, max_steps=6, lr_scheduler_type="cosine", warmup_steps=2, weight_decay=0.01, gradient_accumulation_steps=2,
        report_to="none", disable_tqdm=True, seed=1, use_cpu=True, adam_epsilon=1e-5, **more,
    )  # fmt: skip
    return Trainer(
        model=BertForSequenceClassification(config), args=arguments, train_dataset=Sentences(64, 1), eval_dataset=Sentences(32, 2),
        data_collator=collate, compute_metrics=accuracy, callbacks=[Tell()],
    )  # fmt: skip


first = trainer("first")
started = time.perf_counter()
result = first.train()
print(json.dumps({"seconds": time.perf_counter() - started}))
print(json.dumps({"training loss": result.training_loss, "steps": result.global_step}))

again = trainer("again", load_best_model_at_end=True)
again.train(resume_from_checkpoint="first/checkpoint-3")
same = all(torch.allclose(a, b, atol=1e-6) for a, b in zip(first.model.parameters(), again.model.parameters()))
print(json.dumps({"goes on as before": same, "parameters": sum(p.double().abs().sum().item() for p in again.model.parameters())}))

again.save_model("saved")
loaded = BertForSequenceClassification.from_pretrained("saved")
prediction = Trainer(model=loaded, args=TrainingArguments("last", use_cpu=True, report_to="none"), data_collator=collate).predict(
    Sentences(8, 3)
)
print(json.dumps({"logits": prediction.predictions.tolist(), "loss": prediction.metrics["test_loss"]}))
