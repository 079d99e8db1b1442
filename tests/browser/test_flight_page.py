"""Flight files in JupyterLab: a double click shows one, and a step repeated in a cell opens on the findings."""

from __future__ import annotations

import ast
import runpy

from playwright.sync_api import expect
from real_lab import NOTEBOOK, READY, Lab

TRAINING = """
engine.manual_seed(0)
model = engine.nn.Linear(2, 1)
optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
with wb.flight(model, optimizer, path=PATH) as flight:
    for i in flight(range(6)):
        loss = (model(engine.ones(4, 2)) - i).square().mean()
        if i == 5:
            loss = (loss - loss.detach() - 1).log()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
PROGRAM = f"import sys\nimport engine\nimport workbench as wb\nPATH = globals().get('PATH', 'other.flight')\n{TRAINING}"
NAME = 'it\'s "ä" \\ 1.flight'
SENTENCE = "Step 5: loss nan, repeated: equal to the original bit for bit (losses, 2 gradients, 2 parameters and buffers)."
SOURCES = f"() => {NOTEBOOK}.content.widgets.map((cell) => cell.model.sharedModel.getSource())"


def expect_findings(lab: Lab, index: int) -> None:
    cell = lab.cell(index)
    expect(cell.get_by_text(SENTENCE)).to_be_visible()
    finding = cell.get_by_test_id("wb-finding").first
    expect(finding).to_contain_text("log made the first NaN")
    expect(finding).to_contain_text("loss = (loss - loss.detach() - 1).log()")


def test_double_click_on_a_flight_file_shows_it_and_prepares_the_repetition(lab):
    root = lab.server.root
    (root / "train.py").write_text(PROGRAM, encoding="utf-8")
    runpy.run_path(str(root / "train.py"), {"PATH": str(root / NAME)})
    if not lab.is_clear:
        lab.goto()
    lab.is_clear = False
    lab.page.evaluate("() => window.jupyterapp.commands.execute('filebrowser:refresh')")
    file = lab.page.locator(".jp-DirListing-item", has=lab.page.get_by_text(NAME, exact=True))
    file.dblclick()
    card = lab.page.locator(".jp-OutputArea svg[aria-label^='Loss of 6 steps']")
    expect(card).to_be_visible()
    lab.page.wait_for_function(f"() => {NOTEBOOK}?.content?.activeCellIndex === 1 && !{NOTEBOOK}.context.model.dirty")
    expect(lab.cell(0)).to_contain_text("The loss is nan, in step 5 of train.py.")
    opened, repeat = lab.page.evaluate(SOURCES)
    assert ast.literal_eval(opened.splitlines()[-2].removeprefix("flight = wb.open")) == NAME
    assert repeat.splitlines()[1:] == ["flight.repeat(program='train.py')"]

    lab.command("notebook:run-cell", 1)
    lab.wait_idle()
    expect_findings(lab, 1)

    lab.page.evaluate(f"() => {{ {NOTEBOOK}.content.widgets[1].model.sharedModel.setSource('mine'); }}")
    lab.page.evaluate(f"() => {NOTEBOOK}.context.save()")
    lab.page.evaluate(f"() => {NOTEBOOK}.dispose()")
    file.dblclick()
    lab.page.wait_for_function(READY)
    assert lab.page.evaluate(SOURCES) == [opened, "mine"]
    assert [path.name for path in root.glob("*.ipynb") if "flight" in path.name] == [f"{NAME}.ipynb"]


def test_a_step_repeated_in_a_cell_opens_on_the_findings(lab):
    lab.open("import engine\nimport workbench as wb\nPATH = 'cell.flight'", f"{TRAINING}\nflight", "flight.repeat()")
    lab.run_all()
    expect(lab.cell(1)).to_contain_text("Flight recorder: 6 steps, steps 0 to 5 can be repeated. The loss is nan.")
    expect(lab.cell(1)).to_contain_text("flight.repeat()")
    expect_findings(lab, 2)


def test_a_button_keeps_the_steps_while_the_cell_runs(lab):
    lab.open(
        "import engine, os, time\nimport workbench as wb",
        """
model = engine.nn.Linear(2, 1)
optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
with wb.flight(model, optimizer, path="asked.flight", button=True) as flight:
    for i in flight(range(3000)):
        loss = model(engine.ones(4, 2)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.02)
        if os.path.exists("asked.flight"):
            break
(flight.count < 3000, wb.open("asked.flight").why, flight.why)""",
    )
    lab.run_all(wait=False)
    button = lab.cell(1).get_by_role("button", name="Keep this")
    expect(button).to_have_attribute("title", "Write the last steps to asked.flight")
    button.click()
    expect(lab.cell(1)).to_contain_text("(True, 'It was asked for', 'It was asked for')")
    expect(button).to_have_count(0)
    expect(lab.cell(1)).to_contain_text("wb.flight: It was asked for in step")
