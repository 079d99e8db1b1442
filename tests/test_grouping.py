"""A group of checks: each is made, each failure is reported, and each can be run alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import grouping

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PROGRAM = """
import pytest
from grouping import grouped

KNOWN = pytest.mark.xfail(reason="not yet", raises=AssertionError, strict=True)

@grouped("a, b", [(1, 1), (1, 2), pytest.param(3, 4, id="three"), (5, 5)], by=lambda a, b: "odd" if b % 2 else "even")
def test_equal(a, b, tmp_path):
    with open("made", "a") as file:
        file.write(f"{a}{b} ")
    assert a == b

@grouped("n", [1, pytest.param(2, marks=KNOWN), 3])
@pytest.mark.parametrize("limit", [2, 4])
def test_known(n, limit):
    assert n != 2

@grouped("n", [1, 2])
def test_skips(n):
    if n == 2:
        pytest.skip("no")
"""


@pytest.fixture
def ran(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Runs the program's tests; returns the lines."""
    monkeypatch.setattr(grouping, "ungrouped", False)  # which a run sets for its process
    pytester.makeconftest(f"import sys\nsys.path.insert(0, {str(HERE)!r})\npytest_plugins = ['grouping']")
    file = pytester.makepyfile(PROGRAM)
    return lambda *arguments: pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "-rA", *[one.replace("FILE", file.name) for one in arguments]
    )


def test_a_group_makes_every_check_and_reports_every_failure(ran, pytester):
    result = ran()
    assert (pytester.path / "made").read_text().split() == ["11", "55", "12", "34"]
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        ["2 of 2 checks failed:", "1-2", "*assert 1 == 2*", "three", "*assert 3 == 4*", "1 of 2 checks failed:", "2", "*Skipped: no*"]
    )
    result.stdout.fnmatch_lines(["12 checks in 5 tests"])


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--ungrouped"], ["[1-1]", "[1-2]", "[three]", "[5-5]", *(f"[{limit}-{n}]" for limit in (2, 4) for n in (1, 2, 3)), "[1]", "[2]"]),
        (["-k", "three"], ["[three]"]),
        (["FILE::test_equal[1-2]"], ["[1-2]"]),
    ],
    ids=["all", "by words", "by its id"],
)
def test_a_check_can_be_a_test(ran, arguments, names):
    found = [line.partition("::test_")[2] for line in ran("--collect-only", "-q", *arguments).outlines if "::" in line]
    assert [name.partition("[")[1] + name.partition("[")[2] for name in found] == names


def test_a_mended_failure_is_noticed(ran, pytester):
    next(pytester.path.glob("test_*.py")).write_text(PROGRAM.replace("assert n != 2", "assert n"))
    ran("-q").stdout.fnmatch_lines(["*passes, and was expected to fail: not yet*"])


def test_other_marks_are_refused(ran, pytester):
    next(pytester.path.glob("test_*.py")).write_text(PROGRAM.replace("marks=KNOWN", "marks=pytest.mark.skip"))
    ran().stdout.fnmatch_lines(["*takes one mark, xfail*"])
