"""Runs in a lesson's kernel while the site is built: at the end of each cell, writes a replay of every view that the cell displayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from workbench.exporting.replay import replay
from workbench.jupyter.widget import View
from workbench.teach.questions import Question

MOST, LEAST = 500_000, 100_000  # bytes of one view
SHARE = 3  # a view may take one third of what the views before it have left


def install(folder: str, budget: int, seconds: float) -> None:
    """Write `<model id>.replay` and `<model id>.json` to `folder` for each view.

    All views together have about `budget` bytes, and each view takes at most `seconds`.
    """
    shell: Any = get_ipython()
    displayed: dict[str, View] = {}
    left = budget
    bundle = View._repr_mimebundle_

    def noted(view: View, **kwargs: Any) -> Any:
        displayed[view.model_id] = view
        return bundle(view, **kwargs)

    def write(_: Any) -> None:
        nonlocal left
        for name, view in displayed.items():
            session = view.session
            made = replay(session, budget=max(LEAST, min(MOST, left // SHARE)), seconds=seconds)
            left -= len(made.data)
            about = {
                "facts": made.facts[0],
                "whole": not made.left,
                "stills": made.stills,
                "card": session.graph.view == "tensor" or not session.recording.count,
                "steps": session.stepper is not None,
                "asks": session.lesson is not None and any(isinstance(page, Question) for page in session.lesson.pages),
            }
            (Path(folder) / f"{name}.replay").write_bytes(made.data)
            (Path(folder) / f"{name}.json").write_text(json.dumps(about), encoding="utf-8")
        displayed.clear()

    View._repr_mimebundle_ = noted  # pyright: ignore
    shell.events.register("post_run_cell", write)
    shell.config.InlineBackend.figure_formats = {"retina"}
