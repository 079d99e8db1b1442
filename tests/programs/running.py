"""Run the programs beside this file, each as its own `__main__`, and tell their losses.

    python tests/programs/running.py engine|compiled|torch [NAME ...]     a line of JSON: {"name dtype": [losses] or "the error"}
    python tests/programs/running.py --store                     ask an installed PyTorch, and keep its losses in losses.json

The programs know nothing of this: they import torch, and are run as they are, with float32 and with float64 as the default dtype.
With `compiled`, every call of a module that is not inside another goes through `engine.compile`, and "compiled" tells how many programs
were made and why others were not.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import traceback
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
STORED = HERE / "losses.json"
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("running", "test_programs"))
DTYPES = ("float32", "float64")


def run(names: list[str]) -> dict[str, list[float] | str]:
    """The losses of each program with each default dtype; where one failed, its traceback."""
    import torch

    found: dict[str, list[float] | str] = {}
    for name in names:
        for dtype in DTYPES:
            torch.set_default_dtype(getattr(torch, dtype))
            try:
                with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found[f"{name} {dtype}"] = runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")["losses"]
            except Exception:
                found[f"{name} {dtype}"] = traceback.format_exc()
    return found


def compile_modules(counts: dict) -> None:
    """Compile the calls of all modules that programs call themselves."""
    import engine
    from engine.compiler import is_compiling

    plain, compiled, inside = engine.nn.Module.__call__, {}, []

    def call(self, *args, **kwargs):
        if inside or is_compiling():
            return plain(self, *args, **kwargs)
        if self not in compiled:
            compiled[self] = engine.compile(lambda *args, **kwargs: plain(self, *args, **kwargs))
        inside.append(self)
        try:
            return compiled[self](*args, **kwargs)
        finally:
            inside.pop()
            counts["programs"] = sum(len(plans) for one in compiled.values() for plans in one.plans.values())
            counts["eager"] = sorted({why for one in compiled.values() for why in one.eager.values()})

    engine.nn.Module.__call__ = call


def main(library: str, *names: str) -> None:
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != HERE]  # a program's name is nobody's module
    counts: dict = {}
    if library in ("engine", "compiled"):
        sys.path.insert(0, str(HERE.parents[1]))
        import engine

        engine.install_as_torch()
        if library == "compiled":
            compile_modules(counts)
    found: dict = run(list(names) or NAMES)
    if counts:
        found["compiled"] = counts
    if library == "--store":
        STORED.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    else:
        print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
