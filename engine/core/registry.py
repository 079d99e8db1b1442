"""The tables of ops and of functions, by name: what defining an op fills, and everything else looks up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op import Op

registry: dict[str, type[Op]] = {}  # name -> op, in the order in which the op files define them
functions: dict[str, Callable] = {}  # public name, aliases and composites included -> what programs call
