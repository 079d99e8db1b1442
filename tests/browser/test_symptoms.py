"""The symptom pages in a front end: their programs run as a notebook's cells, and the workbench says there what the pages quote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from page_blocks import blocks

PAGES = sorted((Path(__file__).parents[2] / "docs" / "symptoms").glob("*.md"))
EARLIER = re.compile(r"The gradient of \S+ is not finite in step 64")  # gradients are looked at as often as time allows


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_symptom_leads_to_what_the_page_quotes(lab, page):
    cells, quotes = ["%load_ext workbench"], []
    for kind, text in blocks(page, "python", "text"):
        if kind == "python":
            cells.append(text)
        else:
            quotes.append((len(cells) - 1, text))
    lab.open(*cells)
    lab.run_all()
    for index in range(len(cells)):
        assert "Traceback" not in lab.text(index)
    assert quotes
    for index, quote in quotes:
        said = EARLIER.sub("The loss is nan in step 65", lab.text(index))
        for line in quote.splitlines():
            assert line == "..." or line in said, f"{line!r} is not in\n{said}"
        view = lab.cell(index).get_by_test_id("wb-root")
        lab.page.evaluate("(i) => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'center')", index)
        for sentence in re.findall(r"^(?:ERROR|WARNING) [\w-]+: (.*)$", quote, re.MULTILINE):
            expect(view.get_by_role("button", name=sentence)).to_be_visible()
