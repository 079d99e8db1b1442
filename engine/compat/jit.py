"""`engine.jit`: TorchScript's names for programs that only run: a scripted or traced module is the Python module itself, marked.

There is no TorchScript here. What reads or writes it (`save`, `load`, `.graph`, `.code`) is refused with what to do instead.
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
    """Something that a trace of the program would not have kept."""


class TracingCheckError(Exception):
    """Two runs of what was traced differed."""


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
        """Refused: NotImplementedError."""
        raise _refused("save", _SAVE)

    @property
    def graph(self) -> Any:
        """Refused: NotImplementedError."""
        raise _refused("graph", "Watch a call with workbench's %%watch to see its graph.")

    @property
    def code(self) -> str:
        """Refused: NotImplementedError."""
        raise _refused("code", "What runs is the Python source itself.")


class ScriptModule(Module):
    """A scripted or traced module: the module's own class and parameters, with TorchScript's further names."""

    original_name: str
    save, graph, code = ScriptFunction.save, ScriptFunction.graph, ScriptFunction.code

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def _get_name(self) -> str:
        return "RecursiveScriptModule"


RecursiveScriptModule = ScriptModule


def _scripted(module: Module, made: dict[int, Any]) -> Any:
    """The module again, with its parameters and buffers, in a class that is also a ScriptModule; its children likewise."""
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
    """The module or function as TorchScript would give it back: the same numbers, parameters shared. It goes on to run as Python.

    A class is given back as it is; dicts and lists too. RuntimeError for anything else.
    """
    if _isinstance(obj, Module):
        return _scripted(obj, {})
    if _isinstance(obj, (type, dict, list, ScriptFunction)):
        return obj
    if not callable(obj):
        raise RuntimeError(f"script: expected a module, a function or a class, got {type(obj).__name__}")
    return ScriptFunction(obj)


def script_method(fn: _T) -> _T:
    """Mark a method of a ScriptModule: the method itself."""
    return fn


def export(fn: _T) -> _T:
    """Mark a method to be scripted though `forward` does not call it: the method itself, every method is there."""
    return fn


def _overload(fn: Any) -> Any:
    """One of several signatures that a script is told of; in Python the last definition of the name is the function."""
    return fn


_overload_method = _overload


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a method that stays Python, as all do: the method itself. Also `@ignore(drop=True)`."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: _T) -> _T:
    """Mark a method that a scripted module would not have: the method itself."""
    return fn


def interface(obj: _T) -> _T:
    """Mark a class that names methods only: the class itself."""
    return obj


def annotate(the_type: Any, the_value: _T) -> _T:
    """The value. The type is for TorchScript's compiler."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`, for types such as `List[int]` by what they are made of."""
    origin = getattr(target_type, "__origin__", None)
    return _isinstance(obj, origin if origin is not None else target_type)


def is_scripting() -> bool:
    """Whether this code is compiled TorchScript: never."""
    return False


# -- trace ---------------------------------------------------------------------------------------------------------------


def is_tracing() -> bool:
    """Whether this code runs inside `trace`."""
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
    """Run a module or function on example inputs, check what comes, and give it back as `script` does.

    What is given back is not one path frozen, as PyTorch's trace is: Python goes on to decide at every call. The outputs must be tensors,
    or tuples, lists or (with `strict=False`) dicts of them: RuntimeError. With `check_trace` it is run twice on each of `check_inputs`,
    by default the example: a TracerWarning says when the results differ by more than `check_tolerance`.
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


def trace_module(mod: Module, inputs: dict, optimize: Any = None, check_trace: bool = True, **options: Any) -> Any:
    """`trace` of several methods of a module: `inputs` has for each method's name its example."""
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
    """Mark a function that is scripted when it is called inside `trace`: the function itself."""
    return fn


# -- what follows ----------------------------------------------------------------------------------------------------------


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """A scripted module in evaluation mode, as it is. RuntimeError for one that is not scripted or that is in training."""
    if not _isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module.")
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The scripted module in evaluation mode, as it is."""
    return mod if not mod.training else freeze(mod.eval())


@contextmanager
def optimized_execution(should_optimize: bool) -> Any:
    """Ask whether the block is to be optimised; it runs as it is written."""
    yield


def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """Call the function, at once and in this thread."""
    found = Future()
    found.set_result(func(*args, **kwargs))
    return found


def wait(future: Future) -> Any:
    """The result of a `fork`."""
    return future.wait()


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Refused: NotImplementedError."""
    raise _refused("jit.save", _SAVE)


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Refused: NotImplementedError. A TorchScript file holds a program, and nothing is executed from a loaded file."""
    raise _refused("jit.load", "Build the model from its Python class and load a state_dict into it.")
