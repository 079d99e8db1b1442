"""`python -m workbench`: the console command, for a machine on whose PATH it is not."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
