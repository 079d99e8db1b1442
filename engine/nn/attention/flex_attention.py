"""`flex_attention`: attention with user-defined score and mask functions, computed eagerly by broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...base import dtypes
from ...core.create import ones, zeros
from ...core.op import functions
from ...core.ranges import arange
from ...core.tensor import Tensor

Mod = Callable[..., Any]
_DEFAULT_SPARSE_BLOCK_SIZE = 128  # libraries round lengths up to a multiple of it


class AuxRequest(NamedTuple):
    """The auxiliary outputs requested from `flex_attention`."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The auxiliary outputs of `flex_attention`: `(B, H, L)` each, or None if not requested."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Mask function that is True everywhere."""
    return ones((), dtype=dtypes.bool_, device=batch.device)


def _positions(sizes: tuple[int, ...], device: Any) -> tuple[Tensor, ...]:
    """Return the indices along each dimension, shaped to broadcast against the others."""
    return tuple(
        arange(n, dtype=dtypes.int32, device=device).reshape([-1 if i == j else 1 for j in range(len(sizes))]) for i, n in enumerate(sizes)
    )


def _mask(mask_mod: Mod, sizes: tuple[int, ...], device: Any) -> Tensor:
    return mask_mod(*_positions(sizes, device)).bool().expand(sizes)


def create_mask(mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """Return the boolean mask `(B, H, Q_LEN, KV_LEN)` of a mask function; B or H may be None, for 1.

    For a score function, which takes five arguments, the mask is True where it maps a score of 0 to anything but -inf.
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    if mod_fn.__code__.co_argcount - len(getattr(mod_fn, "__defaults__", None) or ()) == 5:
        scores = mod_fn(zeros(*sizes, device=device), *_positions(sizes, device)).expand(sizes)
        return scores != -math.inf
    return _mask(mod_fn, sizes, device).clone()


def and_masks(*mask_mods: Mod) -> Mod:
    """Return a mask function that is True where all of `mask_mods` are."""
    return _joined(mask_mods, lambda a, b: a & b, True)


def or_masks(*mask_mods: Mod) -> Mod:
    """Return a mask function that is True where any of `mask_mods` is."""
    return _joined(mask_mods, lambda a, b: a | b, False)


def _joined(mask_mods: tuple, join: Callable, first: bool) -> Mod:
    if not all(callable(m) for m in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        found = ones((), dtype=dtypes.bool_, device=b.device) if first else zeros((), dtype=dtypes.bool_, device=b.device)
        for mod in mask_mods:
            found = join(found, mod(b, h, q_idx, kv_idx))
        return found

    return mask_mod


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of set blocks per row, and the indices of all blocks in the row, set ones first."""
    dense = blocks.to(dtypes.int32)
    return dense.sum(-1).to(dtypes.int32), functions["argsort"](dense, -1, descending=True, stable=True).to(dtypes.int32)


def _dense(num: Tensor, indices: Tensor) -> Tensor:
    """Invert `_ordered`: return the dense block matrix."""
    set_ = arange(indices.shape[-1], device=num.device) < num.unsqueeze(-1)
    return zeros(*indices.shape, dtype=dtypes.int32, device=num.device).scatter(-1, indices.long(), set_.to(dtypes.int32))


class BlockMask:
    """A block-sparse attention mask: the indices of blocks that may be attended, and a mask function for the entries inside them.

    The fields have PyTorch's contents. PyTorch's kernels skip all other blocks; here they are computed and masked.
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None, q_num_blocks: Tensor | None, q_indices: Tensor | None, full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None, BLOCK_SIZE: tuple[int, int] = (128, 128), mask_mod: Mod = noop_mask,
    ):  # fmt: skip
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None, full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = 128, mask_mod: Mod | None = None, seq_lengths: tuple[int, int] | None = None,
    ) -> BlockMask:  # fmt: skip
        """Build a block mask from the key/value blocks that each query block attends to."""
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        q_num, q_indices = _ordered(_dense(kv_num_blocks, kv_indices).mT)
        full_q = (None, None)
        if full_kv_num_blocks is not None and full_kv_indices is not None:
            full_q = _ordered(_dense(full_kv_num_blocks, full_kv_indices).mT)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], q_indices.shape[-2] * size[1])
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num, q_indices, *full_q, size,
            noop_mask if mask_mod is None else mask_mod,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """The mask's shape, `(B, H, Q_LEN, KV_LEN)`."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of entries in the mask."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """Return the block mask as a dense tensor, with 1 for each block that is attended, even partially."""
        found = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            found = found | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return found

    def sparsity(self) -> float:
        """Return the percentage of entries in blocks that are not attended at all."""
        touched = int(self.to_dense().sum().item()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - touched / self.numel())

    def to(self, device: Any) -> BlockMask:
        """Return the mask on another device."""
        made = object.__new__(BlockMask)
        made.__dict__ = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in self.__dict__.items()}
        return made

    def __repr__(self) -> str:
        names = (
            "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices", "full_q_num_blocks",
            "full_q_indices",
        )  # fmt: skip
        lines = [f"{n}={None if getattr(self, n) is None else getattr(self, n).shape}" for n in names]
        mod = getattr(self.mask_mod, "__name__", self.mask_mod)
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%", f"mask_mod={mod}"]
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


def create_block_mask(
    mask_mod: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None, BLOCK_SIZE: int | tuple[int, int] = 128,
    _compile: bool = False, separate_full_blocks: bool = True,
) -> BlockMask:  # fmt: skip
    """Build the block mask of a mask function, listing full blocks separately from partial ones if `separate_full_blocks`."""
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    padded = zeros(*mask.shape[:2], rows * size[0], columns * size[1], dtype=dtypes.int32, device=device)
    padded[..., :Q_LEN, :KV_LEN] = mask.to(dtypes.int32)
    count = padded.reshape(*mask.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    full = count == size[0] * size[1]
    if not separate_full_blocks:
        return BlockMask.from_kv_blocks(*_ordered(count > 0), None, None, size, mask_mod, (Q_LEN, KV_LEN))
    return BlockMask.from_kv_blocks(*_ordered((count > 0) & ~full), *_ordered(full), size, mask_mod, (Q_LEN, KV_LEN))


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Mod | None = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """Return softmax(score_mod(Q Kᵀ scale)) V for `(B, H, L, E)` tensors, restricted to the entries that `block_mask` allows.

    `score_mod(score, batch, head, q_idx, kv_idx)` is called once with all scores and with index tensors that broadcast against them.
    `scale` defaults to 1 / sqrt(E). Rows without any allowed key give zeros. `kernel_options` is ignored: there are no compiled kernels.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim != 4:
            raise ValueError(f"flex_attention expects 4D tensors, but got {name} of shape {tuple(x.shape)}")
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux: return_lse is the deprecated form of return_aux.lse")
    if query.shape[-3] != key.shape[-3]:
        if not enable_gqa or query.shape[-3] % key.shape[-3]:
            raise ValueError(
                f"Expect query and key/value to have the same number of heads but got Hq={query.shape[-3]} and Hkv={key.shape[-3]}. "
                "Try setting enable_gqa=True for GQA."
            )
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    sizes = tuple(scores.shape)
    if score_mod is not None:
        scores = score_mod(scores, *_positions(sizes, scores.device)).expand(sizes)
    if block_mask is not None:
        if sizes[-2] > block_mask.seq_lengths[0] or sizes[-1] > block_mask.seq_lengths[1]:
            raise ValueError(
                f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={sizes[-2]} and kv_len={sizes[-1]}."
            )
        scores = scores.masked_fill(~_mask(block_mask.mask_mod, sizes, scores.device), -math.inf)
    blind = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    out = weights.to(value.dtype) @ value
    if not return_lse and return_aux is None:
        return out
    lse = scores.masked_fill(blind, 0.0).logsumexp(-1).masked_fill(blind.squeeze(-1), -math.inf)
    if return_aux is None:
        return out, lse
    highest = scores.amax(-1) if return_aux.max_scores else None
    return out, AuxOutput(lse if return_aux.lse else None, highest)
