"""The inspector's texts for PyTorch tensors: facts, and the reasons why `.grad` is None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..inspector import bytes_text
from ..protocol import Fact
from . import arrays

if TYPE_CHECKING:
    from .recording import TorchRecording


def facts(recording: TorchRecording, row: int) -> list[Fact]:
    """Shape, dtype, device, size, strides, view, version and autograd facts, in PyTorch's terms."""
    r = recording
    kept = r.kept.get(row)
    tensor = r.its(row)
    seen = kept if tensor is None else tensor
    if r.kind[row] == "constant" or seen is None:
        return [Fact("shape", str(r.shape[row])), Fact("dtype", str(r.dtype[row]))]
    found = [Fact("shape", str(r.shape[row])), Fact("dtype", str(seen.dtype)), Fact("device", str(seen.device))]
    found.append(Fact("size", f"{seen.numel():,} elements, {bytes_text(r.bytes[row])}"))
    if arrays.strided(seen):
        found.append(Fact("strides", f"{tuple(seen.stride())}{'' if seen.is_contiguous() else ', not contiguous'}"))
    if tensor is None:
        return [*found, Fact("requires_grad", str(r.grad[row]))]
    if tensor._is_view():
        base = r.find(tensor._base)
        found.append(Fact("view of", r.called(base) if base >= 0 else f"a tensor of shape {tuple(tensor._base.shape)}"))
    if not tensor.is_inference() and tensor._version:
        found.append(Fact("version", f"{tensor._version} ({_times(tensor._version)} written in place)"))
    found += [Fact("requires_grad", str(tensor.requires_grad)), Fact("leaf", str(tensor.is_leaf))]
    if tensor.grad_fn is not None:
        found.append(Fact("grad_fn", tensor.grad_fn.name()))
    return found


def why_no_grad(recording: TorchRecording, row: int) -> str:
    """Explain in a sentence why this row has no gradient."""
    r, tensor = recording, recording.its(row)
    if r.kind[row] == "constant":
        return "A number has no gradient: only tensors with requires_grad=True do."
    if not r.grad[row]:
        return _not_required(r, row, tensor)
    if tensor is not None and tensor.is_leaf and tensor.grad is not None:
        return "Its .grad is there, but " + arrays.unusual(tensor.grad)
    if r.root >= 0 and row not in r.reachable(r.root):
        return "The loss does not depend on it, so no gradient reaches it."
    if r.kind[row] == "op" or r.kind[row] == "input":
        if tensor is None or not tensor.retains_grad:
            wait = "" if r.passes else "No backward() has run under the watch yet; and "
            leaf = "it is no leaf (is_leaf is False), and PyTorch keeps .grad of leaves only"
            said = f"{wait}{leaf}. Call retain_grad() on it before backward(), or watch the pass: its record has this gradient too."
            return said[0].upper() + said[1:]
    if not r.passes:
        return "No backward() has run yet."
    return "backward() has run, but no gradient reached it, or .grad was set back to None since (zero_grad does that)."


def _not_required(r: TorchRecording, row: int, tensor: Any) -> str:
    op, dtype = r.op_name(row), r.dtype[row]
    if tensor is not None and not (tensor.is_floating_point() or tensor.is_complex()) or getattr(dtype, "kind", "f") in "iub":
        return f"Its dtype is {dtype}; only floating-point and complex tensors have gradients."
    if op in ("detach", "data"):
        return "It was detached here, so no gradient passes."
    if tensor is not None and tensor.is_inference():
        return "It was made under torch.inference_mode(), so PyTorch keeps no graph of it."
    if any(r.grad[source] for source, _ in r.inputs(row)):
        return "It was computed under torch.no_grad(), or by an op that has no derivative, so PyTorch does not know how it was made."
    if r.kind[row] == "op":
        return "None of the tensors that it was computed from requires grad."
    return "Its requires_grad is False. Call requires_grad_() on it before it is used to get a gradient."


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"
