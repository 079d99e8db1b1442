"""`Optimizer`, the base class: parameter groups, state, hooks, saving and loading, and the step over all parameters."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from copy import deepcopy
from itertools import chain
from typing import Any

import numpy

from ..autograd import enable_grad
from ..backends.coo import Coo
from ..backends.reference import module_of
from ..base import dtypes, observe
from ..core import devices, inplace
from ..core.tape import Handle
from ..core.tensor import Tensor
from ..nn.parameter import forget_grad
from . import recorded
from .for_libraries import (  # noqa: F401  what optimizers of libraries import from here
    Args,
    DeviceDict,
    DeviceDtypeDict,
    GlobalOptimizerPostHook,
    GlobalOptimizerPreHook,
    Indices,
    Kwargs,
    ParamsT,
    StateDict,
    TensorListList,
    _capturable_doc,
    _default_to_fused_or_foreach,
    _device_dtype_check_for_fused,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _foreach_doc,
    _foreach_supported_types,
    _fused_doc,
    _get_capturable_supported_devices,
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _group_tensors_by_device_and_dtype,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)


class _RequiredParameter:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


_global_optimizer_pre_hooks: OrderedDict[int, Callable] = OrderedDict()  # step hooks of all optimizers
_global_optimizer_post_hooks: OrderedDict[int, Callable] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable) -> Handle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer; `args[0]` is the optimizer."""
    return _hung(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> Handle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer; `args[0]` is the optimizer."""
    return _hung(_global_optimizer_post_hooks, hook)


def _hung(table: OrderedDict, hook: Callable, prepend: bool = False) -> Handle:
    handle = Handle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def _hooked(step: Callable) -> Callable:
    """Wrap `step` with its hooks, the step count and the observer's notification; nested steps run unwrapped."""

    @functools.wraps(step)
    def call(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._stepping:
            return step(self, *args, **kwargs)
        if "_optimizer_step_pre_hooks" not in self.__dict__:  # a wrapper around another optimizer, without __init__, manages its own step
            self._steps += 1
            return step(self, *args, **kwargs)
        args = (self, *args)  # hooks receive the optimizer in args
        for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"{type(self).__name__}.step must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        self._stepping = True
        try:
            if len(args) == 1 and not kwargs:
                with numpy.errstate(all="ignore"):
                    loss = step(*args)
            else:  # a closure is the program's
                loss = step(*args, **kwargs)
        finally:
            self._stepping = False
        self._steps += 1
        if observe.current is not None:
            observe.current.updated(self)
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
            hook(self, args, kwargs)
        return loss

    return call


class Optimizer:
    """Base class of optimizers: a subclass passes its `defaults` and defines `_update`, the rule for one parameter.

    `params` is an iterable of tensors, of `(name, tensor)` pairs, or of dicts `{"params": ..., "lr": ...}`, the parameter groups.
    Every update runs in place, on arrays: `foreach` is accepted everywhere without effect. With `fused` or `capturable`, the steps of
    parameters on a GPU are counted there, and with `capturable`, `step()` can be captured in a CUDA graph.
    """

    state: defaultdict[Any, dict]
    param_groups: list[dict]
    _stepping = False
    _optimizer_step_pre_hooks: OrderedDict[int, Callable]
    _optimizer_step_post_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable]
    _steps = 0  # number of steps, checked by schedulers
    _scratch: dict[tuple, list]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:  # a user-defined optimizer
            cls.step = _hooked(cls.__dict__["step"])

    def __init__(self, params: Any, defaults: dict[str, Any]):
        self.defaults = defaults
        if isinstance(params, Tensor):
            raise TypeError(
                f"params argument given to the optimizer should be an iterable of Tensors or dicts, but got {type(params).__name__}"
            )
        if defaults.get("fused") and defaults.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        if defaults.get("fused") and defaults.get("differentiable"):
            raise RuntimeError("`fused` does not support `differentiable`")
        self.state, self.param_groups = defaultdict(dict), []
        self._patch_step_function()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _patch_step_function(self) -> None:
        """Initialize everything but groups and state, for wrappers that never call `Optimizer.__init__`."""
        self.__dict__.update({name: value for name, value in _fresh().items() if name not in self.__dict__})

    # -- groups ---------------------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options; missing options are taken from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change "
                "between runs. Please use a list instead."
            )
        params = list(params)
        named = sum(isinstance(p, tuple) for p in params)
        if 0 < named < len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if named:
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + type(p).__name__)
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        group["params"] = params
        for name, value in self.defaults.items():
            if value is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, value)
        if len({id(p) for p in params}) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if any(id(p) in known for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if 'param_names' in group else 'without'} names to the optimizer"
            )
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters to None, or to zeros with `set_to_none=False`."""
        for group in self.param_groups:
            for p in group["params"]:
                forget_grad(p, set_to_none)

    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)

    def _accelerator_graph_capture_health_check(self) -> None:
        """Raise RuntimeError if a CUDA graph is captured and a group is not capturable; warn once if all are and none is captured."""
        if devices.gpu is None:
            return
        capturable = all(group.get("capturable") for group in self.param_groups)
        if devices.gpu.memory.capturing():
            if not capturable:
                raise RuntimeError(
                    f"Attempting CUDA graph capture of step() for an instance of {type(self).__name__} "
                    "but param_groups' capturable is False."
                )
        elif capturable and not self._warned_capturable_if_run_uncaptured:
            self._warned_capturable_if_run_uncaptured = True
            warnings.warn(
                "This instance was constructed with capturable=True or some of all the param_groups came with capturable=True, but step() "
                "is running without CUDA graph capture. If you never intend to graph-capture this instance, capturable=True can impair "
                "performance, and you should set capturable=False.",
                stacklevel=2,
            )

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check
    _warned_capturable_if_run_uncaptured = False

    def _optimizer_step_code(self) -> None:
        """Do nothing: profilers of PyTorch look for the address of its code."""

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """Return the step unchanged: it is already wrapped."""
        return func

    # -- a step -----------------------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place; `closure`, if given, recomputes the loss first, which is returned."""
        return self._step(closure)

    def _step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        name = f"{type(self).__name__}.step"
        if "capturable" in self.defaults:
            self._accelerator_graph_capture_health_check()
        if self.defaults.get("differentiable"):
            self._recorded(name)
            return loss
        gpu = self._update_list and devices.gpu and importlib.import_module("engine.backends.gpu.optim")
        for group in self.param_groups:
            together = []
            for p in group["params"]:
                if p._grad is not None:
                    array, grad = p.array, p._grad.array
                    if gpu and gpu.alike(array, grad):
                        together.append((array, grad, self.state[p]))
                        inplace.note_write_to(p, name)
                        continue
                    if grad.__class__ is Coo:
                        grad = grad.coalesced()
                        self._update_sparse(library(grad.values), array, -grad if group.get("maximize") else grad, self.state[p], group)
                        inplace.note_write_to(p, name)
                        continue
                    update = self._update_complex if array.dtype.kind == "c" else self._update
                    xp = library(grad)  # a negated 0-d array would be a scalar
                    update(xp, array, xp.asarray(-grad) if group.get("maximize") else grad, self.state[p], group)
                    inplace.note_write_to(p, name)
            if together and self._update_list is not None:
                self._update_list(gpu, together, group)
        return loss

    def _recorded(self, name: str) -> None:
        """Run the step for `differentiable=True`."""
        for group in self.param_groups:
            if group.get("foreach"):
                raise AssertionError("_foreach ops don't support autograd: differentiable=True goes with foreach=False")
            for p in group["params"]:
                if p._grad is None:
                    continue
                if p._grad.is_sparse:
                    raise RuntimeError(f"{name}: differentiable=True does not support sparse gradients")
                with enable_grad():
                    recorded.step(self._update, p, self.state[p], group, name)

    def _update_complex(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        """Apply the rule to real views; the state stays complex, as in PyTorch, and shares memory with its views."""
        pairs = {k: Tensor._wrap(as_real(s.array)) if isinstance(s, Tensor) else s for k, s in state.items()}
        self._update(xp, as_real(p), as_real(g), pairs, group)
        for name, s in pairs.items():
            if name not in state:
                state[name] = Tensor._wrap(as_complex(s.array)) if isinstance(s, Tensor) and s.ndim == p.ndim + 1 else s

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        """Update the array `p` in place from its gradient `g`, which must not be modified; `state` holds Tensors and numbers."""
        raise NotImplementedError(f"{type(self).__name__} has no update rule")

    _update_list: Callable | None = None  # `_update` for parameters on a GPU, [(p, g, state), ...], in one launch for each dtype
    _found: Any = None  # while a GradScaler steps: an array by which `_update_list` skips the step if it is not 0

    def _can_skip(self, found: list[Tensor]) -> bool:
        """Whether the kernels can skip the next step by an array on the GPU, and nothing else would notice that it was called."""
        if self._update_list is None or len(found) != 1 or self.defaults.get("differentiable") or "step" in self.__dict__:
            return False
        if type(self).step is not Optimizer.step or self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            return False
        if _global_optimizer_pre_hooks or _global_optimizer_post_hooks:
            return False
        both = [x.array for group in self.param_groups for p in group["params"] if p._grad is not None for x in (p, p._grad)]
        gpu = devices.list_kernels([found[0].array])
        return gpu is not None and all(gpu.alike(*pair) for pair in zip(both[::2], both[1::2], strict=True))

    def _update_sparse(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        """Update `p` from a sparse gradient, with values `g.values` at unique indices `g.indices`."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients{self._instead}")

    _instead = ""  # the alternative to suggest in that case

    def _spare(self, xp: Any, like: Any, n: int) -> list:
        """Return `n` scratch arrays like this one, kept between steps; the next parameter overwrites them."""
        if like.__class__ in (recorded.Cell, devices.traced_array):
            return [xp.empty_like(like) for _ in range(n)]
        key = (like.shape, like.dtype, devices.of(like))
        spare = self._scratch.setdefault(key, [])
        while len(spare) < n:
            spare.append(xp.empty_like(like))
        return spare[:n]

    def register_step_pre_hook(self, hook: Callable) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before every step; `args[0]` is the optimizer. It may return new `(args, kwargs)`."""
        return _hung(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after every step; `args[0]` is the optimizer."""
        return _hung(self._optimizer_step_post_hooks, hook)

    # -- saving and loading -------------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` before `state_dict()`."""
        return _hung(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` after `state_dict()`; a return value other than None replaces the state dict."""
        return _hung(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` before loading; a return value other than None is loaded instead."""
        return _hung(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` after loading."""
        return _hung(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self) -> dict[str, Any]:
        """Return `{"state": {index: ...}, "param_groups": [...]}` in PyTorch's layout, with parameters by index; shares memory."""
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        for p in chain.from_iterable(g["params"] for g in self.param_groups):
            numbers.setdefault(id(p), len(numbers))
        groups = [
            {**{k: v for k, v in g.items() if k != "params"}, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups
        ]
        state = {numbers[id(p)] if isinstance(p, Tensor) else p: value for p, value in self.state.items() if value}
        found = {"state": state, "param_groups": groups}
        for hook in list(self._optimizer_state_dict_post_hooks.values()):
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict, casting state to each parameter's dtype and device; ValueError if the groups differ in number or size."""
        state_dict = dict(state_dict)
        for hook in list(self._optimizer_load_state_dict_pre_hooks.values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved, strict=True)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        params = dict(zip(chain.from_iterable(g["params"] for g in saved), chain.from_iterable(g["params"] for g in groups), strict=True))
        state: defaultdict[Any, dict] = defaultdict(dict)
        there = {key for group in saved if group.get("capturable") or group.get("fused") for key in group["params"]}
        for key, value in state_dict["state"].items():
            state[params.get(key, key)] = _cast(params[key], value, counted_there=key in there) if key in params else deepcopy(value)
        for group, loaded in zip(groups, saved, strict=True):
            loaded["params"] = group["params"]
            if "param_names" in group:
                loaded["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._patch_step_function()
        self.__dict__.update(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"


Optimizer.step = _hooked(Optimizer.step)


def _fresh() -> dict[str, Any]:
    """Return the initial values of everything but groups and state: hooks, step count and scratch arrays."""
    moments = (f"_optimizer_{what}_{when}_hooks" for what in ("step", "state_dict", "load_state_dict") for when in ("pre", "post"))
    return {**{name: OrderedDict() for name in moments}, "_steps": 0, "_scratch": {}}


def _cast(param: Tensor, value: Any, key: Any = None, counted_there: bool = False) -> Any:
    """Cast loaded state to its parameter's dtype and device; step counts keep their own, or become float32 with `counted_there`."""
    if isinstance(value, Tensor):
        array = value.array.copy()
        if key != "step" or counted_there:
            if param.dtype.is_floating_point:
                array = devices.namespace(array).astype(array, dtypes.F32 if key == "step" else param.array.dtype)
            array = devices.move(array, param.device)
        return Tensor._wrap(array)
    if isinstance(value, dict):
        return {k: _cast(param, v, k, counted_there) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(param, v) for v in value)
    return deepcopy(value)


def library(array: Any) -> Any:
    """Return NumPy or CuPy itself, whose functions support `out=`; the ops' namespaces may not."""
    return module_of(array)


def as_real(array: Any) -> Any:
    """View complex values as pairs in a new last dimension; return other arrays unchanged."""
    return devices.namespace(array).view_as_real(array) if array.dtype.kind == "c" else array


def as_complex(pairs: Any) -> Any:
    """View pairs as complex values."""
    return devices.namespace(pairs).view_as_complex(pairs)


# -- helpers for update rules ---------------------------------------------------------------------------------------------------------


def number(x: Any) -> float:
    """Return a hyperparameter as a number; it may be a one-element tensor."""
    return x.item() if isinstance(x, Tensor) else x


def scalar(x: Any) -> Any:
    """Return a hyperparameter as a number or, if it is a tensor on a GPU, as a 0-d float64 array there: the host does not wait."""
    return x.array.reshape(()).astype(numpy.float64) if isinstance(x, Tensor) and x.is_cuda else number(x)


def on_gpu(x: Any) -> bool:
    """Whether this is an array on a GPU, not a number, NumPy's array or the cell of a recorded step."""
    return not isinstance(x, (int, float, numpy.ndarray, recorded.Cell))


def plain(x: Any) -> Any:
    """Return a one-element array as a number, or on a GPU in float64; the cell of a recorded step unchanged."""
    return x.astype(numpy.float64) if on_gpu(x) else x if x.__class__ is recorded.Cell else float(x)


def factor(x: Any, p: Any) -> Any:
    """Return a 0-d array on a GPU in the dtype of `p`, which it would otherwise widen, and a number unchanged."""
    return x.astype(p.dtype) if on_gpu(x) else x


def check(name: str, value: Any, ok: bool) -> None:
    """Raise ValueError with PyTorch's message unless `ok`."""
    if not ok:
        raise ValueError(f"Invalid {name}: {value}")


_AT_LEAST_0 = {
    "lr": "learning rate", "eps": "epsilon value", "weight_decay": "weight_decay value", "momentum": "momentum value",
    "lr_decay": "lr_decay value", "initial_accumulator_value": "initial_accumulator_value value",
    "momentum_decay": "momentum_decay value",
}  # fmt: skip


def options(**given: Any) -> dict[str, Any]:
    """Return an optimizer's defaults, after checking the options that all optimizers share."""
    if isinstance(given["lr"], Tensor) and given["lr"].numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    for name, words in _AT_LEAST_0.items():
        if name in given:
            check(words, given[name], number(given[name]) >= 0.0)
    betas = given.get("betas", ())
    if len({isinstance(beta, Tensor) for beta in betas}) > 1:
        raise ValueError("betas must be either both floats or both Tensors")
    if given.get("foreach") and not given.get("capturable"):
        if isinstance(given["lr"], Tensor) and "betas" in given:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
    for i, beta in enumerate(betas):
        check(f"beta parameter at index {i}", beta, 0.0 <= number(beta) < 1.0)
    return given


def start(state: dict, group: dict, xp: Any, p: Any, *names: str) -> None:
    """Initialize the state: a step count of 0, and zeros like the parameter under each name."""
    state["step"] = counter(0, group, p)
    for name in names:
        state[name] = Tensor._wrap(xp.zeros_like(p))


def counter(value: float, group: dict, p: Any) -> Tensor:
    """Return a 0-d state tensor: on the GPU of the parameter if the group is capturable or fused, else on the CPU."""
    there = (group.get("capturable") or group.get("fused")) and devices.list_kernels([p]) is not None
    return there_number(value, p) if there else one_number(value)


def there_number(value: float, p: Any) -> Tensor:
    """Return a 0-d float32 state tensor on the GPU of an array."""
    with p.device:
        return Tensor._wrap(library(p).full((), value, dtypes.F32))


def count(state: dict) -> Any:
    """Increment `state["step"]`, a 0-d tensor as in PyTorch, and return it as a number, or if it is on a GPU as a 0-d float64 array.

    Raises RuntimeError while a CUDA graph is captured, since a replay would not count on the host.
    """
    step = held(state, "step")
    if on_gpu(step):
        step += 1
        return step.astype(numpy.float64)
    if devices.gpu is not None and devices.gpu.memory.capturing():
        raise RuntimeError("the optimizer counts its steps on the host, and a replay would not count; call its step() outside of the graph")
    step += 1
    return float(step)


def held(state: dict, name: str) -> Any:
    """Return a state value as a 0-d array; files of older PyTorch versions store plain numbers."""
    if not isinstance(state[name], Tensor):
        state[name] = one_number(state[name])
    return state[name].array


def one_number(value: float) -> Tensor:
    """Return a 0-d state tensor on the CPU in float32, or in float64 if that is the default dtype."""
    return Tensor._wrap(numpy.full((), value, dtypes.default.numpy if dtypes.default is dtypes.float64 else dtypes.F32))


def held_like(gpu: Any, p: Any, state: dict, name: str) -> Any:
    """Return a state array laid out in memory as its parameter on a GPU; one that was loaded may not be."""
    if not gpu.alike(p, state[name].array):
        copy = library(p).empty_like(p)
        copy[...] = state[name].array
        state[name] = Tensor._wrap(copy)
    return state[name].array


def decayed(xp: Any, p: Any, g: Any, weight_decay: float, out: Any) -> Any:
    """Compute g + weight_decay p in `out`, or return g itself without decay."""
    if weight_decay == 0:
        return g
    xp.multiply(p, weight_decay, out=out)
    out += g
    return out


def mix(xp: Any, average: Any, value: Any, beta: float, spare: Any) -> None:
    """Update average = beta average + (1 - beta) value in place, as average + (1 - beta) (value - average)."""
    xp.subtract(value, average, out=spare)
    spare *= 1 - beta
    average += spare


def mix_square(xp: Any, average: Any, value: Any, beta: float, spare: Any) -> None:
    """Update average = beta average + (1 - beta) value² in place."""
    average *= beta
    xp.multiply(value, value, out=spare)
    spare *= 1 - beta
    average += spare
