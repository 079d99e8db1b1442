"""The structure of a graph as a fingerprint, and what is said when it is another one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import engine
import engine.data
import workbench as wb

MLP = """
import engine, workbench as wb
from engine import nn
engine.manual_seed({seed})
{name} = nn.Sequential(nn.Linear(4, {wide}), nn.{act}(), nn.Linear({wide}, 3))
with wb.record():
    {loss} = {name}(engine.randn(5, 4)).square().mean()
print(wb.testing.fingerprint({loss}))
"""


def hex_of(seed: int = 0, name: str = "model", wide: int = 8, act: str = "Tanh", loss: str = "loss") -> str:
    code = MLP.format(seed=seed, name=name, wide=wide, act=act, loss=loss)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.slow
def test_a_fingerprint_is_of_the_structure_alone_and_the_same_in_every_process() -> None:
    first = hex_of()
    assert len(first) == 16 and int(first, 16) >= 0
    assert hex_of(seed=5, name="net", loss="error") == first
    assert len({first, hex_of(wide=9), hex_of(act="ReLU")}) == 3


def small(op: str = "tanh", dim: int = 1, dtype: Any = None, swap: bool = False) -> Any:
    a, b = engine.ones(2, 3, dtype=dtype, requires_grad=True), engine.ones(2, 3, dtype=dtype, requires_grad=True)
    h = getattr(a - b if not swap else b - a, op)()
    return h.sum(dim).mean()


def test_what_is_part_of_the_structure_changes_the_fingerprint() -> None:
    same = [wb.testing.fingerprint(small()) for _ in range(2)]
    others = [small("sigmoid"), small(dim=0), small(dtype=engine.float64), small(swap=True)]
    assert same[0] == same[1] and len({same[0], *map(wb.testing.fingerprint, others)}) == 5
    loss = small()
    before = wb.testing.fingerprint(loss)
    loss.backward()
    assert wb.testing.fingerprint(loss) == before
    with pytest.raises(RuntimeError, match="no graph"):
        wb.testing.fingerprint(engine.ones(2))


def test_a_graph_that_is_another_one_is_told_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "graphs" / "small.json"
    with pytest.raises(AssertionError, match=r"does not exist.*WB_UPDATE=1"):
        wb.testing.assert_unchanged(small(), str(file))
    wb.testing.assert_unchanged(small(), str(file), update=True)
    wb.testing.assert_unchanged(small(), str(file))
    assert json.loads(file.read_text())["fingerprint"] == wb.testing.fingerprint(small())
    with pytest.raises(AssertionError) as raised:
        wb.testing.assert_unchanged(small("sigmoid"), str(file))
    told = str(raised.value).splitlines()
    assert "-tanh float32 2×3 ← sub 2×3" in told and "+sigmoid float32 2×3 ← sub 2×3" in told
    with pytest.raises(AssertionError, match=r"-#2 sub .* ← #0, #1"):  # nothing but the wiring differs
        wb.testing.assert_unchanged(small(swap=True), str(file))
    with wb.record():  # modules are known of one and not of the other: the rest is compared
        recorded = small()
    wb.testing.assert_unchanged(recorded, str(file))
    monkeypatch.setenv("WB_UPDATE", "1")
    wb.testing.assert_unchanged(small("sigmoid"), str(file))
    monkeypatch.delenv("WB_UPDATE")
    wb.testing.assert_unchanged(small("sigmoid"), str(file))
