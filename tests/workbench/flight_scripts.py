"""Records whole programs that say nothing of it, as `workbench run --flight` does, or repeats steps of them; the programs import torch.

python flight_scripts.py record|repeat engine|torch FOLDER PROGRAM.py ...     a line of JSON for each program
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import sys
import warnings
from pathlib import Path
from types import ModuleType

import workbench as wb
from workbench.flights import loops, recorder
from workbench.flights.automatic import automatic


def record(path: Path, file: str) -> dict:
    main = sys.modules["__main__"] = ModuleType("__main__")
    flights: list[recorder.Flight] = []
    left = recorder.Flight.__exit__
    recorder.Flight.__exit__ = lambda self, *error: flights.append(self) or left(self, *error)  # type: ignore[func-returns-value]
    with automatic(file) as turns:
        vars(main).update({"__file__": str(path), loops.TURNS: turns})
        exec(loops.compiled(path.read_text(encoding="utf-8"), str(path)), vars(main))
    recorder.Flight.__exit__ = left
    flights[-1].save(file)
    return {"steps": flights[-1].count, "not kept": dict(flights[-1].left_out)}


def repeat(path: Path, file: str) -> dict:
    opened = wb.open(file)
    return {str(one.number): opened.repeat(one, program=path).sentence for one in (opened.steps[0], opened.steps[-1])}


def main(what: str, library: str, folder: str, *programs: str) -> None:
    recorder.SHARE = math.inf  # a snapshot whenever there is room, however fast the machine is
    if library == "torch":
        importlib.import_module("torch")
    elif what == "record":
        importlib.import_module("engine").install_as_torch()
    for path in map(Path, programs):
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = (record if what == "record" else repeat)(path, f"{folder}/{path.stem}.flight")
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
