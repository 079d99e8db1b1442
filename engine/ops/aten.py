"""`torch.ops.aten`: PyTorch's operators under their own names, each the engine's function of that name.

`aten.add(x, y)`, `aten.add.default` and `aten.add.Tensor` are one callable: the engine's functions dispatch on their arguments themselves.
"""

from __future__ import annotations

from typing import Any

from ..core.op import functions
from ..core.tensor import Tensor


class Operator:
    """An operator; its overloads in PyTorch (`.default`, `.Tensor`, `.out`) are the operator itself."""

    def __init__(self, name: str, function: Any):
        self.__name__, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Operator:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return self

    def __repr__(self) -> str:
        return f"aten.{self.__name__}"


_OPERATORS: dict[str, Operator] = {}  # one object per name, since programs use operators as keys


def __getattr__(name: str) -> Operator:
    if name.startswith("__"):
        raise AttributeError(name)
    if name not in _OPERATORS:
        places = (*(functions.get(f"{home}{name}") for home in ("", "ops.aten.", "nn.functional.")), getattr(Tensor, name, None))
        found = next((f for f in places if f is not None), None)
        if found is None:

            def found(*args: Any, **kwargs: Any) -> Any:
                raise NotImplementedError(f"aten::{name}: the engine has no operator of this name")

        _OPERATORS[name] = Operator(name, found)
    return _OPERATORS[name]
