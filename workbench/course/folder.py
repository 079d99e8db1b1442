"""The folder of a course: students' lessons, the instructor's edition, a syllabus, and a page for the teacher."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path

from .assignment import EXERCISE_POINTS, assignment
from .lesson import lessons_in, written
from .shipped import Refusal, files, place
from .syllabus import syllabi

_FILES = Path(__file__).parent / "files"
_ABOUT = {
    "instructor/": "each lesson with notes: goals, timings, what students get wrong and what to show then, answers to the exercises",
    "syllabus-6-weeks.md": "two lessons a week",
    "syllabus-12-weeks.md": "one lesson a week",
}
_PLAIN = {"lessons/": "the lessons, as students get them", **_ABOUT}
_HAND_OUT = "Hand out the folder `lessons/`. The folder `instructor/` has the answers and is yours alone."
_GRADING = """
The last part of a lesson prints the points for its questions, from a file such as `lesson-2-answers.json` that lies beside the notebook.
Exercises are graded by hand; `instructor/` has the answers. `workbench course DIR --nbgrader` writes the same lessons as assignments for
nbgrader, which collects and grades them.
""".strip()

_GRADED = {
    "source/": "an assignment for each lesson, with solutions; edit it here",
    "release/": "the same without solutions, made by `nbgrader generate_assignment`; this is what students get",
    "nbgrader_config.py": "nbgrader's settings",
    **_ABOUT,
}
_GRADED_HAND_OUT = "Hand out the folders in `release/`. `source/` and `instructor/` have the answers and are yours alone."
_GRADED_GRADING = f"""
With `pip install "gradient-workbench[nbgrader]"`, in this folder, for lesson 2:

    nbgrader generate_assignment lesson-02   # after changes in source/
    nbgrader zip_collect lesson-02           # from downloaded/lesson-02/archive/NAME.zip, or: nbgrader collect lesson-02
    nbgrader autograde lesson-02
    nbgrader generate_feedback lesson-02     # after exercises have been graded in the formgrader

A student hands in the notebook and the file of answers that lies beside it, such as `lesson-2-answers.json`. The questions are graded
automatically: each answer is compared again with the tensors of the student's run. Cells that the questions depend on are read-only;
all others are the student's to change. Each exercise has {EXERCISE_POINTS} points, given by hand; an answer that was left empty gets none.
""".strip()


def course(source: Path, folder: Path, chosen: list[int] | None = None) -> None:
    """Write a course with the lessons in `source`, or the chosen ones. Files that the teacher has changed are kept.

    Raises Refusal for a folder that has something else in it, or that cannot be written.
    """
    lessons = lessons_in(source, chosen)
    contents = {f"lessons/{one.name}.ipynb": (source / f"{one.name}.ipynb").read_bytes() for one in lessons}
    beside = [one for one in files(source) if one.suffix != ".ipynb" and one.parent.name != "instructor"]
    contents |= {f"lessons/{one.relative_to(source).as_posix()}": one.read_bytes() for one in beside}
    contents |= {f"instructor/{one.name}.ipynb": written(one.edition) for one in lessons}
    contents |= {name: text.encode() for name, text in syllabi(lessons).items()}
    about = "Lessons on gradients and backpropagation, each with questions that are graded and exercises."
    put(contents, page(about, _PLAIN, _HAND_OUT, _GRADING), folder)


def page(about: str, there: Mapping[str, str], hand_out: str, grading: str) -> bytes:
    """The page for the teacher."""
    table = "\n".join(f"| `{name}` | {what} |" for name, what in there.items())
    return (_FILES / "README.md").read_text(encoding="utf-8").format(about=about, table=table, hand_out=hand_out, grading=grading).encode()


def put(contents: Mapping[str, bytes], readme: bytes, folder: Path) -> None:
    """Write the files of a course. Raises Refusal for a folder with other files, unless it has been a course before."""
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in contents):
        raise Refusal(f"{folder} has other files in it; name a new or an empty folder for the course")
    place({**contents, "README.md": readme}, folder)


def graded_course(source: Path, folder: Path, chosen: list[int] | None = None) -> None:
    """Write a course directory for nbgrader, and the students' versions of its assignments if nbgrader is installed.

    Raises Refusal as `course` does, and if nbgrader refuses an assignment.
    """
    lessons = lessons_in(source, chosen)
    contents = {"nbgrader_config.py": (_FILES / "nbgrader_config.txt").read_bytes()}
    contents |= {f"source/{name_of(one.number)}/{one.name}.ipynb": written(assignment(one)) for one in lessons}
    contents |= {f"instructor/{one.name}.ipynb": written(one.edition) for one in lessons}
    contents |= {name: text.encode() for name, text in syllabi(lessons).items()}
    about = "Lessons on gradients and backpropagation as assignments for nbgrader."
    put(contents, page(about, _GRADED, _GRADED_HAND_OUT, _GRADED_GRADING), folder)
    if find_spec("nbgrader") is None:
        told = 'pip install "gradient-workbench[nbgrader]", then run this again'
        print(f"workbench: nbgrader is not installed, so release/ was not made: {told}")
        return
    for one in lessons:
        if not (folder / "release" / name_of(one.number)).exists():
            print(f"workbench: nbgrader makes release/{name_of(one.number)}", flush=True)
            release(folder, name_of(one.number))


def name_of(number: int) -> str:
    """The name of a lesson's assignment."""
    return f"lesson-{number:02d}"


def release(folder: Path, name: str) -> None:
    """Let nbgrader make the students' version of an assignment. Raises Refusal with nbgrader's error."""
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", name]
    path = os.pathsep.join([get_path("scripts"), os.environ.get("PATH", "")])  # nbgrader runs programs that are installed with it
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if done.returncode != 0:
        told = re.findall(r"^\s+(\w+(?:Error|Exception): .*)$", done.stderr, re.MULTILINE)
        raise Refusal(f"nbgrader cannot make the assignment {name}: {told[-1] if told else done.stderr.strip()[-500:]}")
