"""Where a node comes from: the cell and line of the user's code, and the user's name for its result."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ref

from engine.core.tensor import Tensor

from ..protocol import CellRun, Site
from .sites import line_of, positions

if TYPE_CHECKING:
    from .recording import Recording

# file name of a code object -> (the cell's label, the notebook's id of it); None if it is not a cell
Cells = Callable[[str], "tuple[str, str | None] | None"]
_cells: Cells = lambda file: None  # noqa: E731

Span = tuple[int, int, int, int]  # line, column, end line, end column, as `ast` counts them
Loop = tuple[int, int, str]  # first line, last line, header such as "for t in range(5)"


_latest: Mapping[str, str] = {}  # the notebook's id of a cell -> the label of its latest run
_texts: Mapping[str, str] = {}  # label of a run -> the text that ran


def set_cells(cells: Cells, latest: Mapping[str, str], texts: Mapping[str, str]) -> None:
    """Set how file names map to notebook cells, the label of each cell's latest run, and its text; called by workbench.jupyter."""
    global _cells, _latest, _texts
    _cells, _latest, _texts = cells, latest, texts


def runs(sites: Iterable[Site]) -> list[CellRun]:
    """The cell runs that contain these sites, each once."""
    known = dict.fromkeys((site.cell_id, site.cell) for site in sites if site.cell_id is not None and site.cell is not None)
    return [CellRun(cell_id, cell, _latest.get(cell_id, cell), checksum(_texts.get(cell))) for cell_id, cell in known]


def checksum(text: str | None) -> int:
    """CRC-32 of a cell's lines that are not comments, stripped of whitespace. -1 for no text."""
    if text is None:
        return -1
    lines = (line.strip() for line in text.split("\n"))
    return zlib.crc32("\n".join(line for line in lines if line and not line.startswith("#")).encode())


def cell_of(file: str) -> str:
    """The label of the notebook cell with this file name, such as "In [3]"; "" for a real file."""
    found = _cells(file)
    return "" if found is None else found[0]


def text_of(file: str) -> str:
    """The whole text of a cell or a file."""
    return "".join(linecache.getlines(file))


class Sources:
    """Reads positions in source files, and the assignments and loops in them."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[dict[Span, list[str]], list[Loop]]] = {}

    def span(self, code: CodeType, lasti: int) -> Span | None:
        """The expression that the instruction belongs to."""
        found = positions(code)
        at = lasti // 2
        if at >= len(found):
            return None
        line, end_line, column, end_column = found[at]
        return None if None in (line, column, end_line, end_column) else (line, column, end_line, end_column)  # type: ignore[return-value]

    def site(self, code: CodeType, lasti: int) -> Site:
        """The cell or file, the line and its text."""
        file, line = code.co_filename, line_of(code, lasti)
        cell = _cells(file)
        text = linecache.getline(file, line).strip()
        if cell is not None:
            return Site(cell[0], cell[1], "", line, text)
        return Site(None, None, os.path.basename(file), line, text)

    def targets(self, code: CodeType, lasti: int) -> list[str]:
        """The names that the expression's value is assigned to: `h = torch.tanh(x)` gives ["h"], `a, b = f(x)` gives ["a", "b"]."""
        span = self.span(code, lasti)
        return [] if span is None else self._file(code.co_filename)[0].get(span, [])

    def loops(self, code: CodeType, lasti: int) -> list[Loop]:
        """The loops around the line, innermost first."""
        line = line_of(code, lasti)
        around = [loop for loop in self._file(code.co_filename)[1] if loop[0] <= line <= loop[1] and loop[0] >= code.co_firstlineno]
        return sorted(around, key=lambda loop: (-loop[0], loop[1]))

    def _file(self, file: str) -> tuple[dict[Span, list[str]], list[Loop]]:
        if file not in self._files:
            self._files[file] = _read(text_of(file))
        return self._files[file]


@lru_cache(maxsize=128)
def _read(text: str) -> tuple[dict[Span, list[str]], list[Loop]]:
    """The assignment targets and loops in a text; cached across recordings."""
    targets: dict[Span, list[str]] = {}
    loops: list[Loop] = []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a cell with IPython syntax, or no source at all
        return targets, loops
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            _assign(targets, node.targets[0], node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            _assign(targets, node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            targets[_span(node)] = _names(node.target)
        elif isinstance(node, ast.For):
            loops.append((node.lineno, node.end_lineno or node.lineno, f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"))
        elif isinstance(node, ast.While):
            loops.append((node.lineno, node.end_lineno or node.lineno, f"while {ast.unparse(node.test)}"))
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            first = node.generators[0]
            loops.append((node.lineno, node.end_lineno or node.lineno, f"for {ast.unparse(first.target)} in {ast.unparse(first.iter)}"))
    return targets, loops


def _assign(targets: dict, target: ast.expr, value: ast.expr) -> None:
    names = _names(target)
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)) and len(names) == len(value.elts):
        for name, part in zip(names, value.elts, strict=True):
            targets[_span(part)] = [name]
    elif names:
        targets[_span(value)] = names


def _span(node: Any) -> Span:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _names(target: ast.expr) -> list[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in (_names(part) or [""])]
    if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        text = ast.unparse(target)
        return [text] if len(text) <= 40 else []
    return []


# -- names -------------------------------------------------------------------------------------------------------------------


def name_rows(recording: Recording, namespace: Mapping[str, Any] | None, sources: Sources) -> None:
    """Give rows the user's names: variables that hold tensors, attributes of modules, and assignment targets whose value is gone.

    Keeps no reference to the namespace.
    """
    names: dict[int, str] = {}
    for row, name in _assigned(recording, namespace or {}, sources):
        names[row] = name
    held = _live_rows(recording)
    saved = {id(array): row for row, array in recording.kept.items() if recording.kind[row] == "input" and recording.ref[row] is None}
    for tensor, name in _in_modules(recording, namespace):
        row = held.get(id(tensor))
        if row is not None:
            names[row] = name
    for tensor, name in _in_namespace(namespace or {}):
        row = held.get(id(tensor))
        if row is None:  # the tape knows its node; for an input, only the array is known
            row = saved.get(id(tensor.array)) if tensor.node is None else recording.times.get(tensor.node.time)
            if row is not None and recording.ref[row] is None:
                recording.ref[row] = ref(tensor)
        if row is not None and (recording.kind[row] != "parameter" or row not in names):
            names[row] = name
    _before_writes(recording, names)
    for row, name in names.items():
        recording.names[row] = name


def _before_writes(recording: Recording, names: dict[int, str]) -> None:
    """Give a parameter or leaf that was written in place its name before the write too."""
    for row in range(recording.count - 1, -1, -1):
        if row in names and recording.note[row].startswith(("in place", "written through")):
            before = next((source for source, slot in recording.inputs(row) if slot == 0), -1)
            if before >= 0 and (recording.kind[before] in ("parameter", "leaf") or recording.note[before].startswith("in place")):
                names.setdefault(before, names[row])


def _live_rows(recording: Recording) -> dict[int, int]:
    rows = {}
    for row in range(recording.count):
        tensor = recording.tensor(row)
        if tensor is not None:
            rows[id(tensor)] = row
    return rows


def _in_modules(recording: Recording, namespace: Mapping[str, Any] | None) -> Iterator[tuple[Tensor, str]]:
    """Parameters and buffers with their attribute paths, prefixed with the variable's name if there are several models."""
    variables = _module_names(namespace)
    models = {id(m): m for held in recording.modules if (m := held()) is not None}
    models |= {id(value): value for value in (namespace or {}).values() if _is_module(value)}
    inner = {id(child) for m in models.values() for child in m.modules() if child is not m}
    outer = [m for key, m in models.items() if key not in inner]
    for model in outer:
        lead = f"{variables.get(id(model), type(model).__name__)}." if len(outer) > 1 else ""
        for path, tensor in (*model.named_parameters(), *model.named_buffers()):
            yield tensor, lead + path


def parameter_name(recording: Recording, parameter: Tensor) -> str:
    """The attribute path of a parameter in the modules that ran; "" if none has it."""
    return next((name for tensor, name in _in_modules(recording, None) if tensor is parameter), "")


def accessors(recording: Recording, namespace: Mapping[str, Any] | None) -> dict[int, str]:
    """Row -> the Python expression for its tensor, such as `model.layers[0].weight`."""
    found = {}
    variables = _module_names(namespace)
    held = _live_rows(recording)
    for tensor, name in _in_namespace(namespace or {}):
        if (row := held.get(id(tensor))) is not None:
            found[row] = name
    for key, name in variables.items():
        model = next(value for value in (namespace or {}).values() if id(value) == key)
        for path, tensor in (*model.named_parameters(), *model.named_buffers()):
            row = held.get(id(tensor))
            expression = name + "".join(map(_attribute, path.split(".")))
            if row is not None and (row not in found or len(expression) > len(found[row])):  # the outermost model's path
                found[row] = expression
    return found


def optimizers(namespace: Mapping[str, Any] | None) -> list[ref]:
    """Weak references to the optimizers among the variables."""
    found = {id(value): value for value in (namespace or {}).values() if not isinstance(value, type) and _is_optimizer(value)}
    return [ref(value) for value in found.values()]


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, getattr(sys.modules.get("engine.optim.optimizer"), "Optimizer", ()))


def _attribute(part: str) -> str:
    return f"[{part}]" if part.isdigit() else f".{part}" if part.isidentifier() else f"[{part!r}]"


def _module_names(namespace: Mapping[str, Any] | None) -> dict[int, str]:
    """Id of a module -> the variable that holds it."""
    return {id(value): name for name, value in (namespace or {}).items() if _is_module(value) and not name.startswith("_")}


def _is_module(value: Any) -> bool:
    return not isinstance(value, (type, ModuleType)) and all(
        callable(getattr(value, name, None)) for name in ("named_parameters", "named_buffers", "modules")
    )


def _named_modules(model: Any) -> Iterator[tuple[str, Any]]:
    return iter(getattr(model, "named_modules", tuple)())


def _in_namespace(namespace: Mapping[str, Any]) -> Iterator[tuple[Tensor, str]]:
    inner, plain = [], []
    for name, value in list(namespace.items()):
        if name.startswith("_") or name in ("In", "Out"):
            continue
        if isinstance(value, Tensor):
            plain.append((value, name))
        elif isinstance(value, (list, tuple)) and len(value) <= 1000:
            inner += [(x, f"{name}[{i}]") for i, x in enumerate(value) if isinstance(x, Tensor)]
        elif type(value) is dict and len(value) <= 1000:
            inner += [(x, f"{name}[{key!r}]") for key, x in value.items() if isinstance(x, Tensor)]
    yield from inner
    yield from plain  # a variable's own name takes precedence over an element of a list


def _assigned(recording: Recording, namespace: Mapping[str, Any], sources: Sources) -> Iterator[tuple[int, str]]:
    """Pair each assignment with the last row that its call made.

    If one call led through code that is not the user's to several ops, it returned the last of them, if it returned a tensor at all.
    """
    owner: dict[int, int] = {}  # outermost scope entered by the same expression -> its last row
    found: list[tuple[int, str, tuple]] = []
    ended: set[int] = set()  # rows that are the last of the call that made them
    through: set[tuple] = set()  # calls that led through other code to several ops
    before: dict[tuple, Any] = {}  # the call sites of the previous row, and its op if it was called there directly
    for row in range(recording.count):
        code, lasti = recording.code[row], recording.lasti[row]
        if code is None:
            continue
        place, scope, op = (id(code), lasti), recording.scope[row], recording.ops[row]
        places: dict[tuple, Any] = {place: op}
        while scope >= 0:
            entered = recording.scopes[scope]
            if entered.name != "backward":
                owner[scope] = row
            places[id(entered.code), entered.lasti] = None
            scope = entered.parent
        if found and found[-1][2] not in places:
            ended.add(found[-1][0])
        if places[place] is not None:  # no scope was entered there
            if place in before and before[place] is not op:
                through.add(place)
            targets = sources.targets(code, lasti)
            if targets and targets[0]:
                found.append((row, targets[0] if len(targets) == 1 else ", ".join(filter(None, targets)), place))
        before = places
    ended |= {row for row, _, _ in found[-1:]}
    for row, name, place in found:
        if place not in through or (row in ended and isinstance(namespace.get(name), (Tensor, type(None)))):
            yield row, name
    # outer scopes first, so that the innermost call's name wins if one row ends several
    for scope in sorted(owner):
        entered = recording.scopes[scope]
        if entered.code is None or (id(entered.code), entered.lasti) in through:
            continue
        parent = recording.scopes[entered.parent] if entered.parent >= 0 else None
        if parent is not None and parent.code is entered.code and parent.lasti == entered.lasti:
            continue
        targets = sources.targets(entered.code, entered.lasti)
        if len(targets) == 1 and targets[0]:
            yield owner[scope], targets[0]


def name_scopes(recording: Recording, namespace: Mapping[str, Any] | None) -> dict[int, str]:
    """Scope -> name, for modules called by the user: the variable that holds them, or their path in a model that a variable holds."""
    variables = _module_names(namespace)
    models = [value for value in (namespace or {}).values() if id(value) in variables]
    inner = {id(child): f"{variables[id(model)]}.{path}" for model in models for path, child in _named_modules(model) if path}
    variables = inner | variables
    return {
        i: variables[s.subject]
        for i, s in enumerate(recording.scopes)
        if s.kind == "module" and s.name == s.label and s.subject in variables
    }
