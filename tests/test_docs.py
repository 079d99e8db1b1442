"""What the documentation says is so: its programs run, its links lead somewhere, and what it names is there."""

from __future__ import annotations

import ast
import linecache
import re
from inspect import getsource
from pathlib import Path

import matplotlib
import pytest

import workbench as wb
from engine.core.op import registry
from grouping import grouped
from page_blocks import blocks
from workbench.backward.breakpoints import kept as breakpoints
from workbench.teach import sheet

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PICTURE_BYTES, ALL_PICTURES_BYTES = 120_000, 2_000_000
FILES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
PAGES = {path.relative_to(ROOT).as_posix().removeprefix("docs/"): path for path in FILES}
ELSEWHERE = {
    "as-torch.md": "takes PyTorch's place in the whole process: tests/engine/test_as_torch.py does so, and runs this page",
    "torch.md": "needs torch: tests/workbench/test_torch_models.py runs it",
    "add-an-op.md": "shows ops that the engine has: test_the_rules_that_are_shown_are_the_engines",
    "gallery": "tests/test_gallery.py runs its pages",
}

# What a page takes for granted, because it is about a program that its reader has.
BEFORE = {
    "observer.md": "import engine\nmodel, x = engine.nn.Linear(2, 2), engine.ones(1, 2)",
    "stepping.md": (
        "import engine\nfrom engine import nn, optim\nmodel = nn.Linear(2, 1)\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
        "loader = [(engine.ones(4, 2), engine.ones(4, 1))] * 2"
    ),
    "teaching.md": "from types import SimpleNamespace as get_config\n__file__ = 'nbgrader_config.py'",  # as nbgrader reads it
}


def program_of(block: str) -> str:
    """A block as plain Python: what a cell magic does in a notebook, `wb.record` does in a program."""
    if block.startswith("%%watch\n"):
        return "with wb.record():\n" + re.sub(r"(?m)^(?=.)", "    ", block.removeprefix("%%watch\n"))
    return re.sub(r"(?m)^%load_ext .*$", "", block)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder of its own, and nothing left behind: no picture, no answer, no breakpoint."""
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    yield tmp_path
    from matplotlib import pyplot

    pyplot.close("all")
    sheet.current.clear()
    breakpoints.clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if blocks(page, "python") and name.split("/")[0] not in ELSEWHERE])
def test_the_programs_of_a_page_run_from_top_to_bottom(name, desk):
    names: dict = {"__name__": "__main__"}
    exec(BEFORE.get(name, ""), names)
    for number, (_, block) in enumerate(blocks(PAGES[name], "python"), 1):
        code = program_of(block).replace("/shared/", f"{desk.as_posix()}/").replace("tests/graphs/", "")
        if "assert_unchanged" in code:
            code = f"import os\nos.environ['WB_UPDATE'] = '1'\n{code}\ndel os.environ['WB_UPDATE']\n{code}"
        if "wb.teach.present(view" in code:
            code = f"view = lesson\n{code}"
        file = f"<{name}, program {number}>"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        exec(compile(code, file, "exec"), names)


def test_the_rules_that_are_shown_are_the_engines():
    shown = [ast.parse(block).body[0] for _, block in blocks(PAGES["add-an-op.md"], "python")]
    for op in shown:
        assert isinstance(op, ast.ClassDef) and op.name in registry
        real = ast.parse(getsource(registry[op.name])).body[0]
        assert isinstance(real, ast.ClassDef)
        written = {ast.unparse(part) for part in real.body}
        assert not [ast.unparse(part) for part in op.body if isinstance(part, ast.FunctionDef) and ast.unparse(part) not in written]


@grouped("name", PAGES)
def test_links_lead_somewhere(name):
    page = PAGES[name]
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / link).exists(), f"{name} links to {link}"


def test_every_picture_is_made_by_the_script_and_shown_on_its_page():
    script = ast.parse((ROOT / "docs" / "make_pictures.py").read_text("utf-8"))  # not imported: Playwright takes seconds to load
    decorators = {each.name: each.decorator_list[0] for each in script.body if isinstance(each, ast.FunctionDef) and each.decorator_list}
    made = {
        f"{name.replace('_', '-')}.png": ast.literal_eval(call.args[0]) for name, call in decorators.items() if isinstance(call, ast.Call)
    }
    shown = []
    for name, page in PAGES.items():
        for alt, link in re.findall(r"!\[(.*?)\]\(([^)]+)\)", page.read_text("utf-8")):
            assert alt.strip(), f"{name} does not say what is to be seen in {link}"
            path = (page.parent / link).resolve()
            if path.parent == IMAGES:
                shown.append((path.name, name))
    assert sorted(shown) == sorted(made.items())
    sizes = {path.name: path.stat().st_size for path in IMAGES.iterdir()}
    assert sizes.keys() == made.keys()
    assert not {name: size for name, size in sizes.items() if size > PICTURE_BYTES}
    assert sum(sizes.values()) <= ALL_PICTURES_BYTES


@grouped("name", PAGES)
def test_files_that_are_named_are_there(name):
    page = PAGES[name].read_text("utf-8")
    for path in re.findall(r"`((?:engine|workbench|extension|tests|notebooks|benchmarks|docs)/[\w./-]*)(?:::[^`]*)?`", page):
        assert (ROOT / path).exists(), f"{name} names {path}"


@grouped("name", PAGES)
def test_names_of_the_workbench_are_there(name):
    for path in set(re.findall(r"\bwb((?:\.[a-z]\w*)+)", PAGES[name].read_text("utf-8"))):
        found = wb
        for part in path[1:].split(".")[:2]:
            found = getattr(found, part)


def test_the_index_leads_to_every_page():
    index = PAGES["index.md"].read_text("utf-8")
    assert not [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "index.md" and f"({path.name})" not in index]


def test_public_functions_are_documented():
    pages = "\n".join(page.read_text("utf-8") for page in PAGES.values())
    assert not [name for name in wb.__all__ if not re.search(rf"\bwb\.{name}\b", pages)]


def test_spelling_is_american_as_in_pytorchs_documentation():
    stems = ["optimi", "normali", "initiali", "parameteri", "minimi", "maximi", "recogni", "regulari", "summari", "standardi", "factori"]
    british = re.compile(
        rf"\b\w*(?:{'|'.join(stems)})s(?:e|es|ed|er|ers|ing|ation|ations)\b|(?:colour|behaviour|neighbour)\w*|\bcentre[ds]?\b", re.I
    )
    prose = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").rglob("*.ipynb")]
    found = {path: words for path in prose if (words := british.findall(path.read_text(encoding="utf-8")))}
    assert found == {}
