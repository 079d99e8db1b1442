"""`swap_in_optimizer_params_and_state`: temporarily use other parameters and state in an optimizer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.tensor import Tensor
from .optimizer import Optimizer


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Context manager: the optimizer uses these parameters, in its order, and this state, in the format of `state_dict()`.

    Its own are restored on exit. Writes into the given tensors persist; other changes to the optimizer in the block do not.
    """
    params = list(swapin_parameters.values())
    wanted = sum(len(g["params"]) for g in optimizer.param_groups)
    if len(params) != wanted:
        raise ValueError(f"expected {wanted} parameters, those of the optimizer, got {len(params)}")
    if len(swapin_optim_state["param_groups"]) != len(optimizer.param_groups):
        raise ValueError("the optim state has a different number of parameter groups")
    kept = optimizer.param_groups, optimizer.state
    groups = [{**g, "params": [params[i] for i in g["params"]]} for g in swapin_optim_state["param_groups"]]
    state = {params[i] if isinstance(i, int) else i: dict(s) for i, s in swapin_optim_state["state"].items()}
    optimizer.param_groups, optimizer.state = groups, defaultdict(dict, state)
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = kept
