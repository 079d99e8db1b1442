"""Anomaly detection: find the op whose backward fails or returns nan, and the forward line that ran it."""

from __future__ import annotations

import traceback
import types
import warnings
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy

from ..base import errors
from ..core import devices, tape
from ..core.call import noting

_places: WeakKeyDictionary = WeakKeyDictionary()  # node -> formatted stack of the forward call that created it
_CORE = tape.__file__


class _State:
    on = False
    check_nan = True
    noting: Any = None


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on."""
    return _State.on


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly detection also checks for nan."""
    return _State.check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turn anomaly detection on or off."""
    on = bool(mode)
    if on and not _State.on:
        _State.noting = noting(note)
        _State.noting.__enter__()
    elif _State.on and not on:
        _State.noting.__exit__()
    _State.on, _State.check_nan = on, check_nan


def note(node: tape.Node) -> None:
    """Record the call stack that created this node."""
    frame = errors.user_frame()
    _places[node] = "".join(traceback.format_stack(frame)) if frame is not None else ""


class set_detect_anomaly:
    """Turn anomaly detection on or off; as a context manager, restore the previous state on exit."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _State.on, _State.check_nan
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        set_anomaly_enabled(*self._before)


class detect_anomaly:
    """Context manager that reports the forward line of a failing backward step.

    If a backward step raises, the op is named in a warning that shows its forward line; a nan gradient raises RuntimeError too, unless
    `check_nan` is False. Slows every op down: use it for debugging only.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before: tuple = ()
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = _State.on, _State.check_nan
        set_anomaly_enabled(True, self._check_nan)

    def __exit__(self, *exc: object) -> None:
        set_anomaly_enabled(*self._before)


def looked_at(steps: Iterator, recorded: bool) -> Iterator:
    """Yield the steps of a backward pass, checking each: nan raises RuntimeError, and a failing step warns with its forward line."""
    try:
        for node, grad, input_grads in steps:
            if _State.check_nan and node.op is not None:
                for i, g in enumerate(input_grads):
                    if g is not None and _has_nan(g.array if recorded else g):
                        _warn(node)
                        raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
            yield node, grad, input_grads
    except Exception as error:
        if not str(error).startswith("Function '"):
            failed = _node_of(error.__traceback__)
            if failed is not None and failed.op is not None:
                _warn(failed)
        raise


def _has_nan(array: Any) -> bool:
    return array.dtype.kind not in "iub" and bool(devices.namespace(array).any(numpy.not_equal(array, array)))


def _node_of(trace: types.TracebackType | None) -> Any:
    """Return the node whose backward step was running when the error was raised."""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename == _CORE and frame.f_code.co_name == "backward_steps":
            return frame.f_locals.get("node")
        trace = trace.tb_next
    return None


def _warn(node: Any) -> None:
    place = _places.get(node)
    told = (
        f"Traceback of forward call that caused the error:\n{place}"
        if place
        else ("No forward pass information available. Enable detect anomaly during forward pass for more information.")
    )
    warnings.warn(f"Error detected in {node.name()}. {told}", stacklevel=6)
