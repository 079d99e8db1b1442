"""The gallery: its programs run, its pictures and replays show what they record, and its numbers are those of the models."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import workbench as wb
from engine import nn
from engine.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from make_gallery import PAGES, is_fresh, pictures  # noqa: E402

INDEX = ROOT / "docs" / "gallery" / "index.md"

# torchvision's documentation of resnet18; PyTorch's nn.TransformerEncoderLayer(16, 2, 64); Zhang et al., Dive into Deep Learning, LeNet.
ELSEWHERE = {"resnet": 11_689_512, "transformer": 3_280, "lenet": 61_706}
RESNET_MULTIPLY_ADDS = 1.814e9  # of ResNet-18 for a picture of 224 x 224, says torchvision


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_and_its_pictures_and_numbers_are_those_of_its_model(page, monkeypatch):
    record, flops = wb.record, 0

    @contextmanager
    def counted(title):
        nonlocal flops
        with record(title) as session, FlopCounterMode(display=False) as counter:
            yield session
        flops += counter.get_total_flops()

    monkeypatch.setattr(wb, "record", counted)
    names: dict = {}
    for picture, names in pictures(page):
        assert is_fresh(picture, names["walk"]), f"{picture.name} or its replay is out of date: python docs/make_gallery.py makes them"
        assert names["walk"].total > 0
    models = [value for value in names.values() if isinstance(value, nn.Module)]
    parameters = sum(one.numel() for one in {one for model in models for one in model.parameters()})
    assert f"**{parameters:,} parameters, {flops:,} FLOPs forward**" in page.read_text("utf-8")
    assert re.search(rf"\({page.name}\).*\| {parameters:,} \|$", INDEX.read_text("utf-8"), re.MULTILINE)
    assert parameters == ELSEWHERE.get(page.stem, parameters)
    if page.stem == "resnet":  # 64 x 64: each convolution has (64 / 224)² of the positions
        head = 512 * 1000
        assert flops / 2 / len(names["x"]) == pytest.approx((RESNET_MULTIPLY_ADDS - head) * (64 / 224) ** 2 + head, rel=1e-3)


def test_the_gallery_is_small():
    assert sum(path.stat().st_size for path in INDEX.parent.iterdir()) <= 2_500_000
