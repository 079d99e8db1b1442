"""Messages between the processes of a job beside their collectives: who has left, failed or paused, and what each is doing.

A thread in each process reads them, advances asynchronous collectives, and answers even while the program computes or is in a debugger.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy

from .mpi import LOCK, MpiCommunicator

_WORD, _QUESTION, _ANSWER = 1, 2, 3  # tags
_IDLE, _BUSY = 0.05, 0.0002  # seconds between two looks
_GRACE = 0.5  # seconds: what a process sent before it was killed may still arrive
ENDED = "has ended or raised an error; see its own output"
LEFT = "has left the process group (destroy_process_group) early"


@dataclass
class Gone:
    """How a process has ended, and how many collectives it had called in each group, if it reported that."""

    how: str
    calls: dict[str, int] | None = None
    heard: float = field(default_factory=time.monotonic)

    def before(self, group: int, number: int | None) -> bool:
        """Return whether it ended before calling a collective, or, without a number, whether no more messages can arrive."""
        if self.calls is not None and number is not None:
            return self.calls.get(str(group), 0) < number
        return time.monotonic() - self.heard > _GRACE


class Control:
    """The messages of one process; `describe` returns what it is doing, and `advance` advances its collectives.

    `heeds` are words of other parts, with what is called when another process tells one: its rank and the word's value.
    """

    def __init__(
        self, comm: MpiCommunicator, describe: Callable[[], dict], advance: Callable[[], bool],
        heeds: dict[str, Callable[[int, Any], None]] | None = None,
    ) -> None:  # fmt: skip
        self.rank, self.size = comm.rank, comm.size
        self.gone: dict[int, Gone] = {}  # by rank, in the order in which this process heard of them
        self.paused: dict[int, str] = {}  # rank -> where
        self.heeds = {} if heeds is None else heeds
        self.slept = 0.0  # the longest time in seconds for which the thread, and so probably the process, has not run
        self._ran = time.monotonic()
        self._paused_before, self._paused_since = 0.0, 0.0
        self.comm, self._describe, self._advance = comm, describe, advance
        self._receives: dict[int, Any] = {}
        self._answers: dict[int, dict] = {}
        self._sent: list = []
        self._asked = 0
        self._turn, self._asking = threading.Lock(), threading.Lock()
        self._wake, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._run, daemon=True, name="collectives")
        self._thread.start()

    # -- the thread --------------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have the thread advance a collective for which the program does not wait yet."""
        self._wake.set()

    def _run(self) -> None:
        pause, looked = _IDLE, 0.0
        while not self._ended:
            if self._wake.wait(pause):
                self._wake.clear()
                pause = _BUSY
            self.note_time()
            busy = self._advance()
            pause = min(2 * pause, 0.001) if busy else _IDLE
            if time.monotonic() - looked >= _IDLE:
                self.look()
                looked = time.monotonic()

    def note_time(self) -> None:
        """Note how long the process has not run, which it does not when it is stopped."""
        now = time.monotonic()
        self.slept, self._ran = max(self.slept, now - self._ran), now

    def look(self) -> None:
        """Read the messages that have arrived."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            failed = self.comm.failed()
            for tag, use in ((_WORD, self._hear), (_QUESTION, self._answer), (_ANSWER, self._note)):
                while (found := self._next(tag)) is not None:
                    use(*found)
            for rank in failed:  # after reading their last messages
                self.gone.setdefault(rank, Gone(ENDED))
                self._mark(rank, None)
            for request in list(self._sent):  # other threads append to it
                if _over(request):
                    self._sent.remove(request)
        finally:
            self._turn.release()

    def _next(self, tag: int) -> tuple[int, dict] | None:
        others = [r for r in range(self.size) if r != self.rank and not self._dead(r)]
        pending = self._receives.setdefault(tag, self.comm.recv(others, tag))
        pending.sources = others
        if _over(pending) and pending.source >= 0:
            del self._receives[tag]
            return pending.source, json.loads(pending.array.tobytes())
        return None

    def _dead(self, rank: int) -> bool:
        return rank in self.gone and self.gone[rank].how == ENDED

    def _hear(self, source: int, word: dict) -> None:
        if "first" in word:
            self.gone.setdefault(word["first"][0], Gone(word["first"][1]))
        if "gone" in word:
            if source not in self.gone or self.gone[source].calls is None:
                self.gone[source] = Gone(word["gone"], word["calls"])
        elif "paused" in word:
            self._mark(source, word["paused"])
        for name in word.keys() & self.heeds.keys():
            self.heeds[name](source, word[name])

    def _answer(self, source: int, question: dict) -> None:
        self._send(source, _ANSWER, {"number": question["number"], "state": self._describe()})

    def _note(self, source: int, answer: dict) -> None:
        if answer["number"] == self._asked:
            self._answers[source] = answer["state"]

    def _send(self, to: int, tag: int, content: dict) -> None:
        data = numpy.frombuffer(json.dumps(content).encode(), numpy.uint8).copy()
        try:
            self._sent.append(self.comm.send(data, to, tag))
        except RuntimeError:
            self.gone.setdefault(to, Gone(ENDED))

    # -- telling and asking ------------------------------------------------------------------------------------------------------

    def tell(self, **word: Any) -> None:
        """Tell all other processes: `gone` (how this one ends), `paused` (where, or None when it goes on), or a word of `heeds`."""
        if "paused" in word:
            self._mark(self.rank, word["paused"])
        if "gone" in word:
            word["calls"] = self._describe()["calls"]
            if self.gone:
                rank, first = next(iter(self.gone.items()))
                word["first"] = rank, first.how
        for other in range(self.size):
            if other != self.rank and other not in self.gone:
                self._send(other, _WORD, word)

    def ask(self, ranks: Iterable[int], seconds: float = 0.5) -> dict[int, dict]:
        """Ask processes what they are doing; those that do not answer in time are missing from the result."""
        with self._asking:
            self._asked += 1
            self._answers.clear()
            wanted = set(ranks) - {self.rank} - set(self.gone)
            for other in wanted:
                self._send(other, _QUESTION, {"number": self._asked})
            end = time.monotonic() + seconds
            while not wanted <= set(self._answers) and time.monotonic() < end:
                self.look()
                time.sleep(0.005)
            return dict(self._answers)

    def _mark(self, rank: int, where: str | None) -> None:
        was = bool(self.paused)
        if where is None:
            self.paused.pop(rank, None)
        else:
            self.paused[rank] = where
        if self.paused and not was:
            self._paused_since = time.monotonic()
        elif was and not self.paused:
            self._paused_before += time.monotonic() - self._paused_since

    def clock(self) -> float:
        """Return seconds of the clock for time-outs, which stops while any process is paused."""
        now = time.monotonic()
        return now - self._paused_before - (now - self._paused_since if self.paused else 0.0)

    def flush(self, seconds: float) -> None:
        """Wait until the others have read all messages, at most `seconds`."""
        end = time.monotonic() + seconds
        while self._sent and time.monotonic() < end:
            self.look()
            time.sleep(0.001)

    def close(self) -> None:
        """Stop the thread."""
        self._ended = True
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)


def _over(request: Any) -> bool:
    try:
        with LOCK:
            return request.test()
    except RuntimeError:  # the other process has ended
        return True
