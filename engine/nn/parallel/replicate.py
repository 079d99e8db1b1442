"""`replicate`: copy a module to several devices."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ...autograd import no_grad
from ..module import Module
from .scatter_gather import _place

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Return one copy of the module per device; gradients flow back to the original parameters, unless `detach`.

    The copies' parameters are not leaves, so `parameters()` of a copy is empty, as in PyTorch.
    """

    def at(module: Module, device: Any, memo: dict[int, Module], tensors: dict[int, Any]) -> Module:
        if id(module) in memo:
            return memo[id(module)]
        made = memo[id(module)] = copy.copy(module)
        for name in ("_parameters", "_buffers", "_modules"):
            made.__dict__[name] = dict(module.__dict__[name])
        for name, param in module._parameters.items():
            if param is None:
                continue
            del made._parameters[name]
            there = tensors.get(id(param))
            if there is None:
                there = tensors[id(param)] = (param.detach() if detach else param).to(device).view_as(param)
            made.__dict__[name] = there
        with no_grad():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    made._buffers[name] = buffer.to(device)
        for name, child in module._modules.items():
            if child is not None:
                made._modules[name] = at(child, device, memo, tensors)
        return made

    return [at(network, _place(device), {}, {}) for device in devices]
