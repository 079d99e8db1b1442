"""The house rules that a machine can read: imports point down, generated files are fresh, nothing of one machine is in the tree."""

from __future__ import annotations

import ast
import functools
import graphlib
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from grouping import grouped

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path for package in ("engine", "workbench") for path in (ROOT / package).rglob("*.py") if "lessons" not in path.parts)

# Floors from the ground up. A module may import its own folder and the floors below; imports inside functions count. The longest matching
# prefix is a module's floor. Of the engine every folder is a floor. `engine` is the package's own file: what stands above it are annexes,
# which it imports when a program first names them.
ENGINE = """
    base backends core ops autograd linalg special fft signal amp cuda nn optim func multiprocessing data serialize sparse settings
    compiler late . testing hub futures masked quasirandom distributed distributions profiler onnx utils vision array_api compat
"""
# Of the workbench likewise: the core up to `subjects`, what a public function finds out about its caller, and the features, of which
# none imports another. The console commands and Jupyter are on top.
CORE = "base protocol inspector formulas recording graph backward session torch_models subjects caller"
FEATURES = "programs tensors compare memory_use profiling checks whatif training distributed teach exporting samples testing flights"
FLOORS = [
    *((f"engine.{name}" if name != "." else "engine",) for name in ENGINE.split()),
    *((f"workbench.{name}",) for name in CORE.split()),
    tuple(f"workbench.{name}" for name in FEATURES.split()),
    ("workbench.plot",),
    ("workbench",),
    ("workbench.jupyter",),
    ("workbench.running", "workbench.course"),
    ("workbench.cli", "workbench.__main__"),
]
# What is imported from above when it is called, never at load: the views of a notebook.
STAIRS = {("workbench.caller", f"workbench.jupyter.{name}") for name in ("button", "widget")}
STAIRS |= {
    ("workbench", f"workbench.jupyter.{name}")
    for name in ("cells", "cluster", "comm", "display", "errors", "holders", "magics", "pause", "progress")
}
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}

JUPYTER = {
    "IPython",
    "anywidget",
    "comm",
    "ipykernel",
    "ipyparallel",
    "ipywidgets",
    "jupyter_client",
    "jupyter_core",
    "jupyter_server",
    "jupyterlab",
}
JUPYTER |= {"nbclient", "nbformat", "notebook", "tornado", "traitlets", "zmq"}
JUPYTER_ROOMS = ("workbench.jupyter", "workbench.cli")


def name_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}


def floor(module: str) -> int:
    """The number of the module's floor."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        prefix = ".".join(parts[:end])
        if prefix in FLOOR and (end == len(parts) or prefix not in ("engine", "workbench")):
            return FLOOR[prefix]
    raise AssertionError(f"{module} is on no floor: give it one in tests/test_house.py")


@functools.cache
def imports(path: Path, lazy: bool = True) -> frozenset[str]:
    """Every module that the file imports, except for type checking only; relative names resolved. `lazy`: inside functions too."""
    package = name_of(path).split(".") if path.name == "__init__.py" else name_of(path).split(".")[:-1]
    found: set[str] = set()
    for node in statements(parsed(path), lazy):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            submodules = {f"{module}.{alias.name}" for alias in node.names} & NAMES
            found |= submodules
            if len(submodules) < len(node.names):
                found.add(module)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            found |= {text.value for text in node.args[:1] if isinstance(text, ast.Constant)}
    return frozenset(found)


def called(node: ast.Call) -> str:
    """The last word of what a call calls: `import_module` of `importlib.import_module(name)`."""
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def statements(tree: ast.AST, lazy: bool) -> Iterator[ast.AST]:
    """All nodes below, without what stands under `if TYPE_CHECKING:`, and without the insides of functions unless `lazy`."""
    todo = [tree]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in (getattr(child.test, "id", ""), getattr(child.test, "attr", "")):
                continue
            if not lazy and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                continue
            yield child
            todo.append(child)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


every_module = grouped("path", [pytest.param(path, id=name_of(path)) for path in MODULES])


@every_module
def test_imports_point_down(path):
    own = name_of(path)
    at_once = imports(path, lazy=False)
    for module in sorted(imports(path)):
        top = module.split(".")[0]
        if top in ("engine", "workbench") and (module in at_once or (own, module) not in STAIRS):
            assert floor(module) <= floor(own), f"{own} imports {module}, which is on a higher floor"
            if floor(module) == floor(own) == FLOOR["workbench.tensors"]:
                assert module.split(".")[1] == own.split(".")[1], f"{own} imports {module}: features do not import one another"
        if top in JUPYTER:
            assert own.startswith(JUPYTER_ROOMS), f"{own} imports {module}; only workbench/jupyter and workbench/cli.py know Jupyter"
        if top == "torch":
            raise AssertionError(f"{own} imports torch")


FOLDERS = sorted({path.parent for path in MODULES if path.parent.parent != ROOT})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_the_files_of_a_folder_form_no_cycle(folder):
    files = [path for path in MODULES if folder in path.parents]
    names = {name_of(path) for path in files}
    graphlib.TopologicalSorter({name_of(path): imports(path) & names - {name_of(path)} for path in files}).prepare()  # CycleError names it


def test_tensor_gets_methods_and_functions_get_code_in_one_place_each():
    def found(pattern):
        return {
            name_of(path) for path in MODULES if name_of(path).startswith("engine") and re.search(pattern, path.read_text(encoding="utf-8"))
        }

    # as_torch: the names that PyTorch's tensors have and ours lack, while the engine is in PyTorch's place
    assert found(r"setattr\(Tensor\b|(?m:^Tensor\.\w+ = )") == {"engine.core.tensor", "engine.compat.as_torch"}
    assert found(r"\.__code__ = ") == {"engine.core.public"}


@every_module
def test_module_says_what_lives_there(path):
    text = ast.get_docstring(parsed(path))
    assert text, f"{name_of(path)} has no docstring"
    assert len(text.splitlines()[0]) > 10


# Words in which docstrings and comments are not written, and the field's words instead: fixed, silently, unused, in order, reports, is
# notified, requested, passes, sequentially, through, is. In the folders of LATER they still are.
STILTED = re.compile(
    r"\b(mend(s|ed)?|without a word|(no|some)body|whoever|as they come|(is|are) told|hears? of|(gives?|goes) (way|by)|knows of|by way of|"
    r"lets? go of|hands? (on|over)|one after (the )?(an)?other|stands? (at|on|in|here|there|beside|behind)|asked for|(is|are) to be)\b"
)


@every_module
def test_prose_is_plain(path):
    name, text = name_of(path), path.read_text(encoding="utf-8")
    if not STILTED.search(text):
        return  # to find the comments takes ten times as long
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    prose = [ast.get_docstring(node, clean=False) or "" for node in ast.walk(parsed(path)) if isinstance(node, documented)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    prose += [token.string for token in tokens if token.type == tokenize.COMMENT]
    found = [f"{match.group()}: {one[max(0, match.start() - 40) : match.end() + 40]!r}" for one in prose for match in STILTED.finditer(one)]
    assert not found, f"{name}: {found}"


@every_module
def test_no_error_is_swallowed(path):
    def broad(kinds):
        return any(isinstance(one, ast.Name) and one.id in ("Exception", "BaseException") for one in ast.walk(kinds))

    name = name_of(path)
    for node in ast.walk(parsed(path)):
        where = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{where}: bare except"
            silent = all(isinstance(one, (ast.Pass, ast.Continue)) for one in node.body)
            assert not (broad(node.type) and silent), f"{where}: every error is swallowed in silence"
        if isinstance(node, ast.Call) and called(node) == "suppress":
            assert not any(map(broad, node.args)), f"{where}: every error is swallowed in silence"


def test_importing_engine_imports_no_jupyter():
    code = "import sys, engine; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = set(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    assert "engine" in loaded
    heavy = {"torch", "matplotlib", "scipy", "PIL", "onnx", "onnxruntime", "tensorboardX", "multiprocessing", "asyncio", "http", "zipfile"}
    assert loaded & (JUPYTER | heavy | {"workbench"}) == set()


def test_importing_engine_imports_no_annex():
    code = "import sys, engine; print(' '.join(name for name in sys.modules if name.startswith('engine.')))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if floor(name) > FLOOR["engine"]] == []
    assert len(loaded) < 200


def test_protocol_is_fresh():
    from workbench import protocol

    generated = ROOT / "extension" / "src" / "view" / "protocol.ts"
    assert generated.read_text(encoding="utf-8") == protocol.typescript(), (
        "run: python -m workbench.protocol > extension/src/view/protocol.ts"
    )


@pytest.mark.slow
def test_table_of_ops_is_fresh():
    made = subprocess.run([sys.executable, "docs/make_ops.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    told = "docs/ops.md is old: run `python docs/make_ops.py > docs/ops.md`"
    assert (ROOT / "docs" / "ops.md").read_text(encoding="utf-8") == made, told


def test_modules_of_the_tests_have_names_of_their_own():
    """pytest puts every folder of tests on the path: of two modules of one name, one would be taken for the other."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")} | {ROOT / "tests", ROOT / "tests" / "engine" / "expected"}
    names = Counter(path.name for folder in folders for path in folder.glob("*.py"))
    assert {name for name, times in names.items() if times > 1} == {"conftest.py"}


def test_the_longest_files_of_tests_are_there():
    names = (ROOT / "tests" / "longest.txt").read_text(encoding="utf-8").split()
    assert [name for name in names if not (ROOT / "tests" / name).is_file()] == []


def test_version_is_one():
    import engine

    with (ROOT / "pyproject.toml").open("rb") as file:
        assert engine.__version__ == tomllib.load(file)["project"]["version"]


def tracked() -> list[Path]:
    """The files that git has, or would take, of this checkout."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


HOME = re.compile(r"/(home|Users|work|root)/[A-Za-z0-9_.-]+")
REGISTRY = re.compile(r"https?://[^/\s\"']*(registry|pythonhosted|artifactory|nexus|mirror)[^/\s\"']*|\"resolved\":", re.IGNORECASE)


def test_nothing_of_one_machine_is_in_the_tree():
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [line for line in listed.splitlines() if line.startswith("120000")]  # a link leads to a path of one machine
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture, or another binary file
        for pattern in (HOME, REGISTRY):
            found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in pattern.finditer(text)]
    assert found == []
