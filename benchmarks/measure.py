"""What the benchmarks share: blocks of calls of two libraries, timed in turn within one process, and tables of their ratios.

Importing this first takes away settings of the environment that slow NumPy's matrix product, and gives each library as many threads as
BENCHMARK_THREADS says, one by default: two spinning thread pools fight, and more so on a machine that does other things too.
BENCHMARK_DEVICE=cuda puts the tensors on a GPU; a block of calls then ends when the GPU has done them. BENCHMARK_CLOCK=thread counts the
processor time of the calling thread instead of the time that passes, which on a busy machine says more about a single thread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

REMOVED = {k: os.environ.pop(k) for k in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if k in os.environ}
THREADS = int(os.environ.get("BENCHMARK_THREADS", "1"))
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)
DEVICE = os.environ.get("BENCHMARK_DEVICE", "cpu")
CLOCK = time.thread_time if os.environ.get("BENCHMARK_CLOCK") == "thread" else time.perf_counter
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy  # noqa: E402

import engine  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(THREADS)

LIBRARIES: dict[str, Any] = {"engine": engine, **({"torch": torch} if torch else {})}


def settled() -> None:
    """Wait for the GPU, when there is one in play."""
    if DEVICE != "cpu":
        for library in LIBRARIES.values():
            library.cuda.synchronize()


def block(f: Callable, n: int, launching: bool = False) -> float:
    """Microseconds per call over a block of n calls; with `launching` those of the host alone, until the GPU has all the work."""
    settled()
    start = CLOCK()
    for _ in range(n):
        f()
    launched = CLOCK()
    settled()
    return ((launched if launching else CLOCK()) - start) / n * 1e6


def interleaved(contestants: dict[str, Callable], rounds: int, block_ms: float = 4.0, launching: bool = False) -> dict[str, list[float]]:
    """Microseconds per call of each, once for each round; noise of the machine meets all alike.

    A block lasts about `block_ms`, the first call aside: switching at every call would make two thread pools fight. With `launching`,
    where the host's time counts, it is at most 200 calls: a GPU's queue has room for about a thousand kernels.
    """
    sizes = {name: max(1, int(block_ms * 1e3 / min(block(f, 1) for _ in range(3)))) for name, f in contestants.items()}
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, f in contestants.items():
            f()
            found[name].append(block(f, min(sizes[name], 200) if launching else sizes[name], launching))
    return found


def numpy_only(f: Callable) -> Callable:
    """The same call with what the engine computes without optional libraries."""

    def call() -> Any:
        with engine.backends.mkldnn.flags(enabled=False), mock.patch("engine.backends.fused._kernels", False):
            return f()

    return call


def summary(found: dict[str, list[float]]) -> dict[str, float]:
    """The median of each, and the medians over the rounds of the ratios to PyTorch: the engine's, and with NumPy only."""
    row = {name: statistics.median(times) for name, times in found.items()}
    if "torch" in found:
        for name, ratio in (("engine", "ratio"), ("NumPy only", "ratio with NumPy only")):
            if name in found:
                row[ratio] = statistics.median(e / t for e, t in zip(found[name], found["torch"], strict=True))
    return row


def ratio_text(row: dict[str, float], unit: float = 1.0) -> str:
    """Three columns: engine, torch, engine / torch; and a fourth, the ratio with NumPy only, where that was measured."""
    torch_part = f"{row['torch'] / unit:9.2f} {row['ratio']:6.2f}" if "torch" in row else f"{'-':>9} {'-':>6}"
    plain = f"{row['ratio with NumPy only']:6.2f}" if "ratio with NumPy only" in row else ""
    return f"{row['engine'] / unit:9.2f} {torch_part} {plain:6}"


def arguments(doc: str | None, rounds: int, **more: dict) -> argparse.Namespace:
    """`--rounds`, `--json`, and what else a benchmark asks for."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=Path)
    for name, options in more.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


def heading() -> str:
    """What was measured on, and which settings were taken away."""
    removed = f"; unset for this run: {', '.join(f'{k}={v}' for k, v in REMOVED.items())}" if REMOVED else ""
    found = engine.backends.onednn.found()
    libraries = {"Python": sys.version.split()[0], "NumPy": numpy.__version__, "oneDNN": found if isinstance(found, str) else found.version}
    versions = ", ".join(f"{k} {v}" for k, v in {**libraries, "torch": torch.__version__ if torch else "not installed"}.items())
    where = "" if DEVICE == "cpu" else f" on {engine.cuda.get_device_name(DEVICE)}"
    return f"{THREADS} thread{'s' * (THREADS > 1)}{where}, {versions}{removed}"


def write_json(path: Path | None, results: dict) -> None:
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n")
