"""The tables of ops and functions by name, filled when ops are defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op import Op

registry: dict[str, type[Op]] = {}  # name -> op, in the order of definition
functions: dict[str, Callable] = {}  # public name, aliases and composites included -> function
