"""Flight files: recorded steps as one safetensors file. Nothing in it is code, and every byte of it is checked before it is used."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from importlib import metadata
from typing import Any, get_args, get_origin, get_type_hints

import numpy

import engine
from engine.core.tensor import Tensor
from engine.serialize import safetensors
from engine.serialize.errors import CheckpointError
from engine.serialize.source import opened, whole

from .. import caller
from ..torch_models.loaded import torch
from . import values
from .flown import Flown, Inspect
from .log import Log, Step
from .replay import Program, among, call
from .state import Subjects
from .values import Copy

VERSION = 1


class FlightFileError(ValueError):
    """A file is no flight file, damaged, or of another version."""


def written(log: Log, program: Mapping[str, str], why: str, subjects: Subjects) -> dict[str, Any]:
    """What is written to a file."""
    return {
        "flight": VERSION,
        "why": why,
        "program": dict(program),
        "versions": _versions(),
        "threads": engine.get_num_threads(),
        "left out": dict(subjects.left_out),
        "curve": [list(point) for point in log.curve],
        "steps": [{f.name: getattr(one, f.name) for f in fields(Step) if f.name != "slot"} for one in log.last()],
    }


def write(path: str, body: dict[str, Any]) -> None:
    """Write a file, which replaces an earlier one as a whole."""
    with whole(path) as file:
        safetensors.save({"body": _changed(body, Copy, Copy.tensor), "digest": values.digest(body)}, file)


def _versions() -> dict[str, str]:
    lib = torch()
    found = {"gradient-workbench": metadata.version("gradient-workbench"), "python": platform.python_version(), "numpy": numpy.__version__}
    return found | ({"torch": str(lib.__version__)} if lib is not None else {})


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

    def __init__(self, path: str | os.PathLike[str], inspect: Inspect, around: Callable[[str], AbstractContextManager[Any]]) -> None:
        """`around(how it was started)`: the context that the program is run in."""
        self.path, self._inspect, self._around = os.fspath(path), inspect, around
        body = read(self.path)
        self.why, self.versions, self.left_out = body["why"], body["versions"], body["left out"]
        self._log = Log(len(body["steps"]))
        self._log.curve.extend((int(n), float(loss)) for n, loss in body["curve"])
        self._log.steps.extend(Step(**one) for one in body["steps"])
        self.fingerprint, self.threads = body["program"], body["threads"]
        self.at = self.steps[-1].number

    def _chosen(self, program: Program | None) -> Any:
        found = among(caller.names(), self.fingerprint) if program is None else program
        if found is None:
            raise ValueError(
                "Which program? Give the path of the script, or the function that trains: repeat(program='train.py'). "
                "For a cell of a notebook, run that cell first."
            )

        def run() -> None:
            with self._around(self.fingerprint["started"]) as turns:
                call(found, turns)

        return run

    def _call(self) -> str:
        """The call that repeats the step: with the script's name, or that of a function that the user has to define."""
        file, function = self.fingerprint["file"], self.fingerprint["function"]
        return f"repeat(program={repr(file) if file else function if function.isidentifier() else 'train'})"

    def _code(self) -> str:
        return f"wb.open({self.path!r}).{self._call()}"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        call = {"next": self._call()}  # the extension of JupyterLab writes it into the next cell
        return super()._repr_mimebundle_(**kwargs), {"gradient-workbench": call}

    def __repr__(self) -> str:
        steps = self.steps
        program = " ".join(self.fingerprint[k] for k in ("file", "function") if self.fingerprint[k] not in ("", "<module>")) or "a cell"
        lines = [f"{self.why}, in step {steps[-1].number} of {program}.", f"Steps {steps[0].number} to {steps[-1].number}:"]
        lines += [f"  {step}" for step in steps[-10:]]
        if self.left_out:
            lines.append(f"Not kept: {', '.join(f'{k} ({v})' for k, v in self.left_out.items())}.")
        return "\n".join(lines)


_TYPES: dict[str, Any] = {
    "flight": int,
    "why": str,
    "program": dict[str, str],
    "versions": dict[str, str],
    "threads": int,
    "left out": dict[str, str],
    "curve": list[list[float]],
    "steps": list[dict[str, Any]],
}
_PROGRAM = {"file", "function", "block", "sha256", "started"}
_STEP = {name: kind for name, kind in get_type_hints(Step).items() if name != "slot"}


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type such as dict[str, list[int]]."""
    if isinstance(kind, dict):
        return isinstance(value, dict) and value.keys() == kind.keys() and all(_fits(value[k], one) for k, one in kind.items())
    outer, inner = get_origin(kind), get_args(kind)
    if outer is dict:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(x, inner[1]) for k, x in value.items())
    if outer is list:
        return isinstance(value, list) and all(_fits(x, inner[0]) for x in value)
    if inner:
        return any(_fits(value, one) for one in inner)
    return kind is Any or type(value) is kind or (kind is float and type(value) is int)


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
    if tree.get("digest") != values.digest(body):
        raise FlightFileError(f"{path} is damaged: its content does not match its digest.")
    if not _fits(body, _TYPES) or body["program"].keys() != _PROGRAM or any(len(point) != 2 for point in body["curve"]):
        raise FlightFileError(f"{path} is no flight file: its entries are not those of one.")
    steps = body["steps"]
    if (
        not steps
        or not all(_fits(one, _STEP) and one["number"] == steps[0]["number"] + i for i, one in enumerate(steps))
        or not steps[0]["whole"]
    ):
        raise FlightFileError(f"{path} is no flight file: its steps are not those of one.")
    return body
