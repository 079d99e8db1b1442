"""Looks at the views of a lesson in a browser, each on a slide of its own: is it drawn, whole, and without an error?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import Browser, expect

from workbench.course.deck import page
from workbench.course.slides import slides_of

if TYPE_CHECKING:
    from lesson import Run

DRAWN = """([number]) => {
  const view = document.querySelector(`#slide-${number} .gradient-workbench`);
  return view?.shadowRoot?.querySelector('[data-testid="wb-root"]') && !view.shadowRoot.querySelector('[aria-busy="true"]');
}"""
# What is wrong with a slide, and with the view in it, if there is one of this kind.
FAULTS = """([number, kind]) => {
  const slide = document.getElementById(`slide-${number}`), view = slide.querySelector(".gradient-workbench")?.shadowRoot;
  const found = [], seen = (id) => [...(view?.querySelectorAll(`[data-testid="${id}"]`) ?? [])].filter((one) => one.checkVisibility());
  const wide = [document.documentElement, slide, ...slide.querySelectorAll(".text, .text > :not(pre)"), ...(view?.querySelectorAll('[data-testid="wb-root"]') ?? [])];
  for (const one of wide) if (one.scrollWidth > one.clientWidth + 1) found.push(`<${one.localName} class="${one.className}"> is too wide`);
  if (kind && kind !== "card" && !seen("wb-node").length) found.push("the graph is empty");
  if (kind === "steps" && !seen("wb-next").length) found.push("there is no pass");
  if (kind === "card" && !seen("wb-summary").length && !seen("wb-question").length) found.push("neither a tensor nor a question");
  const short = /^This was left out of the file/; // the tests keep little of a view
  for (const { textContent } of seen("wb-alert")) if (textContent && !short.test(textContent)) found.push(textContent);
  for (const one of view?.querySelectorAll("svg *") ?? []) {
    if ([...one.attributes].some(({ value }) => /NaN|undefined/.test(value))) found.push(one.outerHTML.slice(0, 200));
  }
  if (/\\[object |undefined/.test(view?.querySelector('[data-testid="wb-root"]').textContent ?? "")) found.push("a value that has no text");
  return found;
}"""


def faults(run: Run, browser: Browser, file: Path) -> list[str]:
    """All that is wrong with the slides of a lesson that has run, and what their page complains about. The page is `file`."""
    slides = list(slides_of(run.cells, run.views))
    file.write_bytes(page(run.name, slides))
    context = browser.new_context(viewport={"width": 1200, "height": 800}, offline=True)
    shown = context.new_page()
    found: list[str] = []
    shown.on("console", lambda said: found.append(said.text) if said.type in ("error", "warning") else None)
    shown.on("pageerror", lambda error: found.append(str(error)))
    shown.goto(file.as_uri())
    for number, slide in enumerate(slides, 1):
        expect(shown.locator("#deck-at")).to_have_text(f"{number} / {len(slides)}")
        if slide.view is not None:
            shown.wait_for_function(DRAWN, arg=[number])
        told = shown.evaluate(FAULTS, [number, slide.view and slide.view.kind])
        found += [f"slide {number}, {slide.title}: {one}" for one in told]
        shown.keyboard.press("PageDown")
    context.close()
    return found
