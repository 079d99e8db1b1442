"""Weight normalization by hooks, w = g v / ||v|| before each forward: PyTorch's older form of `parametrizations`."""

from __future__ import annotations

import warnings
from typing import Any

from ...core.tensor import Tensor
from ...ops.lapack import norm_except_dim
from ...ops.native import weight_norm as weighted
from ..module import Module
from ..parameter import Parameter, is_lazy


class WeightNorm:
    """Forward pre-hook that computes `module.<name>` from `<name>_g` and `<name>_v`."""

    def __init__(self, name: str, dim: int | None):
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the normalized weight."""
        return weighted(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Register the hook on a module and split its weight."""
        for hook in module._forward_pre_hooks.values():  # type: ignore[attr-defined]
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        fn, weight = WeightNorm(name, dim), getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward before applying "
                "weight normalization"
            )
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, 2, fn.dim).detach()))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make the weight an ordinary parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"], module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a parameter into `<name>_g`, its norm over all dimensions but `dim`, and `<name>_v`, its direction; deprecated in PyTorch.

    Source: Salimans & Kingma 2016.
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.", FutureWarning, stacklevel=2
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Remove weight normalization; the weight becomes an ordinary parameter."""
    table = module._forward_pre_hooks  # type: ignore[attr-defined]
    for key, hook in table.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del table[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
