"""Slides in a real browser with the network off: keys turn slides, the views in them are live."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect
from test_accessibility import AXE, FIND
from test_replay import opened

from workbench import cli

CELLS = [
    nbformat.v4.new_markdown_cell("# Lesson 9 · Keys\n\nA formula, $\\bar{w} = 12 w$."),
    nbformat.v4.new_code_cell(
        "%load_ext workbench\nimport engine, workbench as wb\nw = engine.tensor(2.0, requires_grad=True)\nloss = (w * 3.0) ** 2"
    ),
    nbformat.v4.new_markdown_cell("## A pass"),
    nbformat.v4.new_code_cell("wb.step(loss)"),
    nbformat.v4.new_code_cell(
        "wb.teach.lesson(loss, [wb.teach.say('First.', step='start'), wb.teach.say('Second.', at='mul')], title='Pages')"
    ),
]


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slides")
    nbformat.write(nbformat.v4.new_notebook(cells=CELLS), folder / "keys.ipynb")
    assert cli.main(["slides", str(folder / "keys.ipynb"), str(folder / "keys.html")]) == 0
    return folder / "keys.html"


def at(page: Page, number: int) -> None:
    expect(page.locator("#deck-at")).to_have_text(f"{number} / 3")
    expect(page.locator(".slide:visible")).to_have_attribute("id", f"slide-{number}")


def test_keys_turn_slides_and_views_are_live(browser, deck):
    with opened(browser, deck, shown="#deck") as page:
        at(page, 1)
        expect(page.locator("math mover")).to_be_visible()
        page.keyboard.press("ArrowRight")
        at(page, 2)
        root = page.locator("#slide-2").get_by_test_id("wb-root")
        status = root.locator(".stepper")
        expect(status).to_contain_text("Start of 3 steps")
        page.keyboard.press("F10")  # the slides have no use for it: the view takes a step
        expect(status).to_contain_text("Step 1 of 3")
        root.locator("[data-node]").first.click()
        page.keyboard.press("ArrowRight")  # inside the view, the arrow takes a step
        expect(status).to_contain_text("Step 2 of 3")
        at(page, 2)
        page.keyboard.press("PageDown")  # as a presenter's remote does, from anywhere
        at(page, 3)
        pages = page.locator("#slide-3").get_by_test_id("wb-root")
        expect(pages).to_contain_text("First.")
        page.keyboard.press("n")
        expect(pages).to_contain_text("Second.")
        page.keyboard.press("Shift+N")
        expect(pages).to_contain_text("First.")
        page.keyboard.press("ArrowRight")  # there is no further slide
        at(page, 3)
        page.keyboard.press("PageUp")
        at(page, 2)
        expect(status).to_contain_text("Step 2 of 3")  # as it was left
        page.keyboard.press("Home")
        at(page, 1)
        page.locator("#deck-next").click()
        at(page, 2)
        assert page.evaluate("location.hash") == "#2"


def test_text_can_be_hidden_keys_are_shown_and_the_screen_filled(browser, deck):
    with opened(browser, deck, shown="#deck") as page:
        page.keyboard.press("?")
        expect(page.locator("#deck-help")).to_contain_text("next and previous slide")
        page.keyboard.press("Escape")
        expect(page.locator("#deck-help")).to_be_hidden()
        page.keyboard.press("h")
        assert page.evaluate("document.body.classList.contains('plain-text')")
        page.keyboard.press("f")
        expect(page.locator("html:fullscreen")).to_have_count(1)
        page.keyboard.press("f")
        expect(page.locator("html:fullscreen")).to_have_count(0)


def test_axe_finds_nothing_in_slides(browser, deck):
    with opened(browser, deck, shown="#deck") as page:
        page.evaluate(AXE.read_text())
        for number in (1, 2, 3):
            at(page, number)
            told, _ = page.evaluate(FIND, ["html", "light"])
            assert told == []
            page.keyboard.press("PageDown")
            page.wait_for_timeout(300)
