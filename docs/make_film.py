"""Makes what README.md shows, in docs/readme/: a film of a backward pass, a still picture that stands for it, and three more pictures.

python docs/make_film.py [film nan memory question]        (needs Chromium and the extras test and parity; without names all)
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from PIL import Image, ImageDraw  # noqa: E402
from playwright.sync_api import FloatRect, Locator, Page, expect  # noqa: E402
from real_lab import Lab, box_at_rest, opened_lab  # noqa: E402
from test_lesson import view_of  # noqa: E402

FOLDER = ROOT / "docs" / "readme"
DIGITS = """%load_ext workbench
import engine
import engine.nn.functional as F
import workbench as wb
from engine import nn
from workbench.samples import digits

_ = engine.manual_seed(0)
images, labels = digits()
images, labels = images[:32].flatten(1), labels[:32]
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))"""
STEPPED = """scores = model(images)
loss = F.cross_entropy(scores, labels)
wb.step(loss)"""
# The scores of the untrained model are made large, so that softmax gives an exact 0.
CONFIDENT = """%load_ext workbench
import torch
from sklearn.datasets import load_digits

_ = torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.data[:32], dtype=torch.float32)
truth = torch.nn.functional.one_hot(torch.tensor(digits.target[:32]), 10)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
with torch.no_grad():
    model[2].weight *= 60"""
NAN = """%%watch
share = torch.softmax(model(images), dim=1)
loss = -(truth * torch.log(share)).sum(1).mean()
loss.backward()"""
CONVOLUTIONS = """%load_ext workbench
import engine
import engine.nn.functional as F
from engine import nn, optim

_ = engine.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.GELU(), nn.Conv2d(16, 32, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10)
)
optimizer = optim.Adam(model.parameters())
images, labels = engine.randn(64, 1, 8, 8), engine.randint(0, 10, (64,))"""
TRAINED = """%%watch
loss = F.cross_entropy(model(images), labels)
loss.backward()
optimizer.step()"""
NEURON = """%load_ext workbench
import engine
import workbench as wb

x = engine.tensor([1.5, -0.5])
w = engine.tensor([0.4, 0.9], requires_grad=True)
b = engine.tensor(0.1, requires_grad=True)
loss = (engine.tanh((w * x).sum() + b) - 1.0) ** 2"""
QUESTION = """wb.teach.quiz.gradient(w, loss, id="w-bar")"""

WINDOW, SCALE = (1060, 1060), 1.5
COLORS = 255  # of a picture, or of the whole film: makes it six times as small
READ, GLANCE, PRESS, MOVE = 1500, 1000, 150, 30  # ms: for a state to be read, for one that was seen before, a click, a part of a way
PARTS = 10  # of the pointer's way to a target
MOTION = 700  # ms that the view's own motion may take
# The outline of the pointer, in CSS pixels.
ARROW = [(0, 0), (0, 22.1), (5.2, 17.2), (8.6, 25), (12, 23.5), (8.6, 15.9), (15.6, 15.6)]
ONLY_THE_NOTEBOOK = """async () => {
  const { shell, commands } = window.jupyterapp;
  shell.collapseLeft();
  for (const side of ["left", "right"]) {
    if (shell.isSideTabBarVisible(side)) await commands.execute("application:toggle-side-tabbar", { side });
  }
}"""


class Film:
    """Screenshots of a part of the page, with a pointer drawn into them, since headless Chromium shows none."""

    def __init__(self, page: Page, clip: FloatRect) -> None:
        self.page, self.clip = page, clip
        self.at = clip["width"] * 0.55, clip["height"] * 0.6
        self.frames: list[Image.Image] = []
        self.times: list[int] = []
        self.shot = shot(page, clip)

    def add(self, ms: int, pressed: bool = False) -> None:
        """Add a frame that is shown for `ms` milliseconds."""
        self.frames.append(with_pointer(self.shot, self.at, pressed))
        self.times.append(ms)

    def click(self, target: Locator, ms: int = READ) -> None:
        """Move the pointer to the target, click it, and show for `ms` milliseconds what comes."""
        box, start = box_at_rest(target), self.at
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        end = x - self.clip["x"], y - self.clip["y"]
        if start != end:
            for number in range(1, PARTS + 1):
                part = (number / PARTS) ** 2 * (3 - 2 * number / PARTS)  # slow, fast, slow
                self.at = start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])
                self.add(MOVE)
        self.add(PRESS, pressed=True)
        self.page.mouse.click(x, y)
        self.shot = shot(self.page, self.clip)
        self.add(ms)


def shot(page: Page, clip: FloatRect) -> Image.Image:
    """A part of the page as it is once nothing moves."""
    page.wait_for_timeout(MOTION)
    return Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")


def with_pointer(picture: Image.Image, at: tuple[float, float], pressed: bool) -> Image.Image:
    """The picture with an arrow at a point in CSS pixels, in a ring while the button is pressed."""
    fine = 4  # drawn larger and made smaller, since Pillow's lines have hard edges
    unit, middle = SCALE * fine, 32 * SCALE * fine
    drawn = Image.new("RGBA", (int(2 * middle), int(2 * middle)))
    draw = ImageDraw.Draw(drawn)
    if pressed:
        draw.circle((middle, middle), 16 * unit, fill=(184, 72, 10, 60), outline=(184, 72, 10), width=int(2 * unit))
    outline = [(middle + x * unit, middle + y * unit) for x, y in ARROW]
    draw.line([*outline, *outline[:2]], fill="white", width=int(4 * unit), joint="curve")
    draw.polygon(outline, fill="black")
    small = drawn.resize((drawn.width // fine, drawn.height // fine), Image.Resampling.LANCZOS)
    made = picture.copy()
    made.paste(small, (round(at[0] * SCALE) - small.width // 2, round(at[1] * SCALE) - small.height // 2), small)
    return made


def opened(lab: Lab, name: str, *cells: str) -> Locator:
    """The view in the last of these cells, which have run."""
    lab.open(*cells, name=f"{name}.ipynb")
    lab.run_all()
    lab.page.evaluate(ONLY_THE_NOTEBOOK)
    lab.wait_idle()
    lab.page.mouse.move(5, 5)
    return view_of(lab, len(cells) - 1)


def still(lab: Lab, name: str, cell: int) -> None:
    """Save a picture of a cell with its output."""
    picture = few_colors(shot(lab.page, box_at_rest(lab.cell(cell))))
    picture.quantize(COLORS + 1).save(FOLDER / f"{name}.png", optimize=True)


def few_colors(picture: Image.Image, palette: Image.Image | None = None) -> Image.Image:
    """The picture in the colors that it needs most, or in those of `palette`; white stays white."""
    made = picture.quantize(COLORS, palette=palette, dither=Image.Dither.NONE).convert("RGB")
    made.paste("white", mask=picture.convert("L").point(lambda value: 255 * (value == 255)))
    return made


def film(lab: Lab) -> None:
    """Five steps forth, two back, then a weight and its gradient."""
    view = opened(lab, "digits", DIGITS, STEPPED)
    made = Film(lab.page, box_at_rest(lab.cell(1)))
    made.add(READ)
    scrub = view.get_by_test_id("wb-scrub")
    for step in (1, 2):
        made.click(view.get_by_test_id("wb-next"))
        expect(scrub).to_have_value(str(step))
    still(lab, "stepper", 1)
    made.click(view.get_by_role("button", name="numbers").first, READ + 500)
    for step in (3, 4, 5):
        made.click(view.get_by_test_id("wb-next"))
        expect(scrub).to_have_value(str(step))
    for step in (4, 3):
        made.click(view.get_by_test_id("wb-prev"), GLANCE)
        expect(scrub).to_have_value(str(step))
    made.click(view.locator(".wb-pill").filter(has_text="2.weight"))
    made.click(view.get_by_test_id("wb-tab-grad"), 2 * READ)
    width, height = made.shot.size
    states = [frame for frame, ms in zip(made.frames, made.times, strict=True) if ms >= GLANCE]
    column = Image.new("RGB", (width, height * len(states)))
    for number, state in enumerate(states):
        column.paste(state, (0, number * height))
    palette = column.quantize(COLORS, dither=Image.Dither.NONE)
    first, *others = [few_colors(frame, palette) for frame in made.frames]
    first.save(FOLDER / "stepper.webp", save_all=True, append_images=others, duration=made.times, loop=0, lossless=True, minimize_size=True)


def nan(lab: Lab) -> None:
    """Where a NaN began."""
    opened(lab, "nan", CONFIDENT, NAN).get_by_test_id("wb-tab-checks").click()
    still(lab, "nan", 1)


def memory(lab: Lab) -> None:
    """What was in memory during a step of training."""
    view = opened(lab, "memory", CONVOLUTIONS, TRAINED)
    view.get_by_test_id("wb-tab-memory").click()
    view.get_by_test_id("wb-memory-bands").click()
    still(lab, "memory", 1)


def question(lab: Lab) -> None:
    """A question about a gradient, and an answer with the wrong sign."""
    view = opened(lab, "question", NEURON, QUESTION)
    view.get_by_test_id("wb-question-input").first.fill("2.13, -0.71")
    view.get_by_role("button", name="Check").click()
    still(lab, "question", 1)


def main() -> None:
    pictures = {one.__name__: one for one in (film, nan, memory, question)}
    FOLDER.mkdir(exist_ok=True)
    with opened_lab(*WINDOW, scale=SCALE) as lab:
        for name in sys.argv[1:] or pictures:
            pictures[name](lab)


if __name__ == "__main__":
    main()
