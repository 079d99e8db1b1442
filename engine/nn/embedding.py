"""Embedding tables: rows looked up by index, individually or reduced over bags."""

from __future__ import annotations

from typing import Any

from ..autograd import no_grad
from ..core.tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter, blank


class _Table(Module):
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    weight: Parameter

    def _make(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        _weight: Tensor | None,
        _freeze: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError(f"padding_idx must be within num_embeddings, got {padding_idx} for {num_embeddings} embeddings")
        self.padding_idx = padding_idx if padding_idx is None or padding_idx >= 0 else num_embeddings + padding_idx
        if _weight is None:
            self.weight = blank(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight.requires_grad_(not _freeze)
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Reinitialize the table from N(0, 1), with a zero padding row."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0


class Embedding(_Table):
    """Lookup table: integer indices `(*)` to rows of `weight`, `(*, embedding_dim)`.

    `weight` is `(num_embeddings, embedding_dim)`; its row `padding_idx` receives no gradient. `max_norm` rescales the rows looked up, in
    place, to at most that norm. With `sparse`, the gradient of `weight` is a sparse tensor of the rows used.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """Create a layer from an existing 2D table, frozen by default."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            rows, columns, padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse, _weight=embeddings, _freeze=freeze,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return "".join(
            (
                f"{self.num_embeddings}, {self.embedding_dim}",
                f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "",
                f", max_norm={self.max_norm}" if self.max_norm is not None else "",
                f", norm_type={self.norm_type}" if self.norm_type != 2 else "",
                ", scale_grad_by_freq=True" if self.scale_grad_by_freq else "",
                ", sparse=True" if self.sparse else "",
            )
        )


class EmbeddingBag(_Table):
    """Sum, mean or maximum of bags of embeddings: `(B, N)`, or `(N)` split at `offsets`, to `(B, embedding_dim)`.

    `per_sample_weights` scale the rows in mode "sum"; indices equal to `padding_idx` do not count.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        self.mode, self.include_last_offset = mode, include_last_offset
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """Create a layer from an existing 2D table, frozen by default."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        bag = cls(
            rows, columns, _weight=embeddings, max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, mode=mode,
            sparse=sparse, include_last_offset=include_last_offset, padding_idx=padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad_(not freeze)
        return bag

    def extra_repr(self) -> str:
        return "".join(
            (
                f"{self.num_embeddings}, {self.embedding_dim}",
                f", max_norm={self.max_norm}" if self.max_norm is not None else "",
                f", norm_type={self.norm_type}" if self.norm_type != 2 else "",
                ", scale_grad_by_freq=True" if self.scale_grad_by_freq else "",
                f", mode={self.mode!r}",
                f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "",
            )
        )
