"""`engine.utils.benchmark`: measure the run time of statements."""

from __future__ import annotations

from .measurement import Measurement, TaskSpec, select_unit, trim_sigfig
from .timer import Timer, timer

__all__ = ["Measurement", "TaskSpec", "Timer", "select_unit", "timer", "trim_sigfig"]
