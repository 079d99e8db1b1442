"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from engine import Tensor

from . import constraints
from .gamma import Gamma


class Chi2(Gamma):
    """Sum of the squares of `df` independent standard normal variables."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Chi2:
        return super().expand(batch_shape, self.__class__.__new__(self.__class__) if _instance is None else _instance)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2
