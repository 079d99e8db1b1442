"""wb.progress: the bar in a terminal and in a cell, what is reported, and every way in which a loop can end."""

from __future__ import annotations

import io
import math
import os
import re
import time
import weakref

import numpy
import pytest

import engine
import ipykernels
import workbench as wb
from workbench.training import progress
from workbench.training.progress import Track, sparkline
from workbench.training.progress_html import html


class Page:
    """A screen that keeps what was drawn, and when."""

    cell = 1

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.tracks: list[list[Track]] = []

    def draw(self, tracks):
        self.drawn.append(html(tracks))
        self.tracks.append(tracks)


@pytest.fixture(autouse=True)
def nothing_is_left_running():
    yield
    assert progress._running.tracks == []


def text_of(file: io.StringIO | io.TextIOWrapper) -> str:
    file.seek(0)
    return file.read()


def lines(file: io.StringIO | io.TextIOWrapper) -> list[str]:
    return [line for line in re.split(r"[\r\n]", text_of(file)) if line.strip()]


def test_in_a_terminal_the_bar_has_title_count_time_and_the_last_numbers():
    file = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    seen = []
    for i in (t := Track(range(40), title="train", file=file)):
        seen.append(i)
        t.report(loss=1 / (i + 1), accuracy=i / 40)
    assert seen == list(range(40))
    last = lines(file)[-1]
    assert last.startswith("train: 100%") and "40/40" in last and "it/s" in last
    # every fourth number, 1/4, 1/8 ... 1/40, as eighths of the way from least to most: 7 (x - 1/40) / (1/4 - 1/40), rounded
    assert "loss 0.025 █▄▃▂▂▂▁▁▁▁" in last and "accuracy 0.975 ▁▂▃▃▄▅▆▆▇█" in last
    assert text_of(file).endswith("\n")  # what is printed next begins a new line
    assert repr(t).startswith("train: 40 of 40, in ") and "left" not in repr(t)


def test_the_time_left_is_what_remains_at_this_rate(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    stands = []
    for _ in (t := Track(range(10), screen=Page())):
        stands.append(t.words())
        now[0] += 2.0
    assert stands[0] == "0 of 10" and stands[4] == "4 of 10, 2 s each, 00:12 left" and stands[9] == "9 of 10, 2 s each, 2 s left"
    assert t.words() == "10 of 10, in 00:20, 2 s each"
    now[0] += 100
    assert t.words() == "10 of 10, in 00:20, 2 s each"


def test_of_an_iterable_without_length_there_is_no_time_left():
    page, file = Page(), io.StringIO()
    for _ in (t := Track((i for i in range(3)), screen=page)):
        assert "left" not in t.words()
    assert t.words().startswith("3, in ") and "<progress" in page.drawn[0] and "value=" not in page.drawn[0]
    for _ in (t := Track((i for i in range(3)), total=5, file=file)):
        pass
    assert t.words().startswith("3 of 5, in ")
    for _ in (t := Track(range(4), total=2, file=file)):  # more than was announced
        pass
    assert t.words().startswith("4, in ")


def test_no_items_at_all():
    page, file = Page(), io.StringIO()
    assert list(t := Track([], screen=page)) == [] and t.words() == "0 of 0, in " + t.words().rpartition("in ")[2]
    assert 'value="1" max="1"' in page.drawn[-1]
    assert list(Track([], file=file)) == [] and "0it" in lines(file)[-1]


@pytest.mark.parametrize("screen", [Page, lambda: None])
@pytest.mark.parametrize("end", ["break", "error", "interrupt", "in the iterable"])
def test_a_loop_that_does_not_come_to_its_end(screen, end):
    def items():
        yield from range(5)
        raise ZeroDivisionError

    page, file = screen(), io.StringIO()
    t = Track(items() if end == "in the iterable" else range(20), total=20, screen=page, file=file)
    try:
        for i in t:
            t.report(loss=i)
            if i == 5:
                if end == "break":
                    break
                raise {"error": ValueError, "interrupt": KeyboardInterrupt}[end]
    except (ValueError, KeyboardInterrupt, ZeroDivisionError):
        assert end != "break"
    assert progress._running.tracks == []
    assert t.ended and not t.whole and t.words().startswith("5 of 20, stopped after ")
    if page is not None:
        assert "stopped after" in page.drawn[-1] and 'value="5" max="20"' in page.drawn[-1]
    else:
        assert "5/20" in lines(file)[-1] and file.getvalue().endswith("\n")


def test_two_epochs_over_one_track_continue_its_curves():
    t = Track(range(3), file=io.StringIO())
    for _ in range(2):
        for i in t:
            t.report(loss=i)
    assert t.scalars["loss"].steps.tolist() == [0, 1, 2, 3, 4, 5] and t.scalars["loss"].values.tolist() == [0, 1, 2, 0, 1, 2]


def test_loops_within_loops_are_drawn_as_one():
    outer_page, pages = Page(), []
    for epoch in (outer := Track(range(3), title="epochs", screen=outer_page)):
        pages.append(Page())
        for _ in (inner := Track(range(4), title="batches", screen=pages[-1])):
            inner.report(loss=1)
        outer.report(validation=epoch)
    assert [len(page.drawn) for page in pages] == [0, 0, 0]  # one display for all of them
    assert outer_page.tracks[-1] == [outer, inner] and outer_page.drawn[-1].index("epochs") < outer_page.drawn[-1].index("batches")
    assert "validation" in outer_page.drawn[-1] and inner.whole


def test_a_loop_that_another_cell_has_not_finished_does_not_swallow_later_ones():
    first, second = Page(), Page()
    second.cell = 2
    left = iter(Track(range(3), screen=first))
    next(left)
    drawn = len(first.drawn)
    list(Track(range(3), screen=second))
    assert len(first.drawn) == drawn and len(second.drawn) >= 1
    left.close()


def test_of_nested_bars_in_a_terminal_the_outermost_stays():
    file = io.StringIO()
    for _ in Track(range(2), title="epochs", file=file):
        for _ in Track(range(2), title="batches", file=file):
            pass
    assert lines(file)[-1].startswith("epochs: 100%")


@pytest.mark.slow
def test_the_page_is_drawn_at_most_five_times_a_second():
    page = Page()
    begin = time.perf_counter()
    for _ in Track(range(600), screen=page):
        time.sleep(0.001)
    took = time.perf_counter() - begin
    assert 3 <= len(page.drawn) <= took / 0.2 + 2  # and once at the beginning, once at the end


def test_report_takes_numbers_and_tensors_and_keeps_no_graph():
    w = engine.tensor([1.0, 2.0], requires_grad=True)
    t = Track(range(1), file=io.StringIO())
    for _ in t:
        loss = (w * w).sum()
        node = weakref.ref(loss.node)
        t.report(loss=loss, count=3, share=numpy.float32(0.5), right=True, half=engine.tensor(0.25).to(engine.bfloat16))
        del loss
    assert node() is None
    assert {n: c.last for n, c in t.scalars.items()} == {"loss": 5.0, "count": 3.0, "share": 0.5, "right": 1.0, "half": 0.25}
    assert all(type(c.last) is float for c in t.scalars.values())
    with pytest.raises(ValueError, match=r"track.report takes one number per name, but w has shape \(2,\)\. Give its mean"):
        t.report(w=w)
    with pytest.raises(TypeError, match="track.report takes one number per name, but loss is of type NoneType"):
        t.report(loss=None)
    with pytest.raises(TypeError, match="track.report takes real numbers, but z is 1j"):
        t.report(z=engine.tensor(numpy.array(1j)))


@pytest.mark.torch
def test_report_takes_tensors_of_pytorch():
    import torch

    t = Track(range(1), file=io.StringIO())
    t.report(loss=torch.tensor(2.5, requires_grad=True) * 2)
    assert t.scalars["loss"].last == 5.0


def test_what_was_reported_is_text_and_bounded():
    page = Page()
    evil = '<img src=x onerror="alert(1)">'
    for i in (t := Track(range(5000), title=evil, screen=page)):
        t.report(**{evil: i, "nan": i if i % 3 else math.nan, **{f"n{k}": i for k in range(8)}})
    last = page.drawn[-1]
    assert "<img" not in last and "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;" in last
    assert len(last) < 20_000 and "and 4 more names" in last
    assert last.count("<svg") == 6
    assert "✕ 209 not finite" in last  # each 8th of the 5000 is kept, and each third of those is NaN
    assert "nan" not in "".join(re.findall(r' d="([^"]*)"', last)).lower()


def test_a_curve_of_the_page_goes_through_its_numbers():
    page = Page()
    for i in (t := Track(range(3), screen=page)):
        t.report(loss=[4.0, 0.0, 2.0][i])
    path = re.findall(r' d="(M4.0[^"]*)"', page.drawn[-1])[0]
    points = [tuple(map(float, p)) for p in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1) and y0 < y2 < y1 and y2 == pytest.approx((y0 + y1) / 2)
    assert "from 0 to 4" in page.drawn[-1]


def test_sparklines():
    c = progress.Curve()
    assert sparkline(c.points()[1], 10) == ""
    for x in (0.0, 7.0, math.nan, 3.5, math.inf, 1.0):
        c.add(0, x)
    assert sparkline(c.points()[1], 10) == "▁█×▅×▂"
    flat = progress.Curve()
    flat.add(0, 5.0)
    assert sparkline(flat.points()[1], 10) == "▄"


def test_a_narrow_or_plain_terminal_gets_no_curves():
    t = Track(range(1), file=io.StringIO())
    t.report(loss=-1.5)
    assert t._beside(60, False) == "loss −1.5" and t._beside(200, False) == "loss −1.5 ▄" and t._beside(None, True) == "loss -1.5"


def test_write_prints_above_the_bar(capsys):
    for _ in (t := wb.progress(range(2))):
        t.write("a line")
    captured = capsys.readouterr()
    assert captured.out == "a line\na line\n" and "2/2" in captured.err


def test_what_cannot_be_looped_over_is_said():
    with pytest.raises(TypeError, match=r"wb.progress takes something to loop over, got int. For 100 turns: wb.progress\(range\(100\)\)"):
        wb.progress(100)
    for total in (-1, 2.5, True):
        with pytest.raises(ValueError, match="wb.progress: total is the number of iterations, 0 or more"):
            wb.progress([1], total=total)


CELL = """import time
import ipykernel
import workbench as wb
for epoch in (outer := wb.progress(range(3), title="epochs")):
    for i in (t := wb.progress(range(20), title="batches")):
        time.sleep(0.002)
        t.report(loss=1 / (i + 1))
    outer.report(validation=epoch)"""
BREAK = """for i in (t := wb.progress(range(9))):
    t.report(loss=i)
    if i == 4: break
wb.progress"""
FAIL = """for i in wb.progress(range(9), title="fails"):
    if i == 4: raise ValueError("as it should")"""


@pytest.mark.slow
@pytest.mark.parametrize("version", ipykernels.VERSIONS, ids=ipykernels.name_of)
def test_in_a_notebook_one_small_picture_stays(version, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [ipykernels.folder_of(version), os.environ.get("PYTHONPATH", "")])))
    import nbformat  # takes a second, and who runs the quick tests need not wait for it
    from nbclient import NotebookClient

    cells = [nbformat.v4.new_code_cell(text) for text in (CELL, BREAK, FAIL, "ipykernel.__version__")]
    cells[2].metadata["tags"] = ["raises-exception"]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=900, kernel_name="python3").execute()
    (output,) = cells[0].outputs
    page, text = output["data"]["text/html"], output["data"]["text/plain"]
    assert page.count("<progress") == 2 and page.count("<svg") == 2 and "3 of 3" in page and "20 of 20" in page
    assert "epochs: 3 of 3" in text and "batches: 20 of 20" in text and len(page) < 5000
    assert [o["output_type"] for o in cells[1].outputs] == ["display_data", "execute_result"]
    assert "4 of 9, stopped after" in cells[1].outputs[0]["data"]["text/html"]
    assert [o["output_type"] for o in cells[2].outputs] == ["display_data", "error"]
    assert "fails</b>" in cells[2].outputs[0]["data"]["text/html"]
    assert cells[3].outputs[0]["data"]["text/plain"].strip("'").startswith(version)  # the next cell works, in that kernel
