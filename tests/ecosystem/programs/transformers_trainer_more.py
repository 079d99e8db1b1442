"""Ways of transformers' trainers: T5 that is judged by what it writes, checkpoints of activations, other optimizers."""

import json
import time

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    EarlyStoppingCallback,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
    set_seed,
)  # fmt: skip

words = {w: i for i, w in enumerate(["<pad>", "</s>", "<unk>", *map(str, range(20))])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
SIZES = dict(
    per_device_train_batch_size=4, max_steps=3, logging_steps=1, report_to="none", use_cpu=True, disable_tqdm=True, save_strategy="no"
)


def tell(name, trainer):
    for logs in trainer.state.log_history:
        print(
            json.dumps(
                {"name": name, **{k: float(v) for k, v in logs.items() if not any(w in k for w in ("runtime", "per_second", "flos"))}}
            )
        )


def rows(n):
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(0, 20, (n, 6), generator=generator).tolist()
    return Dataset.from_dict({"text": [" ".join(map(str, r)) for r in numbers], "sorted": [" ".join(map(str, sorted(r))) for r in numbers]})


set_seed(0)
data = rows(16).map(
    lambda row: {**tokenizer(row["text"]), "labels": tokenizer(row["sorted"])["input_ids"]}, remove_columns=["text", "sorted"]
)
started = time.perf_counter()
t5 = T5ForConditionalGeneration(
    T5Config(
        vocab_size=32, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0, eos_token_id=1, pad_token_id=0
    )
)
trainer = Seq2SeqTrainer(
    model=t5, train_dataset=data, eval_dataset=data.select(range(6)), data_collator=DataCollatorForSeq2Seq(tokenizer, t5), processing_class=tokenizer,
    compute_metrics=lambda p: {"written": float((p.predictions[p.predictions > 0]).sum()), "longest": float(p.predictions.shape[1])},
    args=Seq2SeqTrainingArguments(
        "t5", predict_with_generate=True, generation_max_length=8, eval_strategy="steps", eval_steps=3, optim="adafactor", learning_rate=1e-2,
        label_smoothing_factor=0.1, **SIZES,
    ),
)  # fmt: skip
trainer.train()
tell("t5", trainer)

text = rows(24).map(lambda row: tokenizer(row["text"]), remove_columns=["text", "sorted"])
for name, more in {
    "checkpointing": dict(gradient_checkpointing=True, learning_rate=1e-3, gradient_checkpointing_kwargs={"use_reentrant": False}),
    "reentrant": dict(gradient_checkpointing=True, learning_rate=1e-3, gradient_checkpointing_kwargs={"use_reentrant": True}),
    "noise": dict(neftune_noise_alpha=5.0, learning_rate=1e-3, optim="sgd"),
    "fused": dict(optim="adamw_torch_fused", adam_epsilon=1e-5, lr_scheduler_type="polynomial", learning_rate=1e-3, max_grad_norm=0.1),
    "workers": dict(dataloader_num_workers=2, optim="rmsprop", learning_rate=1e-4, lr_scheduler_type="inverse_sqrt", warmup_steps=1),
    "grouped": dict(
        train_sampling_strategy="group_by_length", optim="adagrad", learning_rate=1e-2, lr_scheduler_type="cosine_with_restarts"
    ),
    "accumulated": dict(gradient_accumulation_steps=2, average_tokens_across_devices=False, optim="adamw_torch", adam_epsilon=1e-5),
}.items():
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1))
    trainer = Trainer(
        model=model,
        train_dataset=text,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        args=TrainingArguments(name, **more, **SIZES),
    )
    trainer.train()
    tell(name, trainer)

set_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=32, n_embd=32, n_layer=1, n_head=4, bos_token_id=1, eos_token_id=1))
arguments = SIZES | dict(max_steps=8, save_strategy="steps", save_steps=2)
trainer = Trainer(
    model=model, train_dataset=text, eval_dataset=text.select(range(4)), data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    callbacks=[EarlyStoppingCallback(early_stopping_patience=1)],
    args=TrainingArguments(
        "stops", eval_strategy="steps", eval_steps=2, load_best_model_at_end=True, metric_for_best_model="loss", save_total_limit=1, learning_rate=0.1,
        optim="sgd", **arguments,
    ),
)  # fmt: skip
trainer.train()
tell("stops", trainer)
print(json.dumps({"step": trainer.state.global_step, "best": trainer.state.best_metric}))
print(json.dumps({"seconds": time.perf_counter() - started}))
