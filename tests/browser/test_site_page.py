"""The site as a static host serves it, under a path of its own: lessons with live views, search, themes, a narrow window, nothing from elsewhere."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from test_accessibility import AXE, FIND

pytestmark = pytest.mark.long  # two lessons and all pages are built
ROOT = Path(__file__).parents[2]
LESSON, QUESTIONS = "lessons/01_watch_a_network_learn.html", "lessons/02_backpropagation_by_hand.html"
LIMIT = 25_000_000  # bytes of a site with 14 lessons


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with two lessons in their short form and all pages."""
    folder = tmp_path_factory.mktemp("host") / "some" / "path"
    command = [sys.executable, "docs/site/build.py", str(folder), "--fast", "--cache", str(tmp_path_factory.mktemp("cache"))]
    names = [Path(page).stem for page in (LESSON, QUESTIONS)]
    built = subprocess.run([*command, "--lessons", *names], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site.parents[1])))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/some/path/"
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def visited(browser: Browser, address: str, page: str, **context: object) -> Iterator[tuple[Page, list[str]]]:
    """A page of the site, and the paths that it has asked for. Whatever it complains about or asks another host for fails the test."""
    opened = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **context})  # type: ignore[arg-type]
    shown = opened.new_page()
    told: list[str] = []
    asked: list[str] = []
    shown.on("console", lambda said: told.append(said.text) if said.type in ("error", "warning") else None)
    shown.on("pageerror", lambda error: told.append(str(error)))
    shown.on("request", lambda request: (asked if request.url.startswith((address, "blob:", "data:")) else told).append(request.url))
    shown.goto(address + page)
    yield shown, asked
    opened.close()
    assert told == []


def view_in(page: Page, figure: str) -> Locator:
    """The live view of a figure, once it has come into sight and is drawn."""
    box = page.locator(f"[id='{figure}'] [data-replay]")
    box.scroll_into_view_if_needed()
    expect(box).to_have_attribute("data-state", "live")
    expect(box.get_by_test_id("wb-node").first).to_be_visible()
    return box


def test_a_lesson_is_stepped_forth_and_back_and_asks_for_each_view_when_it_comes_into_sight(browser, address, site):
    with visited(browser, address, LESSON) as (page, asked):
        page.wait_for_load_state("networkidle")
        views = page.locator("[data-replay]")
        assert views.count() >= 4 and len([path for path in asked if path.endswith(".replay")]) <= 1
        view = view_in(page, "tiny-step-0")
        sentence, bar = view.get_by_test_id("wb-sentence"), view.locator(".stepper")
        # loss = (tanh(w x + b) - 1)^2 with w x + b = 0.25; d loss/d b = 2 (out - 1) (1 - out^2)
        out = math.tanh(1.5 * 0.4 - 0.5 * 0.9 + 0.1)
        gradient = 2 * (out - 1) * (1 - out**2)
        total = int(view.get_by_test_id("wb-scrub").get_attribute("max") or 0)
        found = []
        for index in range(1, total + 1):
            view.get_by_test_id("wb-next").click()
            expect(bar).to_have_attribute("data-index", str(index))
            found += re.findall(r"the gradient of b \(([−-][\d.]+)\)", sentence.inner_text())
        assert [float(one.replace("−", "-")) for one in found] == [pytest.approx(gradient, rel=1e-3)]
        for index in reversed(range(total)):
            view.get_by_test_id("wb-prev").click()
            expect(bar).to_have_attribute("data-index", str(index))
        view.locator("[data-node][aria-label*=' w,']").first.click()
        view.get_by_test_id("wb-tab-value").click()
        expect(view.get_by_test_id("wb-values")).to_contain_text("0.4")
        data = [path for path in asked if path.endswith(".replay")]
        assert 1 <= len(data) < views.count() and len(set(data)) == len(data)


def test_a_question_says_that_only_a_notebook_judges_it(browser, address):
    with visited(browser, address, QUESTIONS) as (page, _):
        asks = page.locator("figure.replay", has_text="To have your answer judged, run the lesson in a notebook.")
        assert asks.count() >= 4
        name = asks.nth(1).get_attribute("id") or ""
        view = view_in(page, name)
        view.get_by_test_id("wb-question-input").first.fill("1")
        view.get_by_role("button", name="Check").click()
        expect(view.get_by_test_id("wb-question-feedback")).to_contain_text("a replay has none")
        expect(page.get_by_role("link", name="download the notebook")).to_have_attribute("href", f"{Path(QUESTIONS).stem}.ipynb")
        formula = page.locator("math", has_text="L").first.bounding_box()  # drawn by the browser itself
        assert formula and formula["width"] > 8


def test_search_finds_what_a_lesson_says(browser, address):
    with visited(browser, address, "index.html") as (page, _):
        page.get_by_role("textbox", name="Search").first.fill("handwritten digits")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search.html?**")
        found = page.locator("#search-results li a", has_text="Watch a network learn to read")
        expect(found.first).to_be_visible()
        found.first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Lesson 1")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_and_the_view_has_the_colours_of_the_page(browser, address, dark):
    found: dict[str, list[str]] = {}
    for path in ("index.html", LESSON, QUESTIONS, "docs/teaching.html", "search.html?q=gradient"):
        with visited(browser, address, path, color_scheme="dark" if dark else "light") as (page, _):
            page.wait_for_load_state("networkidle")
            page.evaluate(AXE.read_text())
            told, _ = page.evaluate(FIND, ["html", "dark" if dark else "light"])
            if told:
                found[path] = told
            if path == "index.html":
                view = page.locator(".gradient-workbench")
                expect(view).to_have_attribute("data-theme", "dark" if dark else "light")
                switch = page.locator(".theme-toggle:visible")
                while page.locator("body").get_attribute("data-theme") != ("light" if dark else "dark"):
                    switch.click()  # its third state follows the system
                expect(view).to_have_attribute("data-theme", "light" if dark else "dark")
    assert found == {}


def test_a_phone_shows_the_page_without_scrolling_sideways_and_keys_open_its_navigation(browser, address):
    with visited(browser, address, LESSON, viewport={"width": 360, "height": 700}) as (page, _):
        view_in(page, "tiny-step-0").get_by_test_id("wb-next").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.get_by_role("button", name="Navigation").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="2 · Backpropagation by hand", exact=True)).to_be_in_viewport()


def test_without_scripts_a_view_is_its_picture(browser, address):
    with visited(browser, address, LESSON, java_script_enabled=False) as (page, asked):
        picture = page.locator("[id='tiny-step-0'] img")
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert box and box["width"] > 100 and box["height"] > 100
        assert "ops" in (picture.get_attribute("alt") or "")


class Tags(HTMLParser):
    """The ids of a page, the addresses that it names, its policy, and what the policy would refuse."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.policy = ""
        self.refused: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.ids |= {has["id"]} if "id" in has else set()
        if has.get("http-equiv") == "Content-Security-Policy":
            self.policy = has["content"]
        if tag == "script" and "src" not in has or any(name.startswith("on") for name in has):
            self.refused.append(self.get_starttag_text() or tag)
        self.loads += [has[name] for name in ("src", "srcset", "data-replay") if name in has]
        if "href" in has:
            (self.loads if tag == "link" else self.links).append(has["href"])


def test_every_page_has_its_policy_and_loads_and_links_what_is_there(site):
    pages = {path.resolve(): Tags(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 20
    for path, page in pages.items():
        name = path.relative_to(site)
        assert "script-src 'self';" in page.policy and "connect-src 'self';" in page.policy and "default-src 'none'" in page.policy, name
        assert page.refused == [], name
        for address in page.loads + page.links:
            parts = urlsplit(address)
            if parts.scheme:
                assert address in page.links and parts.scheme in ("http", "https"), f"{name} loads {address}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{name} names {address}"
            if parts.fragment and target in pages and parts.fragment != "furo-main-content" and address in page.links:
                assert unquote(parts.fragment) in pages[target].ids, f"{name} links to {address}"
    replays = {path.name: path.stat().st_size for path in site.rglob("*.replay")}
    assert replays and all(size <= 600_000 for size in replays.values())
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < LIMIT
