"""`Module`, the base class of layers and networks, which owns parameters, buffers and submodules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Self, overload

from ..base import dtypes, observe
from ..core import devices
from ..core.tape import Handle
from ..core.tensor import Tensor
from . import hooks, moving
from . import state_dict as states
from .hooks import (  # noqa: F401  PyTorch has those on every module in the module of `Module` too
    ModuleHooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from .parameter import Buffer, Parameter, forget_grad, is_lazy

_TABLES = ("_parameters", "_buffers", "_modules")

_global_forward_pre_hooks, _global_forward_hooks = hooks.everywhere.before, hooks.everywhere.after
_global_backward_pre_hooks, _global_backward_hooks = hooks.everywhere.backward_before, hooks.everywhere.backward
_global_parameter_registration_hooks, _global_buffer_registration_hooks, _global_module_registration_hooks = (
    hooks.registered[kind] for kind in ("parameter", "buffer", "module")
)
_IncompatibleKeys, _EXTRA_STATE_KEY_SUFFIX = states.IncompatibleKeys, states.EXTRA  # PyTorch's names, imported by libraries


class Module:
    """Base class of neural networks: assign parameters and submodules in `__init__`, define `forward`, and call the module.

    `Parameter`s and `Module`s assigned as attributes are registered, so that `parameters()`, `state_dict()` and `to()` include them.
    """

    _version = 1
    dump_patches = False  # PyTorch's names, for subclasses that set them
    call_super_init = False
    _hooks: ModuleHooks | None = None  # None without hooks; `hooks.everywhere` if only global hooks are registered
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            name = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{name} takes 1 positional argument but {len(args) + 1} were given")
        self.__dict__.update(training=True, _parameters={}, _buffers={}, _modules={}, _non_persistent_buffers_set=set())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; subclasses must define it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watcher = observe.current
        if watcher is None:
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return hooks.call(self, args, kwargs)
        watcher.enter("module", type(self).__name__, self)
        try:
            return self.forward(*args, **kwargs) if self._hooks is None else hooks.call(self, args, kwargs)
        finally:
            watcher.leave()

    @property
    def _is_full_backward_hook(self) -> bool | None:
        return None if self._hooks is None else self._hooks.full

    _call_impl = _wrapped_call_impl = __call__  # PyTorch's names
    _compiled_call_impl = None

    def _replicate_for_data_parallel(self) -> Self:
        """Return a copy with its own tables and without parameters, which the caller sets as plain tensors."""
        replica = self.__new__(type(self))
        replica.__dict__ = {**self.__dict__, "_parameters": {}, "_buffers": dict(self._buffers), "_modules": dict(self._modules)}
        replica._is_replica = True
        return replica

    # -- registration ------------------------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter under a name; None reserves the name."""
        self._check_name("parameter", name, self._table("_parameters", "parameter"))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{_type_of(param)}' object to parameter '{name}' (engine.nn.Parameter or None required)")
        if hooks.registered["parameter"]:
            param = hooks.on_registration("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is state but not trained; `persistent=False` excludes it from `state_dict()`."""
        self._check_name("buffer", name, self._table("_buffers", "buffer"))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (engine.Tensor or None required)")
        if hooks.registered["buffer"]:
            tensor = hooks.on_registration("buffer", self, name, tensor)
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            if isinstance(module, type) and issubclass(module, Module):
                raise TypeError(f"{module.__name__} is a class, and a Module object is wanted: write {module.__name__}(...)")
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name, self._table("_modules", "module"))
        if hooks.registered["module"]:
            module = hooks.on_registration("module", self, name, module)
        self._modules[name] = module

    register_module = add_module

    def _table(self, table: str, kind: str) -> dict:
        found = self.__dict__.get(table)
        if found is None:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        return found

    def _check_name(self, kind: str, name: str, table: dict) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def __setattr__(self, name: str, value: Any) -> None:
        kind, table = _kind_of(value)
        own = self.__dict__
        if table is not None and (table != "_buffers" or isinstance(value, Buffer)):
            if own.get(table) is None:
                raise AttributeError(f"cannot assign {kind}{'s' * (kind == 'parameter')} before Module.__init__() call")
            own.pop(name, None)
            for other in _TABLES:
                if other != table:
                    own[other].pop(name, None)
            if isinstance(value, Buffer):  # sets whether it is persistent, too
                self.register_buffer(name, value, value.persistent)
                return
            self._non_persistent_buffers_set.discard(name)
            if isinstance(value, Parameter):
                self.register_parameter(name, value)
            else:  # without add_module's checks, as in PyTorch: a class may ask its submodules for names that it does not have
                own[table][name] = hooks.on_registration(kind, self, name, value)
            return
        for table_name, wanted in (
            ("_parameters", "as parameter '{}' (engine.nn.Parameter or None expected)"),
            ("_modules", "as child module '{}' (engine.nn.Module or None expected)"),
            ("_buffers", "as buffer '{}' (engine.nn.Buffer, engine.Tensor or None expected)"),
        ):
            registered = own.get(table_name)
            if registered is not None and name in registered:
                if value is not None and table_name != table:
                    raise TypeError(f"cannot assign '{_type_of(value)}' {wanted.format(name)}")
                registered[name] = value if table_name == "_parameters" else hooks.on_registration(table_name[1:-1], self, name, value)
                return
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in _TABLES:
            found = own.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in _TABLES:
            if name in self.__dict__.get(table, ()):
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._buffers, *self._modules}
        return sorted(n for n in names if not n[:1].isdigit())

    # -- traversal ----------------------------------------------------------------------------------------------------------

    def named_modules(self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield `(path, module)` for this module and all descendants; shared modules once, unless `remove_duplicate=False`."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all descendants."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield `(name, module)` for the direct submodules."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules."""
        for _, child in self.named_children():
            yield child

    def _named_members(
        self, members: Callable[[Module], Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in owners:
            for name, value in members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield f"{path}.{name}" if path else name, value

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yield `(path, parameter)`: this module's first, then those of its submodules in order."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, as optimizers take them."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield `(path, buffer)`: this module's first, then those of its submodules in order."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """Return the submodule at a path such as `"encoder.layers.0"`; AttributeError if a step does not exist."""
        module: Any = self
        for step in target.split(".") if target else ():
            if not hasattr(module, step):
                raise AttributeError(f"{type(module).__name__} has no attribute `{step}`")
            module = getattr(module, step)
            if not isinstance(module, Module):
                raise AttributeError(f"`{step}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the submodule at a path; with `strict`, AttributeError if there is none to replace."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path such as `"encoder.layers.0.weight"`; AttributeError if there is none."""
        return self._get_member(target, lambda owner, name: isinstance(getattr(owner, name), Parameter), "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path; AttributeError if there is none."""
        return self._get_member(target, lambda owner, name: name in owner._buffers, "a buffer")

    def _get_member(self, target: str, fits: Callable, what: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        if not fits(owner, name):
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(owner, name)

    def apply(self, fn: Callable[[Module], None]) -> Module:
        """Call `fn` on every submodule, then on this module, for example to initialize weights."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # -- mode and gradients -----------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Set training mode on this module and all descendants: dropout is active, batch norm uses batch statistics."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Module:
        """Set evaluation mode on this module and all descendants."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Set `requires_grad` on all parameters."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters to None, or to zeros with `set_to_none=False`."""
        for param in self.parameters():
            forget_grad(param, set_to_none)

    # -- moving and casting -------------------------------------------------------------------------------------------------

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
        """Replace the data of every parameter, gradient and buffer with `fn` of it; the Parameter objects are kept."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        moving.replace(self, fn)
        return self

    @overload
    def to(self, device: Any = ..., dtype: Any = ..., non_blocking: bool = ...) -> Module: ...
    @overload
    def to(self, tensor: Tensor, non_blocking: bool = ...) -> Module: ...
    @overload
    def to(self, *, memory_format: Any) -> Module: ...
    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Move or cast parameters and buffers in place: `to("cuda")`, `to(engine.float64)`, `to(tensor)`.

        `dtype` only affects floating-point and complex tensors; `memory_format` only those with four or five dimensions.
        """
        device, dtype = moving.destination(args, kwargs)
        layout = kwargs.get("memory_format")
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype!r}")

        def moved(t: Tensor) -> Tensor:
            cast = dtype if t.dtype.is_floating_point or t.dtype.is_complex else None
            there = moving.moved(t, device, cast)
            return there if layout is None or is_lazy(t) or t.ndim not in (4, 5) else there.to(memory_format=layout)

        return self._apply(moved)

    def type(self, dst_type: Any) -> Module:
        """Cast all parameters and buffers, including integer ones, to a dtype or to a type such as "torch.DoubleTensor"."""
        return self._apply(lambda t: t.to(dtype=dst_type) if is_lazy(t) else t.type(dst_type))  # type: ignore[attr-defined]

    def float(self) -> Module:
        """Cast floating-point parameters and buffers to float32."""
        return self._cast(dtypes.float32)

    def double(self) -> Module:
        """Cast floating-point parameters and buffers to float64."""
        return self._cast(dtypes.float64)

    def half(self) -> Module:
        """Cast floating-point parameters and buffers to float16."""
        return self._cast(dtypes.float16)

    def bfloat16(self) -> Module:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self._cast(dtypes.bfloat16)

    def _cast(self, dtype: dtypes.dtype) -> Module:
        return self._apply(lambda t: moving.moved(t, None, dtype) if t.dtype.is_floating_point else t)

    def cpu(self) -> Module:
        """Move all parameters and buffers to the CPU."""
        return self.to(devices.CPU)

    def cuda(self, device: Any = None) -> Module:
        """Move all parameters and buffers to a GPU."""
        return self.to(devices.device("cuda" if device is None else device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Module:
        """Move to a device without copying; the values of parameters and buffers are uninitialized."""
        return self._apply(lambda t: moving.unset(t, device), recurse)

    def share_memory(self) -> Module:
        """Move parameters and buffers to memory shared with forked processes."""
        return self._apply(lambda t: t.share_memory_())

    # -- hooks ----------------------------------------------------------------------------------------------------------------

    def _own_hooks(self) -> ModuleHooks:
        if "_hooks" not in self.__dict__:
            self.__dict__["_hooks"] = ModuleHooks()
        return self.__dict__["_hooks"]

    def register_forward_pre_hook(self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Call `hook(module, args)` before forward; a return value other than None replaces the arguments.

        With `with_kwargs`, call `hook(module, args, kwargs)`, which returns None or `(args, kwargs)`.
        """
        own = self._own_hooks()
        handle = hooks.hang(own.before, hook, prepend)
        if with_kwargs:
            own.with_kwargs.add(handle.id)
        return handle

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> Handle:
        """Call `hook(module, args, output)` after forward; a return value other than None replaces the output.

        `with_kwargs` passes `(module, args, kwargs, output)`; `always_call` also calls the hook, with output None, if forward raises.
        """
        own = self._own_hooks()
        handle = hooks.hang(own.after, hook, prepend)
        if with_kwargs:
            own.with_kwargs.add(handle.id)
        if always_call:
            own.always.add(handle.id)
        return handle

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_input, grad_output)` once the gradients of the inputs are computed; it may return new ones."""
        self._own_hooks().set_full(True)
        return hooks.hang(self._own_hooks().backward, hook, prepend)

    def register_backward_hook(self, hook: Callable) -> Handle:
        """Register a non-full backward hook, deprecated in PyTorch.

        Its `grad_input` are the gradients that leave the node of the module's last op; a FutureWarning is issued where they are not the
        module's.
        """
        self._own_hooks().set_full(False)
        return hooks.hang(self._own_hooks().backward, hook)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_output)` before the module's backward pass; it may return new gradients."""
        return hooks.hang(self._own_hooks().backward_before, hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable) -> Handle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict()` collects this module."""
        return hooks.hang(self._own_hooks().state_before, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict()` has collected this module."""
        return hooks.hang(self._own_hooks().state_after, states.silent(hook))

    def _register_state_dict_hook(self, hook: Callable) -> Handle:
        """Register a hook like `register_state_dict_post_hook`; a return value other than None replaces the state dict."""
        return hooks.hang(self._own_hooks().state_after, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> Handle:
        return hooks.hang(self._own_hooks().load_before, hook if with_module else states.without_module(hook))

    def register_load_state_dict_post_hook(self, hook: Callable) -> Handle:
        """Call `hook(module, incompatible_keys)` after loading; keys that it removes from the two lists are accepted."""
        return hooks.hang(self._own_hooks().load_after, hook)

    # -- state ------------------------------------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, destination: dict | None = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
        """Return all parameters and persistent buffers by path, sharing memory with the module; `keep_vars` keeps them attached.

        Positional arguments are deprecated, as in PyTorch.
        """
        if args:
            destination, prefix, keep_vars = states.positional(args, destination, prefix, keep_vars)
        return states.collect(self, OrderedDict() if destination is None else destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> states.IncompatibleKeys:
        """Copy a state dict into the parameters and buffers; nothing is copied if a check fails.

        `strict` requires exactly the module's keys. `assign` stores the given tensors, with their dtype and device, instead of copying.
        Raises RuntimeError that lists all mismatches.
        """
        return states.load(self, state_dict, strict, assign)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        states.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, local_metadata: dict, strict: bool, missing_keys: list, unexpected_keys: list, error_msgs: list
    ) -> None:
        states.load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    get_extra_state = states.no_extra_state

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that `get_extra_state` returned."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    # -- repr -------------------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the text inside the parentheses of this module's repr."""
        return ""

    def _get_name(self) -> str:
        return self.__class__.__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(child), 2)}" for name, child in self._modules.items()]
        if not children and len(lines) < 2:
            return f"{self._get_name()}({''.join(lines)})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _table_of_hooks(name: str, words: str) -> property:
    return property(lambda self: getattr(self._own_hooks(), name), doc=f"The {words}, by the numbers of their handles.")


for _name, _table, _words in (
    ("_forward_pre_hooks", "before", "hooks before forward"),
    ("_forward_hooks", "after", "hooks after forward"),
    ("_backward_pre_hooks", "backward_before", "hooks before backward"),
    ("_backward_hooks", "backward", "hooks after backward"),
    ("_state_dict_pre_hooks", "state_before", "hooks before the state is collected"),
    ("_state_dict_hooks", "state_after", "hooks after the state was collected"),
    ("_load_state_dict_pre_hooks", "load_before", "hooks before a state is loaded"),
    ("_load_state_dict_post_hooks", "load_after", "hooks after a state was loaded"),
    ("_forward_hooks_with_kwargs", "with_kwargs", "forward hooks that receive keyword arguments"),
    ("_forward_pre_hooks_with_kwargs", "with_kwargs", "forward pre-hooks that receive keyword arguments"),
    ("_forward_hooks_always_called", "always", "forward hooks that are called even after an error"),
):
    setattr(Module, _name, _table_of_hooks(_table, _words))  # code clears or counts these tables by PyTorch's private names


def _kind_of(value: Any) -> tuple[str, str | None]:
    """Return the kind of member that a value becomes, and its table."""
    if isinstance(value, Parameter):
        return "parameter", "_parameters"
    if isinstance(value, Module):
        return "module", "_modules"
    if isinstance(value, Tensor):
        return "buffer", "_buffers"
    return "", None


hooks.of_class = Module


def _type_of(value: Any) -> str:
    """Return the type name of a value that cannot be assigned, as PyTorch prints it."""
    return value.type() if type(value) is Tensor else type(value).__name__  # type: ignore[attr-defined]


def sizes(value: Any, dims: int) -> tuple:
    """Expand a number or a sequence to one size per dimension."""
    return (value,) * dims if isinstance(value, (int, float)) else tuple(value)


def _addindent(text: str, spaces: int) -> str:
    """Indent all lines but the first."""
    return text.replace("\n", "\n" + " " * spaces)


indented = _addindent  # the first is PyTorch's name, which custom layers use in their repr
