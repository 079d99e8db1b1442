"""Run the programs beside this file, each as its own `__main__`, and tell their losses.

    python tests/programs/running.py engine|torch [NAME ...]     a line of JSON: {"name dtype": [losses] or "the error"}
    python tests/programs/running.py --store                     ask an installed PyTorch, and keep its losses in losses.json

The programs know nothing of this: they import torch, and are run as they are, with float32 and with float64 as the default dtype.
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


def main(library: str, *names: str) -> None:
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != HERE]  # a program's name is nobody's module
    if library == "engine":
        sys.path.insert(0, str(HERE.parents[1]))
        import engine

        engine.install_as_torch()
    found = run(list(names) or NAMES)
    if library == "--store":
        STORED.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    else:
        print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
