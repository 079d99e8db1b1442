"""What makes the flight recorder write its file: NaN and infinities, a loss far off the usual, and conditions of the user's."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

import numpy

from engine.core import devices

from ..backward.conditions import Condition, fetched, measure
from ..torch_models.arrays import numpy_of
from ..torch_models.loaded import is_tensor
from ..torch_models.recorder import bookkeeping
from .log import Step

WINDOW, ENOUGH = 100, 20  # losses that a spike is compared with, and the fewest
SHARE = 0.005  # of the time of the steps, at most, is spent on looking for NaN in gradients


class Triggers:
    """Looks at each step. `spike` is a robust z-score: 0.6745 * (loss - median) / MAD of the last 100 losses; None for no such trigger."""

    def __init__(self, when: Sequence[str], spike: float | None) -> None:
        self._conditions = [Condition(text) for text in when]
        self._spike = spike
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._why = ""  # of the step that runs
        self.spoilt = False  # whether a loss or a gradient was not finite, so that all steps that follow are of no use
        self._cost, self._looked = 0.0, -math.inf

    def begin(self) -> None:
        """Forget the step before."""
        self._why = ""

    def gradients(self, named: Iterable[tuple[str, Any]]) -> None:
        """Look at the gradients that an optimizer is about to use: at conditions each time, at NaN as often as their cost allows."""
        now = perf_counter()
        due = now - self._looked >= self._cost / SHARE
        if self._why or not (due or self._conditions):
            return
        for name, gradient in named:
            if due and not finite(gradient):
                self._why, self.spoilt = f"The gradient of {name} is not finite", True
            elif self._conditions and (array := numpy_of(gradient) if is_tensor(gradient) else gradient.array) is not None:
                for condition in self._conditions:
                    (health,) = fetched([(condition.names, measure(array, condition.names))])
                    if condition.holds(health):
                        told = ", ".join(f"{k} {v:.4g}" for k, v in health.items())
                        self._why = f"{condition.text} holds for the gradient of {name}: {told}"
                        break
            if self._why:
                break
        if due:
            self._looked = perf_counter()
            self._cost = self._looked - now

    def ended(self, step: Step) -> str:
        """Why this step is worth keeping, "" if it is not."""
        if any(not math.isfinite(loss) for loss in step.losses):
            self.spoilt = True
            return f"The loss is {next(loss for loss in step.losses if not math.isfinite(loss))}"
        if self._why or not step.losses:
            return self._why
        known = list(self._losses)
        self._losses.append(step.loss)
        if self._spike is not None and len(known) >= ENOUGH:
            middle = statistics.median(known)
            spread = max(statistics.median(abs(x - middle) for x in known), 1e-3 * abs(middle), 1e-12)
            score = 0.6745 * (step.loss - middle) / spread
            if score > self._spike:
                usual = f"the median {middle:.6g} of {len(known)} steps"
                return f"The loss is {step.loss:.6g}, {score:.1f} robust standard deviations above {usual}"
        return ""


def finite(tensor: Any) -> bool:
    """Whether all elements are finite. The sum tells in one pass; where it overflows, all are looked at. A recording does not see this."""
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    if not (values.dtype.is_floating_point or values.dtype.is_complex):
        return True
    if is_tensor(values):
        with bookkeeping():
            return math.isfinite(abs(values.detach().sum().item())) or bool(values.detach().isfinite().all())
    array = values.array
    with numpy.errstate(all="ignore"):
        return math.isfinite(abs(array.sum().item())) or bool(devices.namespace(array).isfinite(array).all())
