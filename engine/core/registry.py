"""The registries of ops and of public functions by name, filled when an op or a composite function is defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op import Op

registry: dict[str, type[Op]] = {}  # name -> op, in the order in which the op files define them
functions: dict[str, Callable] = {}  # public name, including aliases and composites -> function
