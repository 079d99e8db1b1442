"""Step sizes of a backward pass: one op, one module, up to the next parameter's gradient, or one iteration of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .. import protocol
from ..graph.graph import Graph
from ..recording.recording import Recording

By = Literal["op", "module", "parameter", "iteration"]

MODULES = ("module", "scope", "function")
_NONE = {
    "module": "Nothing in this pass ran inside a module or a wb.scope(...): step by op instead.",
    "iteration": "There is no loop in this pass: step by op instead.",
    "parameter": "This pass reaches no leaf, so no .grad receives anything: step by op instead.",
}


class Places:
    """The indices in a pass at which coarser steps end. `plan` is the row of each step; an index is the number of steps done."""

    def __init__(self, recording: Recording, graph: Graph, plan: Sequence[int]) -> None:
        self.plan = plan
        self.live = not graph.finished  # loops may be known better later
        self._leaf = [row >= 0 and recording.ops[row] is None for row in plan]
        groups, home = graph.arranged()
        self._groups = groups
        self._home = [home[row] if 0 <= row < len(home) else -1 for row in plan]
        self._labels: dict[str, list[int]] = {}
        self._sizes: dict[int, int] = {}  # module -> number of its steps

    def after(self, by: By, index: int) -> int:
        """The index at which a step forward from `index` ends."""
        end = len(self.plan)
        if by == "op" or index >= end:
            return min(index + 1, end)
        if by == "parameter":
            self._there(by, any(self._leaf))
            return next((i + 1 for i in range(index, end) if self._leaf[i]), end)
        labels = self._label(by)
        if by == "module" and (whole := self._whole(index, index - 1)) >= 0:
            return next((i for i in range(index + 1, end) if whole not in self._around(i)), end)
        return next((i for i in range(index + 1, end) if labels[i] != labels[index]), end)

    def before(self, by: By, index: int) -> int:
        """The index at which a step back from `index` ends."""
        if by == "op" or index <= 0:
            return max(index - 1, 0)
        if by == "parameter":
            self._there(by, any(self._leaf))
            return next((i for i in range(index - 1, 0, -1) if self._leaf[i - 1]), 0)
        labels = self._label(by)
        if by == "module" and (whole := self._whole(index - 1, index)) >= 0:
            return next((i for i in range(index - 1, 0, -1) if whole not in self._around(i - 1)), 0)
        return next((i for i in range(index - 1, 0, -1) if labels[i - 1] != labels[index - 1]), 0)

    def out(self, index: int) -> int:
        """The index at which the pass leaves the innermost module around the current step; at that module's end, the next outer one."""
        end = len(self.plan)
        if index >= end:
            return end
        around = self._around(max(index - 1, 0))
        self._there("module", bool(around) or any(label >= 0 for label in self._label("module")))
        for group in around:
            left = next((i for i in range(index, end) if group not in self._around(i)), end)
            if left > index:
                return left
        return end

    def _whole(self, step: int, beyond: int) -> int:
        """The largest module that contains the step but not the step `beyond`, and so is stepped over; -1 for none.

        A module with more than half of the pass, such as the model itself, is stepped into.
        """
        outside = self._around(beyond) if 0 <= beyond < len(self.plan) else []
        begins = [group for group in self._around(step) if group not in outside and self._groups[group].kind != "function"]
        return next((group for group in reversed(begins) if 2 * self._steps(group) <= len(self.plan)), -1)

    def _steps(self, group: int) -> int:
        """The number of steps in a module."""
        if not self._sizes:
            for step in range(len(self.plan)):
                for around in self._around(step):
                    self._sizes[around] = self._sizes.get(around, 0) + 1
        return self._sizes.get(group, 0)

    def _around(self, step: int) -> list[int]:
        """The modules around a step, innermost first."""
        found, group = [], self._home[step]
        while group >= 0:
            if self._groups[group].kind in MODULES:
                found.append(group)
            group = self._groups[group].parent
        return found

    def _label(self, by: Literal["module", "iteration"]) -> list[int]:
        labels = self._labels.get(by)
        if labels is None:
            of_group = [self._unit(group, by) for group in range(len(self._groups))]
            labels = self._labels[by] = [of_group[home] if home >= 0 else -1 for home in self._home]
        self._there(by, any(label >= 0 for label in labels))
        return labels

    def _unit(self, group: int, by: Literal["module", "iteration"]) -> int:
        """The innermost module or iteration that a group is or is in. A composite op counts if there is no module around it."""
        function = -1
        while group >= 0:
            one: protocol.Group = self._groups[group]
            if by == "iteration" and one.kind == "iteration" or by == "module" and one.kind in ("module", "scope"):
                return group
            if by == "module" and one.kind == "function":
                function = group
            group = one.parent
        return function

    @staticmethod
    def _there(by: Literal["module", "iteration", "parameter"], found: bool) -> None:
        if not found:
            raise protocol.Refused(_NONE[by])
