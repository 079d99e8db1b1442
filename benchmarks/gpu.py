"""A GPU: models, ops and the host's time, engine against PyTorch, interleaved in one process; the largest gap to a goal comes first.

    python benchmarks/gpu.py [--only NAME ...] [--quick] [--seconds 240] [--resume] [--json FILE]
    python benchmarks/gpu.py --rehearse        on a machine without a GPU: everything on small tensors, and no times

Needs PyTorch for CUDA. Losses of 20 training steps, from the same weights and data, must be equal before a model is timed. The results are
written after each case, so that a run that is cut loses nothing, and `--resume` goes on where it was; a case that fails is recorded with
its traceback. `--only` takes the beginnings of names, such as "256 MB" or "host add".
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REHEARSED = "--rehearse" in sys.argv
if not REHEARSED:
    os.environ["BENCHMARK_DEVICE"] = "cuda"

import measure  # noqa: E402  before NumPy
from gpu_cases import QUICK, Setting, cases  # noqa: E402

RESULTS = HERE / "results" / "gpu.json"
# The engine's part of PyTorch's time or memory that is aimed at, at most; of bandwidth, at least.
GOALS = {"eager": 1.0, "graph": 1.0, "compiled": 1.0, "memory": 1.0, "host": 1.0, "bandwidth": 0.95}
PACKAGES = ("torch", "cupy-cuda12x", "cupy-cuda13x", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-cudnn-frontend", "nvmath-python")


def machine() -> dict[str, Any]:
    """What is measured on."""
    found: dict[str, Any] = {"python": platform.python_version(), "numpy": measure.numpy.__version__, "engine": measure.engine.__version__}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    if REHEARSED:
        return {"device": "none: a rehearsal", "versions": found}
    import cupy

    runtime = cupy.cuda.runtime
    return {"device": measure.engine.cuda.get_device_name(), "driver": runtime.driverGetVersion(), "cuda": runtime.runtimeGetVersion(),
            "cudnn": measure.engine.backends.cudnn.version(), "versions": found}  # fmt: skip


def describe(file: Path) -> None:
    """Write cuDNN's description of the GPU, for which plans can then be built on machines without one (`tests/cuda/real_cudnn.py`)."""
    cudnn = measure.engine.backends.cudnn.library()
    if isinstance(cudnn, Exception):
        return print(f"no description of the GPU without cuDNN's frontend: {cudnn}")
    file.write_text(json.dumps(json.loads(cudnn.create_device_properties(0).serialize()), indent=1) + "\n", encoding="utf-8")


def gap(kind: str, ratio: float) -> float:
    """How far a ratio is from its goal: above 1 it misses it."""
    return GOALS[kind] / ratio if kind == "bandwidth" else ratio / GOALS[kind]


def rows(found: dict[str, dict]) -> list[tuple[float, str, str, float]]:
    """Each ratio of each case, the largest gap first."""
    every = [(gap(kind, ratio), name, kind, ratio) for name, case in found.items() for kind, ratio in case.get("ratios", {}).items()]
    return sorted(every, key=lambda row: -row[0])


def write(file: Path | None, results: dict[str, Any]) -> None:
    results["misses"] = {f"{name}, {kind}": ratio for how_far, name, kind, ratio in rows(results["cases"]) if how_far > 1}
    results["failures"] = [name for name, case in results["cases"].items() if "error" in case]
    if file is not None:
        part = file.with_suffix(".part")
        measure.write_json(part, results)
        part.replace(file)


def table(results: dict[str, Any]) -> None:
    print(f"\n{'':4} {'case':36} {'what':10} {'ratio':>6}  goal")
    for how_far, name, kind, ratio in rows(results["cases"]):
        sign = ">=" if kind == "bandwidth" else "<="
        print(f"{'MISS' if how_far > 1 else '':4} {name:36} {kind:10} {ratio:6.2f}  {sign} {GOALS[kind]}")
    for name in results["failures"]:
        print(f"FAIL {name:36} {results['cases'][name]['error'].splitlines()[-1][:150]}")
    for name in results["not_run"]:
        print(f"     {name:36} not run")


def figures(case: dict[str, Any]) -> str:
    """What a case found, on a line."""
    if "error" in case:
        return case["error"].splitlines()[-1][:200]
    units = [unit for unit in ("ms", "us", "gb_per_s") if case.get(unit)]
    parts = [f"{unit} {', '.join(f'{name} {value:,.3g}' for name, value in case[unit].items())}" for unit in units]
    return "; ".join([*parts, *(f"{kind} {ratio:.2f}x" for kind, ratio in case["ratios"].items())])


def usable() -> bool:
    """Whether the GPU still answers: after an illegal access it does not, in this process."""
    try:
        measure.settled()
    except RuntimeError:
        return False
    return True


def run(args: argparse.Namespace, started: float) -> dict[str, Any]:
    """Run the cases that are asked for, within the time."""
    devices = {name: "cpu" if REHEARSED and name == "torch" else "cuda" for name in ("torch", "engine") if name in measure.LIBRARIES}
    setting = Setting({name: measure.LIBRARIES[name] for name in devices}, devices, REHEARSED, args.rounds)
    file = None if REHEARSED else args.json
    here = machine()
    before = json.loads(file.read_text(encoding="utf-8")) if file is not None and file.exists() else {}
    earlier = before.get("cases", {}) if all(before.get(key) == value for key, value in here.items()) else {}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    results: dict[str, Any] = {"date": now, **here, "goals": GOALS, "not_run": [], "cases": earlier}
    starts = tuple(args.only or (QUICK if args.quick else ("",)))
    wanted = [name for name in cases() if name.startswith(starts) and not (args.resume and name in earlier)]
    for number, name in enumerate(wanted):
        if time.monotonic() - started > args.seconds:
            results["not_run"] = wanted[number:]
            break
        begin = time.monotonic()
        try:
            found = cases()[name](setting)
        except Exception as error:
            found = {"error": "".join(traceback.format_exception(error)), "ratios": {}}
        results["cases"][name] = {**found, "seconds": round(time.monotonic() - begin, 1)}
        write(file, results)
        print(f"{name:36} {figures(results['cases'][name])}", flush=True)
        if "error" in found and not REHEARSED and not usable():
            print("the GPU's context is lost: the other cases run in a new process", flush=True)
            left = str(max(0, args.seconds - int(time.monotonic() - started)))
            again = [arg for arg in sys.argv if arg != "--resume"]
            os.execv(sys.executable, [sys.executable, *again, "--resume", "--seconds", left])
        del found
        with contextlib.suppress(RuntimeError):
            setting.clear()
    write(file, results)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="beginnings of names of cases")
    parser.add_argument("--quick", action="store_true", help="the small models, ops and host times, in fewer rounds")
    parser.add_argument("--seconds", type=int, default=240, help="after which no case is begun")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="leave out the cases that the file of results has")
    parser.add_argument("--rehearse", action="store_true", help="run on small tensors without a GPU, and time nothing")
    parser.add_argument("--json", type=Path, default=RESULTS)
    args = parser.parse_args()
    args.rounds = args.rounds or (3 if args.quick else 7)
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        if REHEARSED:
            sys.path.append(str(HERE.parent / "tests" / "cuda"))
            stack.enter_context(importlib.import_module("on_stand_in").installed())
        else:
            describe(args.json.with_name("cudnn_device.json"))
        results = run(args, started)
    table(results)
    return 1 if results["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
