"""A snapshot of a training run that can be restored exactly: weights, buffers, gradients, optimizers and random generators."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy

from engine import no_grad
from engine.core.tensor import Tensor
from engine.nn import Module

from ..base import generators


class TrainingState:
    """A snapshot of `subjects`: modules, tensors, and objects with `state_dict` and `load_state_dict`, such as optimizers.

    Restoring writes into the same tensors, so references to them stay valid. The snapshot includes the random state of the engine,
    of NumPy's global generator and of Python. Raises TypeError for other subjects.
    """

    def __init__(self, subjects: Sequence[Any]) -> None:
        self._tensors: list[tuple[Tensor, Tensor, Tensor | None, Any]] = []  # tensor, its values, its .grad, the values of .grad
        self._modes: list[tuple[Module, bool]] = []
        self._others: list[tuple[Any, Any]] = []
        seen: set[int] = set()
        for subject in subjects:
            if isinstance(subject, Module):
                self._modes += [(module, module.training) for module in subject.modules()]
                tensors = [*subject.parameters(), *subject.buffers()]
            elif isinstance(subject, Tensor):
                tensors = [subject]
            elif hasattr(subject, "state_dict") and hasattr(subject, "load_state_dict"):
                self._others.append((subject, deepcopy(subject.state_dict())))
                continue
            else:
                raise TypeError(
                    "wb.loop puts back modules, tensors, optimizers and what else has state_dict() and load_state_dict(); "
                    f"it got a {type(subject).__name__}."
                )
            for tensor in tensors:
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    grad = tensor._grad
                    self._tensors.append((tensor, _copy(tensor), grad, None if grad is None else _copy(grad)))
        self._random = (generators.state(), numpy.random.get_state(), random.getstate())

    def restore(self) -> None:
        """Restore everything, bit for bit."""
        with no_grad():
            for tensor, values, grad, grad_values in self._tensors:
                tensor.copy_(values)
                tensor._grad = grad
                if grad is not None:
                    grad.copy_(grad_values)
        for module, training in self._modes:
            module.training = training
        for subject, state in self._others:
            subject.load_state_dict(deepcopy(state))
        generators.restore(self._random[0])
        numpy.random.set_state(self._random[1])
        random.setstate(self._random[2])


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()
