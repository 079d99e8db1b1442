"""SparseAdam: Adam restricted to the rows of sparse gradients."""

from __future__ import annotations

from typing import Any

from ..backends.coo import Coo
from ..core.tensor import Tensor
from .optimizer import Optimizer, check, number, options


class SparseAdam(Optimizer):
    """Sparse Adam: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g² and p = p - s m / (sqrt(v) + eps), where g has elements.

    s = lr sqrt(1 - b2^t) / (1 - b1^t). Moments of other elements do not decay. Gradients must be sparse, as from
    `nn.Embedding(sparse=True)`; dense ones raise RuntimeError.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, maximize: bool = False
    ):  # fmt: skip
        check("learning rate", lr, number(lr) > 0.0)
        check("epsilon value", eps, eps > 0.0)
        super().__init__(params, options(lr=lr, betas=betas, eps=eps, maximize=maximize))
        wrong = [[i, j] for i, g in enumerate(self.param_groups) for j, p in enumerate(g["params"]) if p.array.__class__ is Coo]
        if wrong:
            raise ValueError(f"Sparse params at indices {wrong}: SparseAdam requires dense parameter tensors")

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")

    _update_complex = _update

    def _update_sparse(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            state["step"] = 0
            state.update(exp_avg=Tensor._wrap(xp.zeros_like(p)), exp_avg_sq=Tensor._wrap(xp.zeros_like(p)))
        state["step"] += 1
        (b1, b2), t, at = group["betas"], state["step"], tuple(g.indices)
        m, v = (state[name].array for name in ("exp_avg", "exp_avg_sq"))
        m[at] += (g.values - m[at]) * (1 - b1)
        v[at] += (g.values * g.values - v[at]) * (1 - b2)
        p[at] -= number(group["lr"]) * (1 - b2**t) ** 0.5 / (1 - b1**t) * m[at] / (xp.sqrt(v[at]) + group["eps"])
