"""One number per node of a recording, for the view's overlays: magnitudes of values and gradients, times of ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from ..graph.timing import NOT_TIMED, settle
from ..inspector import host
from ..inspector.statistics import mean_magnitudes
from ..recording.recording import Recording
from .stepper import Stepper

MOST = float(numpy.finfo(numpy.float32).max)  # a larger float64 would become infinite in float32
Numbers = tuple[numpy.ndarray, str]  # float32, one per row, NaN if missing; and why there are none at all


def activation(recording: Recording, stepper: Stepper | None = None) -> Numbers:
    """Mean magnitude of each value that still exists."""
    return _of_rows(recording, recording.value), "No value is there any more. Record with a larger budget, such as %%watch --keep 1GB."


def gradient(recording: Recording, stepper: Stepper | None = None) -> Numbers:
    """Mean magnitude of each gradient at the current step; without a pass, of `.grad`."""
    found = gradients(recording, stepper)
    return _of_rows(recording, found.get), "There is no gradient yet: run backward(), or step through it with wb.step(loss)."


def ratio(recording: Recording, stepper: Stepper | None = None) -> Numbers:
    """Mean magnitude of the gradient divided by that of the value: which layers a step would change most."""
    above, missing = gradient(recording, stepper)
    below, _ = activation(recording, stepper)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        found = above / below
    found[~numpy.isfinite(found)] = math.nan  # a value of all zeros has no ratio
    return found, missing


def bad(recording: Recording, stepper: Stepper | None = None) -> Numbers:
    """The number of NaN or infinite elements in each value and its gradient."""
    found = gradients(recording, stepper)

    def count(array: Any) -> float:
        data = host(array)
        return float(data.size - numpy.count_nonzero(numpy.isfinite(data))) if data.dtype.kind in "fc" else 0.0

    numbers = numpy.full(recording.count, math.nan, numpy.float32)
    for row in range(recording.count):
        arrays = [array for array in (recording.value(row), found.get(row)) if hasattr(array, "dtype")]
        if arrays:
            numbers[row] = sum(count(array) for array in arrays)
    return numbers, "No value is there any more. Record with a larger budget, such as %%watch --keep 1GB."


def time(recording: Recording, stepper: Stepper | None = None) -> Numbers:
    """Seconds that each op ran."""
    settle(recording)
    took = numpy.full(recording.count, math.nan, numpy.float32)
    measured = numpy.array(recording.took[: recording.count], numpy.float32)
    took[: len(measured)] = measured
    return took, NOT_TIMED


def difference(recording: Recording, stepper: Stepper | None = None) -> Numbers:
    """Distance of each value from that of the other recording, relative to its size."""
    known = recording.distance
    numbers = numpy.array([math.nan] * recording.count if known is None else known, numpy.float32)
    numbers[numpy.isinf(numbers)] = math.nan  # a different shape, as its flag says
    return numbers, "There is nothing to compare with: wb.diff(before, after) shows two recordings at once."


METRICS: dict[str, Callable[[Recording, Stepper | None], Numbers]] = {
    "activation": activation,
    "gradient": gradient,
    "ratio": ratio,
    "bad": bad,
    "time": time,
    "difference": difference,
}


def gradients(recording: Recording, stepper: Stepper | None) -> dict[int, Any]:
    """Row -> its gradient's array: at the current step of the pass, or `.grad` if no step has been taken."""
    found: dict[int, Any] = {}
    if stepper is None or not stepper.index:
        for row in range(recording.count):
            grad = getattr(recording.tensor(row), "_grad", None)
            if grad is not None:
                found[row] = grad.array
        return found
    return stepper.arrived()


def _of_rows(recording: Recording, array_of: Callable[[int], Any]) -> numpy.ndarray:
    """Mean |x| over the finite elements of each row's array; NaN if there are none, and for booleans."""
    numbers = numpy.full(recording.count, math.nan, numpy.float32)
    arrays = {row: array for row in range(recording.count) if recording.kind[row] != "constant" and _counts(array := array_of(row))}
    for row, number in zip(arrays, mean_magnitudes(list(arrays.values())), strict=True):
        numbers[row] = min(number, MOST)  # min keeps a NaN: it is not larger
    return numbers


def _counts(array: Any) -> bool:
    return hasattr(array, "dtype") and array.dtype.kind != "b"
