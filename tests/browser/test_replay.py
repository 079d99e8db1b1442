"""The stand-alone replay in a real browser with the network off: the whole pass, every tensor, every tab; and the menu that saves it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, expect
from test_lesson import view_of

import engine
import workbench as wb
from engine import nn
from engine.base import observe
from engine.nn import functional as F
from workbench.recording.recorder import Recorder
from workbench.session.passes import PassWatcher
from workbench.session.session import Session

HOSTILE = "</script><script>document.title='taken'</script><!--\u2028<img src=x onerror=alert(1)>"

# Karpathy's lecture: L = (a * b + c) * f with a = 2, b = -3, c = 10, f = -2; dL/da = f * b = 6, dL/db = f * a = -4, dL/dd = f = -2.
SCALARS = """import engine, workbench as wb
a, b, c, f = (engine.tensor(float(x), requires_grad=True) for x in (2, -3, 10, -2))
e = a * b
d = e + c
L = d * f
s = wb.step(L)
s"""


@contextmanager
def opened(browser: Browser, file: Path, dark: bool = False, shown: str = "[data-testid=wb-root]") -> Iterator[Page]:
    """The file in a page without a network. Whatever the page complains about, and whatever it asks the network for, fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, offline=True, color_scheme="dark" if dark else "light")
    context.set_default_timeout(60_000)
    page = context.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(("file:", "blob:", "data:")) else told.append(request.url))
    page.goto(file.as_uri())
    expect(page.locator(shown)).to_be_visible()
    yield page
    context.close()
    assert told == []


def node(page: Page, name: str):
    """The drawn box or pill of that tensor, by its spoken label: "parameter 0.weight, shape 8 by 4"."""
    return page.locator(f'[data-node][aria-label*=" {name},"]').first


def test_a_lesson_in_one_file(browser, tmp_path):
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    with wb.record(HOSTILE):
        x = engine.randn(16, 4)
        loss = F.cross_entropy(model(x), engine.arange(16) % 3)
    before = [parameter.grad for parameter in model.parameters()]
    page_file = tmp_path / "lesson.html"
    wb.export(page_file, loss)
    assert [parameter.grad for parameter in model.parameters()] == before == [None] * 4
    loss.backward()
    norms = {name: float((p.grad.numpy().astype("float64") ** 2).sum() ** 0.5) for name, p in model.named_parameters()}

    # a page of a notebook that links to it, as nbconvert makes it
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("[the replay](lesson.html)")])
    (tmp_path / "notebook.html").write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    linking = browser.new_context(offline=True).new_page()
    linking.goto((tmp_path / "notebook.html").as_uri())
    linking.get_by_text("the replay").click()
    expect(linking.get_by_test_id("wb-root")).to_be_visible()
    linking.context.close()

    with opened(browser, page_file) as page:
        assert HOSTILE.replace("\u2028", " ") in page.title().replace("\u2028", " ")
        alert, bar, sentence = page.get_by_test_id("wb-alert"), page.locator(".stepper"), page.get_by_test_id("wb-sentence")
        total = int(page.get_by_test_id("wb-scrub").get_attribute("max") or 0)
        assert total == 8  # four ops and four parameters
        page.keyboard.press("ArrowRight")  # the keys work as soon as it is open
        expect(bar).to_have_attribute("data-index", "1")
        page.keyboard.press("ArrowLeft")
        expect(bar).to_have_attribute("data-index", "0")
        # forth through the whole pass; each parameter's gradient is what .backward() gives, by the engine outside this file
        told = {}
        for index in range(1, total + 1):
            page.get_by_test_id("wb-next").click()
            expect(bar).to_have_attribute("data-index", str(index))
            found = re.search(r"the gradient of (\S+) \(norm ([\d.e-]+)\)", sentence.inner_text())
            if found:
                told[found[1]] = float(found[2])
        assert told.keys() == norms.keys()
        for name, norm in norms.items():
            assert abs(told[name] - norm) <= 0.005 * norm
        # and back, by the keys
        for index in reversed(range(total)):
            page.keyboard.press("ArrowLeft")
            expect(bar).to_have_attribute("data-index", str(index))
        page.keyboard.press("End")
        expect(bar).to_have_attribute("data-index", str(total))

        # every tensor's value and gradient: the numbers, the histogram, the picture
        for name in ("0.weight", "2.bias", "x"):
            node(page, name).click()
            page.get_by_test_id("wb-tab-value").click()
            expect(page.locator(".pane:visible").get_by_test_id("wb-summary")).to_contain_text("float32")
        node(page, "0.weight").click()
        page.get_by_test_id("wb-tab-value").click()
        shown = page.locator(".pane:visible")
        shown.get_by_role("img", name=re.compile("Heat map of 8 by 4")).click(position={"x": 3, "y": 3})
        expect(shown.get_by_test_id("wb-element")).to_have_text(f"model[0].weight[0, 0] = {str(model[0].weight.detach().numpy()[0, 0])}")
        page.get_by_test_id("wb-tab-grad").click()
        shown.get_by_role("img", name=re.compile("Heat map of 8 by 4")).click(position={"x": 3, "y": 3})
        expect(shown.get_by_test_id("wb-element")).to_contain_text(f"= {str(model[0].weight.grad.numpy()[0, 0])}")
        expect(alert).to_be_hidden()

        # the panes
        page.get_by_test_id("wb-tab-memory").click()
        expect(page.get_by_test_id("wb-memory-totals")).to_contain_text("parameter")
        page.get_by_test_id("wb-peak").click()
        expect(page.get_by_test_id("wb-moment")).to_contain_text("The peak")
        page.get_by_test_id("wb-tab-time").click()
        expect(page.get_by_test_id("wb-time")).to_contain_text("cross_entropy")
        page.get_by_test_id("wb-tab-model").click()
        expect(page.locator(".pane:visible")).to_contain_text("0.weight")
        expect(alert).to_be_hidden()

        # what a file cannot do says so
        page.keyboard.press("Home")
        page.get_by_test_id("wb-tab-value").click()
        node(page, "0.weight").click()
        shown.get_by_test_id("wb-pin").click()
        expect(alert).to_contain_text("This is a replay")
        page.get_by_test_id("wb-dismiss").click()
        # a file for other tools comes out of it all the same
        page.get_by_test_id("wb-save").click()
        with page.expect_download() as saved:
            page.get_by_test_id("wb-save-dot").click()
        assert Path(saved.value.path()).read_text().startswith("digraph")
        # the data, the view packed and unpacked, and what unpacks it: nothing else became markup
        assert page.evaluate("() => document.querySelectorAll('img, script').length") == 4


def test_every_pass_and_every_page_is_in_the_file(browser, tmp_path):
    recorder = Recorder("two passes")
    session = Session(recorder.recording)
    watcher = PassWatcher(session, recorder, None, lambda: {})
    w = engine.tensor(3.0, requires_grad=True)
    with observe.observing(watcher):
        for k in (5, 7):
            w.grad = None
            (w * k).backward()
    watcher.close()
    recorder.stop()
    session.finish({"w": w})
    wb.export(tmp_path / "passes.html", session)
    with opened(browser, tmp_path / "passes.html") as page:
        sentence = page.get_by_test_id("wb-sentence")
        for number, gradient in ((0, 5), (1, 7), (0, 5)):  # d(k w)/dw = k
            page.get_by_test_id("wb-pass").select_option(str(number))
            page.get_by_test_id("wb-first").click()
            page.get_by_test_id("wb-next").click()
            expect(sentence).to_contain_text(f"{gradient}")
            page.get_by_test_id("wb-last").click()
            expect(sentence).to_contain_text(f"w ({gradient})")
        expect(page.get_by_test_id("wb-alert")).to_be_hidden()

    x = engine.tensor(2.0, requires_grad=True)
    pages = [wb.teach.say("Before the pass.", step="start"), wb.teach.say("The product.", at="mul"), wb.teach.say("All of it.", step="end")]
    wb.export(tmp_path / "pages.html", wb.teach.lesson(x * 4, pages, title="A lesson"))
    with opened(browser, tmp_path / "pages.html") as page:
        bar, text = page.locator(".stepper"), page.get_by_test_id("wb-page")
        for words, place in (("Before the pass.", "0"), ("The product.", "1"), ("All of it.", "2")):
            if place != "0":
                page.get_by_test_id("wb-page-next").click()
            expect(text).to_contain_text(words)
            expect(bar).to_have_attribute("data-index", place)
        page.keyboard.press("Shift+N")
        expect(text).to_contain_text("The product.")
        page.get_by_test_id("wb-follow").click()  # its own way: the pass stays
        page.get_by_test_id("wb-page-next").click()
        expect(text).to_contain_text("All of it.")
        expect(bar).to_have_attribute("data-index", "1")
        expect(page.get_by_test_id("wb-alert")).to_be_hidden()


def test_the_menu_saves_a_picture_and_a_replay(lab, browser, tmp_path):
    lab.open("%load_ext workbench\n" + SCALARS)
    lab.run_all()
    view = view_of(lab, 0)
    save = view.get_by_test_id("wb-save")

    def saved(format: str) -> Path:
        save.click()
        with lab.page.expect_download() as download:
            view.get_by_test_id(f"wb-save-{format}").click()
        to = tmp_path / download.value.suggested_filename
        download.value.save_as(to)
        return to

    svg = saved("svg").read_text()
    width, height = (float(re.search(rf'<svg[^>]* {side}="([\d.]+)"', svg)[1]) for side in ("width", "height"))
    png = saved("png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert [abs(pixels - 2 * size) <= 2 for pixels, size in zip(struct.unpack(">II", png[16:24]), (width, height), strict=True)] == [
        True,
        True,
    ]

    page_file = saved("html")
    with opened(browser, page_file, dark=True) as page:
        page.get_by_test_id("wb-last").click()
        for name, gradient in (("a", "6"), ("b", "-4"), ("d", "-2")):
            node(page, name).click()
            page.get_by_test_id("wb-tab-grad").click()
            expect(page.locator(".pane:visible").get_by_test_id("wb-values")).to_have_text(
                re.compile(rf"^\[?{gradient.replace('-', '[-−]')}(\.0)?\]?$")
            )

    # by keys: open, walk, close; the focus comes back
    save.focus()
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.press("ArrowDown")
    expect(view.get_by_test_id("wb-save-png")).to_be_focused()
    lab.page.keyboard.press("Escape")
    expect(save).to_be_focused()


# how far the end of the last row is from the bar's edge, whether the scrubber is in that row, and what reaches beyond the page
ROWS = """() => {
  const [bar, toolbar] = [document.querySelector(".controls"), document.querySelector(".toolbar")];
  const of = (one) => one.getBoundingClientRect();
  const shown = [...bar.querySelectorAll("button, input, select, output")].map(of).filter((one) => one.width > 0);
  const last = shown.filter((one) => one.bottom > Math.max(...shown.map((one) => one.top)));
  const scrub = of(bar.querySelector("input"));
  return {
    gap: Math.round(of(bar).right - Math.max(...last.map((one) => one.right))),
    scrub: last.some((one) => one.left === scrub.left),
    beyond: [...toolbar.querySelectorAll("button")].filter((one) => of(one).right > of(toolbar).right + 1).map((one) => one.title),
  };
}"""


def test_the_bars_of_a_narrow_page_wrap_into_full_rows(browser, tmp_path):
    w = engine.ones(3, requires_grad=True)
    wb.export(tmp_path / "narrow.html", (w * 2).sum())
    with opened(browser, tmp_path / "narrow.html") as page:
        for width in (1200, 960, 890, 800, 700, 620, 500, 360):
            page.set_viewport_size({"width": width, "height": 600})
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            root = page.locator(".gradient-workbench").first
            found = root.evaluate(f"(host) => {{ const document = host.shadowRoot; return ({ROWS})() }}")
            assert found == {"gap": 0, "scrub": True, "beyond": []}, width
