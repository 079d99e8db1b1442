"""The graph in a real JupyterLab, by mouse and by keys: a loop's slider, folds, paths between nodes, values on scalars, what is saved."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect
from real_lab import SIZE, box_at_rest, wait_until
from test_lesson import view_of

SETUP = """%load_ext workbench
import engine, workbench as wb
from engine import nn
from engine.nn import functional as F"""

LOOP = """%%watch
w = (engine.randn(8, 8) * 0.1).requires_grad_()
h = engine.zeros(4, 8)
for t in range(12):
    h = (h @ w + 0.1).tanh()
loss = h.sum()"""

# Karpathy's lecture: L = (a * b + c) * f with a = 2, b = -3, c = 10, f = -2; dL/da = f * b = 6, dL/dd = f = -2.
SCALARS = """a, b, c, f = (engine.tensor(float(x), requires_grad=True) for x in (2, -3, 10, -2))
e = a * b
d = e + c
L = d * f
wb.step(L)"""

BLOCKS = """%%watch
model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(6)])
x = engine.randn(4, 8)
out = model(x).sum()"""


def group(view: Locator, label: str) -> Locator:
    """The drawn group whose spoken label begins so."""
    return view.locator(f'[data-group][aria-label^="{label}"]')


def node(view: Locator, label: str) -> Locator:
    """The drawn box or pill whose spoken label begins so."""
    return view.locator(f'[data-node][aria-label^="{label}"]').first


def test_a_loop_shows_the_iteration_that_its_slider_stands_at(lab):
    lab.open(SETUP, LOOP)
    lab.run_all()
    view = view_of(lab, 1)
    slider, status = view.get_by_test_id("wb-loop"), view.get_by_test_id("wb-status")
    expect(slider).to_have_attribute("aria-valuenow", "1")
    expect(group(view, "hidden turns 2–12, 33 ops")).to_be_visible()  # 11 turns of 3 ops
    expect(group(view, "iteration turn 5")).to_have_count(0)

    # The mouse drags the slider to the middle; the graph itself is not dragged by that.
    before = box_at_rest(group(view, "loop"))
    track = box_at_rest(view.locator("[data-slider]"))
    lab.page.mouse.move(track["x"] + 3, track["y"] + track["height"] / 2)
    lab.page.mouse.down()
    lab.page.mouse.move(track["x"] + track["width"] / 2, track["y"] + track["height"] / 2, steps=4)
    lab.page.mouse.up()
    expect(slider).to_have_attribute("aria-valuenow", re.compile("^[67]$"))
    expect(status).to_contain_text("hidden: 33 ops")  # 11 of the 12 turns
    after = box_at_rest(group(view, "loop"))
    assert (after["x"], after["y"]) == (before["x"], before["y"])

    # Keys: to the next, to all, and back.
    now = int(slider.get_attribute("aria-valuenow") or 0)
    view.get_by_test_id("wb-graph").press("]")
    expect(slider).to_have_attribute("aria-valuenow", str(now + 1))
    expect(group(view, f"iteration turn {now + 1}")).to_have_attribute("aria-expanded", "true")
    expect(status).to_contain_text(f"turn {now + 1} is shown")
    view.get_by_test_id("wb-graph").press("u")
    expect(slider).to_have_count(0)
    expect(view.locator('[aria-label^="iteration turn"]')).to_have_count(12)
    view.get_by_test_id("wb-graph").press("u")
    expect(slider).to_have_attribute("aria-valuenow", "1")

    # A double click on what stands for the hidden ones shows them all too.
    view.get_by_test_id("wb-graph").press("Space")  # all in sight
    group(view, "hidden turns 2–12").dblclick()
    expect(view.locator('[aria-label^="iteration turn"]')).to_have_count(12)


def test_paths_values_and_folds(lab):
    lab.open(SETUP, SCALARS, BLOCKS)
    lab.run_all()
    view = view_of(lab, 1)
    status = view.get_by_test_id("wb-status")
    product, total = node(view, "mul e"), node(view, "mul L")
    # A scalar's box shows its value, then in a pass its gradient with its sign.
    expect(product.locator(":scope > text .shape")).to_have_text("−6")
    expect(total.locator(":scope > text .shape")).to_have_text("−8")
    for step in range(1, 4):
        view.get_by_test_id("wb-next").click()
        expect(view.get_by_text(f"Step {step} of", exact=False).first).to_be_visible()
    expect(product.locator(":scope > .badge")).to_have_text("∇ −2")
    # What the tape keeps of a product: both operands.
    expect(total.locator(".keeps title")).to_contain_text("input (input 0), other (input 1)")
    expect(node(view, "add d").locator(".keeps")).to_have_count(0)

    # Mouse: select one node, Shift+click another; what lies between them is lit.
    product.click(position={"x": 20, "y": 14})  # above its pills
    expect(node(view, "leaf a")).to_have_class(re.compile("beside"))
    total.click(modifiers=["Shift"], position={"x": 20, "y": 14})
    expect(status).to_have_text("1 node is on the one path from e to L.")
    expect(node(view, "add d")).to_have_class(re.compile("on-path"))
    expect(node(view, "leaf f")).not_to_have_class(re.compile("on-path"))
    expect(view.locator(".wb-wire.on-path")).to_have_count(2)
    # Keys: all that a node was computed from, its paths to the loss, and away.
    graph = view.get_by_test_id("wb-graph")
    graph.press("i")
    expect(status).to_contain_text("L was computed from 4 sources, through 2 ops.")
    expect(view.locator(".wb-pill.on-path")).to_have_count(4)
    graph.press("Escape")
    expect(view.locator(".on-path")).to_have_count(0)
    graph.press("ArrowUp")  # to d, its first input
    graph.press("l")
    expect(status).to_have_text("0 nodes are on the one path from d to L.")

    # A fold shows the first of what is alike, and says what it hides.
    blocks = view_of(lab, 2)
    hidden = group(blocks, "hidden 5 more")
    expect(hidden).to_have_attribute("aria-label", re.compile(r"10 ops, 360 params"))  # 5 of (Linear and ReLU), 5 x 72 parameters
    expect(blocks.get_by_test_id("wb-loop")).to_have_attribute("aria-valuenow", "1")
    blocks.get_by_test_id("wb-graph").press("]")
    expect(blocks.get_by_test_id("wb-loop")).to_have_attribute("aria-valuenow", "2")
    hidden = group(blocks, "hidden 4 more")
    expect(hidden).to_have_attribute("aria-label", re.compile("8 ops, 288 params"))
    blocks.get_by_test_id("wb-graph").press("Space")
    hidden.locator("[data-toggle]").click()
    expect(blocks.locator('[aria-label^="module Sequential"]')).to_have_count(7)


MOVING = """(graph) => graph.getRootNode().host.shadowRoot.getAnimations().filter(
  (one) => one.effect.target.closest?.(".graph")).map((one) => one.effect.getTiming().duration)"""


def test_the_camera_the_mini_map_and_motion(lab):
    lab.open(SETUP, LOOP)
    lab.run_all()
    view = view_of(lab, 1)
    graph, world = view.get_by_test_id("wb-graph"), view.locator(".graph > svg > g")
    before = world.get_attribute("transform")
    box = box_at_rest(graph)
    # A drag pans, Ctrl with the wheel zooms about the pointer, Space brings all into sight.
    x, y = box["x"] + box["width"] - 30, box["y"] + 30
    lab.page.mouse.move(x, y)
    lab.page.mouse.down()
    lab.page.mouse.move(x - 60, y + 40, steps=4)
    lab.page.mouse.up()
    expect(world).not_to_have_attribute("transform", before or "")
    panned = world.get_attribute("transform")
    lab.page.keyboard.down("Control")
    lab.page.mouse.wheel(0, -200)
    lab.page.keyboard.up("Control")
    expect(world).not_to_have_attribute("transform", panned or "")
    # What is out of sight is on the mini-map, and a press there goes to it.
    minimap = view.locator(".minimap")
    expect(minimap).to_be_visible()
    zoomed = world.get_attribute("transform")
    spot = box_at_rest(minimap)
    lab.page.mouse.click(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] - 4)
    expect(world).not_to_have_attribute("transform", zoomed or "")
    graph.press("Space")
    expect(minimap).to_be_hidden()

    # What is opened or closed glides to its place in 200 ms; who asks for less motion gets none.
    toggle = (
        "(graph) => { graph.querySelector('[data-toggle]').dispatchEvent(new MouseEvent('click', { bubbles: true, composed: true })); }"
    )
    moves = f"(graph) => {{ ({toggle})(graph); return ({MOVING})(graph); }}"
    assert 200 in graph.evaluate(moves)
    wait_until(lambda: graph.evaluate(MOVING) == [], lambda: "what was opened still glides")
    lab.page.emulate_media(reduced_motion="reduce")
    for _ in range(2):
        assert graph.evaluate(moves) == []
    lab.page.emulate_media(reduced_motion="null")


TRAINING = """%%watch --steps
model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
opt = engine.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    opt.zero_grad()
    loss = model(engine.ones(4, 8)).square().mean()
    loss.backward()
    opt.step()"""


def test_a_pass_brings_its_iteration_and_headers_stay_in_sight(lab):
    lab.open(SETUP, TRAINING)
    lab.run_all()
    view = view_of(lab, 1)
    slider = view.get_by_test_id("wb-loop")
    current = view.locator(".wb-pill.current")
    last = group(view, "iteration turn 12")

    # The last of the twelve passes is shown at its end, where the first layer's weight has got its gradient: in that iteration, once.
    expect(current).to_have_count(1)
    expect(current).to_be_in_viewport()
    expect(slider).to_have_attribute("aria-valuenow", "12")
    wait_until_inside(last, current)

    # Another pass brings another iteration, and so does a step after the slider has been moved away.
    view.get_by_test_id("wb-pass").select_option(index=4)
    expect(slider).to_have_attribute("aria-valuenow", "5")
    view.get_by_test_id("wb-graph").press("]")
    expect(slider).to_have_attribute("aria-valuenow", "6")
    view.get_by_test_id("wb-first").click()
    view.get_by_test_id("wb-next").click()
    expect(view.locator(".stepper")).to_have_attribute("data-index", "1")
    expect(slider).to_have_attribute("aria-valuenow", "5")
    wait_until_inside(group(view, "iteration turn 5"), view.locator(".wb-box.current:not(.open)"))

    # Wherever the graph is dragged, the loop's header with its slider is in what is seen of the loop.
    graph = view.get_by_test_id("wb-graph")
    pinned = view.locator(".header.pinned").filter(has=lab.page.get_by_test_id("wb-loop"))
    for _ in range(4):  # the notebook may still scroll under the mouse, and the loop may begin in sight
        graph.scroll_into_view_if_needed()
        room = box_at_rest(graph)
        x, y = room["x"] + room["width"] / 2, min(room["y"] + room["height"], SIZE["height"] - 40) - 12  # above the status bar
        lab.page.mouse.move(x, y)
        lab.page.mouse.down()
        lab.page.mouse.move(x, y - 150, steps=3)
        lab.page.mouse.up()
        box_at_rest(slider)
        if pinned.count():
            break
    expect(pinned).to_be_visible()
    wait_until_inside(graph, slider)
    slider.locator("[data-iterate]").first.click()  # and it works there
    expect(slider).to_have_attribute("aria-valuenow", "4")


# Both at one moment: the camera may still glide.
INSIDE = """(holder, held) => {
  const [a, b] = [holder, held].map((one) => one.getBoundingClientRect());
  return held.isConnected && a.left <= b.left && a.top <= b.top && b.right <= a.right && b.bottom <= a.bottom;
}"""


def wait_until_inside(holder: Locator, held: Locator) -> None:
    """Returns when a box lies in the frame of another one on the screen."""
    wait_until(lambda: holder.evaluate(INSIDE, held.element_handle()), lambda: f"{held} is not inside {holder}")


DEEP = """class Block(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, stride=s, padding=1) for s in (stride, 1))
        self.skip = nn.Conv2d(4, 4, 1, stride=stride)
    def forward(self, x):
        return F.relu(self.skip(x) + self.convs[1](F.relu(self.convs[0](x))))
model = nn.Sequential(nn.Conv2d(1, 4, 3), *(Block(s) for s in (1, 2, 1, 2, 1, 2)), nn.Flatten(), nn.LazyLinear(3))
with wb.watch():
    loss = F.cross_entropy(model(engine.randn(2, 1, 18, 18)), engine.tensor([0, 2]))"""

WHOLE_PASS = """s = wb.step(loss)
s.finish()
s"""


def test_a_pass_that_comes_as_a_whole_leaves_the_whole_graph_in_sight(lab):
    lab.open(SETUP, DEEP, WHOLE_PASS)
    lab.run_all()
    view = view_of(lab, 2)
    expect(view.locator(".stepper")).to_have_attribute("data-index", re.compile("[1-9]"))
    frame = view.get_by_test_id("wb-graph")
    world = box_at_rest(frame.locator("svg > g").first)
    around = box_at_rest(frame)
    assert world["x"] >= around["x"] - 1 and world["x"] + world["width"] <= around["x"] + around["width"] + 1
    assert world["y"] >= around["y"] - 1 and world["y"] + world["height"] <= around["y"] + around["height"] + 1
    # A step taken by hand brings its node into sight, large enough to read.
    view.get_by_test_id("wb-prev").click()
    expect(view.locator(".current").first).to_be_visible()
