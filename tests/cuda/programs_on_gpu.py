"""Run programs of tests/programs with device="cuda" as the default, on the stand-in for CuPy, and tell their losses.

    python tests/cuda/programs_on_gpu.py NAME ...     a line of JSON: {name: {"losses": [...], "waits": [...]} or {"error": ...}}

The programs know nothing of this. Only float32; `waits` are the ops, else the engine's functions, in which the host waited.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"


def run(name: str) -> dict:
    """The losses of a program, and where the host waited; its error if it fails."""
    import syncs

    syncs.found.clear()
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses = runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")["losses"]
    except RuntimeError as error:
        return {"error": str(error)}
    return {"losses": losses, "waits": sorted({one.primitive or one.op or one.caller for one in syncs.found})}


def main(*names: str) -> None:
    sys.path[:0] = [str(HERE.parents[1]), str(HERE)]
    from on_stand_in import installed

    import engine

    engine.install_as_torch()
    with installed():
        engine.set_default_device("cuda")
        print(json.dumps({name: run(name) for name in names}))


if __name__ == "__main__":
    main(*sys.argv[1:])
