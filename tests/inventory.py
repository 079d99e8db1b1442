"""What the tests check, one line a check; and whether a change has lost one.

python tests/inventory.py                 every check of Python and of the view, by its id
python tests/inventory.py --against REV   what REV had and this checkout has not (exit status 1), and how many are new
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE = Path(sys.executable).parent / "node"


def output(*command: str | Path, folder: Path) -> str:
    """What a command prints; its errors are shown when it fails."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def checks(root: Path) -> set[str]:
    """The ids of all checks in a checkout: those of pytest as they are without groups, and the titles of the view's tests."""
    apart = ["--ungrouped"] if (root / "tests" / "grouping.py").exists() else []
    collected = output(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *apart, folder=root)
    modules = root / "extension" / "node_modules"
    if not modules.exists():
        modules.symlink_to(ROOT / "extension" / "node_modules")
    titles = output(NODE, modules / "vitest" / "vitest.mjs", "list", folder=root / "extension")
    found = [line for line in collected.splitlines() if "::" in line] + [
        f"extension/{line}" for line in titles.splitlines() if " > " in line
    ]
    return {line.replace(str(root), "ROOT") for line in found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="REV", help="a commit to compare with")
    asked = parser.parse_args()
    now = checks(ROOT)
    if not asked.against:
        print("\n".join(sorted(now)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "checkout"
        output("git", "worktree", "add", "--detach", before, asked.against, folder=ROOT)
        try:
            then = checks(before)
        finally:
            output("git", "worktree", "remove", "--force", before, folder=ROOT)
    print(f"{len(then):,} checks in {asked.against}, {len(now):,} here: {len(then - now)} are gone, {len(now - then)} are new")
    print("\n".join(sorted(f"gone: {line}" for line in then - now)))
    return 1 if then - now else 0


if __name__ == "__main__":
    sys.exit(main())
