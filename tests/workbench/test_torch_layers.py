"""PyTorch's layers and functions under a watch, one by one: the same bits as without, a record that ends in `.grad`, answers to every question."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

import workbench as wb
from workbench import protocol

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # warnings about what the table calls are torch's own

R = torch.randn
LAYERS = {
    "conv1d": (lambda: nn.Conv1d(2, 3, 3), lambda: (R(2, 2, 8),)),
    "conv_transpose": (lambda: nn.ConvTranspose2d(2, 3, 3), lambda: (R(1, 2, 5, 5),)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), lambda: (R(1, 1, 4, 4, 4),)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), lambda: (R(2, 4, 3),)),
    "batch_norm_eval": (lambda: nn.BatchNorm1d(4).eval(), lambda: (R(2, 4),)),
    "rms_norm": (lambda: nn.RMSNorm(4), lambda: (R(2, 4),)),
    "gru": (lambda: nn.GRU(3, 4, 2, bidirectional=True), lambda: (R(5, 2, 3),)),
    "lstm_cell": (lambda: nn.LSTMCell(3, 4), lambda: (R(2, 3),)),
    "embedding_bag": (lambda: nn.EmbeddingBag(10, 4), lambda: (torch.randint(10, (2, 3)),)),
    "bilinear": (lambda: nn.Bilinear(2, 3, 4), lambda: (R(5, 2), R(5, 3))),
    "attention": (lambda: nn.MultiheadAttention(4, 2), lambda: (R(3, 1, 4), R(3, 1, 4), R(3, 1, 4))),
    "transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), lambda: (R(1, 3, 8), R(1, 2, 8))),
    "weight_norm": (lambda: parametrizations.weight_norm(nn.Linear(3, 2)), lambda: (R(2, 3),)),
    "adaptive_softmax": (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]), lambda: (R(4, 8), torch.randint(20, (4,)))),
    "fold": (lambda: nn.Sequential(nn.Linear(3, 3), nn.Unfold(2), nn.Fold(3, 2)), lambda: (R(1, 4, 3, 3),)),
    "upsample": (lambda: nn.Sequential(nn.Linear(3, 3), nn.Upsample(scale_factor=2, mode="bilinear")), lambda: (R(1, 1, 3, 3),)),
}


def written(x):
    y = x * 1
    y += 1
    y *= x
    y[:, 0] += y[:, 1].clone()
    return y


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y


def mixed(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ x).float()


def out(x):
    made = torch.empty(4, 4)
    torch.mul(x.detach(), 2, out=made)
    return made * x


FUNCTIONS = {
    "written": written, "hooked": hooked, "mixed": mixed, "out": out,
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "solve": lambda x: torch.linalg.solve(x.detach().abs() + 4 * torch.eye(4), x),
    "fft": lambda x: torch.fft.fft(x).abs(),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x)),
    "topk": lambda x: x.topk(2).values,
    "split": lambda x: x.split(2)[1],
    "unbind": lambda x: sum(row for row in x),
    "var_mean": lambda x: torch.var_mean(x),
    "max": lambda x: x.max(0),
    "index": lambda x: x[torch.tensor([0, 1])],
    "mask": lambda x: x[x > 0],
    "scatter": lambda x: x.scatter_add(0, torch.zeros(1, 4, dtype=torch.long), x[:1]),
    "reflected": lambda x: (1 - x) * (2**x) / (2 / (x.abs() + 1)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], is_causal=True),
    "dropout": lambda x: F.dropout(x),
    "gumbel": lambda x: F.gumbel_softmax(x),
    "ctc": lambda x: F.ctc_loss(x.log_softmax(1)[:, None], torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2])),
    "vmap": lambda x: torch.func.vmap(torch.sin)(x),
    "func_grad": lambda x: torch.func.grad(lambda z: z.pow(2).sum())(x),
    "jvp": lambda x: torch.autograd.functional.jvp(torch.sin, x, x.detach(), create_graph=True)[1],
    "item": lambda x: x * x.sum().item(),
}  # fmt: skip


def squares(x):
    if isinstance(x, torch.Tensor):
        return (x.float() ** 2).sum() if x.is_floating_point() else 0
    return sum(squares(part) for part in x)


def ask(session, kind, **fields):
    (message, _), *_ = session.handle({"type": kind, "v": protocol.VERSION, "id": 1, **fields})
    return message["type"]


def answers(session):
    for row in range(session.recording.count):
        assert {ask(session, "inspect", node=row, what=what) for what in ("value", "grad")} == {"inspected"}
    assert [ask(session, kind) for kind in ("ask_memory", "ask_timing", "ask_model")] == ["memory", "timing", "model_health"]
    session.stepper.to(0)
    while not session.stepper.done:
        assert ask(session, "step", do="next") == "stepped"


def checked(run, leaves):
    torch.manual_seed(1)
    plain = squares(run())
    plain.backward()
    expected = [x.grad for x in leaves]
    for x in leaves:
        x.grad = None
    torch.manual_seed(1)
    with wb.watch() as w:
        loss = squares(run())
        loss.backward(retain_graph=True)
    assert torch.equal(loss, plain)
    recording, record = w.session.recording, w.session.stepper
    for x, g in zip(leaves, expected, strict=True):
        assert torch.equal(x.grad, g) if g is not None else x.grad is None
        if g is not None:
            assert torch.equal(torch.from_numpy(record.gradient(recording.find(x))[0]), g)
    answers(w.session)
    behind = wb.watch(loss)
    loss.backward()
    answers(behind.session)
    behind.stop()


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    torch.manual_seed(0)
    make, inputs = LAYERS[name]
    module, given = make(), inputs()
    checked(lambda: module(*given), list(module.parameters()))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    torch.manual_seed(0)
    x = R(4, 4, requires_grad=True)
    checked(lambda: FUNCTIONS[name](x), [x])
