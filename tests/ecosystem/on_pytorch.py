"""Runs a program on PyTorch, or imports a module: also beside a torchvision that was built for GPUs where PyTorch is that for CPUs.

Such a torchvision lacks its own operators, and refuses to be imported since it cannot say more about them; the rest of it works.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from importlib.util import find_spec
from unittest.mock import patch

import torch

if find_spec("torchvision") is not None:
    with patch.object(torch.library, "register_fake", lambda *_, **__: lambda f: f):
        importlib.import_module("torchvision")

program = sys.argv[1]
del sys.argv[0]
if program.endswith(".py"):
    runpy.run_path(program, run_name="__main__")
else:
    importlib.import_module(program)
