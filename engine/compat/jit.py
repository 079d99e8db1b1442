"""`engine.jit`: TorchScript's interface; scripted and traced modules run as Python, marked as script modules.

There is no TorchScript. Reading or writing it (`save`, `load`, `.graph`, `.code`) raises NotImplementedError with an alternative.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from .. import testing
from ..autograd import no_grad
from ..core.tensor import Tensor
from ..futures import Future
from ..nn import Module
from . import jit_annotations as annotations

__all__ = [
    "annotations",
    "Attribute", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TracerWarning",
    "TracingCheckError", "annotate", "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "optimize_for_inference", "optimized_execution", "save", "script", "script_if_tracing", "script_method", "trace", "trace_module",
    "unused", "wait",
]  # fmt: skip

_isinstance = isinstance
_T = TypeVar("_T")
_state = threading.local()  # .tracing: whether this thread is inside `trace`
Attribute = namedtuple("Attribute", ["value", "type"])
Error = RuntimeError


class TracerWarning(Warning):
    """Warning about behavior that a trace would not preserve."""


class TracingCheckError(Exception):
    """Two runs of a traced function differed."""


def _refused(what: str, instead: str) -> NotImplementedError:
    return NotImplementedError(f"{what}: there is no TorchScript here. {instead}")


_SAVE = "Save the weights, engine.save(module.state_dict(), path), and load them into the same class; or export the model with onnx.export."


class ScriptFunction:
    """A scripted or traced function: calling it calls the Python function."""

    def __init__(self, function: Callable) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def save(self, f: Any, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError."""
        raise _refused("save", _SAVE)

    @property
    def graph(self) -> Any:
        """Raise NotImplementedError."""
        raise _refused("graph", "Watch a call with workbench's %%watch to see its graph.")

    @property
    def code(self) -> str:
        """Raise NotImplementedError."""
        raise _refused("code", "What runs is the Python source itself.")


class ScriptModule(Module):
    """A scripted or traced module: the original class and parameters, with TorchScript's additional names."""

    original_name: str
    save, graph, code = ScriptFunction.save, ScriptFunction.graph, ScriptFunction.code

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def _get_name(self) -> str:
        return "RecursiveScriptModule"


RecursiveScriptModule = ScriptModule


def _scripted(module: Module, made: dict[int, Any]) -> Any:
    """Return a twin that shares parameters and buffers, of a class derived from ScriptModule and the original; children likewise."""
    if _isinstance(module, ScriptModule):
        return module
    if id(module) not in made:
        cls = type(module)
        name = {"original_name": cls.__name__, "__module__": cls.__module__, "__doc__": cls.__doc__}
        twin: Any = object.__new__(type("RecursiveScriptModule", (ScriptModule, cls), name))
        made[id(module)] = twin
        twin.__dict__.update(module.__dict__)
        for kind in ("_parameters", "_buffers", "_modules"):
            twin.__dict__[kind] = type(module.__dict__[kind])(module.__dict__[kind])
        for key, child in module._modules.items():
            if child is not None:
                twin._modules[key] = _scripted(child, made)
    return made[id(module)]


# -- script --------------------------------------------------------------------------------------------------------------


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return the module or function as a script object that shares its parameters and runs as Python.

    Classes, dicts and lists are returned unchanged. Raises RuntimeError for anything else.
    """
    if _isinstance(obj, Module):
        return _scripted(obj, {})
    if _isinstance(obj, (type, dict, list, ScriptFunction)):
        return obj
    if not callable(obj):
        raise RuntimeError(f"script: expected a module, a function or a class, got {type(obj).__name__}")
    return ScriptFunction(obj)


def script_method(fn: _T) -> _T:
    """Return a ScriptModule's method unchanged."""
    return fn


def export(fn: _T) -> _T:
    """Mark a method for scripting; returns it unchanged, since every method is available."""
    return fn


def _overload(fn: Any) -> Any:
    """Mark one of several signatures for TorchScript; in Python, the last definition is the function."""
    return fn


_overload_method = _overload


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a method to stay in Python, as all do; returns it unchanged. Also used as `@ignore(drop=True)`."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: _T) -> _T:
    """Mark a method to be left out of scripting; returns it unchanged."""
    return fn


def interface(obj: _T) -> _T:
    """Mark a class as an interface; returns it unchanged."""
    return obj


def annotate(the_type: Any, the_value: _T) -> _T:
    """Return the value; the type is for TorchScript's compiler."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`; for types such as `List[int]`, only the container type is checked."""
    origin = getattr(target_type, "__origin__", None)
    return _isinstance(obj, origin if origin is not None else target_type)


def is_scripting() -> bool:
    """Return False: nothing is compiled by TorchScript."""
    return False


# -- trace ---------------------------------------------------------------------------------------------------------------


def is_tracing() -> bool:
    """Return whether this thread is inside `trace`."""
    return getattr(_state, "tracing", False)


@contextmanager
def _tracing() -> Any:
    before, _state.tracing = is_tracing(), True
    try:
        yield
    finally:
        _state.tracing = before


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Run a module or function on example inputs, check its outputs, and return it as `script` does.

    Unlike PyTorch's trace, the result is not frozen to one path: Python control flow still runs at every call. Raises RuntimeError unless
    the outputs are tensors, or tuples, lists or (with `strict=False`) dicts of them. `check_trace` runs it twice on each of `check_inputs`
    (by default the example) and emits a TracerWarning if the results differ by more than `check_tolerance`.
    """
    if (example_inputs is None) == (example_kwarg_inputs is None):
        raise RuntimeError("trace: expected example_inputs or example_kwarg_inputs, one of them")
    if not callable(func):
        raise RuntimeError(f"trace: expected a module or a function, got {type(func).__name__}")
    if _isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn("The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.", stacklevel=2)
        return func
    first = _arguments(example_inputs)
    with _tracing():
        _outputs(func(*first, **(example_kwarg_inputs or {})), strict)
        if check_trace:
            for inputs in check_inputs or [example_inputs]:
                _check(func, _arguments(inputs), example_kwarg_inputs or {}, check_tolerance)
    return script(func)


def _get_trace_graph(f: Any, args: Any = (), kwargs: dict | None = None, *rest: Any, **options: Any) -> Any:
    """Raise NotImplementedError."""
    raise _refused("_get_trace_graph", "engine.utils.flop_counter counts the operations of a call.")


def trace_module(mod: Module, inputs: dict, optimize: Any = None, check_trace: bool = True, **options: Any) -> Any:
    """Apply `trace` to several methods of a module; `inputs` maps method names to example inputs."""
    for name, example in inputs.items():
        method = mod if name == "forward" else getattr(mod, name)
        trace(method, example, optimize, check_trace, **options)
    return script(mod)


def _arguments(inputs: Any) -> tuple:
    if inputs is None:
        return ()
    return (inputs,) if _isinstance(inputs, (Tensor, dict)) else tuple(inputs)


def _outputs(found: Any, strict: bool) -> list[Tensor]:
    if _isinstance(found, Tensor):
        return [found]
    parts: Iterable | None = None
    if _isinstance(found, (tuple, list)):
        parts = found
    elif _isinstance(found, dict):
        if strict:
            raise RuntimeError("Encountering a dict at the output of the tracer might cause the trace to be incorrect: use strict=False")
        parts = found.values()
    if parts is None:
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions, "
            f"but got {type(found).__name__}"
        )
    return [tensor for part in parts for tensor in _outputs(part, strict)]


def _check(func: Callable, args: tuple, kwargs: dict, tolerance: float) -> None:
    with no_grad():
        one, two = (_outputs(func(*args, **kwargs), False) for _ in range(2))
    for i, (a, b) in enumerate(zip(one, two, strict=True), 1):
        try:
            testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            warnings.warn(f"Output nr {i}. of the traced function does not match a second run. {error}", TracerWarning, stacklevel=4)


def script_if_tracing(fn: _T) -> _T:
    """Mark a function to be scripted when called inside `trace`; returns it unchanged."""
    return fn


# -- running ---------------------------------------------------------------------------------------------------------------


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return a scripted module unchanged. Raises RuntimeError if it is not scripted or is in training mode."""
    if not _isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module.")
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """Set a scripted module to evaluation mode and return it."""
    return mod if not mod.training else freeze(mod.eval())


@contextmanager
def optimized_execution(should_optimize: bool) -> Any:
    """Run the block as it is; nothing is optimized."""
    yield


def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """Call the function synchronously and return a completed Future."""
    found = Future()
    found.set_result(func(*args, **kwargs))
    return found


def wait(future: Future) -> Any:
    """Return the result of a `fork`."""
    return future.wait()


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Raise NotImplementedError."""
    raise _refused("jit.save", _SAVE)


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Raise NotImplementedError: a TorchScript file contains a program, and loaded files are never executed."""
    raise _refused("jit.load", "Build the model from its Python class and load a state_dict into it.")
