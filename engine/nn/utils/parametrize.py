"""Parametrizations: compute a module's parameter at each access, by modules that are trained and saved with it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd import no_grad
from ...core.tensor import Tensor
from ..container import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

_depth = 0  # number of open `cached()` blocks
_cache: dict[tuple[int, str], Tensor | None] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Context manager in which each parametrized tensor is computed once, at its first access."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _cache.clear()


def _put(module: Module, name: str, tensor: Tensor | None) -> None:
    """Register a tensor as a parameter or a buffer, depending on its type."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _replace(tensor: Tensor, value: Tensor) -> None:
    """Replace a tensor's data, keeping the tensor object that optimizers hold."""
    with no_grad():
        tensor.data = value.detach().clone() if value.array is tensor.array else value.detach()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensors it is computed from: `original`, or `original0`, `original1`, ..."""

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                new = _inverse(module, new, optional=True)
        if not (isinstance(new, Tensor) or isinstance(new, Sequence)):  # noqa: SIM101
            raise ValueError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if original.dtype != new.dtype:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the dtype.\noriginal.dtype: {original.dtype}\n"
                    f"right_inverse(original).dtype: {new.dtype}"
                )
            if new is not original:
                _replace(original, new)
            _put(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{i} of the sequence with type {type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _put(self, f"original{i}", part.requires_grad_(original.requires_grad))
        if not unsafe:
            self._check(self(), original, "forward")

    def _check(self, found: Any, original: Tensor, where: str) -> None:
        if not isinstance(found, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
        if found.dtype != original.dtype:
            raise ValueError(
                "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is enabled.\n"
                f"unparametrized dtype: {original.dtype}\nparametrized dtype: {found.dtype}"
            )
        if found.shape != original.shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n"
                f"unparametrized shape: {original.shape}\nparametrized shape: {found.shape}"
            )

    def originals(self) -> list[Tensor]:
        """Return the tensors that the parametrized tensor is computed from."""
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor equals `value`, applying each module's `right_inverse` in reverse order."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                new = _inverse(module, new, optional=False)
            parts = [new] if self.is_tensor else new
            if not self.is_tensor and not isinstance(new, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(new)}.")
            if len(parts) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length {len(parts)}."
                )
            for part, original in zip(parts, self.originals(), strict=True):
                if not isinstance(part, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(part).__name__}")
                if original.dtype != part.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {part.dtype} while `original` has dtype {original.dtype}"
                    )
                _replace(original, part)

    def forward(self) -> Tensor:
        first, *others = self
        x = first(*self.originals())
        for module in others:
            x = module(x)
        return x


def _inverse(module: Module, value: Any, optional: bool) -> Any:
    """Apply a module's right inverse; if it has none and `optional`, return the value unchanged."""
    if not hasattr(module, "right_inverse"):
        if optional:
            return value
        raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
    try:
        return module.right_inverse(value)  # type: ignore[operator]
    except NotImplementedError:
        if optional:
            return value
        raise


# -- the class of a parametrized module ---------------------------------------------------------------------------------------------


def _deepcopy(self: Module, memo: dict) -> Module:
    made = type(self).__new__(type(self))
    memo[id(self)] = made
    made.__dict__ = copy.deepcopy(self.__dict__, memo)
    return made


def _getstate(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _own_class(module: Module) -> None:
    """Give the module its own class, to which properties can be added."""
    cls = type(module)
    extra: dict[str, Any] = {"__getstate__": _getstate, "__module__": cls.__module__}
    if "__deepcopy__" not in dir(cls):
        extra["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), extra)


def _property(name: str) -> property:
    def get(self: Any) -> Tensor:
        if not _depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if _cache.get(key) is None:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]  # type: ignore[return-value]

    def set(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set)


# -- public functions ---------------------------------------------------------------------------------------------------------------


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Parametrize a tensor: `module.<tensor_name>` becomes `parametrization(original)`; repeated registrations are composed.

    With a `right_inverse`, the tensor can be assigned to; if that returns several tensors, there are several originals. `unsafe` skips the
    checks that shape and dtype are preserved.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        found: Any = module.parametrizations[tensor_name]  # type: ignore[index]
        if not unsafe:
            now = getattr(module, tensor_name)
            found._check(parametrization(now), now, "forward")
            if hasattr(parametrization, "right_inverse"):
                back = parametrization.right_inverse(parametrization(now))  # type: ignore[operator]
                if isinstance(back, Tensor):
                    found._check(back, now, "right_inverse")
        found.append(parametrization)
        found.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original: Any = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property(tensor_name))
        module.parametrizations[tensor_name] = parametrizations  # type: ignore[index,operator]
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module, or one of its tensors, is parametrized."""
    parametrizations = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Remove the parametrizations of a tensor, keeping its current value, or its original's with `leave_parametrized=False`."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found: Any = module.parametrizations[tensor_name]  # type: ignore[index]
    if found.is_tensor:
        original = found.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
            _replace(original, value)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]  # type: ignore[union-attr]
    _put(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the module's class from before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None) -> Module:
    """Copy the parametrizations and originals of one tensor, or of all, from `from_module` to `to_module`."""
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)  # type: ignore[arg-type]
    for name in names:
        source: Any = from_module.parametrizations[name]  # type: ignore[index]
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization))
        there: Any = to_module.parametrizations[name]  # type: ignore[index]
        for kept in source._parameters if not source.is_tensor else ["original"]:
            setattr(there, kept, copy.deepcopy(getattr(source, kept)))
    return to_module
