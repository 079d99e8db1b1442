"""`engine.return_types`: the named tuples that ops with several results return, printed as PyTorch prints them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _text(self: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}(\n{fields})"


def result_type(name: str, fields: tuple[str, ...], home: str = "engine") -> Any:
    """Make the named tuple of an op's results, such as `return_types.max`, or `return_types.linalg_svd` for an op of a namespace."""
    name = name if home in ("", "engine") else f"{home.rpartition('.')[2]}_{name}"
    made: Any = type(name, (namedtuple(name, fields),), {"__slots__": (), "__repr__": _text, "__module__": __name__})
    globals()[name] = made
    return made
