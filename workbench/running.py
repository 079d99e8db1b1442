"""`workbench run`: run a program that imports torch on the engine, as `python` itself would run it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import CodeType, ModuleType
from typing import Any

import engine

from .base.tracebacks import trim
from .flights import loops
from .flights.automatic import automatic


def run(arguments: list[str], flight: str = "", on_engine: bool = True) -> int:
    """Run `SCRIPT.py ARGUMENTS` or `-m MODULE ARGUMENTS` as the main module, and return the exit status of the process.

    `flight`: the file that its training is recorded to, "" for no recording. `on_engine`: whether `import torch` gives the engine.
    `SystemExit` passes through. Any other error is printed as Python prints it, without lines of the engine or the workbench.
    """
    if on_engine:
        engine.install_as_torch()
    try:
        made = loops.compiled if flight else partial(compile, mode="exec", dont_inherit=True)
        code, main = _module(arguments[1:], made) if arguments[0] == "-m" else _script(arguments, made)
        sys.modules["__main__"] = main
        with automatic(flight) if flight else nullcontext() as turns:
            vars(main).update({loops.TURNS: turns} if flight else {})
            exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:  # printed, by the program's own hook if it has set one
        trim(error)
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _script(arguments: list[str], made: Callable[..., CodeType]) -> tuple[CodeType, ModuleType]:
    name = arguments[0]
    path = os.path.abspath(name)
    try:
        with io.open_code(path) as file:
            text = file.read()
    except OSError as error:
        print(f"workbench: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    _place(os.path.dirname(os.path.realpath(path)), arguments)
    code = made(text, path)
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    return code, _main(__file__=path, __loader__=loader, __spec__=None, __package__=None, __cached__=None)


def _module(arguments: list[str], made: Callable[..., CodeType]) -> tuple[CodeType, ModuleType]:
    if not arguments:
        print("workbench: -m takes the name of a module", file=sys.stderr)
        raise SystemExit(2)
    _place(os.getcwd(), ["-m", *arguments[1:]])
    name = arguments[0]
    spec = _found(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _found(f"{name}.__main__")
    loader: Any = spec and spec.loader
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None
    if spec is None or code is None:
        print(f"workbench: No module named {name}", file=sys.stderr)
        raise SystemExit(1)
    if hasattr(loader, "get_source") and (text := loader.get_source(spec.name)) is not None:
        code = made(text, code.co_filename)
    sys.argv[0] = spec.origin or name
    return code, _main(__file__=spec.origin, __loader__=spec.loader, __spec__=spec, __package__=spec.parent, __cached__=spec.cached)


def _found(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


def _place(folder: str, arguments: list[str]) -> None:
    sys.argv = arguments
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder  # replaces the folder of the command itself


def _main(**names: object) -> ModuleType:
    main = ModuleType("__main__")
    vars(main).update(__builtins__=sys.modules["builtins"], **names)
    return main
