"""The state of a training as it was at one moment, to be put back exactly: weights, buffers, gradients, optimizers, random numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy

import engine
from engine import no_grad
from engine.core.tensor import Tensor
from engine.nn import Module


class TrainingState:
    """What `subjects` are now: modules, tensors, and whatever has `state_dict` and `load_state_dict`, such as optimizers and schedulers.

    Put back into the very same tensors, so that everything that refers to them goes on working. The random numbers of the engine, of
    NumPy's global state and of Python are part of it. TypeError for a subject that is none of these.
    """

    def __init__(self, subjects: Sequence[Any]) -> None:
        self._tensors: list[tuple[Tensor, Tensor, Tensor | None, Any]] = []  # tensor, its values, its .grad and the values of that
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
        self._random = (engine.get_rng_state(), numpy.random.get_state(), random.getstate())

    def restore(self) -> None:
        """Put everything back, bit for bit."""
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
        engine.set_rng_state(self._random[0])
        numpy.random.set_state(self._random[1])
        random.setstate(self._random[2])


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()
