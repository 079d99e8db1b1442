"""The first five minutes: from the README's program to which parameter gets the largest gradient, and why, by mouse and by keys."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, expect
from test_breakpoints_page import view_of

import engine
from engine import nn

README = [
    "%load_ext workbench\nimport engine, engine.nn as nn, workbench as wb\n_ = engine.manual_seed(0)",
    "model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))\nimages, labels = engine.randn(8, 64), engine.randint(0, 10, (8,))",
    "%%watch\nloss = nn.functional.cross_entropy(model(images), labels)   # the graph appears while this runs",
    "wb.step(loss)",
]


def expected() -> tuple[str, float]:
    """The parameter with the largest gradient, and its norm: the chain rule in NumPy, float64."""
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    images, labels = engine.randn(8, 64), engine.randint(0, 10, (8,))
    w1, b1, w2, b2, x = (tensor.detach().numpy().astype(np.float64) for tensor in (*model.parameters(), images))
    h = np.maximum(x @ w1.T + b1, 0)
    scores = h @ w2.T + b2
    share = np.exp(scores - scores.max(1, keepdims=True))
    d_scores = (share / share.sum(1, keepdims=True) - np.eye(10)[labels.numpy()]) / len(x)
    d_h = d_scores @ w2 * (h > 0)
    gradients = {"0.weight": d_h.T @ x, "0.bias": d_h.sum(0), "2.weight": d_scores.T @ h, "2.bias": d_scores.sum(0)}
    norms = {name: float(np.linalg.norm(gradient)) for name, gradient in gradients.items()}
    name = max(norms, key=lambda one: norms[one])
    return name, norms[name]


def answered(view: Locator) -> None:
    """What is seen at the end: the step that gave the gradient, its rule with the numbers' norm."""
    name, norm = expected()
    step = view.locator(".pane.step")
    expect(step.locator("h3")).to_have_text("linear")
    given = step.get_by_test_id("wb-contribution").filter(has=view.page.get_by_role("button", name=name, exact=True))
    expect(given).to_contain_text("upstream")
    assert float(given.get_attribute("data-norm") or "nan") == pytest.approx(norm, rel=1e-4)


def test_by_mouse_in_five_clicks(lab):
    lab.open(*README)
    lab.run_all()
    view = view_of(lab, 3)
    name, norm = expected()
    view.get_by_test_id("wb-last").click()  # 1
    view.get_by_test_id("wb-tab-model").click()  # 2
    largest = view.get_by_test_id("wb-largest")
    expect(largest).to_have_text(name)
    expect(view.get_by_test_id("wb-model")).to_contain_text(f"norm {norm:.4g}")
    largest.click()  # 3
    view.get_by_test_id("wb-tab-grad").click()  # 4
    view.get_by_test_id("wb-given").get_by_role("button").click()  # 5
    answered(view)


IS_ACTIVE = "(one) => one.getRootNode().activeElement === one"


def walk(view: Locator, target: Locator, key: str = "Tab") -> None:
    """Presses the key until the target has the focus. Its pane may still wait for the kernel, which a user would see."""
    expect(target).to_be_visible()
    for _ in range(40):
        if target.count() and target.evaluate(IS_ACTIVE):
            return
        view.page.keyboard.press(key)
    raise AssertionError(f"{key} never comes to {target}")


def test_by_keys_alone(lab):
    lab.open(*README)
    press = lab.page.keyboard.press
    press("Escape")
    for index in range(len(README)):
        lab.page.wait_for_function("(i) => window.jupyterapp.shell.currentWidget.content.activeCellIndex === i", arg=index)
        press("Shift+Enter")
    lab.wait_idle()
    press("Control+Alt+g")  # the side panel, and the keys with it
    view = lab.page.locator("#gradient-workbench")
    expect(view.get_by_test_id("wb-graph")).to_be_focused()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("0")
    press("End")
    expect(view.get_by_test_id("wb-sentence")).to_have_text(re.compile("^Step 8 of 8"))
    chosen = view.locator("[role=tab][aria-selected=true]")
    for tab, button in (("Model", view.get_by_test_id("wb-largest")), ("Grad", view.get_by_test_id("wb-given").get_by_role("button"))):
        walk(view, chosen, "Tab" if tab == "Model" else "Shift+Tab")
        for _ in range(8):
            if chosen.inner_text() == tab:
                break
            before = chosen.inner_text()
            press("ArrowRight")
            expect(chosen).not_to_have_text(before)
        expect(chosen).to_have_text(tab)
        walk(view, button)
        press("Enter")
    answered(view)


def test_the_view_of_a_forward_pass_begins_the_backward_pass(lab):
    lab.open(*README[:3], "loss.backward()\nprint(all(p.grad is not None for p in model.parameters()))", "print(model[0].weight.grad)")
    for at in (0, 1, 2):
        lab.command("notebook:run-cell", at)
        lab.wait_idle()
    view = lab.cell(2).locator(".gradient-workbench")
    button = view.get_by_test_id("wb-begin")
    expect(button).to_have_text("Backward from loss")
    view.get_by_test_id("wb-graph").focus()
    lab.page.keyboard.press("F10")
    expect(view).to_contain_text("The button “Backward from …” above the graph runs one.")
    button.click()
    expect(button).to_be_hidden()
    expect(view.get_by_test_id("wb-sentence")).to_have_text("At the start of the backward pass: 8 steps.")
    lab.page.keyboard.press("End")  # the keys are still the view's
    expect(view.get_by_test_id("wb-sentence")).to_contain_text("Step 8 of 8")
    expect(view.get_by_test_id("wb-sentence")).to_contain_text(".grad stays as it is")
    lab.command("notebook:run-cell", 4)
    lab.wait_idle()
    assert lab.text(4).strip() == "None"
    lab.command("notebook:run-cell", 3)
    lab.wait_idle()
    assert lab.text(3).strip() == "True"  # the graph was still there


@pytest.mark.own_page
def test_the_first_hint_tells_of_no_levels_where_there_are_none(lab):
    lab.open("import engine\n%load_ext workbench", "%%watch\nloss = (engine.ones(2, requires_grad=True) * 2).sum()")
    lab.page.evaluate("() => { sessionStorage.setItem('hints', 'wanted'); localStorage.removeItem('gradient-workbench-hints'); }")
    for at in range(2):
        lab.command("notebook:run-cell", at)
        lab.wait_idle()
    view = lab.cell(1).locator(".gradient-workbench")
    expect(view.get_by_test_id("wb-hint")).to_contain_text("Each box is an op with its result", timeout=15_000)
    expect(view.get_by_test_id("wb-levels")).to_be_hidden()


@pytest.mark.own_page
def test_three_hints_come_once_in_a_browser(lab):
    lab.open(README[0], *README[1:], "wb.step(loss)")
    lab.page.evaluate("() => { sessionStorage.setItem('hints', 'wanted'); localStorage.removeItem('gradient-workbench-hints'); }")
    for at in range(3):
        lab.command("notebook:run-cell", at)
        lab.wait_idle()
    view = lab.cell(2).locator(".gradient-workbench")
    hint, onward = view.get_by_test_id("wb-hint"), view.get_by_test_id("wb-hint-next")
    expect(hint).to_contain_text("Double-click a box to open it")
    assert lab.page.evaluate("() => document.activeElement.closest('.gradient-workbench')") is None  # no hint takes the keys
    frame = view.bounding_box()
    assert frame
    for words in ("This button runs the backward pass", "The legend explains"):
        box = hint.bounding_box()
        assert box and frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"]
        assert frame["y"] <= box["y"] and box["y"] + box["height"] <= frame["y"] + frame["height"]
        onward.click()
        expect(hint).to_contain_text(words)
    onward.click()
    expect(hint).to_be_hidden()

    lab.command("notebook:run-cell", 3)
    lab.wait_idle()
    expect(view_of(lab, 3).get_by_test_id("wb-hint")).to_be_hidden()
    lab.command("docmanager:save")
    lab.wait_idle()
    lab.reload()
    view = lab.cell(2).locator(".gradient-workbench")
    expect(view.get_by_test_id("wb-levels")).to_be_visible()
    expect(view.get_by_test_id("wb-hint")).to_be_hidden()
