"""Sequences of unequal length: pad, pack, and the inverses."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from ...base import dtypes
from ...core import devices
from ...core.tensor import Tensor
from ...ops.join import cat, stack


class PackedSequence(namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """Sequences sorted by length, without padding: `data` holds step 0 of all, then step 1 of those that have one, and so on.

    `batch_sizes[t]` (int64, on the CPU) is the number of sequences that have a step t.
    """

    __slots__ = ()

    def __new__(
        cls, data: Tensor, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None, unsorted_indices: Tensor | None = None
    ):
        if batch_sizes is None:
            raise ValueError("PackedSequence: batch_sizes is missing")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequences with their data on another device or in another dtype."""
        data = self.data.to(*args, **kwargs)
        move = lambda t: t if t is None else t.to(data.device)  # noqa: E731
        return self if data is self.data else PackedSequence(data, self.batch_sizes, move(self.sorted_indices), move(self.unsorted_indices))

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Return whether the data is in pinned memory."""
        return self.data.is_pinned()  # type: ignore[attr-defined]

    def pin_memory(self) -> PackedSequence:
        """Copy the sequences to pinned memory."""
        pinned = [t if t is None else t.pin_memory() for t in self]  # type: ignore[attr-defined]
        return PackedSequence(*pinned)  # type: ignore[arg-type]

    def cpu(self) -> PackedSequence:
        """Move the sequences to the CPU."""
        return self.to(devices.CPU)

    def cuda(self, device: Any = "cuda") -> PackedSequence:
        """Move the sequences to a GPU."""
        return self.to(devices.device(device))

    def double(self) -> PackedSequence:
        """Cast to float64."""
        return self.to(dtypes.float64)

    def float(self) -> PackedSequence:
        """Cast to float32."""
        return self.to(dtypes.float32)

    def half(self) -> PackedSequence:
        """Cast to float16."""
        return self.to(dtypes.float16)

    def long(self) -> PackedSequence:
        """Cast to int64."""
        return self.to(dtypes.int64)

    def int(self) -> PackedSequence:
        """Cast to int32."""
        return self.to(dtypes.int32)

    def short(self) -> PackedSequence:
        """Cast to int16."""
        return self.to(dtypes.int16)

    def char(self) -> PackedSequence:
        """Cast to int8."""
        return self.to(dtypes.int8)

    def byte(self) -> PackedSequence:
        """Cast to uint8."""
        return self.to(dtypes.uint8)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation."""
    if permutation is None:
        return None
    order = permutation._host()
    back = numpy.empty_like(order)
    back[order] = numpy.arange(order.size, dtype=order.dtype)
    return _beside(permutation, back)


def _beside(tensor: Tensor, array: numpy.ndarray) -> Tensor:
    return Tensor._wrap(devices.move(array, tensor.device))


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Pack a padded batch `(T, N, *)`, or `(N, T, *)` with `batch_first`; lengths must be decreasing unless `enforce_sorted=False`."""
    sizes = numpy.asarray(lengths._host() if isinstance(lengths, Tensor) else lengths, numpy.int64)
    order = None
    if not enforce_sorted:
        places = numpy.argsort(-sizes, kind="stable")
        sizes, order = sizes[places], _beside(input, places)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    if sizes.size != input.shape[1]:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {sizes.size} (batch_size={input.shape[1]})")
    if sizes.size == 0 or sizes.min() <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if (numpy.diff(sizes) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to "
            "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
        )
    if sizes[0] > input.shape[0]:
        raise RuntimeError(f"Expected lengths of at most {input.shape[0]}, the padded length, but got {sizes[0]}")
    running = numpy.arange(sizes[0])[:, None] < sizes[None, :]
    steps, rows = numpy.nonzero(running)
    data = input[_beside(input, steps), _beside(input, rows)]
    return PackedSequence(data, Tensor._wrap(running.sum(1, dtype=numpy.int64)), order, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return `(padded, lengths)`: the batch `(T, N, *)`, or `(N, T, *)` with `batch_first`, and the int64 lengths on the CPU.

    `total_length` pads to that many steps; ValueError if the longest sequence is longer.
    """
    data, batch_sizes, _, back = sequence
    running = batch_sizes._host()
    longest = running.size
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                f"Expected total_length to be at least the length of the longest sequence in input, but got total_length={total_length} "
                f"and max sequence length being {longest}"
            )
        longest = total_length
    batch = int(running[0])
    lengths = (running[None, :] > numpy.arange(batch)[:, None]).sum(1, dtype=numpy.int64)
    starts = numpy.concatenate([[0], numpy.cumsum(running)[:-1]])
    places = numpy.full((longest, batch), data.shape[0])  # index one past the data: the padding row
    for row in range(batch):
        places[: lengths[row], row] = starts[: lengths[row]] + row
    padding = data.new_full((1, *data.shape[1:]), padding_value)
    padded = cat([data, padding])[_beside(data, places)]
    if back is not None:
        padded, lengths = padded.index_select(1, back), lengths[back._host()]
    return (padded.transpose(0, 1) if batch_first else padded), Tensor._wrap(lengths)


def pad_sequence(
    sequences: Sequence[Tensor] | Tensor, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Pad sequences `(T_i, *)` to the longest and stack them: `(T, N, *)`, or `(N, T, *)` with `batch_first`."""
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(s.shape[0] for s in sequences)
    rows = []
    for s in sequences:
        if s.shape[0] < longest:
            filler = s.new_full((longest - s.shape[0], *s.shape[1:]), padding_value)
            s = cat([s, filler] if padding_side == "right" else [filler, s])
        rows.append(s)
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences of a padded batch, each cut to its length."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[i, : int(n)].clone() for i, n in enumerate(lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences `(T_i, *)`; they must be sorted by decreasing length unless `enforce_sorted=False`."""
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
