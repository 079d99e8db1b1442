"""The syllabus for six and for twelve weeks, as Markdown: the weeks are written by hand, what a lesson contains is read from it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .lesson import Lesson
from .questions import points

_SOURCE = Path(__file__).parent / "files" / "syllabus.toml"


def syllabi(lessons: Sequence[Lesson]) -> dict[str, str]:
    """Each syllabus as Markdown, by the name of its file. Weeks without one of these lessons are left out."""
    with _SOURCE.open("rb") as file:
        plans = tomllib.load(file)["syllabus"]
    return {f"syllabus-{plan['weeks']}-weeks.md": _syllabus(plan, {one.number: one for one in lessons}) for plan in plans}


def _syllabus(plan: dict[str, Any], lessons: dict[int, Lesson]) -> str:
    rows, weeks = [], []
    for number, week in enumerate(plan["plan"], 1):
        there = [lessons[one] for one in week["class"] if one in lessons]
        home = [lessons[one] for one in week.get("home", ()) if one in lessons]
        if not there and not home:
            continue
        in_class = ", ".join(f"lesson {one.number}{_brief(one)}" for one in there)
        at_home = ", ".join([*(f"practice: lesson {one.number}{_brief(one)}" for one in home), *(["exercises"] if there else [])])
        rows.append(f"| {number} | {week['title']} | {in_class} | {at_home} |")
        weeks.append("\n\n".join([f"## Week {number} · {week['title']}", week["aim"], *map(_about, there), *map(_about, home)]))
    table = "\n".join(["| week | subject | in class | at home |", "|---|---|---|---|", *rows])
    return "\n\n".join([f"# {plan['title']}", plan["about"].strip(), table, *weeks]) + "\n"


def time_of(lesson: Lesson) -> str:
    """The time that the lesson states, such as "45 minutes"; "" if it states none."""
    if lesson.minutes is None:
        return ""
    least, most = lesson.minutes
    return f"{least} minutes" if least == most else f"{least} to {most} minutes"


def _brief(lesson: Lesson) -> str:
    return f" ({time_of(lesson)})" if lesson.minutes else ""


def _about(lesson: Lesson) -> str:
    asked, exercises = len(points(lesson.notebook)), len(lesson.exercises)
    counts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((asked, "graded question"), (exercises, "exercise")) if n]
    facts = ", ".join([*([time_of(lesson)] if lesson.minutes else []), *counts])
    told = [f"### Lesson {lesson.number} · {lesson.title}", *([f"{facts[0].upper()}{facts[1:]}."] if facts else [])]
    if lesson.before:
        told.append(f"Before: {lesson.before}.")
    if lesson.goals:
        told.append("Goals:\n\n" + "\n".join(f"- {goal.rstrip('.,;')}" for goal in lesson.goals))
    if lesson.parts:
        told.append("Parts:\n\n" + "\n".join(f"- {part}" for part in lesson.parts))
    return "\n\n".join(told)
