"""`Variable`, PyTorch's tensor wrapper from before 0.4: every tensor is one, and `Variable(x)` is a new tensor on the same memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy

from ..core.tensor import Tensor


class _VariableType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None) -> Tensor:
        """Return a tensor that shares the memory of `data`, detached; TypeError for other types. `volatile` only warns."""
        if volatile:
            warnings.warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2)
        if data is None:
            return Tensor._wrap(numpy.zeros(0, numpy.float32))
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        found = Tensor._wrap(data.array)
        return found.requires_grad_() if requires_grad else found


class Variable(metaclass=_VariableType):
    """`Variable(x, requires_grad=True)` is `x.detach().requires_grad_()`; every tensor is an instance."""
