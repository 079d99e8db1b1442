"""The lessons as shipped, and copies of shipped files in a user's folder, where files that the user changed are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path


class Refusal(Exception):
    """A request that cannot be met; its text is a sentence for the person at the terminal."""


def lessons_folder() -> Path:
    """The folder of the lessons: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "lessons", package.parent / "notebooks"):
        if folder.is_dir():
            return folder
    raise Refusal("the lessons are missing from this installation; install gradient-workbench again")


def files(folder: Path) -> Iterator[Path]:
    """Every file under `folder` that is not hidden or a cache."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith((".", "__")) for part in path.relative_to(folder).parts):
            yield path


def place(contents: Mapping[str, bytes], folder: Path) -> None:
    """Write each file, by its path in `folder`, that is not there yet. An existing file is kept, and named if its content differs.

    Raises Refusal, with the reason, if a file cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise Refusal(f"{folder} is a file; name a folder for the lessons")
    try:
        for name, content in contents.items():
            target = folder / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            elif target.read_bytes() != content:
                print(f"workbench: kept your {target}; it differs from the file as shipped. Rename it to get that one too.")
    except OSError as error:
        raise Refusal(f"files cannot be written into {folder}: {error}") from error
