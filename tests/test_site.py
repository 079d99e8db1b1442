"""The source of the site: what it tells of a lesson, where its links lead, and that every page has its place in the navigation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workbench.course.editions import with_fast
from workbench.course.lesson import Lesson

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "site"))
from executed import missing  # noqa: E402
from sources import linked, on_site, relinked, submenu  # noqa: E402


def test_the_question_of_a_lesson_is_its_own_else_the_first_in_bold_else_the_first():
    def question(text, **metadata):
        return Lesson(
            "08_words", {"cells": [{"id": "title", "cell_type": "markdown", "metadata": metadata, "source": [text]}]}, None
        ).question

    assert question("# Lesson 8 · Words\n\nLetters are no numbers. So which one\nis `e`? Say 5.") == "So which one is `e`?"
    assert question("# Is it?\n\nWho knows? **Why\nnot?** So.") == "Why not?"
    assert question("# L\n\nWho knows?", question="How much?") == "How much?"
    assert question("# L\n\nIt fails.") == ""


def test_a_lesson_whose_packages_are_missing_is_not_run():
    cells = [{"cell_type": "code", "source": "import numpy.linalg\n  import no\nfrom no_such_package.part import x\nimport engine"}]
    assert missing({"cells": cells}) == "no_such_package"
    assert missing({"cells": [{**cells[0], "cell_type": "markdown"}]}) == ""


def test_links_lead_to_the_page_the_lesson_or_the_repository():
    page = ROOT / "docs" / "graph.md"
    text = (
        "[a](tour.md#engine) [b `c`](../tests/conftest.py) [d](../notebooks/01_x.ipynb) `m[0](x)` ![p](../tests/p.png) [w](https://x.org)"
    )
    assert relinked(text, page, {"01_x"}, "https://host/r") == (
        "[a](tour.md#engine) [b `c`](https://host/r/blob/main/tests/conftest.py) [d](../lessons/01_x.ipynb) `m[0](x)` ![p](../tests/p.png)"
        " [w](https://x.org)"
    )
    assert relinked("[b](../tests/conftest.py)\n```\nm[0](x)\n```", page, set(), "") == "b\n```\nm[0](x)\n```"


def test_the_first_mention_of_a_function_leads_to_the_reference():
    text = "# `wb.step`\n`wb.step(loss)`, `wb.step`, `wb.nothing()`, [`wb.show`](graph.md) `wb.show` `%%watch`\n```\n`wb.diff`\n```"
    assert relinked(text, ROOT / "docs" / "graph.md", set(), "") == (
        "# `wb.step`\n[`wb.step(loss)`](reference/step.md#wbstep), `wb.step`, `wb.nothing()`, [`wb.show`](graph.md) "
        "[`wb.show`](reference/show.md#wbshow) [`%%watch`](reference/magics.md#watch)\n```\n`wb.diff`\n```"
    )
    assert relinked("`wb.step`", ROOT / "docs" / "reference" / "show.md", set(), "") == "`wb.step`"


def test_every_page_is_in_the_navigation():
    index = ROOT / "docs" / "index.md"
    reached = {index, *(path for _, pages in linked(index) for path in pages)}
    for sub in [path for path in reached if path.name == "index.md" and path != index]:
        reached |= {path for _, pages in linked(sub) for path in pages}
    assert {path for path in (ROOT / "docs").rglob("*.md") if on_site(path)} <= reached
    assert all(heading for heading, _ in linked(index)), "links in docs/index.md are under headings, which the navigation shows"


def test_an_index_in_a_folder_has_the_pages_of_its_folder_below_it(tmp_path):
    for name in ("index.md", "one.md", "two.md"):
        (tmp_path / name).write_text("")
    (tmp_path / "index.md").write_text("[two](two.md), [one](one.md), [two again](two.md#part), [elsewhere](../other.md)")
    assert submenu(tmp_path / "index.md").split() == ["```{toctree}", ":hidden:", "two.md", "one.md", "```"]
    assert submenu(tmp_path / "one.md") == "" == submenu(ROOT / "docs" / "index.md")


def test_a_lesson_is_shortened_as_its_cells_say():
    lesson = {"cells": [{"id": "train", "metadata": {"fast": {"epochs = 20": "epochs = 1"}}, "source": ["epochs = 20\n", "run()"]}]}
    assert with_fast(lesson)["cells"][0]["source"] == "epochs = 1\nrun()"
    assert with_fast(lesson, fast=False)["cells"][0]["source"] == "epochs = 20\nrun()"
    lesson["cells"][0]["source"] = "epochs = 20; epochs = 20"
    with pytest.raises(ValueError, match="cell train: expected 'epochs = 20' once in its source, not 2 times"):
        with_fast(lesson)
