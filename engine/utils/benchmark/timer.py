"""`Timer`: measure the run time of a statement, repeated until the result is reliable."""

from __future__ import annotations

import statistics
import textwrap
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import settings
from ...core import devices
from .measurement import Measurement, TaskSpec

__all__ = ["Timer", "timer"]


def timer() -> float:
    """Return the time in seconds, after synchronizing with the GPU if one is in use."""
    if devices.gpu is not None:
        from ...cuda import synchronize

        synchronize()
    return timeit.default_timer()


@contextmanager
def _threads(n: int) -> Iterator[None]:
    before = settings.get_num_threads()
    if n == before:
        yield
        return
    settings.set_num_threads(n)
    try:
        yield
    finally:
        settings.set_num_threads(before)


class Timer:
    """Time `stmt`, run after `setup` with the variables `globals` on `num_threads` threads.

    `label`, `sub_label`, `description` and `env` describe the result. Raises RuntimeError for languages other than Python, and for
    `global_setup`, which is for C++ only.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if str(language).lower() not in ("python", "py", "language.python", "0"):
            raise RuntimeError(f"Timer: only Python can be timed here, language is {language!r}")
        if global_setup:
            raise RuntimeError(f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`.")
        stmt, setup = (textwrap.dedent(text).strip() for text in (stmt, setup))
        self._globals = dict(globals or {})
        self._timer = timeit.Timer(stmt=stmt or "pass", setup=setup or "pass", timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Measure `number` runs once, after `number // 100` warm-up runs (at least 2)."""
        with _threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Measure blocks of runs, long enough to make the timer's overhead negligible, for at least `min_run_time` seconds in total.

        `callback(number, seconds)` is called after each block.
        """
        number = self._block_size(min_run_time)
        return self._measured(number, lambda times: True, min_run_time, float("inf"), callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Measure blocks until the interquartile range is below `threshold` times the median or `max_run_time` seconds have passed."""

        def enough(times: list[float]) -> bool:
            return len(times) > 3 and Measurement(number, times, self._task_spec).meets_confidence(threshold)

        number = self._block_size(0.05)
        return self._measured(number, enough, min_run_time, max_run_time, callback)

    def autorange(self, callback: Any = None) -> None:
        """Raise NotImplementedError, as in PyTorch."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raise NotImplementedError, as in PyTorch."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> None:
        """Raise RuntimeError: instruction counts need Valgrind and PyTorch's build."""
        raise RuntimeError("Timer.collect_callgrind: instructions are not counted here; blocked_autorange() measures the time")

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _block_size(self, min_run_time: float) -> int:
        with _threads(self._task_spec.num_threads):
            clock, number = statistics.median(self._timeit(0) for _ in range(5)), 1
            while number * 10 < 1 << 31:
                took = self._timeit(number)
                if took > min_run_time or clock <= 1e-4 * took and took >= min_run_time / 1000:
                    break
                number *= 10
            return number

    def _measured(
        self,
        number: int,
        enough: Callable[[list[float]], bool],
        min_run_time: float,
        max_run_time: float,
        callback: Callable[[int, float], Any] | None,
    ) -> Measurement:
        times: list[float] = []
        with _threads(self._task_spec.num_threads):
            while sum(times) < min_run_time or sum(times) < max_run_time and not enough(times):
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._task_spec)
