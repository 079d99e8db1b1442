"""Knowledge distillation: a frozen teacher, soft targets at a temperature, KLDivLoss, hooks that look at activations."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(32)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.get_default_dtype()), torch.tensor(digits.target)
teacher = nn.Sequential(nn.Linear(64, 64), nn.Hardswish(), nn.Linear(64, 10))
student = nn.Sequential(nn.Linear(64, 8), nn.Hardtanh(), nn.Linear(8, 10))
for step in range(30):
    teacher.zero_grad()
    F.cross_entropy(teacher(x[:500]), y[:500]).backward()
    with torch.no_grad():
        for p in teacher.parameters():
            p.sub_(p.grad, alpha=0.5)
teacher.eval()
for p in teacher.parameters():
    p.requires_grad = False

activations, gradients = {}, {}
student[0].register_forward_hook(lambda module, inputs, output: activations.__setitem__("hidden", output.detach()))
student[0].register_full_backward_hook(lambda module, grad_input, grad_output: gradients.__setitem__("hidden", grad_output[0]))
kl, T = nn.KLDivLoss(reduction="batchmean"), 3.0
optimizer = torch.optim.Adamax(student.parameters(), lr=0.01)
losses = []
for step in range(20):
    at = slice(64 * step, 64 * step + 64)
    logits = student(x[at])
    with torch.no_grad():
        soft = F.softmax(teacher(x[at]) / T, dim=1)
    loss = 0.7 * T * T * kl(F.log_softmax(logits / T, dim=1), soft) + 0.3 * F.cross_entropy(logits, y[at])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(tuple(activations["hidden"].shape), tuple(gradients["hidden"].shape))
