"""The reference in docs/reference/ is complete and fresh; the examples of the docstrings run, and their arguments are those of the code."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from pathlib import Path

import matplotlib
import pytest

import engine
import workbench as wb
from grouping import grouped
from workbench.backward.breakpoints import kept as breakpoints
from workbench.session import levels
from workbench.teach import sheet

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from make_reference import ENTRIES, FOLDER, KNOWN, pages  # noqa: E402

HEADS = {group[0].name: group[0] for groups in ENTRIES.values() for group in groups}
SUBMODULES = {name: getattr(wb, name) for name in wb.__all__ if inspect.ismodule(getattr(wb, name))}
PUBLIC = [f"wb.{name}" for name in wb.__all__ if name not in SUBMODULES]
PUBLIC += [f"wb.{home}.{name}" for home, module in SUBMODULES.items() for name in getattr(module, "__all__", ())]
SAID = {name: re.sub(r"\s+", " ", entry.parts.text) for name, entry in KNOWN.items()}


def test_the_pages_are_fresh():
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*")}
    assert written == pages(), "docs/reference/ is old: run `python docs/make_reference.py`"


def test_every_public_name_has_an_entry():
    shown = "\n".join(pages().values())
    assert not [name for name in PUBLIC if name not in HEADS and name.rpartition(".")[2] not in HEADS and f"`{name}`" not in shown]


def test_testing_has_no_public_function_without_an_entry():
    """It has no `__all__`: what it imports is not its own."""
    own = [name for name, one in vars(wb.testing).items() if inspect.isfunction(one) and one.__module__ == wb.testing.__name__]
    helpers = {"difference", "line"}
    assert {f"wb.testing.{name}" for name in own if name[0] != "_"} - set(HEADS) == {f"wb.testing.{name}" for name in helpers}


@grouped("name", KNOWN)
def test_a_docstring_begins_with_a_sentence_and_names_all_arguments_and_no_other(name):
    entry = KNOWN[name]
    assert re.match(r"\S.*\w[\w)`\"]*[.:]", SAID[name]), f"{name} has no sentence"
    if inspect.isclass(entry.thing) and entry.is_result:
        return
    real = [str(one).partition(":")[0].partition("=")[0].strip() for one in entry.signature.parameters.values()]
    told = [argument for argument, _ in entry.parts.items("Args")]
    if entry.is_member and not told:  # one short enough to name them in its sentence
        told = [argument for argument in real if f"`{argument}`" in SAID[name]]
    assert told == real


def set_by(kind: type) -> tuple[str, ...]:
    """The names of attributes that the class's own `__init__` uses."""
    return kind.__init__.__code__.co_names if inspect.isfunction(vars(kind).get("__init__")) else ()


@grouped("name", KNOWN)
def test_a_docstring_tells_what_is_returned_and_attributes_that_exist(name):
    entry = KNOWN[name]
    kind = entry.thing if inspect.isclass(entry.thing) else type(entry.thing)
    for attribute, text in entry.parts.items("Attributes"):
        fields = {name for one in kind.__mro__ for name in (*vars(one), *inspect.get_annotations(one), *set_by(one))}
        assert attribute in fields and text, attribute
    if not inspect.isclass(entry.thing) and not entry.is_member:
        assert ("Returns" in entry.parts.sections) == (entry.signature.return_annotation != "None")


@grouped("name", [name for name, entry in HEADS.items() if not entry.is_result])
def test_a_function_has_an_example(name):
    assert "Example" in HEADS[name].parts.sections


@pytest.mark.slow
def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(levels, "current", None)  # an example sets it
    matplotlib.use("agg")
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for name, entry in KNOWN.items():
        if example := entry.parts.sections.get("Example"):
            names = {"engine": engine, "wb": wb}
            runner.run(doctest.DocTestParser().get_doctest(example, names, name, None, None), out=told.append)
        sheet.current.clear()
        breakpoints.clear()
    from matplotlib import pyplot

    pyplot.close("all")
    assert not runner.failures, "".join(told)
    assert runner.tries > 100
