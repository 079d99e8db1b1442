"""Save and load objects: PyTorch checkpoints, read without PyTorch and without executing them, and safetensors files."""

from . import plain
from .allowed import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .errors import CheckpointError
from .files import load, save
from .safetensors import load_file, save_file

__all__ = [
    "CheckpointError", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "load_file", "safe_globals", "save",
    "save_file",
]  # fmt: skip
