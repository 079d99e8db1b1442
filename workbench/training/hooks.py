"""Hooks that a history registers on a model and its optimizer: they find where steps begin and end, and measure there."""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from engine import is_grad_enabled
from engine.core.tensor import Tensor
from engine.nn import Module
from engine.nn.parameter import is_lazy

from ..inspector import capturing, library
from ..torch_models.arrays import numpy_of
from ..torch_models.loaded import is_module, is_tensor, torch
from ..torch_models.recorder import bookkeeping
from .table import Measurement, ModuleHistory, ParameterHistory, Quantity, measured

if TYPE_CHECKING:
    from .history import History

_births = itertools.count()


class Hooks:
    """All hooks of one history. They refer to it weakly and are removed when it is garbage-collected.

    With an optimizer, a step is one `optimizer.step()`. Without one, a step is one backward pass: it begins when the first gradient
    arrives, and ends when a parameter gets a second gradient, the model runs forward again, or the history is read.
    """

    def __init__(self, history: History, model: Any, optimizer: Any) -> None:
        self.history, self.model, self.optimizer = weakref.ref(history), model, optimizer
        self.born = next(_births)
        self.aliases: dict[str, str] = {}  # further names of tied parameters
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.handles: dict[tuple[str, str], Any] = {}  # by kind of subject and its name
        self._hooked: dict[tuple[str, str], weakref.ref] = {}  # modules and leaves with a hook
        self._outputs: dict[str, Measurement] = {}  # of the current or last forward pass
        self._calls: dict[str, int] = {}
        self._before: dict[str, Any] = {}  # copies of the weights before the step
        self._arrived: dict[str, Measurement | None] = {}  # gradients of the current or last backward pass
        self._late: deque[Measurement] = deque()  # on their way from a GPU, the oldest first
        self._waiting: tuple[int, dict[str, Any]] | None = None  # a step whose update is not known yet
        self._forward = False  # whether a forward pass has run since the last step ended
        if optimizer is not None:
            if not hasattr(optimizer, "register_step_post_hook"):
                raise TypeError(
                    f"wb.history: optimizer is an optim.Optimizer, of the engine or of PyTorch, got {type(optimizer).__name__}."
                )
            own = {id(p) for p in model.parameters()}
            if not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
                raise ValueError(
                    f"wb.history: the optimizer updates no parameter of this {type(model).__name__}. Was the model made again after it?"
                )
        weakref.finalize(history, _remove, self.handles).atexit = False
        self._name()

    # -- on and off -------------------------------------------------------------------------------------------------------------

    def attach(self) -> None:
        if self.handles:
            return
        self.handles["model", ""] = self.model.register_forward_pre_hook(self._weak("_forward_begins"))
        if self.optimizer is not None:
            self.handles["optimizer", "before"] = self.optimizer.register_step_pre_hook(self._weak("_step_begins"))
            self.handles["optimizer", "after"] = self.optimizer.register_step_post_hook(self._weak("_step_ended"))
        self._hang()

    def close(self) -> None:
        self.settle()
        self._updated()
        _remove(self.handles)
        self._hooked.clear()
        self._outputs, self._calls, self._before, self._forward = {}, {}, {}, False

    def _weak(self, method: str, *bound: Any) -> Any:
        """Return a hook that calls this object's method while the history is alive."""
        me = weakref.ref(self)

        def hook(*args: Any) -> None:
            hooks = me()
            if hooks is not None:
                getattr(hooks, method)(*bound, *args)

        return hook

    def _hang(self) -> None:
        """Hook modules (and, without an optimizer, parameters) that have no hook yet; lazy layers get theirs after the first forward."""
        self._name()
        for name, module in self.model.named_modules():
            if not self._hangs_on(module, "module", name):
                self._hang_on(module, "module", name, module.register_forward_hook(self._weak("_output", name)))
        if self.optimizer is None:
            for name, p in self._parameters():
                leaf = p if is_tensor(p) else p.node
                if p.requires_grad and not self._hangs_on(leaf, "parameter", name):
                    self._hang_on(leaf, "parameter", name, p.register_post_accumulate_grad_hook(self._weak("_gradient", name)))

    def _hangs_on(self, subject: Any, kind: str, name: str) -> bool:
        held = self._hooked.get((kind, name))
        return held is not None and held() is subject

    def _hang_on(self, subject: Any, kind: str, name: str, handle: Any) -> None:
        """Keep the handle, and remove the hook of an earlier subject with this name, such as a replaced parameter."""
        self._hooked[kind, name] = weakref.ref(subject)
        if (kind, name) in self.handles:
            self.handles[kind, name].remove()
        self.handles[kind, name] = handle

    def _name(self) -> None:
        history = self._owner()
        first = {id(p): name for name, p in self.model.named_parameters()}
        for name, p in self.model.named_parameters(remove_duplicate=False):
            if first[id(p)] != name:
                self.aliases[name] = first[id(p)]
            elif name not in history.parameters:
                history.parameters[name] = ParameterHistory(name, Quantity(history), Quantity(history), Quantity(history))
            if not _is_lazy(p):
                self.shapes[first[id(p)]] = tuple(p.shape)
        for name, module in self.model.named_modules():
            if name not in history.modules:
                history.modules[name] = ModuleHistory(name, type(module).__name__, Quantity(history))

    def _owner(self) -> History:
        history = self.history()
        assert history is not None  # the hooks are removed with their history
        return history

    def _parameters(self) -> list[tuple[str, Any]]:
        return [(name, p) for name, p in self.model.named_parameters() if not _is_lazy(p)]

    def _weights(self) -> dict[str, Any]:
        """A copy of each parameter's values, by its name."""
        return {name: array.copy() for name, p in self._parameters() if (array := _array(p)) is not None}

    def name_of(self, subject: Any) -> str | None:
        """The name of this parameter or module in the model, compared by identity."""
        is_one = isinstance(subject, Module) or is_module(subject)
        named = self.model.named_modules() if is_one else self.model.named_parameters()
        return next((name for name, one in named if one is subject), None)

    # -- a step -----------------------------------------------------------------------------------------------------------------

    def _tracks(self) -> bool:
        return torch().is_grad_enabled() if is_module(self.model) else is_grad_enabled()

    def _due(self) -> bool:
        history = self._owner()
        return history.seen % history.stride == 0 and not capturing()

    def under_way(self) -> bool:
        """Whether a forward pass has run for a step that has not ended."""
        self.settle()
        return self._forward

    def _forward_begins(self, module: Any, args: Any) -> None:
        if not self._tracks() or module is not self.model:
            return
        self.settle()
        self._forward = True
        if self._due():
            self._outputs, self._calls = {}, {}
            self._hang()

    def _output(self, name: str, module: Any, args: Any, output: Any) -> None:
        if not self._tracks() or not self._hangs_on(module, "module", name):  # a deep copy of the model has copies of the hooks
            return
        self._forward = True
        if not self._due():
            return
        self._calls[name] = self._calls.get(name, 0) + 1
        if self._calls[name] == 1:
            array = _array(_first_tensor(output))
            if array is not None:
                (self._outputs[name],) = self._measured([array])
        if module is self.model:
            self._hang()  # lazy parameters have their shape now

    def _step_begins(self, *_: Any) -> None:
        self._before = self._weights() if self._due() else {}

    def _step_ended(self, *_: Any) -> None:
        if self._due():
            history = self._owner()
            self._name()
            # a parameter that got its shape in the optimizer's closure, during the step, is not among them
            there = [(history.parameters[name], p, self._before[name]) for name, p in self._parameters() if name in self._before]
            self._put([(one.weight, before) for one, _, before in there])
            self._put([(one.grad, grad) for one, p, _ in there if (grad := _array(p.grad)) is not None])
            self._put([(one.update, _apart(_array(p), before)) for one, p, before in there])
            self._end_row(history)
        self._before = {}
        self._count()

    def _measured(self, arrays: list[Any]) -> list[Measurement]:
        """Measure arrays. What has arrived of earlier ones is taken, so that its memory is free."""
        while self._late and self._late[0].done:
            self._late.popleft().get()
        found = measured(arrays)
        self._late += [one for one in found if not one.done]
        return found

    def _put(self, given: list[tuple[Quantity, Any]], step: int | None = None) -> None:
        """Measure arrays for a step, by default the present one."""
        for (quantity, _), one in zip(given, self._measured([array for _, array in given]), strict=True):
            quantity.put(self._owner().seen if step is None else step, one)

    def _end_row(self, history: History) -> None:
        for name, calls in self._calls.items():
            history.modules[name].put(history.seen, calls, self._outputs.get(name))
        history.add_step()

    def _count(self) -> None:
        self._owner().seen += 1
        self._outputs, self._calls, self._forward = {}, {}, False

    # -- without an optimizer -----------------------------------------------------------------------------------------------------

    def _gradient(self, name: str, tensor: Any) -> None:
        if name in self._arrived:
            self.settle()
        due = self._due()
        if not self._arrived:
            self._updated()
            if due:
                self._before = self._weights()
        grad = _array(tensor.grad)
        self._arrived[name] = self._measured([grad])[0] if due and grad is not None else None

    def settle(self) -> None:
        """End the step after a backward pass, if gradients have arrived. A no-op with an optimizer."""
        if not self._arrived:
            return
        history = self._owner()
        if self._due():
            self._put([(history.parameters[name].weight, before) for name, before in self._before.items()])
            for name, one in self._arrived.items():
                if one is not None:
                    history.parameters[name].grad.put(history.seen, one)
            self._waiting = (history.seen, self._before)
            self._end_row(history)
        self._arrived, self._before = {}, {}
        self._count()

    def _updated(self) -> None:
        """Record the change of the weights since the last measured step."""
        if self._waiting is None:
            return
        (step, before), self._waiting = self._waiting, None
        history = self._owner()
        if step % history.stride == 0:  # it is still kept
            there = [(history.parameters[name].update, p, before[name]) for name, p in self._parameters() if name in before]
            self._put([(update, _apart(_array(p), old)) for update, p, old in there], step)


def _apart(now: Any, before: Any) -> Any:
    """The change from a copy, written into it."""
    return library(before).subtract(now, before, out=before)


def _array(tensor: Any) -> Any:
    """The values; None if there is no tensor, or if one of PyTorch's has none. PyTorch's are copied from a GPU."""
    if not is_tensor(tensor):
        return None if tensor is None else tensor.array
    with bookkeeping():
        return numpy_of(tensor)


def _is_lazy(p: Any) -> bool:
    return torch().nn.parameter.is_lazy(p) if is_tensor(p) else is_lazy(p)


def _first_tensor(value: Any) -> Any:
    """The tensor in a module's output: the output itself, or the first tensor in a tuple, list or dict."""
    if isinstance(value, Tensor) or is_tensor(value):
        return value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return next((found for one in value if (found := _first_tensor(one)) is not None), None)
    return None


def _remove(handles: dict[tuple[str, str], Any]) -> None:
    while handles:
        handles.popitem()[1].remove()
