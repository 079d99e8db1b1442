"""Functions of one's own: a Legendre polynomial, a straight-through sign, checked by gradcheck, used in training."""

import torch
from torch.autograd import Function, gradcheck
from torch.autograd.function import once_differentiable


class LegendrePolynomial3(Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


class Binarize(Function):
    @staticmethod
    def forward(ctx, weight, clip):
        ctx.save_for_backward(weight)
        ctx.clip = clip
        return weight.sign()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return grad.masked_fill(weight.abs() > ctx.clip, 0), None


class Exp(Function):
    @staticmethod
    def forward(x):
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable()
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result


torch.manual_seed(23)
assert gradcheck(LegendrePolynomial3.apply, (torch.randn(4, dtype=torch.double, requires_grad=True),))
assert gradcheck(Exp.apply, (torch.randn(3, dtype=torch.double, requires_grad=True),))

P3 = LegendrePolynomial3.apply
x = torch.linspace(-3.14159, 3.14159, 200)
y = torch.sin(x)
a, b, c, d = (torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3))
mask = torch.randn(200, requires_grad=True)
losses = []
for step in range(20):
    y_pred = a + b * P3(c + d * x) + 0.01 * Binarize.apply(mask, 1.5) * Exp.apply(-x.abs())
    loss = (y_pred - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in (a, b, c, d):
            p -= 5e-6 * p.grad
            p.grad = None
        mask -= mask.grad
        mask.grad = None
    losses.append(loss.item())
print(f"y = {a.item():.4f} + {b.item():.4f} * P3({c.item():.4f} + {d.item():.4f} x)")
