"""A session on a program that ran, and its answer to a request as a view sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import workbench as wb


def recorded(run: Callable[[], dict[str, Any]]) -> Any:
    """The session of `run()`, which returns its variables; they live as long as it does."""
    with wb.record("In [1]") as session:
        names = run()
    session.graph.finish(names)
    session.names = names
    return session


def asked(session: Any, **request: Any) -> tuple[dict[str, Any], list[bytes]]:
    """The one answer, and its buffers."""
    (answer, buffers), *rest = session.handle({"v": 1, "id": 7, **request})
    assert not rest, rest
    return answer, buffers
