"""What an array is in the recorded program, for the engine's errors about exhausted memory."""

from __future__ import annotations

from typing import Any

from engine.base import errors

from .recording import NUMBER, ROW, Recording, recent
from .sites import line_of
from .source import Sources, parameter_name


def origin(array: Any) -> str:
    """The name of an array that owns its memory and the line that made it: "h, made in train.py, line 12"; "" if nothing recorded it."""
    for recording in reversed(recent):
        if recording.foreign is None:
            recording.settle()
            block = recording.blocks.get(id(array))
            if block is not None:
                return _told(recording, block[ROW], recording.roles.get(block[NUMBER], ("", -1))[0])
            row = next((row for row, kept in recording.kept.items() if kept is array), -1)
            if row >= 0:
                return f"{_told(recording, row, '')}, kept by the recording for viewing"
    return ""


def _told(r: Recording, row: int, role: str) -> str:
    if not 0 <= row < r.count:
        return role
    code, tensor = r.code[row], r.tensor(row)
    named = r.names.get(row) or (parameter_name(r, tensor) if r.kind[row] == "parameter" and tensor is not None else "")
    if code is None:
        user = next((target for source, target in zip(r.source, r.target, strict=True) if source == row and r.code[target] is not None), -1)
        line = f", used in {errors.where(r.code[user], line_of(r.code[user], r.lasti[user]))}" if user >= 0 else ""
        named = named or f"{'an' if r.kind[row] == 'input' else 'a'} {r.kind[row]}"
    else:
        line = f", made in {errors.where(code, line_of(code, r.lasti[row]))}"
        named = named or (Sources().targets(code, r.lasti[row]) or [r.op_name(row)])[0]
    if role == "saved":
        return f"saved by {r.op_name(row)}{line}"
    return f"{role} of {named}{line}" if role else f"{named}{line}"


errors.origin = origin
