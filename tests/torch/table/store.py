"""PyTorch's stored answers: one packed file for each family, in which an answer is found by the check's own words."""

from __future__ import annotations

import functools
import json
import lzma
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "answers"
MAKE = "python tests/torch/make.py"


@functools.cache
def stored(family: str) -> dict[str, Any]:
    """The answers to a family's checks."""
    path = FOLDER / f"{family}.json.xz"
    return json.loads(lzma.decompress(path.read_bytes())) if path.is_file() else {}


def store(family: str, answers: dict[str, Any]) -> int:
    """Write a family's answers, and return how many bytes they take."""
    text = json.dumps(answers, separators=(",", ":")).encode()
    return (FOLDER / f"{family}.json.xz").write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
