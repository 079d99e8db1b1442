"""Predefined parametrizations: orthogonal weights, weight normalization and spectral normalization."""

from __future__ import annotations

from typing import Any

import numpy

from ... import linalg
from ...autograd import no_grad
from ...core import devices
from ...core.ranges import eye
from ...core.tensor import Tensor
from ...ops.join import cat
from .. import functional as F
from ..module import Module
from ..parameter import is_lazy
from . import parametrize
from .spectral_norm import as_matrix, default_dim
from .weight_norm import norm_except_dim, weighted

_MAPS = ("matrix_exp", "cayley", "householder")


def _reflections(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """LAPACK's `geqrf`: return the reflectors below the diagonal with R above it, and the reflectors' factors."""
    raw, tau = numpy.linalg.qr(matrix._host(), mode="raw")
    put = lambda a: Tensor._wrap(devices.move(numpy.ascontiguousarray(a), matrix.device))  # noqa: E731
    return put(raw.swapaxes(-1, -2)), put(tau)


def _orthogonalized(matrix: Tensor) -> Tensor:
    """Return the Q of a QR decomposition whose R has a positive diagonal."""
    a, tau = _reflections(matrix)
    return linalg.householder_product(a, tau) * a.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(q: Tensor) -> bool:
    found = (q.mH @ q - eye(q.shape[-1], dtype=q.dtype, device=q.device)).abs().max().item()
    return found <= 10 * q.shape[-2] * float(numpy.finfo(q.array.dtype).eps)


class _Orthogonal(Module):
    """Parametrization of orthogonal (complex: unitary) matrices: `base` times a map of the input's lower triangle."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        self.trivialized = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        q = self._map(X.mT if wide else X)
        if self.trivialized:
            q = self.base @ q  # type: ignore[operator]
        return q.mT if wide else q

    def _map(self, x: Tensor) -> Tensor:
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            a = x.tril(-1)
            q = linalg.householder_product(a, 2.0 / (1.0 + (a * a).sum(-2)))
            return q * x.diagonal(dim1=-2, dim2=-1).detach().sign().unsqueeze(-2)
        x = x.tril()
        if n != k:
            x = cat([x, x.new_zeros((*x.shape[:-1], n - k))], -1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = linalg.matrix_exp(skew)
        else:  # Cayley map: (I - A/2)^-1 (I + A/2)
            one = eye(n, dtype=x.dtype, device=x.device)
            q = linalg.solve(one - skew * 0.5, one + skew * 0.5)
        return q[..., :k] if n != k else q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Return an input that gives Q, or a nearby orthogonal matrix; with trivialization, that matrix becomes the base."""
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}.")
        with no_grad():
            wide = Q.shape[-2] < Q.shape[-1]
            tall = Q.mT if wide else Q
            n, k = tall.shape[-2:]
            if self.trivialized:
                if n == k:
                    self.base = tall.clone() if _is_orthogonal(tall) else _orthogonalized(tall)
                else:
                    more = tall.new_empty((*tall.shape[:-2], n, n - k)).normal_()
                    self.base = _orthogonalized(cat([tall, more], -1))
                start = Q.new_zeros(Q.shape)
                start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
                return start
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when use_trivialization=False."
                )
            a, tau = _reflections(tall)
            diagonal = a.diagonal(dim1=-2, dim2=-1)
            signs = diagonal.sign() * (1 - 2 * (tau == 0).to(a.dtype))  # LAPACK returns 0 where it did not reflect
            diagonal.copy_(signs)
            return a.mT if wide else a


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True) -> Module:
    """Keep a weight orthogonal during training, by the map "matrix_exp" (default if square), "cayley" or "householder" (default otherwise).

    With `use_trivialization`, the map is applied around the initial weight (Lezcano-Casado 2019).
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """Weight normalization g v / ||v||: the originals are the norms g and the direction v."""

    def __init__(self, dim: int | None = 0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weighted(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norms and the direction of a weight."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Reparametrize a weight by its norms, one per index of `dim` (one in all for None), and its direction (Salimans & Kingma 2016)."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_FromOldNames(name))
    return module


class _FromOldNames:
    """Hook that accepts state dicts of the older `weight_norm`, with its key names."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, state_dict: dict, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{self.name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{i}"] = state_dict.pop(key)


class _SpectralNorm(Module):
    """weight / sigma, with sigma from power iteration; the singular vectors are buffers."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:  # one dimension has a single singular value, its norm
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = as_matrix(weight, self.dim)
                u, v = (F.normalize(matrix.new_empty((n,)).normal_(0, 1), dim=0, eps=eps) for n in matrix.shape)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Tensor, n: int) -> None:
        with no_grad():
            for _ in range(n):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mH @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next forward writes the buffers in place, so backward needs copies
        return weight / ((u.conj() if u.is_complex() else u) @ (matrix @ v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value unchanged: it is assumed to be normalized."""
        return value


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """Normalize a weight by its largest singular value, like `nn.utils.spectral_norm` but as a parametrization (Miyato et al. 2018)."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or is_lazy(weight):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    made = _SpectralNorm(weight, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return parametrize.register_parametrization(module, name, made)
