"""`engine.compile`: whole steps, or the calls of a module, as programs of XLA; and the names of `torch.compiler`.

`discovery.py` watches an eager call, `plan.py` traces the next one and runs its program from then on, `effects.py` notices what else the
traced call changes, and `guards.py` changes of what the program takes for granted. The state stays in the engine's tensors, whose memory is
XLA's (`memory.py`).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

from ..base import errors
from ..nn import Module

_BACKENDS = ("inductor", "eager", "aot_eager", "cudagraphs", "onnxrt", "openxla", "tvm")
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


class OptimizedModule(Module):
    """The wrapper that `compile` returns for a module; as in PyTorch, its `state_dict` keys start with `_orig_mod.`."""

    _orig_mod: Module

    def __init__(self, mod: Module, called: Callable) -> None:
        super().__init__()
        self.__dict__["_called"] = called
        self._modules["_orig_mod"] = mod
        self.training = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._called(*args, **kwargs)

    def export(self, path: str | os.PathLike, args: tuple | None = None, kwargs: dict | None = None, **options: Any) -> None:
        """Write the compiled program and its state to a file: see `Compiled.export`."""
        self._called.export(path, args, kwargs, **options)

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """Say what was compiled and what was not, as `Compiled.explain` does."""
        return self._called.explain(*args, **kwargs)

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

    `model` is a function, such as a whole training step (forward and backward pass and the optimizer's step), or a module. With arguments
    of given shapes it runs eagerly once, is traced and compiled by XLA at the second call, and then runs as one program, with the same
    results and random numbers. What cannot be compiled runs eagerly, with one warning that names the line; with `fullgraph`, TraceError is
    raised instead. After `recompile_limit` programs for the same shapes (8 by default), calls run eagerly.

    Needs JAX, which `pip install gradient-workbench[xla]` brings; without it everything runs eagerly, with a warning. `backend="eager"`
    and "aot_eager" run the program as it is; all other names of PyTorch's backends mean XLA. `dynamic`, `mode` and `options` have no
    effect. Raises RuntimeError for a `mode` or `backend` unknown to PyTorch, TypeError if `model` is not callable, and NotImplementedError
    if `backend` is a function.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if callable(backend):
        raise NotImplementedError("compile: a backend of your own would get PyTorch's graph, which there is not; use backend='eager'")
    if backend is not None and backend not in _BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r}; available are {', '.join(_BACKENDS)}")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable,
            recompile_limit=recompile_limit,
        )  # fmt: skip
    if not callable(model):
        raise TypeError(f"A callable function is expected, but {type(model)} is provided.")
    if disable or isinstance(model, (type, OptimizedModule)):
        return model
    if backend in ("eager", "aot_eager") or not _available():
        called: Any = functools.wraps(model)(lambda *args, **kwargs: model(*args, **kwargs))
        called.export = _not_exported
    else:
        from .compiled import Compiled  # imports JAX

        called = Compiled(model, fullgraph, recompile_limit)
    return OptimizedModule(model, called) if isinstance(model, Module) else called


@functools.cache
def _available() -> bool:
    """Whether JAX is installed; warns if not."""
    if importlib.util.find_spec("jax") is not None:
        return True
    errors.warn("compile: JAX is not installed, so programs run eagerly. Install gradient-workbench[xla].")
    return False


def _not_exported(*args: Any, **kwargs: Any) -> None:
    raise RuntimeError("export: nothing is compiled: JAX is not installed (pip install gradient-workbench[xla]), or the backend is eager")


def load(path: str | os.PathLike) -> Any:
    """Read a program that `compiled.export` wrote; returns a `Program`, to be called with tensors. Nothing is traced.

    Raises ValueError, saying what is wrong, for a file that is damaged, of another kind, or made by a later version.
    """
    from .program import load

    return load(path)


def is_compiling() -> bool:
    """Whether the calling code is being traced."""
    plan = sys.modules.get(f"{__name__}.plan")
    return plan is not None and plan.tracing.plan is not None


def is_exporting() -> bool:
    """Return False: an exported program is a compiled one."""
    return False


is_dynamo_compiling = is_compiling


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
    """Forget all programs: functions are traced again."""
    if (compiled := sys.modules.get(f"{__name__}.compiled")) is not None:
        for one in compiled.every:
            one.reset()


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs to replay."""
