"""The inspector's header: shape, dtype, device, strides and other facts about a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.backends.batch import Batched
from engine.backends.coo import Coo
from engine.core import devices, versions
from engine.core.tensor import Tensor

from ..protocol import Fact
from .memory_layout import strides_of
from .text import bytes_text, count_text

if TYPE_CHECKING:
    from ..recording.recording import Recording


def facts(array: Any, tensor: Tensor | None = None, recording: Recording | None = None, row: int = -1) -> list[Fact]:
    """Return the facts of the header. Pass `tensor` if it is still alive, and `row` if it is in the recording."""
    foreign = None if recording is None else recording.foreign
    if foreign is not None:
        return foreign.facts(row)
    shape = tuple(getattr(array, "shape", ()))
    found = [Fact("shape", str(shape)), Fact("dtype", array.dtype.name if hasattr(array, "dtype") else type(array).__name__)]
    if not hasattr(array, "nbytes"):
        return found
    while isinstance(array, Batched):
        every = "the same for all" if array.alike else "one for each of the"
        found.append(Fact("vmap", f"{every} {count_text(array.level.size, 'sample')}{'' if array.alike else ', along the first axis'}"))
        array = array.inner
    if isinstance(array, Coo):
        stored = count_text(array.values.size, "element")
        found += [Fact("layout", f"sparse, {stored} stored"), Fact("device", str(devices.of(array.values)))]
        found.append(Fact("size", f"{count_text(array.size, 'element')}, {bytes_text(array.nbytes)}"))
        return [*found, *_of_tensor(tensor, recording, row)]
    found.append(Fact("device", str(devices.of(array))))
    found.append(Fact("size", f"{count_text(array.size, 'element')}, {bytes_text(array.nbytes)}"))
    if hasattr(array, "strides"):
        found.append(Fact("strides", f"{tuple(strides_of(array))}{'' if array.flags.c_contiguous else ', not contiguous'}"))
    if tensor is not None and tensor._base is not None:
        base = -1 if recording is None else recording.find(tensor._base)
        known = None if recording is None or base < 0 else recording.called(base)
        found.append(Fact("view of", known or f"a tensor of shape {tuple(tensor._base.shape)}"))
    elif array.base is not None and versions.storage(array) is not array:
        found.append(Fact("view of", f"memory of {bytes_text(versions.storage(array).nbytes)}"))
    version = versions.version(array)
    if version:
        found.append(Fact("version", f"{version} ({'once' if version == 1 else f'{version} times'} written in place)"))
    return [*found, *_of_tensor(tensor, recording, row)]


def _of_tensor(tensor: Tensor | None, recording: Recording | None, row: int) -> list[Fact]:
    if tensor is None:
        return [Fact("requires_grad", str(recording.grad[row]))] if recording is not None and row >= 0 else []
    found = [Fact("requires_grad", str(tensor.requires_grad)), Fact("leaf", str(tensor.is_leaf))]
    if tensor.grad_fn is not None:
        found.append(Fact("grad_fn", f"<{tensor.grad_fn.name()}>"))
    if getattr(type(tensor), "_defined_by_a_program", False):
        found.append(Fact("class", f"{type(tensor).__name__}, the program's own"))
    return found
