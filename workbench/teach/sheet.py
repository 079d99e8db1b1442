"""The answer sheet: which question got which answer, kept in a JSON file for grading. It never contains the right answers.

The file also says which answers are right, for a teacher who follows the class; grading judges them again.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.readable import encodable
from .markup import plain

if TYPE_CHECKING:
    from .questions import Question

FORMAT = "gradient-workbench answers"
VERSION = 1
CLASS = "WORKBENCH_CLASS"  # the environment variable with the folder in which a teacher follows the class
PROMPT = 200  # characters of a question's text


@dataclass(frozen=True)
class Given:
    """The last answer, the number of attempts, and whether the right answer was revealed before it was found."""

    answer: str = ""
    attempts: int = 0
    revealed: bool = False
    edited: bool = False  # in the file, by hand
    right: bool | None = None  # None: not judged


class Sheet:
    """All questions of this kernel and their answers. With a file, every answer is written at once."""

    def __init__(self) -> None:
        self.questions: dict[str, Question] = {}
        self.answers: dict[str, Given] = {}
        self.file: Path | None = None
        self._alone = False  # whether the class's folder could not be written

    def add(self, question: Question) -> None:
        """Add a question, replacing one with the same id; its answers are kept."""
        self.questions[question.name] = question

    def given(self, name: str) -> Given:
        return self.answers.get(name, Given())

    def keep(self, name: str, given: Given) -> None:
        """Store an answer, in the file too."""
        self.answers[name] = given
        if self.file is not None:
            self._save(self.file)

    def save(self, file: str | os.PathLike) -> Path:
        """Write the answers into `file`, now and after each further one. Answers already in it are loaded."""
        path = Path(file)
        if path.exists():
            self.answers = {**read(path), **self.answers}
        self.file = path
        self._save(path)
        return path

    def _save(self, path: Path) -> None:
        """Write the file, and a copy for the teacher into `WORKBENCH_CLASS/<user>/` if there is such a folder."""
        self.write(path)
        folder = os.environ.get(CLASS, "")
        if not folder or self._alone or "NBGRADER_EXECUTION" in os.environ:
            return
        mine = Path(folder) / user()
        try:
            mine.mkdir(mode=0o750, exist_ok=True)  # of the folder's group, if the folder passes its group on
            self.write(mine / path.name)
        except OSError as error:
            self._alone = True
            warnings.warn(f"Your teacher cannot see your answers: {error.strerror} ({CLASS} is {folder})", stacklevel=4)

    def write(self, path: Path) -> None:
        """Write the file atomically. Answers edited by hand get no valid seal."""
        answers = {name: _entry(name, given) for name, given in sorted(self.answers.items())}
        asked = {name: " ".join(map(plain, question.prompt))[:PROMPT] for name, question in self.questions.items()}
        whole = {"format": FORMAT, "version": VERSION, "questions": asked, "answers": answers}
        write_whole(path, json.dumps(encodable(whole), indent=1, ensure_ascii=False))

    def clear(self) -> None:
        """Forget questions, answers and the file name; the file itself is kept."""
        self.questions.clear()
        self.answers.clear()
        self.file = None
        self._alone = False


def user() -> str:
    """The name under which the teacher sees the answers: the hub's for this user, or the system's."""
    return re.sub(r"[^\w.@-]", "_", os.environ.get("JUPYTERHUB_USER") or getpass.getuser()).lstrip(".") or "_"


def seal(name: str, given: Given) -> str:
    """A 16-digit hexadecimal checksum that no longer matches once an answer is edited by hand. It is not a secret."""
    judged = [] if given.right is None else [given.right]
    text = json.dumps([FORMAT, name, given.answer, given.attempts, given.revealed, *judged])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> dict[str, Given]:
    """Read the answers in a file. Raises ValueError, with the reason, if it is not a file of answers."""
    return contents(path)[0]


def contents(path: Path) -> tuple[dict[str, Given], dict[str, str]]:
    """Read a file: the answers, and the texts of the questions that had been asked, in order. Raises ValueError as `read` does."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} is not a file of answers: it is no JSON ({error}).") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("answers"), dict):
        raise ValueError(f"{path.name} is not a file of answers that wb.teach.quiz.save() wrote.")
    if data.get("version") != VERSION:
        raise ValueError(f"{path.name} has version {data.get('version')!r} of the format; this one reads {VERSION}.")
    answers = {}
    for name, entry in data["answers"].items():
        given = _given(entry)
        if given is None:
            raise ValueError(f"{path.name}: the answer to {name!r} is damaged.")
        answers[name] = given if entry.get("seal") == seal(name, given) else replace(given, edited=True)
    asked = data.get("questions", {})
    if not isinstance(asked, dict) or not all(isinstance(text, str) for text in asked.values()):
        raise ValueError(f"{path.name}: its list of questions is damaged.")
    return answers, asked


def _entry(name: str, given: Given) -> dict[str, Any]:
    sealed = "" if given.edited else seal(name, given)
    judged = {} if given.right is None else {"right": given.right}
    return {"answer": given.answer, "attempts": given.attempts, "revealed": given.revealed, **judged, "seal": sealed}


def _given(entry: Any) -> Given | None:
    fields = ("answer", str), ("attempts", int), ("revealed", bool)
    if not isinstance(entry, dict) or not all(type(entry.get(key)) is kind for key, kind in fields):
        return None
    right = entry.get("right")
    return None if right is not None and type(right) is not bool else Given(*(entry[key] for key, _ in fields), right=right)


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically, so that readers never see half of it. Raises FileNotFoundError if its folder does not exist."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent.name!r} to write {path.name} into")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def invented(prompt: str) -> str:
    """An id for a question without one: the same for the same text."""
    return "q-" + hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:8]


current = Sheet()
