"""What an eager run of a step touches: tensors it did not make, modules, optimizers, random draws, and the values that its code reads."""

from __future__ import annotations

import dis
import logging
import random as python_random
import sys
import sysconfig
from collections.abc import Callable, Iterable
from itertools import pairwise
from types import CodeType, FrameType, FunctionType
from typing import Any
from weakref import ref

import numpy

from ..backends import kernels_random
from ..base import errors, observe
from ..core import random
from ..core.tensor import Tensor
from ..nn import Module
from ..optim.optimizer import Optimizer


class Draws:
    """Stands in for `kernels_random` while a step runs: notes each call, and may take the numbers from elsewhere."""

    def __init__(self, take: Callable) -> None:
        self._take = take

    def __getattr__(self, name: str) -> Callable:
        fn = getattr(kernels_random, name)
        return lambda source, *args, **kwargs: self._take(fn, source, args, kwargs)


class Discovery(observe.Observer):
    """Watches one eager run, by `with Discovery() as found: step()`."""

    def __init__(self) -> None:
        self._tensors: dict[int, Any] = {}
        self._made: dict[int, Any] = {}
        self.modules: dict[int, Module] = {}
        self.optimizers: dict[int, Optimizer] = {}
        self.draws: list[tuple] = []
        self.code: dict[CodeType, dict] = {}  # the user's functions that ran, with their globals
        self.refused = ""  # why the step cannot be compiled

    def __enter__(self) -> Discovery:
        self._watching = observe.observing(self)
        self._watching.__enter__()
        random.drawing.by = Draws(self._drawn)
        self._before = python_random.getstate(), numpy.random.get_state()[1:3]
        self._profile = sys.getprofile()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(self._profile)
        random.drawing.by = None
        self._watching.__exit__(*error)
        drawn = python_random.getstate() != self._before[0] and "random"
        drawn = drawn or not all(map(numpy.array_equal, numpy.random.get_state()[1:3], self._before[1])) and "numpy.random"
        if drawn and not self.refused:
            self.refused = (
                f"compile: the function draws from {drawn}{at(self.code, 'random')}, of which a program would repeat the first number; "
                "draw with the engine"
            )

    def tensors(self) -> list[Tensor]:
        """Return the tensors that the run used and did not make, if they are still alive, in the order of their first use."""
        return [t for r in self._tensors.values() if (t := r()) is not None]

    def kept(self) -> list[Tensor]:
        """Return the results of the run's ops that are still alive."""
        return [t for r in self._made.values() if (t := r()) is not None]

    # -- what the engine reports -----------------------------------------------------------------------------------------------

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        for x in (*inputs, *attrs.values()):
            for t in x if isinstance(x, (tuple, list)) else (x,):
                if isinstance(t, Tensor) and self._made.get(id(t), _nothing)() is not t:
                    self._tensors.setdefault(id(t), ref(t))
        for out in output if isinstance(output, tuple) else (output,):
            if isinstance(out, Tensor):
                self._made[id(out)] = ref(out)
                self._tensors.pop(id(out), None)  # an earlier tensor at the same address

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        self.op(op, (target, *inputs), attrs, ())

    def enter(self, kind: str, name: str, subject: Any) -> None:
        if isinstance(subject, Module):
            self.modules[id(subject)] = subject

    def updated(self, optimizer: Any) -> None:
        self.optimizers[id(optimizer)] = optimizer

    def _drawn(self, fn: Callable, source: Any, args: tuple, kwargs: dict) -> Any:
        self.draws.append((fn, source, args, kwargs))
        return fn(source, *args, **kwargs)

    def _called(self, frame: FrameType, event: str, value: Any) -> None:
        if self._profile is not None:
            self._profile(frame, event, value)
        code = frame.f_code
        if event == "call":
            if code not in self.code and is_users(code.co_filename):
                self.code[code] = frame.f_globals
            if code is _LOGS and (user := _user_frame(frame)) is not None:
                self._refuse("logging", user)
        elif event == "c_call" and (value is print and not errors.hides(code) or _writes(value) and is_users(code.co_filename)):
            self._refuse(f"{value.__name__}()", frame)

    def _refuse(self, what: str, frame: FrameType) -> None:
        line = errors.where(frame.f_code, frame.f_lineno)
        self.refused = self.refused or (
            f"compile: {what} would run only while the function is traced ({line}); do this outside, with what the function returns"
        )


_LIBRARIES = (*{sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}, "<frozen")
_LOGS = logging.Logger.handle.__code__


def is_users(file: str | None) -> bool:
    """Whether code of this file is the user's: none of a library, nor of the engine."""
    return bool(file) and not file.startswith(_LIBRARIES) and not errors.hides(file)


def at(code: Iterable[CodeType], name: Any) -> str:
    """The line that assigns to a name, calls a method of it, or else reads it: ` (train.py, line 3)`; "" if there is none."""
    best, line = 0, ""
    for each in code:
        listed = [i for i in dis.get_instructions(each) if i.positions is not None and i.positions.lineno]
        writes = {i.positions.lineno for i in listed if i.opname in ("STORE_SUBSCR", "DELETE_SUBSCR")}  # type: ignore[union-attr]
        for one, after in pairwise(listed):
            number: int = one.positions.lineno  # type: ignore[union-attr, assignment]
            if one.argval == name or isinstance(one.argval, tuple) and name in one.argval:
                used = 2 if after.opname in ("LOAD_METHOD", "LOAD_ATTR") or number in writes else 1
                if (rank := 3 if one.opname.startswith(("STORE_", "DELETE_")) else used) > best:
                    best, line = rank, f" ({errors.where(each, number)})"
    return line


def _user_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _writes(builtin: Any) -> bool:
    """Whether a function in C opens a file, or writes into one."""
    return builtin is open or builtin.__name__ in ("write", "writelines", "writerow", "writerows")


def _nothing() -> None:
    return None


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def is_plain(value: Any) -> bool:
    """Whether a value is a constant for a trace: a number, a string, None, or a tuple of them."""
    return isinstance(value, _PLAIN) or isinstance(value, tuple) and all(map(is_plain, value))


def read_by(fn: Callable, code: dict[CodeType, dict]) -> list[tuple[Any, Any, Any, str]]:
    """List what functions read from outside as `(holder, key, value, words)`: their globals, and the variables that `fn` closes over.

    Only numbers, strings, tensors, modules and optimizers are listed; other objects are taken to stay as they are.
    """
    found: dict[tuple, tuple] = {}
    for one, names in code.items():
        for name in {i.argval for i in dis.get_instructions(one) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")}:
            if name in names and _guarded(value := names[name]):
                found[id(names), name] = (names, name, value, f"the global variable {name!r}")
    todo, seen = [fn], set()
    while todo:
        function = todo.pop()
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.add(function)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            if isinstance(value, FunctionType):
                todo.append(value)
            elif _guarded(value):
                found[id(cell), name] = (cell, None, value, f"the variable {name!r}")
    return list(found.values())


def _guarded(value: Any) -> bool:
    return is_plain(value) or isinstance(value, (Tensor, Module, Optimizer))
