"""Collect and load module state dicts: every key is checked before anything is copied."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..autograd import no_grad
from ..core.tensor import Tensor
from .parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from .module import Module

EXTRA = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The missing and unexpected keys that `load_state_dict` found."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


def collect(module: Module, destination: dict, prefix: str, keep_vars: bool) -> dict:
    """Fill `destination` with the state of a module and all its descendants."""
    metadata = getattr(destination, "_metadata", None)
    if metadata is None and isinstance(destination, OrderedDict):
        metadata = destination._metadata = OrderedDict()  # type: ignore[attr-defined]
    local = {"version": module._version}
    if metadata is not None:
        metadata[prefix[:-1]] = local
    hooks = module._hooks
    for hook in tuple(hooks.state_before.values()) if hooks is not None else ():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in tuple(hooks.state_after.values()) if hooks is not None else ():
        changed = hook(module, destination, prefix, local)
        destination = destination if changed is None else changed
    return destination


def silent(hook: Callable) -> Callable:
    """Wrap a hook so that a return value other than None raises RuntimeError."""

    return partial(_silent, hook)


def _silent(hook: Callable, *args: Any) -> None:
    if hook(*args) is not None:
        raise RuntimeError("state_dict post-hook must return None")


def without_module(hook: Callable) -> Callable:
    """Wrap a hook that does not take the module as an argument."""
    return partial(_without_module, hook)


def _without_module(hook: Callable, module: Module, *args: Any) -> None:
    hook(*args)


def positional(args: tuple, destination: Any, prefix: str, keep_vars: bool) -> tuple:
    """Merge deprecated positional arguments into `(destination, prefix, keep_vars)`, with a FutureWarning."""
    warnings.warn(
        "Positional args are being deprecated, use kwargs instead. Refer to "
        "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
        FutureWarning,
        stacklevel=3,
    )
    defaults = (None, "", False)
    given = (destination, prefix, keep_vars)
    found = [args[i] if i < len(args) and given[i] == defaults[i] else given[i] for i in range(3)]
    return found[0], found[1], found[2]


def save_own(module: Module, destination: dict, prefix: str, keep_vars: bool) -> None:
    """Save this module's own parameters, buffers and extra state."""
    for name, param in module._parameters.items():
        if param is not None:
            destination[prefix + name] = param if keep_vars or is_lazy(param) else param.detach()
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            destination[prefix + name] = buffer if keep_vars or is_lazy(buffer) else buffer.detach()
    if _has_extra_state(module):
        destination[prefix + EXTRA] = module.get_extra_state()


def no_extra_state(self: Module) -> Any:
    """Return extra state for the state dict; subclasses that override it must override `set_extra_state` too."""
    raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")


def _has_extra_state(module: Module) -> bool:
    return type(module).get_extra_state is not no_extra_state


class _Local(dict):
    """One module's metadata in a state dict, with the copies deferred until all checks pass."""

    pending: list[tuple]


def load(module: Module, state: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    """Load a state dict into a module: run all checks, then all copies."""
    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    pending: list[tuple] = []
    metadata = getattr(state, "_metadata", None)
    state = OrderedDict(state)
    told = IncompatibleKeys(missing, unexpected)
    visited: list[Module] = []

    def visit(module: Module, prefix: str) -> None:
        local = _Local({} if metadata is None else metadata.get(prefix[:-1], {}))
        local.pending = pending
        if assign:
            local["assign_to_params_buffers"] = True
        for hook in tuple(module._hooks.load_before.values()) if module._hooks is not None else ():
            hook(module, state, prefix, local, True, missing, unexpected, errors)
        module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
        for name, child in module._modules.items():
            if child is not None:
                visit(child, f"{prefix}{name}.")
        visited.append(module)

    visit(module, "")
    after = [(one, hook) for one in visited if one._hooks is not None for hook in one._hooks.load_after.values()]
    if not errors and (after or not (strict and (missing or unexpected))):  # hooks may accept keys
        _fill(pending)
        for one, hook in after:
            if hook(one, told) is not None:
                raise RuntimeError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                    "if incompatible_keys need to be modified, it should be done inplace."
                )
    if strict:
        for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):
            if keys:
                errors.insert(0, f"{kind} key(s) in state_dict: {', '.join(f'{chr(34)}{k}{chr(34)}' for k in keys)}. ")
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors))
    return told


def load_own(
    module: Module, state: dict, prefix: str, local_metadata: dict, strict: bool, missing: list, unexpected: list, errors: list
) -> None:
    """Check this module's own entries and copy them: at the end of `load`, or immediately if called directly."""
    assign, fitting = local_metadata.get("assign_to_params_buffers", False), []
    persistent = {n: b for n, b in module._buffers.items() if n not in module._non_persistent_buffers_set}
    own = {n: t for table in (module._parameters, persistent) for n, t in table.items() if t is not None}
    for name, target in own.items():
        key = prefix + name
        if key not in state:
            if strict:
                missing.append(key)
            continue
        value = state[key]
        if isinstance(value, Tensor) and not is_lazy(value) and not is_lazy(target) and target.ndim == 0 and tuple(value.shape) == (1,):
            value = value[0]  # PyTorch's earliest files store scalars as vectors of one element
        if not isinstance(value, Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected engine.Tensor or Tensor-like object from checkpoint '
                f"but received {type(value)}"
            )
        elif is_lazy(value):
            if not is_lazy(target):
                errors.append(
                    f'While copying the parameter named "{key}", expected a tensor with a shape but received an uninitialized one'
                )
        elif not is_lazy(target) and tuple(value.shape) != tuple(target.shape):
            errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {target.shape}."
            )
        elif not assign and value.is_meta and not target.is_meta:
            errors.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {target.shape} and whose dimensions in the '
                f"checkpoint are {value.shape}, an exception occurred : ('Cannot copy out of meta tensor; no data!',)."
            )
        else:
            if not assign and target.is_meta and not value.is_meta:
                warnings.warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, which is a "
                    "no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their corresponding key in the "
                    "module instead of copying them in place?)",
                    stacklevel=2,
                )
            fitting.append((module, name, target, value, assign))
    extra = prefix + EXTRA
    if _has_extra_state(module):
        if extra in state:
            fitting.append((module, EXTRA, None, state[extra], assign))
        elif strict:
            missing.append(extra)
    elif strict and extra in state:
        unexpected.append(extra)
    if strict:
        for key in state:
            if key.startswith(prefix) and key != extra:
                first, _, rest = key[len(prefix) :].partition(".")
                if (first not in module._modules) if rest else (first not in own):
                    unexpected.append(key)
    if isinstance(local_metadata, _Local):
        local_metadata.pending.extend(fitting)
    else:
        _fill(fitting)


def _fill(pending: list[tuple]) -> None:
    with no_grad():
        for one in pending:
            _fill_one(*one)


def _fill_one(module: Module, name: str, target: Any, value: Any, assign: bool) -> None:
    if name == EXTRA and target is None:
        module.set_extra_state(value)
    elif assign:
        if isinstance(target, Parameter):
            taken = value if isinstance(value, Parameter) else Parameter(value, requires_grad=target.requires_grad)
            module._parameters[name] = taken.requires_grad_(target.requires_grad)  # type: ignore[assignment]
        else:
            module._buffers[name] = value
    else:
        if is_lazy(target):
            target.materialize(value.shape, dtype=value.dtype, device=value.device)
        target.copy_(value)
