"""Training steps of small models from transformers and timm, engine against PyTorch: milliseconds per step, their ratio, the same losses.

    python benchmarks/models.py [--rounds 7] [--only gpt2 vit ...] [--profile MODEL] [--json FILE]

A library can be imported under one torch only, so each side is a process of its own; they take turns, and one waits while the other
works. Needs transformers, timm and torch (make ecosystem). `--profile MODEL` prints where the engine's time goes. BENCHMARK_THREADS=2
gives each two threads.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
import sys
import time
import unittest.mock
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256}
TEXT = (4, 32)  # sequences, tokens
PICTURE = {"image_size": 32, "patch_size": 8}
# name of the transformers class -> what its small configuration needs beside SMALL
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "BertForMaskedLM": {},
    "RobertaForMaskedLM": {"pad_token_id": 1},
    "ElectraForMaskedLM": {"embedding_size": 64},
    "AlbertForMaskedLM": {"embedding_size": 32},
    "DistilBertForMaskedLM": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
    "DebertaV2ForMaskedLM": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "GPT2LMHeadModel": {"n_embd": 64, "n_layer": 2, "n_head": 4},
    "GPTNeoXForCausalLM": {},
    "OPTForCausalLM": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "BloomForCausalLM": {"n_layer": 2, "n_head": 4},
    "LlamaForCausalLM": {"num_key_value_heads": 2},
    "MistralForCausalLM": {"num_key_value_heads": 2},
    "Qwen2ForCausalLM": {"num_key_value_heads": 2},
    "GemmaForCausalLM": {"num_key_value_heads": 2, "head_dim": 16},
    "PhiForCausalLM": {},
    "MambaForCausalLM": {"state_size": 8},
    "T5ForConditionalGeneration": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    "BartForConditionalGeneration": {
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
    },
    "ViTForImageClassification": PICTURE,
    "DeiTForImageClassification": PICTURE,
    "ResNetForImageClassification": {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]},
}
# name of timm's model -> the side of its pictures: four of 64 x 64, or one of 224 x 224 where the model takes nothing else
SMALL_PICTURES = ("resnet18", "mobilenetv3_small_050", "efficientnet_lite0", "convnext_atto", "regnetx_002", "densenet121", "ghostnet_050")
TIMM = dict.fromkeys(SMALL_PICTURES, 64) | dict.fromkeys(("vit_tiny_patch16_224", "mixer_s32_224", "swin_tiny_patch4_window7_224"), 224)


def transformer(torch: Any, name: str) -> tuple[Any, Callable[[], Any]]:
    """A small model and its loss of a small model, as transformers computes it, on made data."""
    import transformers

    kind = getattr(transformers, name)
    model = kind(kind.config_class(**{**SMALL, **TRANSFORMERS[name]}))
    torch.manual_seed(1)
    if "Image" in name:
        pictures, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 2, (4,))
        return model, lambda: model(pixel_values=pictures, labels=labels).loss
    tokens = torch.randint(4, 250, TEXT)
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


def picture_model(torch: Any, name: str) -> tuple[Any, Callable[[], Any]]:
    """One of timm's models and its cross-entropy, on made pictures."""
    import timm

    model = timm.create_model(name, num_classes=10)
    size = TIMM[name]
    count = 4 if size == 64 else 1
    torch.manual_seed(1)
    pictures, labels = torch.randn(count, 3, size, size), torch.randint(0, 10, (count,))
    return model, lambda: torch.nn.functional.cross_entropy(model(pictures), labels)


def step_of(torch: Any, name: str) -> Callable[[], float]:
    """One training step, which returns the loss."""
    torch.manual_seed(0)
    model, loss_of = (transformer if name in TRANSFORMERS else picture_model)(torch, name)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def library(side: str) -> Any:
    """PyTorch, or the engine in its place, with as many threads as the benchmarks give to each."""
    import measure  # takes away what slows NumPy's products

    if side == "torch":
        # PyTorch for the CPU and torchvision for the GPU: the latter's operators are missing, and it fails to say more about them.
        with unittest.mock.patch.object(measure.torch.library, "register_fake", lambda *_, **__: lambda f: f):
            import torchvision  # noqa: F401
        return measure.torch
    for name in [name for name in sys.modules if name.partition(".")[0] in ("torch", "torchgen", "functorch")]:
        del sys.modules[name]
    measure.engine.install_as_torch()
    import torch

    return torch


def work(side: str, connection: Connection) -> None:
    """A process that is told a model's name, then asked for step after step until it is told the next."""
    torch, step = library(side), None
    while (asked := connection.recv()) is not None:
        try:
            if asked == "step":
                start = time.perf_counter()
                loss = step()
                connection.send((time.perf_counter() - start, loss))
            else:
                step = step_of(torch, asked)
                connection.send(None)
        except Exception as error:
            connection.send(error if isinstance(error, (RuntimeError, TypeError)) else RuntimeError(f"{type(error).__name__}: {error}"))


def ask(connection: Connection, what: str | None) -> Any:
    connection.send(what)
    answer = connection.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer


def profiled(name: str) -> None:
    import cProfile
    import pstats

    step = step_of(library("engine"), name)
    step()
    with cProfile.Profile() as profile:
        for _ in range(10):
            step()
    pstats.Stats(profile).sort_stats("tottime").print_stats(45)


def main() -> None:
    from measure import arguments, heading, write_json

    args = arguments(__doc__, 7, only={"nargs": "*", "default": [*TRANSFORMERS, *TIMM]}, profile={})
    if args.profile:
        return profiled(args.profile)
    context = multiprocessing.get_context("spawn")
    sides: dict[str, Connection] = {}
    for side in ("engine", "torch"):
        sides[side], theirs = context.Pipe()
        context.Process(target=work, args=(side, theirs), daemon=True).start()
    print(heading())
    print(f"{'ms per step':32} engine     torch  ratio")
    results: dict[str, Any] = {}
    for name in args.only:
        try:
            for connection in sides.values():
                ask(connection, name)
            for _ in range(2):  # the losses must be equal, and what is made once is made
                losses = [ask(connection, "step")[1] for connection in sides.values()]
                if not math.isclose(*losses, rel_tol=2e-3):
                    raise RuntimeError(f"the losses differ: {losses}")
            times = [[ask(connection, "step")[0] for connection in sides.values()] for _ in range(args.rounds)]
        except (RuntimeError, TypeError) as error:
            print(f"{name:32} {type(error).__name__}: {str(error)[:150]}", flush=True)
            continue
        mine, other = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
        results[name] = {"engine": mine, "torch": other, "ratio": statistics.median(a / b for a, b in times)}
        print(f"{name:32} {mine:6.1f} {other:9.1f} {results[name]['ratio']:6.2f}", flush=True)
    for connection in sides.values():
        connection.send(None)
    for label, group in (("transformers", TRANSFORMERS), ("timm", TIMM)):
        if ratios := [row["ratio"] for name, row in results.items() if name in group]:
            print(f"median of {len(ratios)} from {label}: {statistics.median(ratios):.2f}")
    write_json(args.json, results)


if __name__ == "__main__":
    main()
