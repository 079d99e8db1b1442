"""Slides of a lesson: which there are, the page and the PDF, and what is refused."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import nbformat
import pytest

import engine
import workbench as wb
from workbench import cli
from workbench.course.handout import drawing_of, pdf
from workbench.course.prose import Paragraph, html, paragraphs
from workbench.course.slides import Slide, slides_of
from workbench.graph.drawing import draw
from workbench.jupyter.capturing import STEPS, VIEW, Captured, Moment, _drawn

DOT = bytes.fromhex(  # a PNG of one pixel
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


def code(source: str, *outputs: dict, **metadata) -> dict:
    return {"cell_type": "code", "source": source, "outputs": list(outputs), "metadata": metadata}


def text(source: str) -> dict:
    return {"cell_type": "markdown", "source": source, "metadata": {}}


def shows(model: str) -> dict:
    return {"output_type": "display_data", "data": {VIEW: {"model_id": model}, "text/plain": "a view"}}


def view(**more) -> Captured:
    return Captured(
        **{
            "title": "t",
            "facts": "",
            "text": "9 nodes",
            "picture": "",
            "data": b"",
            "drawing": None,
            "moments": [Moment("", None, [])],
            **more,
        }
    )


def test_each_view_and_figure_is_a_slide_with_the_text_before_it():
    one, two = view(), view()
    figure = {"output_type": "display_data", "data": {"image/png": base64.b64encode(DOT).decode()}}
    cells = [
        text("# Lesson 9 · Slides\n\nWhy?"),
        code("import engine"),
        text("## 1 · A view\n\nLook."),
        code("wb.show(x)", shows("a"), shows("b")),
        text("Now a plot."),
        code("plt.show()", figure),
        text("## 2 · Code"),
        text("It prints."),
        code("print(1)", {"output_type": "stream", "name": "stdout", "text": "\x1b[31m1\x1b[0m\n"}),
        text("Folded."),
        code("answer = 2", jupyter={"source_hidden": True}),
        text("Bye."),
    ]
    found = list(slides_of(cells, {"a": one, "b": two}))
    assert [(slide.title, slide.text) for slide in found] == [
        ("Lesson 9 · Slides", "Why?"),
        ("1 · A view", "Look."),
        ("1 · A view", ""),
        ("1 · A view", "Now a plot."),
        ("2 · Code", "It prints.\n\n```\nprint(1)\n```\n\n```\n1\n```"),
        ("2 · Code", "Folded.\n\nBye."),
    ]
    assert [slide.view for slide in found[1:3]] == [one, two] and found[3].figure == DOT


def test_a_long_text_and_long_code_have_limits():
    long = "word " * 200
    _, first, second = slides_of([text("# T"), text(long), code("x", shows("a"))], {"a": view()})
    assert first.view is None and first.text.strip() == long.strip() and second.view is not None and second.text == ""
    *_, slide = slides_of([text("# T"), text("Code:"), code("\n".join(f"x = {n}" for n in range(99)))], {})
    assert slide.text.count("\n") < 32 and "…" in slide.text


def test_text_becomes_html_and_mathml_and_nothing_else():
    made = html(f"**b** `c` $\\bar w = \\frac12$ <kbd>n</kbd> {HOSTILE} <!-- a note -->\n\n$$x^2$$\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    assert "<strong>b</strong>" in made and "<code>c</code>" in made and "<kbd>n</kbd>" in made and "<td>1</td>" in made
    assert '<math display="inline"><mrow><mover><mi>w</mi>' in made and "<mfrac><mn>1</mn><mn>2</mn></mfrac>" in made
    assert '<math display="block"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>' in made
    assert "<script" not in made and "<img" not in made and "note" not in made
    assert "javascript:" not in html("[x](javascript:alert(1))")


def test_text_becomes_plain_paragraphs():
    assert paragraphs("## Head\n\n$\\bar{w}$ is <kbd>n</kbd>.\n\n```\nx = 1\n```\n\n| part | minutes |\n|---|---|\n| one | 6 |\n") == [
        Paragraph("w\u0304 is n."),
        Paragraph("x = 1", code=True),
        Paragraph("· part: minutes\n· one: 6"),
    ]


@pytest.fixture
def walk():
    """A pass of a graph with a loss, outside Jupyter: L = (a b)^2."""
    with wb.record():
        a, b = engine.tensor(2.0, requires_grad=True), engine.tensor(3.0, requires_grad=True)
        loss = (a * b) ** 2
    return wb.teach.lesson(loss, [wb.teach.say("Start.", step="start"), wb.teach.say("The product.", at="mul")])


def test_moments_of_a_lesson_are_its_pages_and_the_pass_stays_where_it_was(walk):
    drawn = _drawn(walk)
    start, product = drawn["moments"]
    assert (start["text"], start["at"], start["done"]) == ("Start.", None, [])
    boxes = {tuple(box["key"]): box["title"] for box in drawn["drawing"]["boxes"]}
    assert (
        product["text"] == "The product."
        and boxes[tuple(product["at"])] == "mul"
        and [boxes[tuple(key)] for key in product["done"]] == ["pow"]
    )
    assert walk.stepper.index == 0
    assert drawing_of(json.loads(json.dumps(drawn["drawing"]))) == draw(walk.graph.message())


def test_moments_of_a_pass_are_its_steps_and_few_of_a_long_one(walk):
    walk.lesson = None
    assert [one["text"].partition(",")[0] for one in _drawn(walk)["moments"]][1:] == [
        "Step 1 of 4",
        "Step 2 of 4",
        "Step 3 of 4",
        "Step 4 of 4",
    ]
    x = engine.ones(2, requires_grad=True)
    y = x
    for _ in range(50):
        y = y * 1.01
    long = wb.teach.lesson(y.sum(), [wb.teach.say("x", step=None)])
    long.lesson = None
    moments = _drawn(long)["moments"]
    assert len(moments) == STEPS + 1 and moments[-1]["text"].startswith(f"Step {long.stepper.total} of {long.stepper.total}")


def test_pdf_has_a_page_for_each_moment(walk):
    drawn = json.loads(json.dumps(_drawn(walk)))
    shown = view(drawing=drawn["drawing"], moments=[Moment(**one) for one in drawn["moments"]])
    slides = [Slide("Title", "Words. " * 900), Slide("View", "Before.", shown), Slide("Figure", "", figure=DOT), Slide("Card", "", view())]
    made = pdf("A lesson", slides)
    assert made.startswith(b"%PDF") and len(re.findall(rb"/Type /Page\b", made)) == 1 + 2 + 1 + 1
    assert pdf("A lesson", slides) == made


LESSON = [
    ("markdown", f"# Lesson 9 · Tiny\n\nA {HOSTILE} in the text."),
    (
        "code",
        "%load_ext workbench\nimport engine, workbench as wb\nwb.teach.quiz.save('lesson-9-answers.json')\nprint(open('data.txt').read())",
    ),
    ("markdown", "## 1 · A pass"),
    ("code", "w = engine.tensor(2.0, requires_grad=True)\nloss = (w * 3.0) ** 2\nwb.step(loss)"),
    ("code", "wb.teach.lesson(loss, [wb.teach.say('One.', step='start'), wb.teach.say('Two.', at='mul')], title='Pages')"),
]


def written(folder: Path, *cells: tuple[str, str]) -> Path:
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    folder.mkdir(exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[make[kind](source) for kind, source in cells]), folder / "tiny.ipynb")
    return folder / "tiny.ipynb"


@pytest.mark.slow
def test_a_lesson_becomes_a_page(tmp_path, capsys):
    lesson = written(tmp_path / "mine", *LESSON)
    (tmp_path / "mine" / "data.txt").write_text("beside")
    (tmp_path / "mine" / "lesson-9-answers.json").write_text("not a file of answers, and not read")
    out = tmp_path / "out.html"
    assert cli.main(["slides", str(lesson), str(out)]) == 0
    assert re.fullmatch(r"workbench: 3 slides in .*out\.html, \d\.\d MB\n", capsys.readouterr().out)
    page = out.read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None and "default-src &#x27;none&#x27;" in policy[1] and "http" not in policy[1]
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 1 and base64.b64encode(sha256(scripts[0].encode()).digest()).decode() in policy[1]
    assert page.count('<section class="slide ') == 3 and page.count('class="stage" data-slide=') == 2
    assert (
        page.count("<script") == 2 + 1 + 1 and "&lt;script&gt;document.title=" in page
    )  # two replays, the view, the start; the hostile text stays text
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["data.txt", "lesson-9-answers.json", "tiny.ipynb"]


@pytest.mark.slow
def test_what_cannot_become_slides_is_said(tmp_path, capsys):
    def refused(*arguments: str) -> str:
        assert cli.main(["slides", *arguments]) == 1
        return capsys.readouterr().err

    good = written(tmp_path / "good", *LESSON[:1])
    assert "slides are a file that ends in .html or .pdf, not 'out.pptx'" in refused(str(good), str(tmp_path / "out.pptx"))
    assert "there is no folder" in refused(str(good), str(tmp_path / "nothing" / "out.pdf"))
    assert "cannot be read: No such file or directory" in refused(str(tmp_path / "none.ipynb"), str(tmp_path / "out.pdf"))
    (tmp_path / "text.ipynb").write_text("no notebook")
    assert "text.ipynb: Notebook does not appear to be JSON" in refused(str(tmp_path / "text.ipynb"), str(tmp_path / "out.pdf"))
    assert "there is no lesson 99" in refused("99", str(tmp_path / "out.pdf"))
    assert "tiny.ipynb shows neither a view nor a figure" in refused(str(good), str(tmp_path / "out.pdf"))
    broken = written(tmp_path / "broken", ("code", "1 / 0"))
    assert re.search(
        r"tiny\.ipynb: the cell '\w+' failed: ZeroDivisionError: division by zero\n", refused(str(broken), str(tmp_path / "out.html"))
    )
    assert not (tmp_path / "out.html").exists()


def test_json_of_a_moment_is_the_moment():
    assert Moment(**json.loads(json.dumps(asdict(Moment("x", ["n", 1], []))))) == Moment("x", ["n", 1], [])
