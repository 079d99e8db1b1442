"""Whole training steps, engine against PyTorch: an MLP, a CNN, an LSTM, a character GPT, ResNet-18, a U-Net. Milliseconds per step, and the
same losses.

    python benchmarks/training.py [--rounds 7] [--only mlp cnn lstm gpt resnet18 unet] [--json FILE]

Both libraries start from the same seed, and so from the same weights and data; before anything is timed, five steps must give equal losses.
BENCHMARK_THREADS=2 gives each two threads. The last column is the ratio without oneDNN and Numba.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from measure import DEVICE, LIBRARIES, arguments, heading, interleaved, numpy_only, ratio_text, summary, write_json  # isort: skip

import networks  # after `measure`, which comes before NumPy

MODELS: dict[str, Callable[[Any], tuple]] = {name: getattr(networks, name) for name in ("mlp", "lstm", "gpt", "cnn", "resnet18", "unet")}


def training(E: Any, make: Callable[[Any], tuple]) -> Callable[[], Any]:
    """One step of Adam on a model, as a function that returns the loss."""
    E.manual_seed(0)
    model, x, y = make(E)
    model.to(DEVICE)
    optimizer = E.optim.Adam(model.parameters(), lr=1e-3)
    return networks.stepper(E, model, E.from_numpy(x).to(DEVICE), E.from_numpy(y).to(DEVICE), optimizer)


def check(name: str, steps: dict[str, Callable]) -> None:
    """AssertionError unless the first losses are equal in all libraries."""
    losses = {library: [step().item() for _ in range(5)] for library, step in steps.items()}
    expected = next(reversed(losses.values()))
    for found in losses.values():
        if not all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3) for a, b in zip(found, expected, strict=True)):
            raise AssertionError(f"{name}: the losses differ: {losses}")


def main() -> None:
    args = arguments(__doc__, 7, only={"nargs": "*", "default": list(MODELS)})
    print(heading())
    print("ms per step     engine     torch  ratio  NumPy only")
    results = {}
    for name in args.only:
        steps = {library: training(E, MODELS[name]) for library, E in LIBRARIES.items()}
        plainly = {"NumPy only": numpy_only(training(LIBRARIES["engine"], MODELS[name]))} if DEVICE == "cpu" else {}
        check(name, {**plainly, **steps})
        found = interleaved(steps, args.rounds, 100.0)
        found |= interleaved(plainly, args.rounds, 100.0)  # by itself: the threads of NumPy's BLAS spin on into the next block
        results[name] = summary(found)
        print(f"{name:12} {ratio_text(results[name], 1e3)}", flush=True)
    write_json(args.json, results)


if __name__ == "__main__":
    main()
