"""What-ifs in a real JupyterLab: a gradient and a value are changed by mouse and keys, paths light up, a rule is checked."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from real_lab import Lab

SETUP = "%load_ext workbench\nimport engine, workbench as wb"
PROGRAM = """x = engine.tensor([[1.0, 2.0, -1.0], [0.5, -2.0, 1.5], [3.0, 1.0, 0.0]])
W = engine.tensor([[0.5, -1.0, 0.25], [1.0, 0.5, -0.5], [-0.25, 0.75, 1.0]], requires_grad=True)
b = engine.zeros(3, requires_grad=True)
h = engine.tanh(x @ W + b)
loss = (h * h + h).sum()
v = wb.step(loss)
v"""
GRAD = "print('sum', round(float(b.grad.sum().item()), 4), 'none' if W.grad is None else 'some')"


def test_what_ifs_by_mouse_and_keys(lab: Lab) -> None:
    lab.open(SETUP, PROGRAM, GRAD)
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets[2].model.sharedModel.setSource('0')")
    lab.run_all()
    view = lab.cell(1).locator(".gradient-workbench")
    view.evaluate("(host) => { host.style.height = '900px'; }")
    at = view.get_by_test_id

    # the gradient of h is a sum: of what has arrived and of what is still to come
    for step in (1, 2, 3):
        at("wb-next").click()
        expect(at("wb-step-label")).to_have_text(f"Step {step} of 8")
    expect(at("wb-sum").last).to_contain_text(re.compile(r"= .*\+"))
    at("wb-next").click()
    expect(at("wb-addend")).to_have_count(3)

    # local derivatives, and the rule held against finite differences
    at("wb-local").locator("summary").first.click()
    expect(at("wb-derivative")).to_have_attribute("data-structure", "diagonal")
    at("wb-check").click()
    expect(at("wb-checked")).to_have_attribute("data-outcome", "agrees")
    at("wb-local").locator("summary").first.click()

    # another gradient here: a fork beside the base, .grad untouched
    at("wb-forks").locator("summary").first.click()
    cells = at("wb-forks").locator("canvas")
    expect(cells).to_be_visible()
    cells.click(position={"x": 4, "y": 4})
    expect(at("wb-fork-index")).to_have_value("0, 0")
    at("wb-fork-index").fill("")
    at("wb-fork-text").fill("import os")
    at("wb-fork-text").press("Enter")
    expect(at("wb-forks").get_by_role("alert")).to_contain_text("is not an expression")
    at("wb-fork-text").fill("g * 0")
    at("wb-fork-name").fill("nothing")
    at("wb-fork-text").press("Enter")
    expect(at("wb-fork")).to_have_attribute("data-name", "nothing")
    expect(at("wb-fork-table").get_by_role("row").filter(has_text="100 %")).to_have_count(3)

    # a broadcast input is summed in a step of its own
    at("wb-next").click()
    expect(at("wb-sub-step")).to_contain_text("(3, 3) summed over axis 0, because b (3,) was broadcast there")

    # made real, and taken out again
    source = "(text) => window.jupyterapp.shell.currentWidget.content.widgets[2].model.sharedModel.setSource(text)"
    at("wb-fork-write").click()
    expect(at("wb-fork-undo")).to_be_visible()
    lab.page.evaluate(source, GRAD)
    run_last(lab)
    assert lab.text(2).strip() == "sum 0.0 some"
    at("wb-fork-undo").click()
    expect(at("wb-fork-write")).to_be_visible()
    run_last(lab)
    assert lab.text(2).strip() not in ("", "sum 0.0 some")
    at("wb-forks").locator("summary").first.click()

    # another weight: the program again
    at("wb-other-value").locator("summary").first.click()
    at("wb-value-of").select_option(label="b")
    at("wb-value-text").fill("x + 1")
    at("wb-value-text").press("Enter")
    expect(at("wb-loss-new")).to_be_visible()
    lab.page.evaluate(source, "print(round((lambda t: (t * t + t).sum())(engine.tanh(x @ W + b + 1)).item(), 3), b.tolist())")
    run_last(lab)
    loss, values = lab.text(2).strip().split(" ", 1)
    assert values == "[0.0, 0.0, 0.0]"
    assert abs(float(at("wb-loss-new").inner_text().replace("−", "-")) - float(loss)) < 2e-3
    at("wb-other-value").locator("summary").first.click()

    # paths light up
    at("wb-paths").locator("summary").first.click()
    at("wb-paths-of").select_option(label="W")
    expect(at("wb-paths-said")).to_contain_text("3 paths lead from the loss to W")
    at("wb-path").first.click()
    expect(at("wb-graph")).to_have_class(re.compile("traced"))
    expect(at("wb-path").first).to_have_attribute("aria-pressed", "true")


def run_last(lab: Lab) -> None:
    """Runs the third cell alone."""
    lab.command("notebook:run-cell", 2)
    lab.wait_idle()
