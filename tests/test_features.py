"""docs/features.md says of each feature of the field's table what proves it; every proof that it names is there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from grouping import grouped

ROOT = Path(__file__).resolve().parent.parent
ROWS = 109
PROOF = re.compile(r"`((?:tests|extension/test)/[\w./-]+)(?:::([^`]+))?`")


def rows() -> dict[int, tuple[str, str, str]]:
    found = {}
    for line in (ROOT / "docs" / "features.md").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", line):
            number, feature, here, proofs = match.groups()
            assert int(number) not in found, f"row {number} stands there twice"
            found[int(number)] = (feature, here, proofs)
    return found


TABLE = rows()


def test_every_row_is_there():
    assert sorted(TABLE) == list(range(1, ROWS + 1))


@functools.cache
def titles_of(path: Path) -> set[str]:
    """What the tests of a file are called."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    return set(re.findall(r'\b(?:it|test)(?:\.each\([^)]*\))?\(\s*"((?:[^"\\]|\\.)*)"', text))


@grouped("number", sorted(TABLE))
def test_every_proof_is_there(number):
    _, _, proofs = TABLE[number]
    named = PROOF.findall(proofs)
    assert named, f"row {number} names no test: {proofs}"
    for file, test in named:
        path = ROOT / file
        assert path.is_file(), f"row {number}: {file} is not there"
        assert not test or test in titles_of(path), f"row {number}: {file} has no {test}"


def marks(path: Path, test: str) -> set[str]:
    """The names of the pytest marks of a test, its module's included: {"slow", "torch"}."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    places = [n.value for n in tree.body if isinstance(n, ast.Assign) and any(getattr(t, "id", "") == "pytestmark" for t in n.targets)]
    places += [mark for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == test for mark in n.decorator_list]
    return {n.attr for place in places for n in ast.walk(place) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "pytest.mark"}


def runs_in_ci(file: str, test: str) -> bool:
    """Whether `make test FULL=1` runs the test where there is neither PyTorch nor a GPU."""
    if not file.endswith(".py"):
        return not re.search(rf'\b(it|test)\.(skip|todo)[^"\n]*"{re.escape(test)}', (ROOT / file).read_text(encoding="utf-8"))
    elsewhere = file.startswith(("tests/parity/", "tests/ecosystem/", "tests/cuda/"))
    return not elsewhere and not marks(ROOT / file, test) & {"torch", "ecosystem", "gpu", "skip", "xfail"}


@grouped("number", sorted(TABLE))
def test_a_proof_of_every_row_runs_in_ci(number):
    _, _, proofs = TABLE[number]
    assert any(runs_in_ci(file, test) for file, test in PROOF.findall(proofs)), f"row {number}: CI runs none of {proofs}"
