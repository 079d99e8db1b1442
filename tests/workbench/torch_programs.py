"""PyTorch's models for the tests of `wb.watch`, and what is asked of their recordings."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from workbench import protocol


class Tiny(nn.Module):
    """A small causal transformer whose head is its embedding."""

    def __init__(self, words=11, width=8):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        h = self.embedding(ids)
        for block in self.blocks:
            h = block(h, src_mask=nn.Transformer.generate_square_subsequent_mask(ids.shape[1]), is_causal=True)
        return self.head(h)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 5, num_layers=2, batch_first=True)
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        h, _ = self.lstm(x)
        return self.out(h[:, -1])


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])


def cnn():
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, 3)
    )
    return model, torch.randn(3, 2, 8, 8), torch.tensor([0, 2, 1])


def lstm():
    return Recurrent(), torch.randn(4, 6, 3), torch.tensor([0, 1, 1, 0])


def transformer():
    return Tiny(), torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), torch.tensor([[2, 3, 4, 5], [6, 7, 8, 9]])


MODELS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "transformer": transformer}


def loss_of(model, x, t):
    return F.cross_entropy(model(x).flatten(0, -2), t.flatten())


def ask(session, kind, **fields):
    (message, _), *_ = session.handle({"type": kind, "v": protocol.VERSION, "id": 1, **fields})
    return message


def inspected(session, row, what="value"):
    return ask(session, "inspect", node=row, what=what)


def ops(recording):
    return [recording.op_name(row) for row in range(recording.count) if recording.kind[row] == "op"]


def named(recording, name):
    (row,) = [row for row, text in recording.names.items() if text == name]
    return row


def nothing_hangs(model):
    """No hook of ours is left in torch's tables."""
    tables = torch.nn.modules.module
    found = (tables._global_forward_hooks, tables._global_forward_pre_hooks, tables._global_forward_hooks_always_called)
    own = [m._forward_hooks or m._forward_pre_hooks for m in model.modules()]
    return not any(map(len, found)) and not any(map(len, own)) and torch._C._len_torch_function_stack() == 0
