"""The ipykernel versions that tests run with: the installed one, and an older line that must keep working."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

OLDER = "6.31.0"
VERSIONS = ["", pytest.param(OLDER, marks=pytest.mark.long)]  # "": the one that is installed


def name_of(version: str) -> str:
    return f"ipykernel {version}" if version else "ipykernel as installed"


def folder_of(version: str) -> str:
    """Where that version lies, to be put on PYTHONPATH; "" for the installed one. `make test` puts the older one there."""
    if not version:
        return ""
    folder = Path(os.environ.get("WORKBENCH_IPYKERNELS", sys.prefix)) / f"ipykernel-{version}"
    if folder.is_dir():
        return str(folder)
    reason = f"no ipykernel {version} in {folder.parent.name} (`make test` installs it there)"
    if os.environ.get("WORKBENCH_BROWSER") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
