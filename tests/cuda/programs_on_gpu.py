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
from typing import Any

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
    waits = {one.primitive or one.op or one.caller for one in syncs.found} - {"move"}  # what `draw_on_the_host` copies
    return {"losses": losses, "waits": sorted(waits)}


def draw_on_the_host() -> None:
    """Make random tensors of the numbers that the CPU draws, which the stored losses come from; a GPU's generators have others."""
    from engine.backends import kernels_random
    from engine.backends.cuda import allowed_attention
    from engine.core import devices, random
    from engine.ops import attention
    from engine.ops import random as ops

    def moved(x: Any, to: Any) -> Any:
        return devices.move(x, to) if hasattr(x, "dtype") and hasattr(x, "strides") else x

    class Copied:
        def __getattr__(self, name: str) -> Any:
            draw = getattr(kernels_random, name)
            return lambda *args, **kwargs: moved(draw(*[moved(x, devices.CPU) for x in args], **kwargs), devices.device("cuda"))

    def drawing(device: Any, generator: Any = None) -> tuple:
        place = devices.get_default_device() if device is None else devices.device(device)
        return Copied() if place.type == "cuda" else kernels_random, generator or random.default_generator

    def composed(query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: float) -> Any:
        if not dropout:
            return in_one_pass(query, key, value, mask, dropout, causal, scale)
        with allowed_attention(
            enable_flash=False, enable_mem_efficient=False, enable_cudnn=False
        ):  # so that its dropout is drawn as others are
            return attention.scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale)

    in_one_pass, attention.in_one_pass, ops._drawing = attention.in_one_pass, composed, drawing


def main(*names: str) -> None:
    sys.path[:0] = [str(HERE.parents[1]), str(HERE)]
    from on_stand_in import installed

    import engine

    engine.install_as_torch()
    with installed():
        engine.set_default_device("cuda")
        draw_on_the_host()
        print(json.dumps({name: run(name) for name in names}))


if __name__ == "__main__":
    main(*sys.argv[1:])
