"""`torch.distributed.optim`: `ZeroRedundancyOptimizer`, with optimizer state sharded over processes."""

from __future__ import annotations

from typing import Any

from ..core.create import empty
from ..nn.parameter import Parameter
from ..optim import Optimizer
from .collectives import broadcast
from .objects import gather_object
from .world import get_rank, get_world_size

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Shard `optimizer_class` over all processes: each updates its share of the parameters and broadcasts it.

    Optimizer state, such as Adam's moments, exists once instead of in every process (stage 1 of Rajbhandari et al., "ZeRO", 2020).
    Parameters are assigned by size, largest first, to the process with the smallest load. `parameters_as_bucket_view` does not change
    results; `overlap_with_ddp` raises NotImplementedError.
    """

    def __init__(
        self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None, parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False, **defaults: Any,
    ):  # fmt: skip
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp=True is not supported here")
        self.process_group = process_group
        self.rank, self.world_size = get_rank(process_group), get_world_size(process_group)
        self.optim: Optimizer | None = None
        self._owner: dict[Any, int] = {}  # parameter -> rank that updates it
        self._load = [0] * self.world_size
        self._optimizer_class, self._optimizer_defaults = optimizer_class, defaults
        super().__init__(params, self._make([Parameter(empty(0))]).defaults)  # includes defaults of `optimizer_class`
        self._deal(self.param_groups)
        self._whole: list[dict] | None = None  # states of all processes, once consolidated

    def _make(self, groups: list) -> Optimizer:
        return self._optimizer_class(groups, **self._optimizer_defaults)

    def _deal(self, groups: list[dict]) -> None:
        """Assign the parameters to processes, and those of this process to its optimizer."""
        for p in sorted((p for group in groups for p in group["params"]), key=lambda p: -p.numel()):
            least = self._load.index(min(self._load))
            self._owner[p] = least
            self._load[least] += p.numel()
        mine = [{**group, "params": [p for p in group["params"] if self._owner[p] == self.rank]} for group in groups]
        mine = [group for group in mine if group["params"]]
        if self.optim is None:
            self.optim = self._make(mine) if mine else None
            return
        for group in mine:
            self.optim.add_param_group(group)

    def add_param_group(self, param_group: dict) -> None:
        """Add a group of parameters, which are assigned to processes, too."""
        super().add_param_group(param_group)
        if self._owner:  # otherwise the initial ones, assigned together
            self._deal(self.param_groups[-1:])

    def step(self, closure: Any = None) -> Any:
        """Update this process's parameters, then broadcast each parameter from its owner."""
        loss = None
        if self.optim is not None:
            for local, group in zip(self.optim.param_groups, self._own_groups(), strict=True):
                local.update({k: v for k, v in group.items() if k != "params"})  # schedulers change the outer groups
            loss = self.optim.step(closure) if closure is not None else self.optim.step()
        elif closure is not None:
            loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                broadcast(p.data, group_src=self._owner[p], group=self.process_group)
        return loss

    def _own_groups(self) -> list:
        return [g for g in self.param_groups if any(self._owner[p] == self.rank for p in g["params"])]

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the state in process `to`, for `state_dict` there. All processes must call it."""
        found: list | None = [None] * self.world_size if self.rank == to else None
        gather_object(self._named_state(), found, group=self.process_group, group_dst=to)
        self._whole = found  # type: ignore[assignment]

    def _named_state(self) -> dict:
        """Return the local state keyed by the parameters' global indices."""
        number = {p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        return {} if self.optim is None else {number[p]: state for p, state in self.optim.state.items()}

    def state_dict(self) -> dict:
        """Return the consolidated state. Raises RuntimeError without `consolidate_state_dict`, and in other processes."""
        if self._whole is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to=rank)` on all ranks "
                "beforehand if you meant to save the global state."
            )
        described = super().state_dict()
        described["state"] = dict(sorted((k, v) for part in self._whole for k, v in part.items()))
        return described

    def load_state_dict(self, state_dict: dict) -> None:
        """Load a full state; each process keeps its part."""
        super().load_state_dict(state_dict)
        if self.optim is not None:
            for p in list(self.state):
                if self._owner[p] == self.rank:
                    self.optim.state[p] = self.state[p]
        self.state.clear()
