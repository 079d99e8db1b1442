"""Writes docs/reference/: the public names of `wb`, its magics and its commands, from their signatures and docstrings.

python docs/make_reference.py
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import workbench as wb  # noqa: E402
from workbench.cli import parser  # noqa: E402
from workbench.jupyter.magics import WatchMagics  # noqa: E402

FOLDER = ROOT / "docs" / "reference"
WIDE = 100  # characters of a signature on one line
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Example):+\n", re.MULTILINE)
ITEM = re.compile(r"^(?=\S)", re.MULTILINE)
CODE = re.compile(r"```.*?```|`([^`\n]+)`", re.DOTALL)


class Page(NamedTuple):
    """A page: a sentence under its title, and its entries, each with the members that a user calls."""

    title: str
    about: str
    entries: Mapping[str, str]


PAGES = {
    "show": Page(
        "Record and draw",
        "Record what runs, and see its graph. Guide: [Read the graph](../graph.md), [PyTorch models](../torch.md).",
        {
            "wb.watch": "",
            "wb.show": "",
            "wb.record": "",
            "wb.scope": "",
            "workbench.jupyter.widget.View": "next previous to run run_until breakpoint finish close",
            "workbench.subjects.watching.Watch": "stop",
            "workbench.session.surface.ShownSession": "",
        },
    ),
    "step": Page(
        "Step through backward",
        "Run a backward pass step by step, forward and back. Guide: [Stepping](../stepping.md).",
        {
            "wb.step": "",
            "wb.break_at": "",
            "workbench.backward.stepper.Stepper": "next previous to run run_until finish close",
            "workbench.backward.breakpoints.Breakpoint": "",
        },
    ),
    "inspect": Page(
        "Inspect tensors, and ask what if",
        "Values, gradients, and what they would be with other numbers. Guide: [Inspector](../inspector.md), [What if](../what-if.md).",
        {
            "wb.describe": "",
            "wb.vocabulary": "",
            "wb.whatif.fork": "",
            "workbench.whatif.forks.Fork": "write undo",
            "wb.whatif.rerun": "",
            "workbench.whatif.rerunning.Rerun": "",
            "wb.whatif.local_jacobian": "",
            "workbench.whatif.local.LocalDerivative": "",
            "wb.whatif.paths": "",
            "workbench.whatif.contributions.Paths": "",
            "wb.whatif.check_rule": "",
            "workbench.whatif.rule_check.RuleCheck": "",
            "workbench.session.report.Report": "",
        },
    ),
    "memory-and-time": Page(
        "Memory and time",
        "What uses memory and time, and how to free memory. Guide: [Memory](../memory.md), [Time](../time.md).",
        {
            "wb.memory": "",
            "workbench.memory_use.ask.MemoryReport": "",
            "wb.why_alive": "",
            "workbench.memory_use.alive.chain.Why": "",
            "workbench.memory_use.alive.chain.Chain": "",
            "wb.release": "",
            "wb.profile": "",
        },
    ),
    "check": Page(
        "Check and compare",
        "Find mistakes, stop at a NaN, compare two runs, and keep a graph from changing. "
        "Guide: [Checks](../checks.md), [Compare](../compare.md).",
        {
            "wb.check": "",
            "workbench.checks.ask.CheckReport": "",
            "wb.guard": "",
            "wb.diff": "",
            "wb.testing.assert_unchanged": "",
            "wb.testing.fingerprint": "",
            "wb.testing.structure": "",
        },
    ),
    "train": Page(
        "Follow and control a training",
        "Record a training, show its progress, play it step by step. "
        "Guide: [Pictures](../pictures.md), [Control a training](../stepping.md).",
        {
            "wb.history": "",
            "workbench.training.history.History": "log gradients table attach close",
            "workbench.training.table.ParameterHistory": "",
            "workbench.training.table.ModuleHistory": "",
            "workbench.training.table.Quantity": "",
            "workbench.training.table.Histograms": "",
            "wb.progress": "",
            "workbench.training.progress.Track": "report write",
            "wb.loop": "",
        },
    ),
    "flight": Page(
        "Repeat a step",
        "Record the last steps of a training, repeat the one that went wrong, go on from there. Guide: [Flight recorder](../flight.md).",
        {
            "wb.flight": "",
            "wb.flight_callback": "",
            "workbench.flights.recorder.Flight": "repeat resume batches bisect save keep_this",
            "wb.open": "",
            "workbench.flights.file.Opened": "",
            "workbench.flights.flown.Repeated": "",
            "workbench.flights.log.Step": "",
        },
    ),
    "ranks": Page(
        "Many processes",
        "Start the processes of a training, see what each is doing, and where their values differ. Guide: [Cluster](../cluster.md).",
        {
            "wb.cluster": "",
            "workbench.jupyter.cluster.Cluster": "show pause resume interrupt reset restart stop",
            "wb.ranks": "",
            "workbench.distributed.ask.Ranks": "board pause resume alone close",
            "wb.across_ranks": "",
            "workbench.distributed.across.SpreadReport": "",
            "workbench.distributed.across.Spread": "",
            "workbench.distributed.across.Across": "",
        },
    ),
    "plot": Page(
        "Plot",
        "Static plots with matplotlib. Every function takes `ax=`, draws on it or on a new figure, and returns the Axes. "
        "Guide: [Pictures](../pictures.md).",
        {f"wb.plot.{name}": "" for name in wb.plot.__all__ if name.islower()} | {"workbench.plot.surface.Landscape": ""},
    ),
    "teach": Page(
        "Teach",
        "Lessons, questions and seeded bugs. Guide: [Teaching](../teaching.md).",
        {
            "wb.teach.lesson": "",
            "workbench.teach.ask.LessonSession": "next previous turn",
            "wb.teach.say": "",
            "wb.teach.quiz": "gradient shape next_node answer reveal save clear",
            "workbench.teach.ask.AskedQuestion": "answer reveal",
            "wb.teach.grade": "",
            "workbench.teach.grading.Grade": "require",
            "wb.teach.roster": "",
            "workbench.teach.roster.Roster": "",
            "wb.teach.sabotage": "random solved",
            "workbench.teach.seeded.Exercise": "train hint guess reveal solved undo",
            "workbench.teach.seeded.Verdict": "",
            "wb.teach.modes": "",
            "wb.teach.level": "",
            "wb.teach.present": "",
            "wb.teach.follow": "",
        },
    ),
    "samples": Page(
        "Sample data",
        "Small real data sets that come with the workbench.",
        {f"wb.samples.{name}": "" for name in wb.samples.__all__ if name.islower()},
    ),
    "export": Page(
        "Export",
        "Write what a view shows to a file. Guide: [Export](../export.md).",
        {"wb.export": "", "workbench.exporting.ask.Written": ""},
    ),
}


class Parts(NamedTuple):
    """A docstring, taken apart."""

    text: str
    sections: dict[str, str]

    @classmethod
    def of(cls, doc: str | None) -> Parts:
        text, *rest = SECTION.split(inspect.cleandoc(doc or ""))
        return cls(text.strip(), {name: textwrap.dedent(body).strip() for name, body in zip(rest[::2], rest[1::2], strict=True)})

    def items(self, section: str) -> list[tuple[str, str]]:
        """The entries of Args, Attributes or Raises: name, and text."""
        found = [one for one in ITEM.split(self.sections.get(section, "")) if one.strip()]
        return [(name, " ".join(text.split())) for name, _, text in (one.partition(": ") for one in found)]


class Entry:
    """A public name: what it stands for, and where on the pages it is."""

    def __init__(self, page: str, path: str, member: str = "") -> None:
        self.page = page
        self.is_result = not path.startswith("wb.")  # a class whose instances users get, and do not make
        head, *rest = path.split(".")
        found = wb if head == "wb" else import_module(path.rpartition(".")[0])
        for name in rest if head == "wb" else rest[-1:]:
            found = getattr(found, name)
        self.thing: Any = getattr(found, member) if member else found
        whole = path.rpartition(".")[2] if self.is_result else path
        self.name = f"{whole}.{member}" if member else whole
        self.is_member = bool(member)
        self.is_object = not inspect.isroutine(self.thing) and not inspect.isclass(self.thing)  # one that is called, such as wb.teach.quiz

    @property
    def address(self) -> str:
        """Page and anchor; GitHub and MyST make the same anchor from a heading."""
        return f"{self.page}.md#{re.sub(r'[^a-z0-9_-]', '', self.name.lower())}"

    @property
    def function(self) -> Any:
        """What runs when it is called."""
        return self.thing.__init__ if inspect.isclass(self.thing) else type(self.thing).__call__ if self.is_object else self.thing

    @cached_property
    def parts(self) -> Parts:
        if not self.is_object:
            return Parts.of(self.thing.__doc__)
        text, sections = Parts.of(self.function.__doc__)
        return Parts(text, {**Parts.of(type(self.thing).__doc__).sections, **sections})

    @cached_property
    def signature(self) -> inspect.Signature:
        found = inspect.signature(self.thing)
        given = [one for one in found.parameters.values() if one.name != "self"]
        returned = found.return_annotation
        if hasattr(self.thing, "__wrapped__"):  # a generator, for a with block
            returned = returned.replace("Iterator", "AbstractContextManager")
        return found.replace(parameters=given, return_annotation=returned)

    @property
    def called(self) -> str:
        """The signature as Python, over several lines if it is long; "" for a class that users do not instantiate."""
        if self.is_result and inspect.isclass(self.thing):
            return ""
        names = inspect.unwrap(self.function).__globals__
        arguments, kind = [], None
        for one in self.signature.parameters.values():
            if one.kind is one.KEYWORD_ONLY and kind not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
                arguments.append("*")
            kind = one.kind
            alias = names.get(one.annotation)
            kinds = str(alias).removeprefix("typing.") if get_origin(alias) is Literal else one.annotation
            default = "" if one.default is one.empty else f" = {getattr(one.default, '__name__', None) or repr(one.default)}"
            arguments.append(f"{one.replace(annotation=one.empty, default=one.empty)}: {kinds}{default}".replace("'", '"'))
        returned = "" if inspect.isclass(self.thing) else f" -> {self.signature.return_annotation}"
        line = f"{self.name}({', '.join(arguments)}){returned}"
        return line if len(line) <= WIDE else "\n".join([f"{self.name}(", *(f"    {one}," for one in arguments), f"){returned}"])


ENTRIES = {
    page: [[Entry(page, path), *(Entry(page, path, member) for member in members.split())] for path, members in about.entries.items()]
    for page, about in PAGES.items()
}
KNOWN = {one.name: one for groups in ENTRIES.values() for group in groups for one in group}


def linked(text: str, own: Entry | None = None) -> str:
    """The text, with each name in backticks that has an entry linked to it."""

    def link(found: re.Match[str]) -> str:
        name = (found[1] or "").removesuffix("()")
        entry = KNOWN.get(name)
        return found[0] if entry is None or entry is own else f"[{found[0]}]({entry.address})"

    return CODE.sub(link, text)


def typed(annotation: str) -> str:
    """A type as text, in which those that have an entry are linked to it."""

    def one(text: str) -> str:
        entry = next((KNOWN[name] for name in re.findall(r"\w+", text) if name in KNOWN), None)
        return f"[`{text}`]({entry.address})" if entry else f"`{text}`"

    found = [one(text) for text in re.split(r" \| (?![^\[]*\])", annotation)]
    return " or ".join(found).replace(" or ", ", ", len(found) - 2)


def of_entry(entry: Entry) -> Iterator[str]:
    """The lines of one entry."""
    yield from (f"{'###' if entry.is_member else '##'} {entry.name}", "")
    if entry.called:
        yield from ("```py", entry.called, "```", "")
    yield from (linked(entry.parts.text, entry), "")
    for section in ("Args", "Attributes"):
        if items := entry.parts.items(section):
            yield from ("**Attributes**" if section == "Attributes" else "**Arguments**", "")
            yield from (f"- `{name}`: {linked(text, entry)}" for name, text in items)
            yield ""
    if told := entry.parts.sections.get("Returns"):
        yield from (f"**Returns** {typed(entry.signature.return_annotation)}. {linked(' '.join(told.split()), entry)}", "")
    if raised := entry.parts.items("Raises"):
        yield from ("**Raises**", "", *(f"- `{name}`: {linked(text, entry)}" for name, text in raised), "")
    if example := entry.parts.sections.get("Example"):
        yield from ("```pycon", example.replace("<BLANKLINE>", ""), "```", "")


def options(of: argparse.ArgumentParser) -> Iterator[str]:
    """The arguments of a command or a magic, as a table."""
    yield from ("| argument | what it does |", "|---|---|")
    for one in of._actions:
        if not isinstance(one, argparse._HelpAction):
            value = "" if one.nargs == 0 else str(one.metavar or one.dest.upper())
            name = " ".join(filter(None, [*one.option_strings[-1:], value]))
            yield f"| `{name}` | {(one.help or '').replace('|', chr(92) + '|')} |"


def magics() -> Iterator[str]:
    """The page of the magics."""
    yield from ("# Magics", "", "`%load_ext workbench` registers them, and makes `wb` a name of the notebook.", "")
    for name, function in (("%%watch", WatchMagics.watch), ("%torch", WatchMagics.torch)):
        of = getattr(function, "parser", None)
        parts = Parts.of(of.description if of else function.__doc__)
        yield from (f"## {name}", "", linked(parts.text), "")
        if of:
            yield from (*options(of), "")
        yield from ("```", parts.sections["Example"], "```", "")


def commands() -> Iterator[str]:
    """The page of the command line."""
    top = parser()
    yield from ("# Command line", "", f"{top.description} `workbench COMMAND --help` shows the same in a terminal.", "")
    found = next(one for one in top._actions if isinstance(one, argparse._SubParsersAction))
    told = {one.dest: one.help or "" for one in found._choices_actions}
    for name, command in found.choices.items():
        yield from (f"## workbench {name}", "", f"{told[name][0].upper()}{told[name][1:]}.", "", *options(command), "")
        if command.epilog:
            yield from (command.epilog, "")


def pages() -> dict[str, str]:
    """Each file's name, and its text."""
    made = {}
    head = "<!-- Generated by `python docs/make_reference.py` from the docstrings: do not edit. -->"
    rows = []
    for page, about in PAGES.items():
        lines = [f"# {about.title}", "", about.about, ""]
        for group in ENTRIES[page]:
            for entry in group:
                lines += of_entry(entry)
        made[page] = lines
        names = ", ".join(linked(f"`{group[0].name}`") for group in ENTRIES[page] if not group[0].is_result)
        rows.append(f"| [{about.title}]({page}.md) | {names} |")
    made |= {"magics": [*magics()], "command-line": [*commands()]}
    rows.append("| [Magics](magics.md) | [`%%watch`](magics.md#watch), [`%torch`](magics.md#torch) |")
    rows.append("| [Command line](command-line.md) | `workbench lab`, `run`, `cluster`, `course`, `class`, `slides` |")
    made["index"] = ["# Reference of `wb`", "", INDEX, "", "| page | functions |", "|---|---|", *rows]
    return {f"{name}.md": "\n".join([*lines[:2], head, "", *lines[2:]]).rstrip() + "\n" for name, lines in made.items()}


INDEX = """The public functions, and the objects that they return. `wb` is the package `workbench`; the examples assume

    import engine
    import workbench as wb

and run as programs, where functions return objects that print themselves. In a notebook, most return an interactive view instead."""


def main() -> None:
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
