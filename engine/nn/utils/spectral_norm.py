"""Spectral normalization by hooks, w / sigma with sigma the largest singular value: PyTorch's older form of `parametrizations`."""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...core.tensor import Tensor
from .. import functional as F
from ..conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module
from ..parameter import Parameter, is_lazy


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return the weight as a matrix, with dimension `dim` first and all others flattened."""
    return (weight.movedim(dim, 0) if dim else weight).reshape(weight.shape[dim], -1)


def default_dim(module: Module) -> int:
    """Return the output dimension of a layer's weight: 1 for transposed convolutions, else 0."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


class SpectralNorm:
    """Forward pre-hook that sets `module.<name>` from `<name>_orig`, by power iteration starting at `<name>_u` and `<name>_v`."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """Return the weight as a matrix, output dimension first."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the normalized weight; with `do_power_iteration`, first update u and v in place."""
        weight, u, v = (getattr(module, self.name + ending) for ending in ("_orig", "_u", "_v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next forward writes the buffers in place, so backward needs copies
        return weight / (u @ (matrix @ v))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Register the hook on a module."""
        for hook in module._forward_pre_hooks.values():  # type: ignore[attr-defined]
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        fn, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy forward before "
                "applying spectral normalization"
            )
        with no_grad():
            h, w = as_matrix(weight, dim).shape
            u, v = (F.normalize(weight.new_empty((n,)).normal_(0, 1), dim=0, eps=eps).detach() for n in (h, w))
        del module._parameters[name]
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make the weight an ordinary parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for ending in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + ending)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """Divide a parameter by its largest singular value before each forward (Miyato et al. 2018)."""
    SpectralNorm.apply(module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Remove spectral normalization; the weight becomes an ordinary parameter."""
    table = module._forward_pre_hooks  # type: ignore[attr-defined]
    for key, hook in table.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del table[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
