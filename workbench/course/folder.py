"""The folder of a course: students' lessons, the instructor's edition, a syllabus, and a page for the teacher."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .lesson import lessons_in, written
from .shipped import Refusal, files, place
from .syllabus import syllabi

_PAGE = Path(__file__).parent / "files" / "README.md"
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
    return _PAGE.read_text(encoding="utf-8").format(about=about, table=table, hand_out=hand_out, grading=grading).encode()


def put(contents: Mapping[str, bytes], readme: bytes, folder: Path) -> None:
    """Write the files of a course. Raises Refusal for a folder with other files, unless it has been a course before."""
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in contents):
        raise Refusal(f"{folder} has other files in it; name a new or an empty folder for the course")
    place({**contents, "README.md": readme}, folder)
