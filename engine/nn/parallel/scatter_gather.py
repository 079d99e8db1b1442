"""`scatter` and `gather`: split a batch across devices, and join the results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...core.op import functions
from ...core.tensor import Tensor


def _place(device: Any) -> Any:
    return f"cuda:{device}" if isinstance(device, int) else device


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list | tuple:
    """Split every tensor into one chunk per device along `dim`; containers are rebuilt, other values are passed to all devices."""
    n = len(target_gpus)
    if isinstance(inputs, Tensor):
        return tuple(part.to(_place(device)) for part, device in zip(inputs.chunk(n, dim), target_gpus, strict=False))
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields") and inputs:
        return [type(inputs)(*parts) for parts in zip(*[scatter(v, target_gpus, dim) for v in inputs], strict=False)]
    if isinstance(inputs, (tuple, list)) and inputs:
        return [type(inputs)(parts) for parts in zip(*[scatter(v, target_gpus, dim) for v in inputs], strict=False)]
    if isinstance(inputs, dict) and inputs:
        parts = zip(*[scatter(v, target_gpus, dim) for v in inputs.values()], strict=False)
        return [type(inputs)(zip(inputs, values, strict=True)) for values in parts]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs: tuple, kwargs: dict | None, target_gpus: Sequence[Any], dim: int = 0) -> tuple[tuple, tuple]:
    """Scatter positional and keyword arguments, padding the shorter list so that both have equal length."""
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    most = max(len(positional), len(named))
    positional += [()] * (most - len(positional))
    named += [{}] * (most - len(named))
    return tuple(positional), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Join the results on one device: tensors are concatenated along `dim` (scalars stacked to a vector), containers rebuilt."""
    first = outputs[0]
    if isinstance(first, Tensor):
        parts = [part.to(_place(target_device)) for part in outputs]
        if dim == 0 and all(not part.ndim for part in parts):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a vector.",
                stacklevel=2,
            )
            return functions["stack"](parts)
        return functions["cat"](parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(first) != len(part) for part in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((k, gather([part[k] for part in outputs], target_device, dim)) for k in first)
    joined = [gather(parts, target_device, dim) for parts in zip(*outputs, strict=True)]
    return type(first)(*joined) if hasattr(first, "_fields") else type(first)(joined)
