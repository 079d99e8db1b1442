"""The rich looks of tensors and modules."""

from __future__ import annotations

import re

import numpy

import engine
from engine import nn
from workbench.jupyter import display


def cells(html):
    return [[re.sub("<[^>]+>", "", cell) for cell in re.findall("<td.*?</td>", row)] for row in re.findall("<tr>.*?</tr>", html)][1:]


def test_a_tensor_says_what_it_is_in_one_line():
    x = numpy.random.default_rng(0).normal(size=(4, 5)).astype(numpy.float32)
    x[0, 0], x[1, 1] = numpy.nan, numpy.inf
    html = display.html(engine.tensor(x, requires_grad=True))
    assert "float32 4×5 · cpu · requires_grad" in html and "1 NaN and 1 +Inf" in html
    fine = x[numpy.isfinite(x)].astype(numpy.float64)
    for number in (fine.min(), fine.max(), fine.mean(), fine.std(ddof=1)):
        assert f"{number:.4g}".replace("-", "−") in html
    assert html.count("×</text>") == 2  # a mark for each in the small picture


def test_a_module_is_a_table_of_its_parameters():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2, bias=False))
    model[0].bias.requires_grad_(False)
    model(engine.randn(5, 4)).sum().backward()
    html = display.module_html(model)
    assert cells(html) == [
        ["0.weight", "3×4 float32", "12", "there"],
        ["0.bias", "3 float32", "3", "frozen"],
        ["1.weight", "3 float32", "3", "there"],
        ["1.bias", "3 float32", "3", "there"],
        ["2.weight", "2×3 float32", "6", "there"],
    ]
    assert "27 parameters in 5 tensors, 108 B · 3 buffers · training" in html
    assert "evaluating" in display.module_html(model.eval())


def test_a_large_module_is_cut_in_the_middle_and_says_so():
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(20)])
    rows = cells(display.module_html(model))
    assert len(rows) == display.ROWS + 1 and rows[0][0] == "0.weight" and rows[-1][0] == "19.bias"
    assert rows[display.ROWS // 2] == ["… 16 more …"]


def test_lazy_modules_empty_ones_and_hostile_names():
    assert cells(display.module_html(nn.LazyLinear(3)))[0][:2] == ["weight", "given by the first call"]
    assert "0 parameters in 0 tensors" in display.module_html(nn.ReLU())

    class Evil(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_parameter("<script>alert(1)</script>", nn.Parameter(engine.ones(2)))

    html = display.module_html(Evil())
    assert "<script" not in html and "&lt;script&gt;" in html
