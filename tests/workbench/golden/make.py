"""The golden logs: what a view says to the kernel about each program, and every message that comes back, one a line.

python tests/workbench/golden/make.py     writes them anew; the difference is to be read before it is committed
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parents[2]), str(HERE.parent)]

import workbench as wb  # noqa: E402
from golden.programs import PROGRAMS  # noqa: E402
from workbench import protocol  # noqa: E402
from workbench.exporting.ask import session_of  # noqa: E402

LOOK = {"facet": -2, "rows": -2, "cols": -2, "index": [], "pool": "mean", "image": "", "exact": False}


def step(do: str, to: int = -1, by: str = "op") -> dict[str, Any]:
    return {"type": "step", "do": do, "to": to, "by": by}


def requests(nodes: int, parameters: list[int], steps: int) -> Iterator[dict[str, Any]]:
    """What somebody does who opens the view, looks around, and walks the pass forth and back."""
    yield {"type": "ready"}
    yield {"type": "ask_faces", "nodes": list(range(nodes))}
    for node in parameters:
        yield {"type": "inspect", "node": node, "what": "value", **LOOK}
        yield {"type": "inspect", "node": node, "what": "grad", **LOOK}
    yield from [step("next")] * steps
    yield from [step("next"), step("previous"), step("first"), step("index", 2), step("last")]
    yield {"type": "ask_norms", "first": 1, "last": steps}
    for node in parameters:
        yield {"type": "inspect", "node": node, "what": "grad", **LOOK}
    yield {"type": "ask_metric", "metric": "gradient"}
    yield {"type": "inspect", "node": nodes + 1, "what": "value", **LOOK}  # there is none


def log(name: str) -> list[str]:
    """The lines of one log. A recording's name, which is another one each time, is the program's."""
    with wb.record(name) as recorded:
        loss, parameters = PROGRAMS[name]()
    recorded.recording.root = recorded.recording.find(loss)
    with session_of(recorded, {}, True) as session:
        session.stepper.prepare()
        r = session.recording
        asked = requests(r.count, [r.find(one) for one in parameters.values()], session.stepper.total)
        client = session.connect(lambda message, buffers: None)
        lines = []
        for number, request in enumerate(asked, 1):
            data = {**request, "v": protocol.VERSION, "id": number}
            lines.append(json.dumps({"to": "kernel", "message": data}))
            for message, buffers in session.handle(data, client):
                text = json.dumps(_rounded(message), ensure_ascii=False).replace(r.name, name)
                binary = [base64.b64encode(buffer).decode() for buffer in buffers]
                lines.append(json.dumps({"to": "view", "message": json.loads(text), "buffers": binary}, ensure_ascii=False))
    return lines


def _rounded(value: Any) -> Any:
    """Six digits: a square root may end otherwise elsewhere."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    for program in PROGRAMS:
        (HERE / f"{program}.jsonl").write_text("\n".join(log(program)) + "\n", encoding="utf-8")
