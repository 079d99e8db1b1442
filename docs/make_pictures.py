"""Makes the pictures of the documentation in docs/images/: programs run in a real JupyterLab, and screenshots are taken of their views.

python docs/make_pictures.py [NAME...]        (needs Chromium and the extras test and parity; without names all pictures)

A new picture is one function here, with its page and its program, and one line in that page.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from PIL import Image, ImageChops, ImageOps  # noqa: E402
from playwright.sync_api import Locator, expect  # noqa: E402
from real_lab import NOTEBOOK, Lab, box_at_rest, opened_lab  # noqa: E402

from page_blocks import cells_of  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WINDOW = (1140, 1400)  # a view in it is 960 wide
COLORS = 256
MARGIN = 18  # pixels around what has no frame
MOTION_MS = 600  # the view's own animations are 200 ms
SCROLL_TO = f"(index) => {NOTEBOOK}.content.scrollToItem(index, 'start')"

SHARP = '%config InlineBackend.figure_formats = ["retina"]'
IMPORTS = """%load_ext workbench
import engine
import engine.nn.functional as F
import workbench as wb
from engine import nn, optim
engine.manual_seed(0);"""

Act = Callable[[Lab, Locator], Locator | None]


@dataclass(frozen=True)
class Picture:
    """What a picture is made of: the cells run, then `act` uses what the last one shows. It may return something else to be shown."""

    page: str
    cells: list[str]
    act: Act
    shows: str
    height: int
    waits: bool


PICTURES: dict[str, Picture] = {}


def picture(
    page: str, *cells: str, until: str = "", shows: str = ".gradient-workbench", height: int = 0, waits: bool = False
) -> Callable[[Act], Act]:
    """Enter a picture under the function's name, as one of `page` in docs/.

    `cells` run after IMPORTS; with `until` they run after the page's own programs, up to the one that contains it. `shows` selects what is
    shown in the last cell. A view gets the given height, if it shall not choose it. With `waits`, the last cell does not end by itself.
    """

    def enter(act: Act) -> Act:
        first, *others = cells_of(ROOT / "docs" / page, until) if until else [IMPORTS]
        PICTURES[act.__name__.replace("_", "-")] = Picture(page, [f"{SHARP}\n{first}", *others, *cells], act, shows, height, waits)
        return act

    return enter


def step_to(view: Locator, step: int) -> None:
    """Go forward to a step of the pass."""
    scrub = view.get_by_test_id("wb-scrub")
    expect(scrub).to_be_visible()
    for at in range(int(scrub.input_value()) + 1, step + 1):
        view.get_by_test_id("wb-next").click()
        expect(scrub).to_have_value(str(at))


def select(view: Locator, label: str) -> None:
    """Click the last box whose spoken label begins so, above its pills."""
    view.locator(f'[data-node][aria-label^="{label}"]').last.click(position={"x": 14, "y": 10})


def widen(view: Locator, pixels: int) -> None:
    """Make the panel of the details wider, by the handle beside it."""
    for _ in range(pixels // 20):
        view.locator(".splitter").press("ArrowLeft")


@picture("graph.md", until="wb.show(loss)", height=900)
def graph(lab: Lab, view: Locator) -> None:
    select(view, "linear")


@picture(
    "graph.md",
    """a, b, c, f = (engine.tensor(float(x), requires_grad=True) for x in (2, -3, 10, -2))
e = a * b
d = e + c
L = d * f
wb.step(L)""",
    height=380,
)
def graph_boxes(lab: Lab, view: Locator) -> None:
    view.get_by_test_id("wb-last").click()


@picture(
    "stepping.md",
    """W = engine.tensor([[0.5, -1.0], [1.0, 0.5], [-0.5, 0.75]], requires_grad=True)
x = engine.tensor([[1.0, 2.0, -1.0], [0.5, -2.0, 1.5]])""",
    """h = engine.tanh(x @ W)
loss = h.square().mean()
wb.step(loss)""",
    height=680,
)
def stepping(lab: Lab, view: Locator) -> None:
    widen(view, 200)
    step_to(view, 4)
    view.get_by_test_id("wb-depth-numbers").click()


@picture(
    "stepping.md",
    """model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1)
loader = [(x, x.prod(1, keepdim=True)) for x in engine.randn(200, 32, 2)]""",
    """for x, y in wb.loop(loader, model, optimizer):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
    waits=True,
)
def training_loop(lab: Lab, view: Locator) -> None:
    label = view.get_by_test_id("wb-train-label")
    for turn in range(3):
        expect(label).to_have_text(f"turn {turn} of 200, waits")
        view.get_by_test_id("wb-train-step").click()
    expect(label).to_have_text("turn 3 of 200, waits")
    expect(view.get_by_test_id("wb-scrub")).to_be_visible()


@picture(
    "inspector.md",
    """words = "the cat sat on the mat because it was tired".split()
vocabulary = list(dict.fromkeys(words))
wb.vocabulary(vocabulary)
embedding, query, key = nn.Embedding(len(vocabulary), 16), nn.Linear(16, 16), nn.Linear(16, 16)
ids = engine.tensor([vocabulary.index(word) for word in words])
future = engine.ones(len(words), len(words)).triu(1).bool()""",
    """%%watch
x = embedding(ids)
scores = query(x) @ key(x).T
attention = scores.masked_fill(future, float("-inf")).softmax(1)""",
    height=760,
)
def inspector(lab: Lab, view: Locator) -> None:
    select(view, "softmax attention")
    view.get_by_test_id("wb-tab-value").click()


@picture(
    "inspector.md",
    """layers = [layer for _ in range(8) for layer in (nn.Linear(16, 16), nn.Sigmoid())]
model = nn.Sequential(*layers, nn.Linear(16, 3))
optimizer = optim.SGD(model.parameters(), lr=0.1)
x, target = engine.randn(64, 16), engine.randint(0, 3, (64,))""",
    """%%watch
loss = F.cross_entropy(model(x), target)
loss.backward()
optimizer.step()""",
    height=760,
)
def inspector_model(lab: Lab, view: Locator) -> None:
    view.get_by_test_id("wb-tab-model").click()


WHAT_IF = """x = engine.tensor([[1.0, 2.0, -1.0], [0.5, -2.0, 1.5], [3.0, 1.0, 0.0]])
W = engine.tensor([[0.5, -1.0, 0.25], [1.0, 0.5, -0.5], [-0.25, 0.75, 1.0]], requires_grad=True)
b = engine.zeros(3, requires_grad=True)
h = engine.tanh(x @ W + b)
loss = (h * h + h).sum()
wb.step(loss)"""


@picture("what-if.md", WHAT_IF, height=760)
def what_if(lab: Lab, view: Locator) -> None:
    step_to(view, 4)
    forks = view.get_by_test_id("wb-forks")
    forks.locator("summary").first.click()
    view.get_by_test_id("wb-fork-text").fill("g.clip(-1, 1)")
    view.get_by_test_id("wb-fork-text").press("Enter")
    expect(view.get_by_test_id("wb-fork-table")).to_be_visible()
    forks.evaluate("(one) => one.scrollIntoView({ block: 'start' })")


@picture("what-if.md", WHAT_IF, height=640)
def what_if_paths(lab: Lab, view: Locator) -> None:
    step_to(view, 4)
    paths = view.get_by_test_id("wb-paths")
    paths.locator("summary").first.click()
    view.get_by_test_id("wb-paths-of").select_option(label="W")
    view.get_by_test_id("wb-path").first.click()
    paths.evaluate("(one) => one.scrollIntoView({ block: 'start' })")


@picture("pictures.md", until="for epoch in", shows=".jp-OutputArea-output")
def progress(lab: Lab, output: Locator) -> None:
    pass


@picture(
    "pictures.md",
    """from matplotlib import pyplot as plt
_, axes = plt.subplots(2, 2, figsize=(12, 8), layout="constrained")
wb.plot.gradient_flow(h, ax=axes[0, 0])
wb.plot.histograms(h, "0.weight", ax=axes[0, 1])
wb.plot.learning_curves(h, right=["accuracy"], ax=axes[1, 0])
wb.plot.loss_surface(model, lambda: F.cross_entropy(model(x), y), points=21, ax=axes[1, 1])
plt.show()""",
    until="for epoch in",
    shows="img",
)
def plots(lab: Lab, figure: Locator) -> None:
    pass


MEMORY = """model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10))
optimizer = optim.Adam(model.parameters())
x, y = engine.randn(256, 64), engine.randint(0, 10, (256,))
losses = []"""


@picture(
    "memory.md",
    MEMORY,
    """%%watch
for step in range(2):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
    "wb.memory()",
    height=760,
)
def memory(lab: Lab, view: Locator) -> None:
    widen(view, 200)
    view.get_by_test_id("wb-memory-bands").click()
    view.get_by_test_id("wb-peak").click()


@picture(
    "memory.md",
    MEMORY,
    """%%watch --keep 0B
h = model[0](x)
losses.append(h.exp().mean())
del h""",
    height=640,
)
def why_alive(lab: Lab, view: Locator) -> None:
    widen(view, 200)
    view.get_by_test_id("wb-tab-memory").click()
    view.get_by_test_id("wb-memory-alive").click()
    view.get_by_test_id("wb-memory-now").click()
    view.locator("tr.clickable").filter(has_text="saved by exp").first.get_by_test_id("wb-why").click()
    card = view.get_by_test_id("wb-why-card")
    expect(card).to_contain_text("the variable losses[0]")
    card.evaluate("(one) => one.scrollIntoView({ block: 'center' })")


@picture(
    "time.md",
    """model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10))
x, target = engine.randn(128, 64), engine.randint(0, 10, (128,))""",
    """%%watch
for _ in range(5):
    logits = model(x)
    loss = F.cross_entropy(logits, target)
    loss.backward()""",
    "wb.profile()",
    height=570,
)
def time(lab: Lab, view: Locator) -> None:
    widen(view, 200)
    expect(view.get_by_test_id("wb-timeline")).to_have_attribute("data-looked", re.compile(r"^\d+$"))


@picture("compile.md", "step.explain(x, y);", "import workbench as wb\nwb.show(step)", until="schedule.step()", height=600)
def compiled(lab: Lab, view: Locator) -> None:
    widen(view, 40)
    view.locator('[aria-label^="scope forward"]').dblclick()
    view.get_by_test_id("wb-fit").click()
    view.locator('[aria-label^="scope linear, relu"]').dblclick()
    select(view, "maximum")
    expect(view.get_by_test_id("wb-missing").first).to_be_visible()


@picture(
    "checks.md",
    """model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = optim.SGD(model.parameters(), lr=0.01)""",
    """%%watch
for step in range(3):
    x, y = engine.randn(8, 4), engine.randint(0, 3, (8,))
    loss = F.cross_entropy(model(x).softmax(1), y)
    loss.backward()
    optimizer.step()""",
    height=640,
)
def checks(lab: Lab, view: Locator) -> None:
    view.get_by_test_id("wb-tab-checks").click()
    view.get_by_test_id("wb-finding").first.locator("button.say").click()


@picture(
    "compare.md",
    """x = engine.randn(32, 8)
first, norm, last = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)
with wb.record("relu") as before:
    last(first(x).relu())
with wb.record("norm + gelu") as after:
    last(F.gelu(norm(first(x))))
wb.diff(before, after)""",
    height=560,
)
def compare(lab: Lab, view: Locator) -> None:
    select(view, "linear")


FLIGHT = """def train():
    engine.manual_seed(0)
    images, labels = wb.samples.digits()
    images[158] = 0  # an empty picture
    loader = DataLoader(TensorDataset(images.flatten(1), labels), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with wb.flight(model, optimizer):
        for x, target in loader:
            x = x / x.norm(dim=1, keepdim=True)
            loss = F.cross_entropy(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()"""


@picture(
    "flight.md",
    "from engine.data import DataLoader, TensorDataset",
    FLIGHT,
    "train()",
    'wb.open("run.flight")',
    shows=".jp-RenderedHTML > div",
)
def flight(lab: Lab, card: Locator) -> None:
    expect(card.locator("svg")).to_be_visible()


@picture(
    "flight.md",
    "from engine.data import DataLoader, TensorDataset",
    FLIGHT,
    "train()",
    'wb.open("run.flight").repeat(program=train)',
    shows=".jp-OutputArea-output",
)
def flight_repeated(lab: Lab, output: Locator) -> None:
    view = output.locator(".gradient-workbench")
    view.evaluate("(view) => { view.style.height = '620px'; }")
    view.get_by_test_id("wb-finding").first.locator("button.say").click()


@picture("export.md", until="wb.export")
def replay(lab: Lab, view: Locator) -> Locator:
    lab.page.set_viewport_size({"width": 960, "height": 660})
    lab.page.goto((lab.server.root / "lesson.html").as_uri())
    root = lab.page.get_by_test_id("wb-root")
    step_to(root, 6)
    return lab.page.locator("body")


@picture(
    "notebook.md",
    """x, labels = engine.rand(32, 64), engine.randint(0, 3, (32,))
model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))""",
    """%%watch --steps
loss = F.cross_entropy(model(x), labels)
loss.backward()""",
)
def notebook(lab: Lab, view: Locator) -> Locator:
    lab.page.set_viewport_size({"width": 1280, "height": 740})
    lab.command("gradient-workbench:open-tab")
    expect(lab.page.locator("#gradient-workbench-graph")).to_be_visible()
    panel = lab.page.locator("#gradient-workbench")
    panel.get_by_test_id("wb-first").click()
    expect(panel.get_by_test_id("wb-scrub")).to_have_value("0")
    step_to(panel, 2)
    lab.page.evaluate(SCROLL_TO, 2)
    lab.page.locator("#gradient-workbench-graph").get_by_test_id("wb-fit").click()
    return lab.page.locator("#main")


@picture(
    "teaching.md",
    """x = engine.tensor([1.0, 2.0])
w = engine.tensor([0.5, 1.0], requires_grad=True)
loss = (w * x).sum() ** 2""",
    r"""wb.teach.lesson(loss, [
    wb.teach.say("The loss comes **first**: $\\bar{L} = 1$.", step="start"),
    wb.teach.say("A product hands on the other factor: $\\bar{w} = \\bar{z} \\cdot x$.", at="mul", depth="numbers"),
    wb.teach.quiz.gradient(w, loss, id="w-bar"),
], title="The chain rule")""",
    height=440,
)
def lesson(lab: Lab, view: Locator) -> None:
    widen(view, 40)
    view.get_by_test_id("wb-page-next").click()
    expect(view.get_by_test_id("wb-page-rule")).to_be_visible()


@picture(
    "teaching.md",
    """x = engine.tensor([1.0, 2.0])
w = engine.tensor([0.5, 1.0], requires_grad=True)
loss = (w * x).sum() ** 2
answers = {
    "ada": ["mul", "[5, 10]"], "ben": ["mul", "[2.5, 5]"], "cleo": ["sum", "[2.5, 5]"], "dan": ["pow", "[5, 10]"], "eve": ["mul"],
}""",
    """from pathlib import Path
for name, given in answers.items():
    wb.teach.quiz.clear()
    Path(f"class/{name}").mkdir(parents=True, exist_ok=True)
    wb.teach.quiz.save(f"class/{name}/lesson-2-answers.json")
    wb.teach.quiz("Which op comes first?", "mul", "choice", id="first-op", choices=["mul", "sum", "pow"])
    wb.teach.quiz.gradient(w, loss, id="w-bar")
    for question, answer in zip(("first-op", "w-bar"), given):
        wb.teach.quiz.answer(question, answer)
wb.teach.roster("class")""",
    shows=".jp-OutputArea-output",
)
def roster(lab: Lab, tables: Locator) -> None:
    pass


@picture(
    "torch.md",
    """import torch
import torch.nn.functional as F
torch.manual_seed(0)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        return x + F.gelu(self.linear(self.norm(x)))

model = torch.nn.Sequential(torch.nn.Linear(2, 8), Block(), torch.nn.Linear(8, 2))
x, target = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])""",
    """with wb.watch(model) as w:
    loss = F.cross_entropy(model(x), target)
    loss.backward()
w""",
    height=580,
)
def torch(lab: Lab, view: Locator) -> None:
    view.get_by_test_id("wb-first").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("0")
    step_to(view, 6)


@picture("write-a-lesson.md", until="If `w[0]` grows", height=400)
def question(lab: Lab, view: Locator) -> None:
    view.get_by_test_id("wb-question-choice").first.check()
    view.get_by_test_id("wb-question-check").click()
    expect(view.get_by_test_id("wb-question-feedback")).to_contain_text("Right")


@picture("symptoms/loss-is-nan.md", until="wb.check()", height=760)
def loss_is_nan(lab: Lab, view: Locator) -> None:
    view.get_by_test_id("wb-finding").first.locator("button.say").click()


@picture("symptoms/it-does-not-learn.md", until="wb.check()", height=760)
def it_does_not_learn(lab: Lab, view: Locator) -> None:
    expect(view.get_by_test_id("wb-finding")).to_have_count(2)


@picture("symptoms/it-does-not-learn.md", until="wb.plot.gradient_flow(h)", shows="img")
def gradient_flow(lab: Lab, figure: Locator) -> None:
    pass


@picture("symptoms/out-of-memory.md", until="wb.memory()", height=760)
def out_of_memory(lab: Lab, view: Locator) -> None:
    widen(view, 200)
    view.get_by_test_id("wb-peak").click()


@picture("symptoms/grad-is-none.md", until="loss.backward()", height=520)
def grad_is_none(lab: Lab, view: Locator) -> None:
    select(view, "parameter encoder.weight")
    view.get_by_test_id("wb-tab-grad").click()
    expect(view.get_by_test_id("wb-missing").last).to_contain_text("frozen")


@picture("symptoms/backward-of-a-broadcast.md", until="wb.step(loss)", height=640)
def backward_of_a_broadcast(lab: Lab, view: Locator) -> None:
    step_to(view, 3)
    view.get_by_test_id("wb-depth-shapes").click()


RANKS = """cluster = wb.cluster(3)
%px import engine, engine.distributed as dist, time, workbench as wb
%px from engine import nn"""

TRAINED = """%%px
engine.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
model = nn.parallel.DistributedDataParallel(net)
optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
engine.manual_seed(dist.get_rank())
x = engine.randn(16, 4)
with wb.record() as r:
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()"""


@picture("cluster.md", RANKS, TRAINED, "cluster.show('r')", height=600)
def ranks_graph(lab: Lab, view: Locator) -> None:
    select(view, "sub")
    view.get_by_test_id("wb-rank").fill("2")
    expect(view.get_by_test_id("wb-rank-label")).to_have_text("rank 2 of 3")


@picture(
    "cluster.md",
    RANKS,
    TRAINED,
    """%%px
wb.ranks(model, 2)
for step in range(2000):
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02 + 0.03 * (dist.get_rank() == 1))""",
    shows=".widget-html",
    waits=True,
)
def ranks_board(lab: Lab, board: Locator) -> None:
    expect(board).to_contain_text("Rank 1 holds the others up")


def trimmed(image: Image.Image) -> Image.Image:
    """The image with the same margin on all sides; a view, whose frame is the edge of the image, has none."""
    ground = image.getpixel((0, image.height - 1))
    box = ImageChops.difference(image, Image.new("RGB", image.size, ground)).getbbox()
    assert box is not None, "nothing is shown"
    inside = image.crop(box)
    framed = max(image.width - inside.width, image.height - inside.height) <= 4  # parts of pixels at the edges
    return inside if framed else ImageOps.expand(inside, MARGIN, ground)


def make(lab: Lab, name: str) -> Path:
    """Make one picture."""
    made, last = PICTURES[name], len(PICTURES[name].cells) - 1
    lab.page.set_viewport_size({"width": WINDOW[0], "height": WINDOW[1]})
    lab.open(*made.cells, name=f"{name}.ipynb")
    lab.command("application:toggle-left-area")
    lab.run_all(wait=not made.waits)
    lab.page.evaluate(SCROLL_TO, last)
    shown = lab.cell(last).locator(made.shows).first
    if made.height:
        shown.evaluate("(view, height) => { view.style.height = `${height}px`; }", made.height)
    shown = made.act(lab, shown) or shown
    lab.page.evaluate("() => document.activeElement?.shadowRoot?.activeElement?.blur()")
    lab.page.mouse.move(0, 0)
    lab.page.wait_for_timeout(MOTION_MS)
    box_at_rest(shown)
    path = IMAGES / f"{name}.png"
    image = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
    trimmed(image).quantize(COLORS, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
    lab.server.shut_down_sessions()
    return path


def main() -> None:
    """Make the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    names = parser.parse_args().names or list(PICTURES)
    if unknown := [name for name in names if name not in PICTURES]:
        parser.error(f"no such picture: {', '.join(unknown)}")
    IMAGES.mkdir(exist_ok=True)
    with opened_lab(*WINDOW, scale=1.5) as lab:
        for name in names:
            path = make(lab, name)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
