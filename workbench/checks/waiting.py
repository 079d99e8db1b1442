"""Checks of where the host waits for a GPU: values read in each iteration of a training loop, copies from pageable memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from ..graph.timing import seconds_text
from ..protocol.checks import Finding
from ..recording.waits import Wait
from .case import Case, place

ITERATIONS = 3  # a line that waits in as many does so in each, or in most
NOTED, SEVERE = 0.05, 0.2  # shares of the loop's time

_READ = "loss.detach() into a list in the loop, and one torch.stack(losses).tolist() per epoch"
_BRANCH = "torch.where(...) on the GPU in place of the condition, or test it in every hundredth iteration only"
_SHAPE = "a shape that does not depend on values: torch.where(mask, x, 0), or x * mask"
_FIXES = dict.fromkeys(("item", "tolist", "cpu", "to", "numpy", "__float__", "__int__", "__complex__", "__format__", "_repr"), _READ)
_FIXES |= dict.fromkeys(("__bool__", "__index__", "__contains__", "_allclose"), _BRANCH)
_FIXES |= dict.fromkeys(("operate", "assign", "nonzero", "_unique", "masked_select"), _SHAPE)
_FIXES["synchronize"] = "without it; torch.cuda.Event(enable_timing=True) measures times while the host goes on"
_CALLED = {
    "__bool__": "A condition", "__index__": "An index", "__format__": "Formatting a tensor", "_repr": "Printing a tensor",
    "operate": "An index with a mask", "assign": "A write at a mask",
}  # fmt: skip


def check(case: Case) -> list[Finding]:
    """Return the findings about waits in the training loop, the longest first."""
    return [*_in_loop(case)]


def _in_loop(case: Case) -> Iterator[Finding]:
    waits, turned = case.r.waits, case.r.waits.turned
    if len(turned) < 2:
        return
    loop = turned[-1] - turned[0]  # from the end of the first iteration, in which kernels are compiled, to that of the last
    found = []
    for wait in waits.found.values():
        turns, seconds = numpy.array(wait.turns), numpy.array(wait.seconds)
        share = float(seconds[(turns > 0) & (turns < len(turned))].sum()) / loop
        if len(turns) >= ITERATIONS and share >= NOTED:
            found.append((share, wait))
    for share, wait in sorted(found, key=lambda one: -one[0]):
        yield _told(case, wait, share)


def _told(case: Case, wait: Wait, share: float) -> Finding:
    site = case.site_of((wait.code, wait.lasti))
    at = f" at {place(site)}" if site is not None else ""
    called = _CALLED.get(wait.call, f"{wait.call.strip('_')}()")
    cost = f"{sum(wait.counts)} times: {seconds_text(sum(wait.seconds))}, {100 * share:.0f} % of the loop"
    severity = "warning" if share >= SEVERE else "note"
    if wait.what == "copy":
        sentence = f"{called}{at} copied from pageable memory to the GPU {cost}."
        why = "The host copies the values into pinned memory itself, and submits no work meanwhile."
        fix = "DataLoader(..., pin_memory=True), and x.to(device, non_blocking=True)"
        return case.finding("pageable-copy-in-loop", severity, sentence, -1, why, fix, site=site)
    sentence = f"{called}{at} made the host wait for the GPU {cost}."
    why = (
        "The host submits work ahead of the GPU. Here it stops until the GPU has done all of it, and the GPU then has nothing to do until "
        "the host has submitted more."
    )
    fix = _FIXES.get(wait.call, "an op whose checks and shapes need no values on the host, or the call outside of the loop")
    return case.finding("host-sync-in-loop", severity, sentence, -1, why, fix, site=site)
