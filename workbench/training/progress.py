"""A progress bar for loops: how far, how long still, and the curves of what the loop reports. tqdm keeps the time."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, Protocol

from tqdm import tqdm

from ..inspector import number_text
from .curve import Curve, as_number

SECONDS = 0.2  # between two pictures at least
SHOWN = 6  # names at most whose curves are drawn
_BLOCKS = "▁▂▃▄▅▆▇█"
_SPARK = 10  # characters of a curve in a terminal
_WITHOUT_SPARK = 60  # columns of a terminal that bar and numbers want for themselves


class Screen(Protocol):
    """Where a page draws a loop and those inside it."""

    cell: Any  # tracks of one cell are drawn together

    def draw(self, tracks: list[Track]) -> None:
        """Draw these, the outermost first, in place of what was drawn before."""
        ...


class _Running(threading.local):
    def __init__(self) -> None:
        self.tracks: list[Track] = []  # whose loops run now in this thread, the outermost first


_running = _Running()


class Track:
    """What `wb.track` returns: loop over it, and give `report` the numbers of each turn."""

    def __init__(
        self, iterable: Iterable, total: int | None = None, title: str = "", screen: Screen | None = None, file: Any = None
    ) -> None:
        if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__getitem__"):
            hint = f" For {iterable} turns: wb.track(range({iterable}))." if isinstance(iterable, int) else ""
            raise TypeError(f"wb.track takes something to loop over, got {type(iterable).__name__}.{hint}")
        if total is None:
            total = _length(iterable)
        elif not isinstance(total, int) or isinstance(total, bool) or total < 0:
            raise ValueError(f"wb.track: total is the number of turns, 0 or more; got {total!r}.")
        self.iterable, self.total, self.title = iterable, total, str(title)
        self.scalars: dict[str, Curve] = {}  # what was reported, by the number of the turn
        self.turns = 0  # that have begun, in all loops over it
        self.ended = False
        self.whole = False  # the iterable was used up: no break, no error
        self.screen, self._file = screen, file
        self._outer: Track | None = None
        self._inner: Track | None = None  # the newest loop inside this one
        self._bar: _Bar | None = None
        self._took = 0.0  # seconds, once it has ended

    def __iter__(self) -> Iterator:
        outer = _running.tracks[-1] if _running.tracks else None
        if outer is not None and _cell(outer) == _cell(self):  # else somebody in another cell has not finished his loop
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
        """Numbers of this turn: `t.report(loss=loss, accuracy=0.9)`. Tensors of one element are taken as numbers: no graph stays alive."""
        for name, value in values.items():
            number = as_number(name, value, "track.report")
            self.scalars.setdefault(name, Curve()).add(max(self.turns - 1, 0), number)

    def write(self, text: str) -> None:
        """Print a line above the bar of a terminal, which `print` would write into; in a notebook it is `print`."""
        if self.screen is not None:
            print(text)
        else:
            tqdm.write(text)

    # -- how it stands ----------------------------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Turns that have ended in this loop."""
        return 0 if self._bar is None else self._bar.n

    def words(self) -> str:
        """How far, how fast and how long still: "37 of 100, 12.3/s, 5.1 s left"."""
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
        lines += [f"  {name} {number_text(curve.last)}  {sparkline(curve, 40)}" for name, curve in self.scalars.items()]
        return "\n".join(lines)

    def draw(self) -> None:
        """Draw this loop where it belongs: within the outermost one."""
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
        """The newest numbers for the end of a terminal's line, with their curves where there is room."""
        named = list(self.scalars.items())[:SHOWN]
        texts = [f"{name} {number_text(curve.last)}" for name, curve in named]
        room = math.inf if columns is None else columns - _WITHOUT_SPARK - sum(len(text) + 2 for text in texts)
        if ascii_only:
            return ", ".join(texts).replace("−", "-").replace("–", "-")
        for i, (_, curve) in enumerate(named):
            if room < _SPARK + 1:
                break
            room -= _SPARK + 1
            texts[i] += f" {sparkline(curve, _SPARK)}"
        return ", ".join(texts)


class _Bar(tqdm):
    """tqdm's clock and terminal, without its thread; on a page its lines are drawn by the screen."""

    monitor_interval = 0

    def __init__(self, track: Track, file: Any) -> None:
        self.track = track
        super().__init__(
            total=track.total,
            desc=track.title or None,
            leave=None,  # of loops within loops only the outermost one's bar stays
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
        self.leave = False  # so that tqdm draws once at the end
        super().close()


def sparkline(curve: Curve, width: int) -> str:
    """The curve as a row of block characters; × where a number is not finite."""
    values = curve.values.tolist()
    n = min(width, len(values))
    shown = [values[(i + 1) * len(values) // n - 1] for i in range(n)]
    fine = [x for x in shown if math.isfinite(x)]
    low, span = (min(fine), max(fine) - min(fine)) if fine else (0.0, 0.0)
    top = len(_BLOCKS) - 1
    return "".join("×" if not math.isfinite(x) else _BLOCKS[round((x - low) / span * top) if span > 0 else top // 2] for x in shown)


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else tqdm.format_interval(seconds)


def _length(iterable: Any) -> int | None:
    """The number of items; None when the iterable does not know. A loader over a stream has `__len__` and refuses in it."""
    try:
        return len(iterable)
    except (TypeError, NotImplementedError):
        return None


def _cell(track: Track) -> Any:
    return None if track.screen is None else track.screen.cell
