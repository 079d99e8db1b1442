"""The first values that several models give their layers, and numbers of channels that hardware likes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from engine import nn
from engine.nn import init


def kaiming(
    model: nn.Module, linear: Callable[[nn.Linear], Any] | None = None, mode: str = "fan_out", nonlinearity: str = "leaky_relu"
) -> None:
    """Convolutions normal by fan, norms one and zero, all biases zero; `linear` says what weights of linear layers get."""
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
    """The multiple of the divisor that is nearest to v, but not below nine tenths of it."""
    found = max(min_value or divisor, int(v + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * v else found


class IntermediateLayerGetter(nn.ModuleDict):
    """The model's children up to the last one named in `return_layers`; gives {new name: output} of those named."""

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
