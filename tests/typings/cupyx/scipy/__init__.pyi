# CuPy may be missing where types are checked; its names have no types.
from typing import Any

def __getattr__(name: str) -> Any: ...
