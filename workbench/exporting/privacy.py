"""Removal of absolute paths from exported texts, so that they do not reveal the author's folders."""

from __future__ import annotations

import re
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

# Top-level folders of file systems, so that a division such as `x /y/z` is not mistaken for a path.
_TOPS = (
    "Applications|bin|boot|content|data|dev|etc|home|kaggle|lib|lib64|Library|media|mnt|nix|opt|private|proc|root|run|sbin|scratch|srv|sys|"
    "System|tmp|Users|usr|var|Volumes|work|workspace|workspaces"
)
_CHAR = r"[^\s/\\'\"<>:;,()\[\]{}|`]"
# A folder's name may have spaces, but not after a file extension.
_FOLDER = rf"{_CHAR}+(?:(?<!\.\w)(?<!\.\w\w)(?<!\.\w\w\w)(?<!\.\w\w\w\w)(?: {_CHAR}+){{1,3}})?"


@cache
def _pattern(own: tuple[str, ...]) -> re.Pattern[str]:
    known = "|".join(re.escape(folder) for folder in own)
    posix = rf"(?<![\w./…])(?:(?:{known})|/(?:{_TOPS})(?=/))(?:/{_FOLDER}(?=/))*(?:/{_CHAR}+)?/?"
    windows = rf"(?<!\w)(?:[A-Z]:|\\)[\\/]+(?:(?={_CHAR}{{2}}){_FOLDER}[\\/]+)+{_CHAR}+"  # not "A:\n" in a line of code
    return re.compile(f"{posix}|{windows}")


def _own() -> tuple[str, ...]:
    """The folders of this process, longest first."""
    found = {str(Path.home()), str(Path.cwd()), sys.prefix, sys.base_prefix, tempfile.gettempdir()}
    return tuple(sorted((one for one in found if one.count("/") >= 1 and len(one) > 1 and one.startswith("/")), key=len, reverse=True))


def without_path(text: str) -> str:
    """Replace each absolute path to `name` in the text by `…/name`."""
    return _pattern(_own()).sub(lambda found: "…/" + re.split(r"[\\/]", found.group().rstrip("\\/"))[-1], text)


def without_paths(value: Any) -> Any:
    """Apply `without_path` to every text in a JSON value, except keys."""
    if isinstance(value, str):
        return without_path(value) if "/" in value or "\\" in value else value
    if isinstance(value, dict):
        return {name: without_paths(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(one) for one in value] if value and not isinstance(value[0], (int, float)) else value
    return value
