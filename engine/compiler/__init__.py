"""`engine.compile` and the names of `torch.compiler`. Nothing is compiled: programs run eagerly."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from ..nn import Module

_BACKENDS = ("inductor", "eager", "aot_eager", "cudagraphs", "onnxrt", "openxla", "tvm")
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


class OptimizedModule(Module):
    """The wrapper that `compile` returns for a module; as in PyTorch, its `state_dict` keys start with `_orig_mod.`."""

    _orig_mod: Module

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.training = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._orig_mod(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        wrapped = self._modules["_orig_mod"]
        return wrapped if name == "_orig_mod" else getattr(wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        wrapped = self.__dict__.get("_modules", {}).get("_orig_mod")
        if wrapped is None or name in self.__dict__ or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(wrapped, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # pyright: ignore

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Return a callable equivalent to `model`, or a decorator if `model` is not given.

    Nothing is compiled: the program runs eagerly with the same results, and `fullgraph`, `dynamic`, `mode`, `options` and the later
    arguments have no effect, except that `disable=True` returns `model` itself. Raises RuntimeError for a `mode` or `backend` unknown to
    PyTorch, TypeError if `model` is not callable, and NotImplementedError if `backend` is a function, since there is no graph to pass it.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if callable(backend):
        raise NotImplementedError("compile: a backend of your own would get a graph, and nothing is traced here; use backend='eager'")
    if backend is not None and backend not in _BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r}; available are {', '.join(_BACKENDS)}")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise TypeError(f"A callable function is expected, but {type(model)} is provided.")
    if disable or isinstance(model, (type, OptimizedModule)):
        return model
    if isinstance(model, Module):
        return OptimizedModule(model)

    @functools.wraps(model)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    return compiled


def load(path: str | os.PathLike) -> Any:
    """Read a program that `compiled.export` wrote; returns a `Program`, to be called with tensors. Nothing is traced or compiled before.

    Raises ValueError, saying what is wrong, for a file that is damaged, of another kind, or made by a later version.
    """
    from .program import load

    return load(path)


def is_compiling() -> bool:
    """Return False: nothing is ever traced."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the function unchanged, or a decorator that does so."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Return the function, or the list of functions, unchanged."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return the function unchanged."""
    return fn


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return the names of the backends that `compile` accepts."""
    return sorted(_BACKENDS)


def reset() -> None:
    """Do nothing: there is no compilation cache."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs to replay."""
