"""The lessons as a whole: their numbers, their tests, the instructor's notes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from lesson import FOLDER, Lesson

from workbench.course.editions import with_notes

NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def test_lessons_are_numbered():
    assert [name[:3] for name in NAMES] == [f"{number:02d}_" for number in range(1, len(NAMES) + 1)]


def test_every_lesson_has_its_tests():
    for path in Path(__file__).parent.glob("test_[0-9]*.py"):
        import_module(path.stem)
    assert sorted(one.name for one in Lesson.__subclasses__()) == NAMES


def test_notes_stand_behind_the_cells_that_they_name():
    def cell(id, **metadata):
        return {"id": id, "metadata": metadata, "source": ""}

    lesson = {"cells": [cell("one"), cell("two")]}
    notes = {"cells": [cell("a", after="two"), cell("b", after="one"), cell("c", after="two")]}
    assert [c["id"] for c in with_notes(lesson, notes)["cells"]] == ["one", "b", "two", "a", "c"]
    assert [c["id"] for c in lesson["cells"]] == ["one", "two"]
    with pytest.raises(ValueError, match="there is none of 'three'"):
        with_notes(lesson, {"cells": [cell("a", after="three")]})
