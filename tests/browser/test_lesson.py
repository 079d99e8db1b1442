"""Lesson 1 in a real JupyterLab: the stepper shows what plain `.backward()` computes; by mouse, by keys, and in a paused cell."""

from __future__ import annotations

import json
import math
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, expect
from real_lab import wait_until

import ipykernels

LESSON = Path(__file__).parents[2] / "notebooks" / "01_watch_a_network_learn.ipynb"

# What a plain backward pass gives for the same loss: the norm of the gradient of every tensor that has a name in the notebook. Runs right
# after the cell that makes the loss, on a copy of the model, so that nothing of the lesson changes.
EXPECTED = """
import copy, json
def norms_of_plain_backward():
    twin = copy.deepcopy(model)
    hidden = twin[0](images[batch]); hidden.retain_grad()
    bent = twin[1](hidden); bent.retain_grad()
    out = twin[2](bent); out.retain_grad()
    F.cross_entropy(out, labels[batch]).backward()
    leaves = [twin[0].weight, twin[0].bias, twin[2].weight, twin[2].bias]
    norm = lambda t: t.grad.double().norm().item()
    return {"leaves": [norm(t) for t in leaves], "inner": [norm(t) for t in (hidden, bent, out)]}
print(json.dumps(norms_of_plain_backward()))
"""


def lesson_with(lab, *extra: tuple[str, str], ipykernel: str = "") -> list[str]:
    """Opens a copy of lesson 1 with a code cell added after the cell of each given id; returns the ids of its cells."""
    notebook = nbformat.read(LESSON, as_version=4)
    if ipykernels.folder_of(ipykernel):
        notebook.metadata["kernelspec"] = {
            "name": ipykernels.name_of(ipykernel).replace(" ", "-"),
            "display_name": ipykernels.name_of(ipykernel),
        }
    for after, source in extra:
        at = next(i for i, cell in enumerate(notebook.cells) if cell["id"] == after)
        notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(source, id=f"{after}-extra"))
    nbformat.write(notebook, lab.server.root / "lesson.ipynb")
    lab.open_notebook("lesson.ipynb")
    return [cell["id"] for cell in notebook.cells]


def view_of(lab, index: int) -> Locator:
    """The workbench in a cell's output, scrolled into sight."""
    lab.page.evaluate("(i) => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'center')", index)
    view = lab.cell(index).get_by_test_id("wb-root")
    expect(view).to_be_visible()
    return view


def shown_norms(view: Locator) -> dict[str, float]:
    """The gradient norms on the graph, by the id of the node they belong to."""
    found = view.get_by_test_id("wb-node").evaluate_all(
        "(nodes) => nodes.filter((n) => n.dataset.gradNorm && n.dataset.node).map((n) => [n.dataset.node, n.dataset.gradNorm])"
    )
    return {node: float(norm) for node, norm in found}


def position(view: Locator) -> tuple[int, int]:
    """How many steps are done, and of how many."""
    scrub = view.get_by_test_id("wb-scrub")
    expect(scrub).to_be_visible()  # the pass has come
    return int(scrub.input_value()), int(scrub.get_attribute("max") or 0)


def walk(view: Locator, forth, back) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Steps to the end and back to the start; the norms shown at each position, on the way out and on the way back."""
    scrub = view.get_by_test_id("wb-scrub")
    start, total = position(view)
    assert (start, total > 5) == (0, True)
    out = [shown_norms(view)]
    for i in range(1, total + 1):
        forth()
        expect(scrub).to_have_value(str(i))
        out.append(shown_norms(view))
    home = [out[-1]]
    for i in range(total - 1, -1, -1):
        back()
        expect(scrub).to_have_value(str(i))
        home.append(shown_norms(view))
    return out, home[::-1]


def check(out: list[dict], home: list[dict], expected: dict) -> None:
    assert home == out  # going back shows, at every position, exactly what going forth showed
    assert out[0] == {}
    plain = [1.0, *expected["leaves"], *expected["inner"]]  # the loss's own gradient is 1
    shown = list(out[-1].values())
    for norm in plain:
        assert any(math.isclose(norm, s, rel_tol=1e-5) for s in shown), f"{norm} is not among the norms shown: {shown}"
    for norms in out:
        for node, norm in norms.items():
            assert any(math.isclose(norm, p, rel_tol=1e-5) for p in plain), (
                f"node {node} shows {norm}, which plain backward() does not give"
            )


def test_lesson_by_mouse(lab):
    cells = lesson_with(lab, ("step", EXPECTED))
    lab.run_all()
    at = cells.index("step")
    expected = json.loads(lab.text(cells.index("step-extra")))
    assert "are read correctly" in lab.text(cells.index("test"))
    view = view_of(lab, at)
    forth, back = view.get_by_test_id("wb-next"), view.get_by_test_id("wb-prev")
    out, home = walk(view, forth.click, back.click)
    check(out, home, expected)


def test_lesson_by_keys(lab):
    cells = lesson_with(lab, ("step", EXPECTED))
    lab.run_all()
    view = view_of(lab, cells.index("step"))
    expected = json.loads(lab.text(cells.index("step-extra")))
    view.get_by_test_id("wb-graph").focus()
    press = lab.page.keyboard.press
    out, home = walk(view, lambda: press("ArrowRight"), lambda: press("ArrowLeft"))
    check(out, home, expected)
    press("End")
    expect(view.get_by_test_id("wb-scrub")).to_have_value(str(len(out) - 1))
    press("Home")
    expect(view.get_by_test_id("wb-scrub")).to_have_value("0")


def wait_for_norms(view: Locator, norms: list[float]) -> None:
    """Returns when all of these are shown: at its end the cell draws its view anew, for the saved notebook."""

    def are_shown() -> bool:
        shown = shown_norms(view).values()
        return all(any(math.isclose(n, s, rel_tol=1e-5) for s in shown) for n in norms)

    wait_until(are_shown, lambda: f"{norms} are not all among the norms shown: {shown_norms(view)}")


PAUSED = """
with wb.step():
    loss.backward()
print("the cell has ended")
"""


@pytest.mark.parametrize("ipykernel", ipykernels.VERSIONS, ids=ipykernels.name_of)
def test_paused_cell(lab, ipykernel):
    """`with wb.step():` holds the running cell inside backward(); the view drives it to the end and the cell goes on."""
    again = "scores = model(images[batch])\nloss = F.cross_entropy(scores, labels[batch])\nmodel.zero_grad()"
    norms_of_grads = "print([p.grad.double().norm().item() for p in model.parameters()])"
    cells = lesson_with(lab, ("inspect", again), ("inspect-extra", PAUSED), ("inspect-extra-extra", norms_of_grads), ipykernel=ipykernel)
    lab.run_all(wait=False)
    at = cells.index("inspect-extra-extra")
    lab.page.wait_for_function("(i) => window.jupyterapp.shell.currentWidget.content.widgets[i].model.executionState === 'running'", arg=at)
    view = view_of(lab, at)
    scrub = view.get_by_test_id("wb-scrub")
    expect(scrub).to_be_visible()
    _, total = position(view)
    for i in range(1, 4):
        view.get_by_test_id("wb-next").click()
        expect(scrub).to_have_value(str(i))
    assert "the cell has ended" not in lab.text(at)
    view.get_by_test_id("wb-prev").click()
    expect(scrub).to_have_value("2")
    view.get_by_test_id("wb-last").click()
    expect(scrub).to_have_value(str(total))
    lab.wait_idle(120)
    assert "the cell has ended" in lab.text(at)
    wait_for_norms(view, json.loads(lab.text(at + 1)))
