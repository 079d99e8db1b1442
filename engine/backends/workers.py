"""A pool of threads that share the work of a large op on the CPU: NumPy's loops and the compiled kernels hold no lock.

The threads sleep between ops, so that they take no time from those of BLAS. Compiled kernels use OpenMP's threads instead (`team`) where
there are any.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import threads

SHARE = 1 << 18  # elements, of one thread at least: waking a thread takes about 40 us
SHARE_OF_TEAM = 1 << 16  # elements, of one of OpenMP's threads: see `team`
_pool: ThreadPoolExecutor | None = None


def share(run: Callable, rows: tuple, *rest: Any, last: tuple = (), work: int = 0) -> None:
    """Call `run(*rows, *rest, *last)`, with much work in parts along the first axis of `rows` and `last`, each in its own thread.

    `work` is the number of elements; by default that of the first array.
    """
    global _pool
    work, team = work or rows[0].size, getattr(run, "team", None)
    if team is not None and (parts := min(len(rows[0]), work // SHARE_OF_TEAM, threads.count())) > 1 and team(rows, rest, last, parts):
        return
    parts = min(len(rows[0]), work // SHARE)
    if parts < 2 or (parts := min(parts, threads.count())) < 2:
        run(*rows, *rest, *last)
        return
    if _pool is None:
        _pool = ThreadPoolExecutor(threads.processors(), "engine")
    bounds = [len(rows[0]) * i // parts for i in range(parts + 1)]
    pieces = [(*[a[i:j] for a in rows], *rest, *[a[i:j] for a in last]) for i, j in zip(bounds, bounds[1:], strict=False)]
    waiting = [_pool.submit(run, *piece) for piece in pieces[1:]]
    run(*pieces[0])
    for future in waiting:
        future.result()


def even_parts(rows: int, work: int) -> int:
    """Return into how many equal parts threads can divide rows, to sum each part by itself; 1 if there is too little work."""
    parts = threads.count()
    return parts if work >= 2 * SHARE_OF_TEAM and rows % parts == 0 else 1


def _forget() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # a child has none of its parent's threads
