"""Puts the source of the site together: the Markdown pages at their paths in the repository, the lessons, and a front page."""

from __future__ import annotations

import os
import re
import runpy
import shutil
from pathlib import Path

from executed import ROOT, Executed

import workbench as wb

HERE = Path(__file__).parent
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # pages outside of docs/
# A link, with its text, target and anchor; or code, which may look like one: model[0](x).
LINK = re.compile(r"```.*?```|(?<!!)\[((?:[^\]`]|`[^`]*`)*)\]\(([^)\s#:]+)(#[^)\s]*)?\)|`[^`\n]*`", re.DOTALL)
NAME = re.compile(r"`(wb\.[\w.]*\w|%+\w+)")  # at the start of code
REFERENCE = ROOT / "docs" / "reference"
FRONT_BUDGET = 200_000  # bytes of the view on the front page
FRONT_STEPS = 3  # of the pass on the front page, so that its first picture has gradients in it
TITLES = {"/README.md": "Overview and installation", "docs/index.md": "All pages"}  # in the navigation, where a page's own will not do
PICTURE = re.compile(r'\b(?:src|srcset)="([^":]+)"')  # a file that HTML in a page shows; Sphinx leaves HTML as it is
UNSEARCHED = "---\nnosearch: true\n---\n\n"
ASSETS = {".png", ".svg", ".webp", ".gif", ".jpg", ".json", ".replay"}


def put_together(source: Path, made: list[Executed], repository: str = "") -> None:
    """Write the source of the site to the folder `source`. Links to files that are not in it lead to `repository`, if there is one."""
    shutil.rmtree(source, ignore_errors=True)
    for page in [ROOT / name for name in TOP] + sorted((ROOT / "docs").rglob("*.md")):
        if on_site(page):
            text = page.read_text(encoding="utf-8")
            text = UNSEARCHED + text if page.name == "CHANGELOG.md" else text
            write(source / page.relative_to(ROOT), relinked(text, page, {one.name for one in made}, repository) + submenu(page))
    for asset in (ROOT / "docs").rglob("*"):
        if asset.suffix in ASSETS and HERE not in asset.parents:
            (source / asset.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(asset, source / asset.relative_to(ROOT))
    for lesson in made:
        (source / "lessons").mkdir(exist_ok=True)
        shutil.copyfile(lesson.folder / f"{lesson.name}.ipynb", source / "lessons" / f"{lesson.name}.ipynb")
    program = (HERE / "front_program.py").read_text(encoding="utf-8")
    write(source / "index.md", front(made, program))
    write(source / "front_program.py", program)
    names = runpy.run_path(str(source / "front_program.py"))
    names["walk"].to(FRONT_STEPS)
    for ending in ("svg", "replay"):
        wb.export(source / f"front.{ending}", names["walk"], budget=FRONT_BUDGET)


def shown_by_html(page: Path) -> list[Path]:
    """The pictures that HTML in a page shows, which Sphinx does not copy."""
    return [page.parent / name for name in PICTURE.findall(page.read_text(encoding="utf-8"))]


def write(path: Path, text: str) -> None:
    """Write a page, and the folders it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def on_site(page: Path) -> bool:
    """Whether a Markdown file is a page of the site: README files in folders of docs/ are for those who change these folders."""
    inside = page.relative_to(ROOT)
    return str(inside) in TOP or inside.parts[0] == "docs" and page.name != "README.md" and HERE not in page.parents


def relinked(text: str, page: Path, lessons: set[str], repository: str) -> str:
    """The page with links that hold on the site: lessons are in lessons/, and what is not on the site is in the repository.

    The first mention of a name that the reference has leads there.
    """
    entries = reference()

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if target is None:
            name = NAME.match(found[0])
            line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
            address = None if name is None or REFERENCE in page.parents or line.startswith("#") else entries.pop(name[1], None)
            return f"[{found[0]}]({os.path.relpath(REFERENCE, page.parent)}/{address})" if address else found[0]
        path = (page.parent / target).resolve()
        if not path.is_relative_to(ROOT):
            return found[0]
        inside = path.relative_to(ROOT)
        if inside.parts[0] == "notebooks" and inside.stem in lessons:
            return f"[{words}]({os.path.relpath(ROOT / 'lessons' / inside.name, page.parent)}{anchor})"
        if on_site(path) if path.suffix == ".md" else inside.parts[0] == "docs" and path.suffix in ASSETS:
            return found[0]
        return f"[{words}]({repository}/blob/main/{inside.as_posix()}{anchor})" if repository else words

    return LINK.sub(link, text)


def reference() -> dict[str, str]:
    """The names that docs/reference/ explains, each with its page and anchor."""
    pages = {page.name: page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md")}
    heads = [(name, head) for name, text in pages.items() for head in re.findall(r"^##+ (wb\.\S+|%+\w+)$", text, re.MULTILINE)]
    return {head: f"{name}#{re.sub(r'[^a-z0-9_]', '', head.lower())}" for name, head in heads}


def linked(page: Path) -> list[tuple[str, list[Path]]]:
    """The pages that an index links to, under its headings, each where it is linked first."""
    sections: list[tuple[str, list[Path]]] = [("", [])]
    known = {page}
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            sections.append((line[3:].strip(), []))
        for found in LINK.finditer(line):
            path = (page.parent / (found[2] or "")).resolve()
            if path.suffix == ".md" and path.exists() and path not in known:
                known.add(path)
                sections[-1][1].append(path)
    return [(heading, pages) for heading, pages in sections if pages]


def toctree(caption: str, pages: list[str]) -> str:
    """A part of the navigation, for the end of a page."""
    entries = [f"{TITLES[page]} <{page}>" if page in TITLES else page for page in pages]
    return "\n".join(["", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *entries, "```", ""])


def submenu(page: Path) -> str:
    """The navigation below an index.md in a folder of docs/: the pages of that folder that it links to."""
    if page.name != "index.md" or page.parent == ROOT / "docs":
        return ""
    inside = [path for _, pages in linked(page) for path in pages if page.parent in path.parents]
    return toctree("", [str(path.relative_to(page.parent)) for path in inside])


def front(made: list[Executed], program: str) -> str:
    """The front page: the words of front.md.in, the table of lessons, and the navigation, which docs/index.md gives."""
    titles = {one.name: f"{one.lesson.number} · {one.lesson.title}" for one in made}
    rows = ["| lesson | its question | minutes |", "|---|---|---|"]
    for one in made:
        minutes = "–".join(dict.fromkeys(map(str, one.lesson.minutes or ())))
        rows.append(f"| [{titles[one.name]}](lessons/{one.name}.ipynb) | {one.lesson.question} | {minutes} |")
    text = (HERE / "templates" / "front.md.in").read_text(encoding="utf-8")
    text = (
        text.replace("FIRST_LESSON", made[0].name)
        .replace("<!-- lessons -->", "\n".join(rows))
        .replace("<!-- program -->", f"```python\n{program}```")
    )
    menu = [toctree("Lessons", [f"{titles[one.name]} <lessons/{one.name}.ipynb>" for one in made])]
    menu += [
        toctree(heading, ["/" + str(page.relative_to(ROOT)) for page in pages]) for heading, pages in linked(ROOT / "docs" / "index.md")
    ]
    return text + "".join(menu) + toctree("More", ["docs/index.md", "CHANGELOG.md"])
