"""The flight recorder in transformers' Trainer: each kept step is repeated bit for bit, from this process and from the file."""

import json

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

import workbench as wb


class Sentences(torch.utils.data.Dataset):
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


class Breaks(Trainer):
    """Its loss is NaN in one step."""

    def compute_loss(self, model, inputs, **kwargs):
        loss = super().compute_loss(model, inputs, **kwargs)
        return loss * torch.log(torch.zeros(()) - 1) if self.state.global_step == 5 else loss


recorders = []


def train(n=64, trainer=Trainer, **more):
    set_seed(0)
    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=8, learning_rate=1e-3, lr_scheduler_type="cosine", warmup_steps=2, weight_decay=0.01,
        report_to="none", disable_tqdm=True, seed=1, use_cpu=True, save_strategy="no", logging_strategy="no", adam_epsilon=1e-5, **more,
    )  # fmt: skip
    recorders.append(wb.flight_callback("transformers", path="run.flight"))
    trainer(
        model=BertForSequenceClassification(config), args=arguments, train_dataset=Sentences(n, 1), eval_dataset=Sentences(32, 2),
        data_collator=collate, callbacks=[recorders[-1]],
    ).train()  # fmt: skip


programs = {
    "plain": lambda: train(max_steps=9),
    "accumulation": lambda: train(num_train_epochs=2, gradient_accumulation_steps=4),
    "fewer batches in the last update of an epoch": lambda: train(48, num_train_epochs=2, gradient_accumulation_steps=4),
    "evaluation": lambda: train(num_train_epochs=2, eval_strategy="steps", eval_steps=3),
}
for name, program in programs.items():
    program()
    flight = recorders[-1].flight
    steps, opened = flight.steps[-3:], wb.open(flight.save())
    again = [flown.repeat(step, program) for flown in (flight, opened) for step in steps]
    print(json.dumps({"program": name, "steps": flight.count, "not kept": dict(flight.left_out), "same": [one.same for one in again]}))
    print(json.dumps({"losses": [round(one.loss, 3) for one in steps]}))


def broken():
    train(trainer=Breaks, max_steps=9)


broken()
flight = recorders[-1].flight
found = wb.check(wb.open("run.flight").repeat(program=broken)).findings[0]
print(json.dumps({"why": flight.why, "at": flight.at, "finding": found.code, "line": found.site.text.strip()}))
