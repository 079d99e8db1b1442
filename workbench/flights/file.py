"""Flight files: recorded steps as one safetensors file. Nothing in it is code, and every byte of it is checked before it is used."""

from __future__ import annotations

import hashlib
import os
import platform
import struct
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy

import engine
from engine.core.tensor import Tensor
from engine.serialize import safetensors
from engine.serialize.errors import CheckpointError
from engine.serialize.source import opened

from ..torch_models.loaded import torch
from .flown import Flown, Inspect
from .log import Log, Step
from .replay import Code
from .state import Subjects
from .values import Copy

VERSION = 1


class FlightFileError(ValueError):
    """A file is no flight file, damaged, or of another version."""


def write(path: str | os.PathLike[str], log: Log, program: Code, why: str, subjects: Subjects) -> None:
    """Write recorded steps: from the newest snapshot that is at least `log.keep` steps back. The file replaces an earlier one as a whole."""
    steps = list(log.steps)
    begin = max((i for i, one in enumerate(steps) if one.whole is not None and len(steps) - i >= log.keep), default=0)
    body = {
        "flight": VERSION,
        "why": why,
        "program": fingerprint(program),
        "versions": _versions(),
        "threads": engine.get_num_threads(),
        "left out": dict(subjects.left_out),
        "curve": [list(point) for point in log.curve],
        "steps": [{f.name: getattr(one, f.name) for f in fields(Step) if f.name != "slot"} for one in steps[begin:]],
    }
    safetensors.save({"body": _changed(body, Copy, Copy.tensor), "digest": digest(body)}, path)


def _versions() -> dict[str, str]:
    lib = torch()
    found = {"gradient-workbench": engine.__version__, "python": platform.python_version(), "numpy": numpy.__version__}
    return found | ({"torch": str(lib.__version__)} if lib is not None else {})


def fingerprint(program: Code) -> dict[str, str]:
    """The name of the program's file or function, and a digest of its source: enough to tell whether another program is the same."""
    name = Path(program.code.co_filename).name
    return {
        "file": "" if name.startswith("<") or not name.endswith(".py") or program.in_cell else name,
        "function": program.code.co_qualname,
        "sha256": hashlib.sha256(program.source().encode()).hexdigest(),
    }


def digest(body: Any) -> str:
    """A SHA-256 of everything: containers, numbers, strings, and the bytes of tensors with their dtypes and shapes."""
    found = hashlib.sha256()

    def add(x: Any) -> None:
        if isinstance(x, Copy):
            found.update(f"tensor {x.dtype} {x.shape} ".encode())
            found.update(x.data)
        elif isinstance(x, dict):
            found.update(f"dict {len(x)} ".encode())
            for k, v in x.items():
                add(k)
                add(v)
        elif isinstance(x, list | tuple):
            found.update(f"{type(x).__name__} {len(x)} ".encode())
            for v in x:
                add(v)
        elif isinstance(x, float):
            found.update(b"float nan" if x != x else b"float " + struct.pack("<d", x))  # the file keeps no sign of NaN
        else:
            found.update(f"{type(x).__name__} {x!r} ".encode())

    add(body)
    return found.hexdigest()


def _changed(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """The same nested value, with `change` applied to everything of that kind."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {k: _changed(x, kind, change) for k, x in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_changed(x, kind, change) for x in value)
    return value


# -- reading -------------------------------------------------------------------------------------------------------------------


class Opened(Flown):
    """A flight file.

    Attributes:
        path: the file.
        versions: of the packages that wrote it.
        left_out: values that could not be kept, and their types.
    """

    def __init__(self, path: str | os.PathLike[str], inspect: Inspect) -> None:
        self.path, self._inspect = os.fspath(path), inspect
        body = read(self.path)
        self.why, self.versions, self.left_out = body["why"], body["versions"], body["left out"]
        self._log = Log(len(body["steps"]))
        self._log.curve.extend((int(n), float(loss)) for n, loss in body["curve"])
        self._log.steps.extend(Step(**one) for one in body["steps"])
        self._fingerprint = body["program"]
        self.at = self.steps[-1].number

    @property
    def steps(self) -> list[Step]:
        return list(self._log.steps)

    @property
    def curve(self) -> numpy.ndarray:
        return numpy.array(self._log.curve, numpy.float64).reshape(-1, 2)

    def _before(self, number: int) -> list[Step]:
        return self._log.before(number)

    def _call(self) -> str:
        """The call that repeats the step: with the script's name, or that of a function that the user has to define."""
        file, function = self._fingerprint["file"], self._fingerprint["function"]
        return f"repeat(program={repr(file) if file else function if function.isidentifier() else 'train'})"

    def _code(self) -> str:
        return f"wb.open({self.path!r}).{self._call()}"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        call = {"next": self._call()}  # the extension of JupyterLab writes it into the next cell
        return super()._repr_mimebundle_(**kwargs), {"gradient-workbench": call}

    def __repr__(self) -> str:
        steps = self.steps
        program = " ".join(self._fingerprint[k] for k in ("file", "function") if self._fingerprint[k] not in ("", "<module>")) or "a cell"
        lines = [f"{self.why}, in step {steps[-1].number} of {program}.", f"Steps {steps[0].number} to {steps[-1].number}:"]
        lines += [f"  {step}" for step in steps[-10:]]
        if self.left_out:
            lines.append(f"Not kept: {', '.join(f'{k} ({v})' for k, v in self.left_out.items())}.")
        return "\n".join(lines)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "flight": int, "why": str, "program": dict, "versions": dict, "threads": int, "left out": dict, "curve": list, "steps": list,
}  # fmt: skip


def read(path: str) -> dict[str, Any]:
    """Read and check a flight file. Raises FlightFileError, FileNotFoundError, or another OSError."""
    try:
        with opened(path, False) as source:
            tree = safetensors.read(source)
    except CheckpointError as error:
        raise FlightFileError(f"{path} is no flight file, or damaged: {error}") from None
    body = tree.get("body") if isinstance(tree, dict) else None
    if not isinstance(body, dict) or "flight" not in body:
        raise FlightFileError(f"{path} is a safetensors file, but no flight file.")
    if body["flight"] != VERSION:
        raise FlightFileError(f"{path} has version {body['flight']!r:.20} of the format; this workbench reads version {VERSION}.")
    body = _changed(body, Tensor, Copy.of)
    if tree.get("digest") != digest(body):
        raise FlightFileError(f"{path} is damaged: its content does not match its digest.")
    if body.keys() != _TYPES.keys() or not all(type(body[k]) is kind for k, kind in _TYPES.items()) or not body["steps"]:
        raise FlightFileError(f"{path} is no flight file: its entries are not those of one.")
    names = {f.name for f in fields(Step)} - {"slot"}
    if not all(isinstance(one, dict) and one.keys() == names for one in body["steps"]) or body["steps"][0]["whole"] is None:
        raise FlightFileError(f"{path} is no flight file: its steps are not those of one.")
    return body
