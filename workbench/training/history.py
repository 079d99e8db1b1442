"""The history of a training run: statistics and histograms of weights, gradients, updates and activations at each step."""

from __future__ import annotations

import difflib
import math
import weakref
from typing import Any

import numpy

from engine.nn import Module

from ..inspector import gradient_flow
from ..inspector.gradient_flow import GradientRow
from ..torch_models.arrays import Seen
from ..torch_models.loaded import is_module
from .curve import Curve, later
from .hooks import Hooks
from .table import COLUMNS, ModuleHistory, ParameterHistory, Quantity

KEEP = 256  # steps at most
living: weakref.WeakSet[History] = weakref.WeakSet()  # lets the views find the histories that record a tensor or a module


class History:
    """The history of a training, which `wb.history` returns. It records until `close()` or the end of its `with` block.

    `h[name]` is the series of a parameter or a module, named as in `named_parameters()` and `named_modules()`; `len(h)` is the number of
    kept steps.

    Attributes:
        steps: the kept steps, int64, counted from 0. Every recorded array has one row per kept step.
        scalars: the logged scalars by name.
        parameters: `ParameterHistory` by name.
        modules: `ModuleHistory` by name.
        note: a sentence that says how many steps were seen and how many are kept.
    """

    def __init__(self, model: Any, optimizer: Any = None, every: int = 1, keep: int = KEEP) -> None:
        if not isinstance(model, Module) and not is_module(model):
            raise TypeError(f"wb.history takes an nn.Module, of the engine or of PyTorch, got {type(model).__name__}.")
        for name, value, least in (("every", every, 1), ("keep", keep, 2)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"wb.history: {name} is an integer number of steps, {least} or more; got {value!r}.")
        self.model, self.keep, self.stride, self.seen = model, keep, every, 0
        self.every = every
        self.parameters: dict[str, ParameterHistory] = {}
        self.modules: dict[str, ModuleHistory] = {}
        self.scalars: dict[str, Curve] = {}
        self._steps: list[int] = []
        self._hooks = Hooks(self, model, optimizer)
        self.attach()
        living.add(self)

    # -- recording --------------------------------------------------------------------------------------------------------------

    def attach(self) -> History:
        """Start recording, or resume after `close()`. A no-op while it records."""
        self._hooks.attach()
        return self

    def close(self) -> None:
        """Stop recording and remove every hook from the model and the optimizer. Recorded data is kept."""
        self._hooks.close()

    def __enter__(self) -> History:
        return self.attach()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def log(self, **values: Any) -> None:
        """Log scalars for this step: `h.log(loss=loss, accuracy=0.9)`.

        They belong to the step in progress if a forward pass has run since the last step, else to the step that ended last.

        Args:
            **values: numbers, or tensors with one element, which become floats; those on a GPU when someone reads them.

        Raises:
            TypeError: a value is not a real number.
            ValueError: a tensor has more than one element.
        """
        numbers = {name: later(name, value, "history.log") for name, value in values.items()}
        step = self.seen if self._hooks.under_way() else max(self.seen - 1, 0)
        for name, number in numbers.items():
            self.scalars.setdefault(name, Curve()).add(step, number)

    def add_step(self) -> None:
        """Add a row for the step `seen`. Above `keep` rows, drop every second one and from then on measure every second step."""
        self._steps.append(self.seen)
        if len(self._steps) > self.keep:
            self.stride *= 2
            self._steps = [step for step in self._steps if step % self.stride == 0]
            for one in (*self.parameters.values(), *self.modules.values()):
                one.thin(self.stride)

    # -- reading ----------------------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> numpy.ndarray:
        """The kept steps, int64, counted from 0. Every recorded array has one row per kept step."""
        self._hooks.settle()
        return numpy.array(self._steps, numpy.int64)

    @property
    def note(self) -> str:
        """A sentence that says how many steps were seen and how many are kept."""
        self._hooks.settle()
        kept = len(self._steps)
        text = f"{self.seen} step{'s' * (self.seen != 1)}, {kept} kept"
        if self.stride > 1:
            text += f": 1 in {self.stride}"
        if self.stride > self.every:
            text += f" (thinned out: at most {self.keep} are kept)"
        return text + "."

    def __len__(self) -> int:
        return len(self.steps)

    def __contains__(self, name: object) -> bool:
        return name in self.parameters or name in self.modules or name in self._hooks.aliases

    def __getitem__(self, name: str) -> Any:
        """Return the parameter or module with this name, as in `named_parameters()` and `named_modules()`; "" is the model."""
        name = self._hooks.aliases.get(name, name)
        found = self.parameters.get(name) or self.modules.get(name)
        if found is None:
            names = [*self.parameters, *filter(None, self.modules)]
            near = difflib.get_close_matches(str(name), names, 3) or names[:6]
            hint = " Logged values are in history.scalars." if name in self.scalars else ""
            raise KeyError(f"The history has no parameter or module named {name!r}; it has, among others, {', '.join(near)}.{hint}")
        return found

    def gradients(self, step: int | None = None) -> list[GradientRow]:
        """The gradients of all parameters at a kept step, in depth order, with flags for those that vanish, explode or are missing.

        Args:
            step: one of `steps`; by default, the last.

        Raises:
            RuntimeError: no step has ended yet.
            IndexError: the step is not kept.
        """
        steps = self.steps
        if not len(steps):
            raise RuntimeError("The history has no step yet: none has ended since it was attached.")
        step = int(steps[-1]) if step is None else step
        if step not in steps:
            raise IndexError(f"Step {step} is not kept; the history has {len(steps)} steps from {steps[0]} to {steps[-1]}: history.steps.")
        return [self._gradient(one, int(numpy.searchsorted(steps, step))) for one in self.parameters.values()]

    def _gradient(self, one: ParameterHistory, at: int) -> GradientRow:
        grad = dict(zip(COLUMNS, one.grad.numbers[at], strict=True))
        nan, inf = (0 if math.isnan(n) else int(n) for n in (grad["nan"], grad["pos_inf"] + grad["neg_inf"]))
        there, shape = bool(one.grad.present[at]), self._hooks.shapes.get(one.name, ())
        ratio = float(one.ratio[at])
        return gradient_flow.judged(one.name, shape, grad["absmean"], grad["absmax"], grad["norm"], nan, inf, there, ratio)

    def table(self, *names: str) -> dict[str, Any]:
        """Return the recorded data as nested dicts of arrays.

        Args:
            *names: parameters and modules; by default, all.
        """

        def plain(q: Quantity) -> dict[str, Any]:
            h = q.histogram
            return {"present": q.present, "numbers": q.numbers, "low": h.low, "high": h.high, "counts": h.counts}

        wanted = [self[name] for name in names] if names else [*self.parameters.values(), *self.modules.values()]
        parameters = [one for one in wanted if isinstance(one, ParameterHistory)]
        modules = [one for one in wanted if isinstance(one, ModuleHistory)]
        return {
            "model": type(self.model).__name__,
            "steps": self.steps,
            "seen": self.seen,
            "stride": self.stride,
            "note": self.note,
            "columns": list(COLUMNS),
            "parameters": {
                p.name: {
                    "shape": list(self._hooks.shapes.get(p.name, ())),
                    **{of: plain(getattr(p, of)) for of in ("weight", "grad", "update")},
                    "ratio": p.ratio,
                }
                for p in parameters
            },
            "modules": {m.name: {"type": m.type, "calls": m.calls, "activation": plain(m.activation)} for m in modules},
            "scalars": {name: {"steps": curve.steps, "values": curve.values} for name, curve in self.scalars.items()},
        }

    def __repr__(self) -> str:
        lines = [f"History of {type(self.model).__name__}: {self.note}"]
        if self.scalars:
            lines.append(", ".join(f"{name} {curve.last:.4g}" for name, curve in self.scalars.items()))
        if self._steps:
            lines += [f"gradients at step {self._steps[-1]}:", gradient_flow.table(self.gradients())]
        return "\n".join(lines)


def knowing(subject: Any) -> tuple[History, str] | None:
    """The newest history that records this parameter or module, and its name there; None if there is none."""
    subject = subject.of if isinstance(subject, Seen) else subject
    found = [(h, name) for h in living if (name := h._hooks.name_of(subject)) is not None]
    return max(found, key=lambda pair: pair[0]._hooks.born, default=None)
