"""What is still there of all that was made, oldest first."""

from __future__ import annotations

import gc
import weakref

import engine
import workbench as wb
from workbench.base.recent import Recent
from workbench.recording import recording
from workbench.session import surface


class Thing: ...


def test_the_living_are_there_in_order():
    recent: Recent[Thing] = Recent()
    things = [Thing() for _ in range(4)]
    for thing in things:
        recent.add(thing)
    assert list(recent) == things and list(reversed(recent)) == things[::-1]
    gone = weakref.ref(things.pop(1))
    assert gone() is None and list(recent) == things
    recent.forget(things[0])
    recent.forget(Thing())  # it was never there
    assert list(recent) == things[1:]


def test_no_python_code_runs_where_one_dies():
    """An interrupt by the user that arrives in a callback of a weak reference is printed and lost."""
    recent: Recent[Thing] = Recent()
    thing = Thing()
    recent.add(thing)
    assert [one.__callback__ for one in weakref.getweakrefs(thing)] == [None]


def test_a_recording_that_nobody_has_named_is_there_until_the_next():
    gc.collect()
    for title in ("first", "second"):
        with wb.record(title):
            engine.ones(3).exp()
        gc.collect()
        assert surface.newest().title == title
    assert [r.title for r in recording.recent if r.title in ("first", "second")] == ["second"]
