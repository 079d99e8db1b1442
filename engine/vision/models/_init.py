"""Helpers of the models: initialization, rounding of channels, and extraction of intermediate outputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from engine import nn
from engine.nn import init


def kaiming(
    model: nn.Module, linear: Callable[[nn.Linear], Any] | None = None, mode: str = "fan_out", nonlinearity: str = "leaky_relu"
) -> None:
    """Initialize convolutions by Kaiming normal, norms to one and zero, and biases to zero; `linear` initializes linear layers."""
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            init.kaiming_normal_(m.weight, mode=mode, nonlinearity=nonlinearity)
            if m.bias is not None:
                init.zeros_(m.bias)
        elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
            init.ones_(m.weight)
            init.zeros_(m.bias)
        elif isinstance(m, nn.Linear) and linear is not None:
            linear(m)
            init.zeros_(m.bias)


def divisible(v: float, divisor: int = 8, min_value: int | None = None) -> int:
    """Round to the nearest multiple of the divisor, but not below 0.9 v."""
    found = max(min_value or divisor, int(v + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * v else found


class IntermediateLayerGetter(nn.ModuleDict):
    """Run the children up to the last one in `return_layers`, and return {new name: output} of those listed."""

    def __init__(self, model: nn.Module, return_layers: dict[str, str]):
        names = [name for name, _ in model.named_children()]
        if not set(return_layers) <= set(names):
            raise ValueError("return_layers are not present in model")
        last = max(names.index(name) for name in return_layers)
        super().__init__(OrderedDict(list(model.named_children())[: last + 1]))
        self.return_layers = {str(old): str(new) for old, new in return_layers.items()}

    def forward(self, x: Any) -> OrderedDict:
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out
