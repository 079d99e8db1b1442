"""torch.masked: reductions and normalisations of what a mask lets through, masked tensors."""

from __future__ import annotations

from .case import case, fails
from .inputs import b, f, v

# fmt: off
M = v([[True, False, True, True], [False, False, True, False], [True, True, True, True]], "bool")
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "logsumexp", "argmax", "argmin", "median")
case("", [f"torch.masked.{name}(x, 1, mask=m)" for name in REDUCTIONS] + [f"torch.masked.{name}(x, dim=0, keepdim=True, mask=m)" for name in REDUCTIONS if name != "median"] + [f"torch.masked.{name}(x, mask=m)" for name in ("sum", "prod", "amax", "amin", "argmax", "argmin")] + [f"torch.masked.{name}(x, 1)" for name in ("sum", "mean", "amax")], x=f(3, 4), m=M)
case("", ["torch.masked.var(x, 1, mask=m)", "torch.masked.std(x, 1, unbiased=False, mask=m)", "torch.masked.norm(x, 2, 1, mask=m)", "torch.masked.norm(x, float('inf'), 1, mask=m)", "torch.masked.softmax(x, 1, mask=m)", "torch.masked.log_softmax(x, 1, mask=m)", "torch.masked.softmin(x, 1, mask=m)", "torch.masked.normalize(x, 2.0, 1, mask=m)", "torch.masked.cumsum(x, 1, mask=m)", "torch.masked.cumprod(x, 1, mask=m)", "torch.masked.sum(x, 1, mask=m, dtype=torch.float32)"], x=[f(3, 4), f(3, 4, dtype="float32")], m=M)
case("", "torch.masked.sum(x, 1, mask=m), torch.masked.mean(x, mask=m)", x=f(2, 3), m=b(3))
fails("", ["torch.masked.sum(x, 5, mask=m)", "torch.masked.softmax(x, mask=m)", "torch.masked.sum('a', 0)"], x=f(3, 4), m=M)
