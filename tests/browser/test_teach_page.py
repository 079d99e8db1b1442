"""A lesson in a real JupyterLab: pages and questions by keys alone, an answer that stays in the notebook, presenter mode, costs of both modes."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect
from real_lab import NOTEBOOK
from test_breakpoints_page import view_of
from test_faults import second_browser
from test_lab import run_cell

SETUP = """%load_ext workbench
import engine
x = engine.tensor([1.5, -0.5])
w = engine.tensor([0.4, 0.9], requires_grad=True)
z = (w * x).sum()
loss = z * z"""
LESSON = r"""wb.teach.lesson(loss, [
    wb.teach.say("The **chain rule**: $\\bar{w} = \\bar{z} \\cdot x$. <img src=x onerror=alert(1)>", step="start"),
    wb.teach.say("Twice z.", at="loss", depth="numbers"),
    wb.teach.quiz.gradient(w, loss),
    wb.teach.quiz("What makes it small?", "a small z", "choice", choices=["a large x", "a small z"], id="small"),
], title="By hand")"""
MODES = "wb.teach.modes(lambda x: (x * x).sum(), engine.ones(4))"
KEPT = "() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.getMetadata('gradient_workbench')"
SAVED = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"


def lesson_of(lab):
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(1, 'start')")
    view = lab.cell(1).get_by_test_id("wb-root")
    expect(view.get_by_test_id("wb-page-count")).to_be_visible()
    return view


@pytest.mark.own_page
def test_lesson_by_keys_is_kept_and_presented(lab):
    lab.open(SETUP, LESSON, MODES)
    lab.run_all()
    view, press = lesson_of(lab), lab.page.keyboard.press
    count = view.get_by_test_id("wb-page-count")
    expect(count).to_have_text("page 1 of 4")
    expect(view.get_by_test_id("wb-page")).to_contain_text("<img src=x")
    expect(view.locator("img")).to_have_count(0)

    # keys alone: to the question, an answer that forgets the 2 of the square, then the right one: 2 z x with z = 0.15
    view.get_by_test_id("wb-graph").focus()
    press("n")
    expect(count).to_have_text("page 2 of 4")
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")
    expect(view.get_by_test_id("wb-page-rule")).to_be_visible()
    press("n")
    expect(count).to_have_text("page 3 of 4")
    field = view.get_by_test_id("wb-question-input")
    expect(field).to_be_visible()
    for _ in range(40):
        press("Tab")
        if field.evaluate("(input) => input.getRootNode().activeElement === input"):
            break
    lab.page.keyboard.type("[0.225, -0.075]")
    press("Enter")
    feedback = view.get_by_test_id("wb-question-feedback")
    expect(feedback).to_contain_text("A factor of 2 is missing. A square brings a 2")
    expect(field).to_be_focused()
    press("ControlOrMeta+a")
    lab.page.keyboard.type("[0.45, -0.15]")
    press("Enter")
    expect(feedback).to_have_text("Right.")
    assert lab.page.evaluate(KEPT)["answers"]["gradient-w"] == {"answer": "[0.45, -0.15]", "attempts": 2, "revealed": False}

    # saved and loaded again, with a kernel that knows nothing: the answer is there as soon as the cell has run
    lab.command("docmanager:save")
    lab.wait_idle()
    lab.page.wait_for_function(SAVED)
    saved = json.loads((lab.server.root / "test.ipynb").read_text())
    assert "gradient-w" in saved["cells"][1]["metadata"]["gradient_workbench"]["answers"]
    lab.restart_kernel()
    lab.reload()
    lab.run_all()
    view = lesson_of(lab)
    count = view.get_by_test_id("wb-page-count")
    view.get_by_test_id("wb-graph").focus()
    for page in (2, 3):
        press("n")
        expect(count).to_have_text(f"page {page} of 4")
    expect(view.get_by_test_id("wb-question-input")).to_have_value("[0.45, -0.15]")
    expect(view.get_by_test_id("wb-question-feedback")).to_have_text("Right.")

    # a choice, by mouse; then the answer is shown
    press("n")
    expect(count).to_have_text("page 4 of 4")
    view.get_by_test_id("wb-question-choice").first.check()
    view.get_by_test_id("wb-question-check").click()
    expect(view.get_by_test_id("wb-question-feedback")).to_have_text("Not right.")
    view.get_by_test_id("wb-question-reveal").click()
    expect(view.get_by_test_id("wb-question-expected")).to_have_text("Answer: a small z")

    # presenter mode: the numbers of the rule are hidden until v reveals them; another page hides anew
    view.get_by_test_id("wb-graph").focus()
    for page in (3, 2):
        press("Shift+N")
        expect(count).to_have_text(f"page {page} of 4")
    rule = view.get_by_test_id("wb-page-rule")
    expect(rule).to_be_visible()
    small = view.evaluate("(root) => parseFloat(getComputedStyle(root).fontSize)")
    press("Shift+P")
    expect(rule).to_have_class("rules secret veiled")
    expect(view.get_by_test_id("wb-search")).to_be_hidden()
    assert view.evaluate("(root) => parseFloat(getComputedStyle(root).fontSize)") > 1.3 * small
    press("v")
    expect(rule).to_have_class("rules secret")
    press("Shift+V")
    expect(view.locator(".veiled")).to_have_count(0)
    press("ArrowRight")
    expect(view.get_by_test_id("wb-scrub")).to_have_value("2")
    expect(rule).to_have_class("rules secret veiled")
    rule.click()
    expect(rule).to_have_class("rules secret")
    view.get_by_test_id("wb-present").click()
    expect(view.locator(".veiled")).to_have_count(0)

    # Σx²: forward takes four passes of 8 multiplications, reverse one
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(2, 'start')")
    modes = lab.cell(2).get_by_test_id("wb-modes")
    expect(modes.get_by_test_id("wb-modes-forward-multiplications")).to_have_text("32")
    expect(modes.get_by_test_id("wb-modes-reverse-multiplications")).to_have_text("8")
    for _ in range(3):
        modes.get_by_test_id("wb-modes-next").click()
    expect(lab.cell(2).locator(".badge", has_text="∇ ‖2‖")).to_have_count(1)  # four ones, at the product
    expect(modes.get_by_test_id("wb-modes-status")).to_contain_text("The pass gives the row ∂y = [2, 2, 2, 2].")


def test_a_second_browser_follows_until_it_goes_its_own_way(lab):
    lab.open(SETUP, LESSON, name="class.ipynb")
    lab.run_all()
    teacher = lesson_of(lab)
    lab.command("docmanager:save")
    lab.wait_idle()
    with second_browser(lab) as other:
        other.open_notebook("class.ipynb")
        student = lesson_of(other)
        count = student.get_by_test_id("wb-page-count")
        teacher.get_by_test_id("wb-page-next").click()
        expect(count).to_have_text("page 2 of 4")
        expect(student.get_by_test_id("wb-scrub")).to_have_value("1")
        student.get_by_test_id("wb-follow").click()
        teacher.get_by_test_id("wb-page-next").click()
        expect(teacher.get_by_test_id("wb-page-count")).to_have_text("page 3 of 4")
        student.get_by_test_id("wb-page-previous").click()
        expect(count).to_have_text("page 1 of 4")
        expect(teacher.get_by_test_id("wb-page-count")).to_have_text("page 3 of 4")
        student.get_by_test_id("wb-follow").click()
        expect(count).to_have_text("page 3 of 4")
        assert other.errors == []


@pytest.mark.own_page
def test_a_student_sees_step_and_value_alone_and_the_notebook_keeps_it(lab):
    lab.open(SETUP, "wb.step(loss)", 'wb.teach.level("full")')
    for at in (0, 1):
        run_cell(lab, at)
    tabs = lambda: view_of(lab, 1).get_by_role("tab").all_inner_texts()  # noqa: E731
    expect(view_of(lab, 1).get_by_test_id("wb-tab-step")).to_be_visible()
    assert {"Step", "Value", "Grad", "Memory"} <= set(tabs())
    view_of(lab, 1).get_by_test_id("wb-student").click()
    expect(view_of(lab, 1).get_by_test_id("wb-tab-memory")).to_be_hidden()
    assert tabs() == ["Step", "Value"]
    expect(view_of(lab, 1).get_by_test_id("wb-by")).to_be_hidden()
    view_of(lab, 1).get_by_test_id("wb-next").click()
    expect(view_of(lab, 1).get_by_test_id("wb-step-label")).to_have_text(re.compile("Step 1 of"))
    assert lab.page.evaluate(f"() => {NOTEBOOK}.content.model.getMetadata('gradient_workbench').level") == "student"

    lab.command("docmanager:save")
    lab.wait_idle()
    lab.reload()
    expect(view_of(lab, 1).get_by_test_id("wb-tab-step")).to_be_visible()
    expect(view_of(lab, 1).get_by_test_id("wb-tab-memory")).to_be_hidden()
    run_cell(lab, 2)
    expect(view_of(lab, 1).get_by_test_id("wb-tab-memory")).to_be_visible()
    assert lab.page.evaluate(f"() => {NOTEBOOK}.content.model.getMetadata('gradient_workbench').level") == "full"
