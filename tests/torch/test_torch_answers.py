"""Every check of the table, against PyTorch's stored answers."""

from __future__ import annotations

import pytest
from failures import KNOWN
from table import checks
from table.answer import answer
from table.compare import differ
from table.store import MAKE, stored

import engine
from grouping import grouped

ALL = checks()


def parameter(check):
    told = KNOWN.get(str(check))
    marks = [pytest.mark.xfail(reason=told, raises=AssertionError, strict=True)] if told else []
    return pytest.param(check, id=f"{check.case.family}-{check}".replace("\n", "; ")[:160], marks=marks)


@grouped("check", [parameter(check) for check in ALL], by=lambda check: check.case.family)
def test_the_answer_is_pytorchs(check):
    expected = stored(check.case.family).get(str(check))
    assert expected is not None, f"nobody has asked PyTorch yet: {MAKE} {check.case.family}"
    told = differ(expected, answer(engine, check))
    assert told is None, f"{check}: {told}"


@grouped("family", sorted({check.case.family for check in ALL}))
def test_what_is_stored_is_asked(family):
    assert set(stored(family)) == {str(check) for check in ALL if check.case.family == family}, f"run: {MAKE} {family}"


def test_known_failures_are_asked():
    assert set(KNOWN) <= {str(check) for check in ALL}, "run: python tests/torch/failures.py"
