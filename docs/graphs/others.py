"""What torchview draws of the ten models, and the ONNX files that Netron opens: run by architectures.py with a Python that has PyTorch.

python docs/graphs/others.py FOLDER TITLE ...         (needs torch, torchview, onnx, onnxscript and Graphviz's `dot`)
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ten


class Solved(nn.Module):
    """The neural ODE as a module: these tools draw modules."""

    def __init__(self, field):
        super().__init__()
        self.field = field

    def forward(self, y):
        dt = 0.1
        for step in range(60):
            k1 = self.field(step * dt, y)
            k2 = self.field(step * dt + dt / 2, y + dt / 2 * k1)
            k3 = self.field(step * dt + dt / 2, y + dt / 2 * k2)
            k4 = self.field(step * dt + dt, y + dt * k3)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y


def model_of(title: str) -> tuple[nn.Module, tuple]:
    """A module and what it is called with, from the cells that make it."""
    scope = {**vars(ten), "torch": torch}
    exec(ten.TEN[title][0], scope)
    if title == "GAN":
        return nn.Sequential(scope["generator"], scope["discriminator"]), (scope["noise"],)
    if title == "Neural ODE":
        return Solved(scope["field"]), (scope["start"],)
    inputs = {
        "LSTM seq2seq with attention": ("source", "target"),
        "MLP": ("x",),
        "VAE": ("x",),
        "U-Net": ("image",),
        "GPT with tied weights": ("idx",),
    }
    return scope["model"], tuple(scope[name] for name in inputs.get(title, ("images",)))


def main() -> None:
    from torchview import draw_graph

    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    for title in sys.argv[2:]:
        model, inputs = model_of(title)
        name = title.split()[0].lower()
        drawn = draw_graph(model, input_data=inputs, graph_name=name, expand_nested=True)
        drawn.visual_graph.render(name, folder, format="png", cleanup=True)
        torch.onnx.export(model.eval(), inputs, folder / f"{name}.onnx", dynamo=True, verbose=False)


if __name__ == "__main__":
    main()
