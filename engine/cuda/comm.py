"""`engine.cuda.comm`: copies and sums of tensors over several GPUs of one process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..core.op import functions
from ..core.tensor import Tensor
from .device import device_count, index_of

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _place(device: Any) -> str:
    return f"cuda:{index_of(device)}"


def broadcast(tensor: Tensor, devices: Iterable[Any] | None = None, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return a copy of a tensor on each of some GPUs, the tensor itself on its own, or write it to the tensors `out`.

    Raises RuntimeError unless exactly one of `devices` and `out` is given.
    """
    if (devices is None) == (out is None):
        raise RuntimeError(f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}")
    if out is not None:
        return tuple([target.copy_(tensor) for target in out])
    return tuple([tensor.to(_place(device)) for device in devices or ()])


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760) -> tuple[tuple[Tensor, ...], ...]:
    """Return the tensors on each of some GPUs. `buffer_size` has no effect: each tensor is copied for itself."""
    return tuple([tuple([tensor.to(_place(device)) for tensor in tensors]) for device in devices])


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """Return the sum of tensors of one shape on different GPUs, on the GPU `destination`, by default the current one.

    Raises ValueError for no inputs or different shapes.
    """
    if not inputs or any(x.shape != inputs[0].shape for x in inputs):
        raise ValueError(f"reduce_add expects inputs of one shape, got {[tuple(x.shape) for x in inputs]}")
    place = _place(destination)
    total = inputs[0].to(place)
    for x in inputs[1:]:
        total = total + x.to(place)
    return total


def reduce_add_coalesced(inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760) -> tuple[Tensor, ...]:
    """Return the sums over GPUs of the first, second and so on of each GPU's tensors. `buffer_size` has no effect."""
    return tuple([reduce_add(group, destination) for group in zip(*inputs, strict=True)])


def scatter(
    tensor: Tensor, devices: Sequence[Any] | None = None, chunk_sizes: Sequence[int] | None = None, dim: int = 0,
    streams: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Split a tensor along `dim` into a part for each GPU, by default all, or into the tensors `out`.

    `streams` are not used: copies are in the order of the current stream.
    """
    if out is not None:
        parts = tensor.split([x.shape[dim] for x in out], dim)
        return tuple([target.copy_(part) for target, part in zip(out, parts, strict=True)])
    places = list(range(device_count())) if devices is None else list(devices)
    parts = tensor.chunk(len(places), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple([part.to(_place(device)) for part, device in zip(parts, places, strict=False)])


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Return tensors of different GPUs concatenated along `dim` on the device `destination`, or written to `out`."""
    place = out.device if out is not None else "cpu" if str(destination) == "cpu" or destination == -1 else _place(destination)
    found = functions["cat"]([x.to(place) for x in tensors], dim)
    return found if out is None else out.copy_(found)
