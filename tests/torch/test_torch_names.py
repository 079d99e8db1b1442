"""Every name that classroom code uses has a case in the table, or a written reason to be tested elsewhere."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from table import TABLE
from table.case import words_of

from grouping import grouped

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = {row["name"]: row for row in csv.DictReader((HERE / "names.csv").read_text(encoding="utf-8").splitlines())}
CLAIMED = {name for case in TABLE for name in case.names}


@grouped("name", NAMES)
def test_a_name_has_a_case(name):
    elsewhere = NAMES[name]["elsewhere"]
    assert bool(elsewhere) != (name in CLAIMED), f"{name} has {'both a case and a reason' if elsewhere else 'no case'}"
    for path, test in re.findall(r"(tests/[\w/]+\.py)::(\w+)", elsewhere):
        assert test in (ROOT / path).read_text(encoding="utf-8"), f"{path} has no {test}"


def test_a_claimed_name_is_used():
    used: dict[str, set[str]] = {name: set() for name in CLAIMED}
    for case in TABLE:
        words = {word for program in case.programs for word in words_of(program)}
        words |= {word for value in case.variables.values() for word in re.findall(r"\w+", str(value))}
        for name in case.names:
            used[name] |= words
    assert [name for name, words in used.items() if name.rpartition(".")[2] not in words] == []
