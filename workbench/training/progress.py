"""A progress bar for loops, based on tqdm: progress, remaining time, and curves of the scalars that the loop reports."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, Protocol

from tqdm import tqdm

from ..inspector import number_text
from .curve import Curve, later

SECONDS = 0.2  # minimum time between two redraws
SHOWN = 6  # curves drawn at most
_BLOCKS = "▁▂▃▄▅▆▇█"
_SPARK = 10  # characters of a curve in a terminal
_WITHOUT_SPARK = 60  # terminal columns reserved for the bar and its figures


class Screen(Protocol):
    """The output area of a page in which a loop and the loops inside it are drawn."""

    cell: Any  # tracks of the same cell are drawn together

    def draw(self, tracks: list[Track]) -> None:
        """Draw these tracks, the outermost first, replacing the previous drawing."""
        ...


class _Running(threading.local):
    def __init__(self) -> None:
        self.tracks: list[Track] = []  # running in this thread, the outermost first


_running = _Running()


class Track:
    """The iterable that `wb.progress` returns. Call `report` in the loop to plot values of each iteration.

    Attributes:
        total: the number of iterations; None if it is unknown.
        done: the number of completed iterations.
        scalars: the reported curves by name; `.last` is the latest value.
    """

    def __init__(
        self, iterable: Iterable, total: int | None = None, title: str = "", screen: Screen | None = None, file: Any = None
    ) -> None:
        if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__getitem__"):
            hint = f" For {iterable} turns: wb.progress(range({iterable}))." if isinstance(iterable, int) else ""
            raise TypeError(f"wb.progress takes something to loop over, got {type(iterable).__name__}.{hint}")
        if total is None:
            total = _length(iterable)
        elif not isinstance(total, int) or isinstance(total, bool) or total < 0:
            raise ValueError(f"wb.progress: total is the number of iterations, 0 or more; got {total!r}.")
        self.iterable, self.total, self.title = iterable, total, str(title)
        self.scalars: dict[str, Curve] = {}  # reported values by iteration
        self.turns = 0  # iterations begun, in all loops over it
        self.ended = False
        self.whole = False  # whether the iterable was exhausted, without a break or an error
        self.screen, self._file = screen, file
        self._outer: Track | None = None
        self._inner: Track | None = None  # the newest loop inside this one
        self._bar: _Bar | None = None
        self._took = 0.0  # seconds, once it has ended

    def __iter__(self) -> Iterator:
        outer = _running.tracks[-1] if _running.tracks else None
        if outer is not None and _cell(outer) == _cell(self):  # else an unfinished loop of another cell
            self._outer, outer._inner = outer, self
        self._inner, self.ended, self.whole = None, False, False
        _running.tracks.append(self)
        bar = self._bar = _Bar(self, self._file)
        try:
            for item in self.iterable:
                self.turns += 1
                yield item
                bar.update()
            self.whole = True
        finally:
            self.ended, self._took = True, bar.format_dict["elapsed"]
            _running.tracks[:] = [track for track in _running.tracks if track is not self]
            bar.close()
            self._outer = None

    def report(self, **values: Any) -> None:
        """Report scalars of this iteration: `track.report(loss=loss, accuracy=0.9)`.

        Nothing waits for a GPU: while the loop runs, the newest values that have arrived are shown.

        Args:
            **values: numbers, or tensors with one element.

        Raises:
            TypeError: a value is not a real number.
            ValueError: a tensor has more than one element.
        """
        for name, value in values.items():
            number = later(name, value, "track.report")
            self.scalars.setdefault(name, Curve()).add(max(self.turns - 1, 0), number)

    def write(self, text: str) -> None:
        """Print a line of `text` above the bar of a terminal, which `print` would garble. In a notebook, the same as `print`."""
        if self.screen is not None:
            print(text)
        else:
            tqdm.write(text)

    # -- progress ---------------------------------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Completed iterations of this loop."""
        return 0 if self._bar is None else self._bar.n

    def words(self) -> str:
        """Progress, rate and remaining time as text: "37 of 100, 12.3/s, 5.1 s left"."""
        known = self.total is not None and self.done <= self.total
        parts = [f"{self.done} of {self.total}" if known else f"{self.done}"]
        if self._bar is not None:
            stand = self._bar.format_dict
            elapsed = self._took if self.ended else stand["elapsed"]
            rate = stand["rate"] if stand["rate"] and not self.ended else self.done / elapsed if elapsed > 0 else 0.0
            if self.ended:
                parts.append(f"{'in' if self.whole else 'stopped after'} {_duration(elapsed)}")
            if rate:
                parts.append(f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s" if rate >= 1 else f"{1 / rate:.3g} s each")
            if rate and known and not self.ended:
                parts.append(f"{_duration((self.total - self.done) / rate)} left")  # type: ignore[operator]
        return ", ".join(parts)

    def __repr__(self) -> str:
        lines = [f"{self.title + ': ' if self.title else ''}{self.words()}"]
        lines += [f"  {name} {number_text(curve.last)}  {sparkline(curve.points()[1], 40)}" for name, curve in self.scalars.items()]
        return "\n".join(lines)

    def draw(self) -> None:
        """Redraw the outermost loop around this one, with all loops inside it."""
        top = self
        while top._outer is not None:
            top = top._outer
        tracks, at = [], top
        while at is not None:
            tracks.append(at)
            at = at._inner
        assert top.screen is not None  # a bar without a screen is drawn by tqdm
        top.screen.draw(tracks)

    def _beside(self, columns: int | None, ascii_only: bool) -> str:
        """The newest values for the end of a terminal's line, with their curves if they fit."""
        found = [(name, curve.points(wait=self.ended)[1]) for name, curve in list(self.scalars.items())[:SHOWN]]
        named = [(name, values) for name, values in found if values]
        texts = [f"{name} {number_text(values[-1])}" for name, values in named]
        room = math.inf if columns is None else columns - _WITHOUT_SPARK - sum(len(text) + 2 for text in texts)
        if ascii_only:
            return ", ".join(texts).replace("−", "-").replace("–", "-")
        for i, (_, values) in enumerate(named):
            if room < _SPARK + 1:
                break
            room -= _SPARK + 1
            texts[i] += f" {sparkline(values, _SPARK)}"
        return ", ".join(texts)


class _Bar(tqdm):
    """A tqdm bar without its monitor thread; on a page, the screen draws instead of tqdm."""

    monitor_interval = 0

    def __init__(self, track: Track, file: Any) -> None:
        self.track = track
        super().__init__(
            total=track.total,
            desc=track.title or None,
            leave=None,  # only the outermost bar of nested loops stays
            file=file if track.screen is None else io.StringIO(),
            mininterval=SECONDS,
            miniters=1,
            dynamic_ncols=track.screen is None,
        )

    @property
    def format_dict(self) -> MutableMapping[str, Any]:
        stand = super().format_dict
        stand["postfix"] = self.track._beside(stand["ncols"], stand["ascii"]) if self.track.screen is None else None
        return stand

    def display(self, msg: str | None = None, pos: int | None = None) -> Any:
        if self.track.screen is None:
            return super().display(msg, pos)
        self.track.draw()
        return True

    def close(self) -> None:
        if self.track.screen is None or self.disable:
            super().close()
            return
        self.leave = False  # makes tqdm draw once at the end
        super().close()


def sparkline(values: list[float], width: int) -> str:
    """The values of a curve as a row of block characters, with × for those that are not finite."""
    n = min(width, len(values))
    shown = [values[(i + 1) * len(values) // n - 1] for i in range(n)]
    fine = [x for x in shown if math.isfinite(x)]
    low, span = (min(fine), max(fine) - min(fine)) if fine else (0.0, 0.0)
    top = len(_BLOCKS) - 1
    return "".join("×" if not math.isfinite(x) else _BLOCKS[round((x - low) / span * top) if span > 0 else top // 2] for x in shown)


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else tqdm.format_interval(seconds)


def _length(iterable: Any) -> int | None:
    """The number of items, or None if it is unknown. The `__len__` of a loader over a stream exists but raises."""
    try:
        return len(iterable)
    except (TypeError, NotImplementedError):
        return None


def _cell(track: Track) -> Any:
    return None if track.screen is None else track.screen.cell
