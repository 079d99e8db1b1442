"""Run the console command with `python -m workbench`, for machines on which it is not on PATH."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
