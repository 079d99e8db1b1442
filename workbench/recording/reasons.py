"""Explain why `.grad` is None, from a recording, with the responsible line of code."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy

from engine.core.op import registry
from engine.core.tensor import Tensor

from . import source
from .sites import line_of

if TYPE_CHECKING:
    from .recording import Recording

UNUSED = -2
RETAIN = "Call retain_grad() on it before backward(), or step the pass."


def why_no_grad(recording: Recording, row: int) -> str:
    """Explain in a few sentences why this row has no gradient."""
    foreign = recording.foreign
    return Reasons(recording).of(row) if foreign is None else foreign.why_no_grad(row)


def written_over(recording: Recording, row: int) -> int:
    """The last row of the same tensor after in-place writes; -1 if there were none."""
    r, at = recording, row
    for later in range(row + 1, r.count):
        if r.note[later].startswith(("in place", "written through")) and (inputs := r.inputs(later)) and inputs[0] == (at, 0):
            at = later
    return -1 if at == row else at


class Reasons:
    def __init__(self, recording: Recording) -> None:
        self.r, self.sources = recording, source.Sources()
        foreign = recording.foreign
        self.detached = _detached(recording) if foreign is None else foreign.detached()

    def of(self, row: int) -> str:
        r = self.r
        kind, tensor, dtype = r.kind[row], r.tensor(row), r.dtype[row]
        if kind == "constant":
            return "A number has no gradient: only tensors with requires_grad=True do."
        if dtype is None:
            return "The op failed, so there is no result that could have a gradient."
        if not isinstance(dtype, str) and not _floating(dtype):
            return f"Its dtype is {dtype.name}; only floating-point and complex tensors have gradients."
        if not r.grad[row]:
            return self.untracked(row, tensor)
        newer = written_over(r, row)
        if newer >= 0:
            return (
                f"This is the tensor as it was before {r.op_name(newer)} overwrote it{self.at(newer)}; "
                f"the tensor of now is the result of {r.op_name(newer)}, and .grad is its."
            )
        if r.root >= 0 and row not in r.reachable(r.root):
            return "The loss does not depend on it, so no gradient reaches it." + self.cut(row)
        if kind == "op" and (tensor is None or not tensor.retains_grad):
            return self.no_leaf(row)
        if not r.passes:
            return "Backward has not run yet."
        if row in r.gradients:
            return "It received a gradient in the recorded backward pass, and .grad was set back to None since" + self.forgotten(row)
        return "Backward has run, but no gradient reached it, or .grad was set back to None before it was recorded." + self.cut(row)

    # -- tensors that are not tracked -------------------------------------------------------------------------------------------

    def untracked(self, row: int, tensor: Tensor | None) -> str:
        r = self.r
        if r.kind[row] != "op":
            if tensor is not None and tensor.requires_grad:
                used = next((at for at in range(row + 1, r.count) if any(s == row for s, _ in r.inputs(at))), -1)
                where = f"{r.op_name(used)}{self.at(used)}" if used >= 0 else "an op"
                return (
                    f"requires_grad was set after it had been used: {where} ran before, and the tape knows nothing of it. "
                    "Set requires_grad=True first, then compute the loss again."
                )
            if row in self.detached:
                return f"It {self.broke(row)}."
            return "It does not require grad. Set requires_grad=True before it is used to get a gradient."
        broken = self.broken(row)
        if broken < 0:
            return "None of the tensors it was computed from requires grad."
        why = self.broke(broken)
        if broken == row:
            return f"It {why}."
        return f"It was computed from {self.called(broken)}, which {why}."

    def broken(self, row: int) -> int:
        """The nearest op at or before the row whose result is not tracked although an input is; -1 if there is none."""
        seen, todo = {row}, [row]
        while todo:
            at = todo.pop(0)
            inputs = [s for s, _ in self.r.inputs(at)]
            if at in self.detached or any(self.r.grad[s] for s in inputs):
                return at
            todo += [s for s in inputs if s not in seen]
            seen.update(inputs)
        return -1

    def broke(self, row: int) -> str:
        """Why the op's result is not tracked, as the end of "it ..."."""
        r, name = self.r, self.r.op_name(row)
        if row in self.detached:
            line = self.detaching(row)
            where = self.at(row) or (f" at {line}" if line else "")
            return f"was detached from {self.called(self.detached[row])}{where}, so no gradient passes"
        op, code = r.ops[row], r.code[row]
        opened = None if code is None else _no_grad_around(code, line_of(code, r.lasti[row]))
        if not any(op.rules or ()) and (opened is None or name in registry):
            return f"is the result of {name}{self.at(row)}, which has no derivative"
        if not _floating(r.dtype[row]):
            return f"has the dtype {r.dtype[row].name} since {name}{self.at(row)}: integers have no gradient"
        how = f"{opened[0]} of line {opened[1]}" if opened is not None else "no_grad()"
        return f"was computed{self.at(row)} under {how}, so the tape does not know how it was made"

    def cut(self, row: int) -> str:
        """A further sentence on where a dependent of the row stops being tracked, or that nothing uses the row; else ""."""
        at = self.cut_at(row)
        if at >= 0:
            return f" What depends on it, {self.called(at)}, {self.broke(at)}."
        return " Nothing that was recorded uses it." if at == UNUSED else ""

    def cut_at(self, row: int) -> int:
        """The first row that depends on this one and is not tracked; -1 if there is none, UNUSED if nothing depends on it."""
        r, reached = self.r, {row}
        for at in range(row + 1, r.count):
            if self.detached.get(at) in reached:
                return at
            if any(s in reached for s, _ in r.inputs(at)):
                if not r.grad[at] and r.dtype[at] is not None and _floating(r.dtype[at]):
                    return at
                reached.add(at)
        return UNUSED if len(reached) == 1 else -1

    def detaching(self, row: int) -> str:
        """Where the row was detached, such as "line 3 of In [2]", from the source code: detach() is not recorded as an op."""
        place = self.detached_at(row)
        if place is None:
            return ""
        file, line = place[0].co_filename, place[1]
        return f"line {line} of {source.cell_of(file) or os.path.basename(file)}"

    def detached_at(self, row: int) -> tuple[CodeType, int] | None:
        """The code and the line that detached the row; None if there are no candidates or several."""
        own = self.r.code[row]
        if own is not None:  # an op that was recorded
            return own, line_of(own, self.r.lasti[row])
        codes = {code for code in self.r.code if code is not None}
        name = self.r.names.get(row, "")
        found = [(code, line, to) for code in codes for line, to in _detaches(code)]
        mine = [place for place in found if name and place[2] == name] or found
        return (mine[0][0], mine[0][1]) if len({line for _, line, _ in mine}) == 1 else None

    # -- tracked tensors --------------------------------------------------------------------------------------------------------

    def no_leaf(self, row: int) -> str:
        r = self.r
        rebound = self.rebound(row)
        if rebound >= 0:
            name = r.names[row]
            return (
                f"{name} is no leaf any more: {r.op_name(row)}{self.at(row)} made a new tensor and gave it the name. "
                f"The gradient is that of the leaf which had it before, {self.called(rebound)}. "
                f"To keep the leaf, write in place: with no_grad(): {name} -= ..."
            )
        if r.note[row].startswith(("in place", "written through")):
            start = f"It is no leaf since {r.op_name(row)} overwrote it{self.at(row)}"
        else:
            start = f"It is no leaf: {r.op_name(row)}{self.at(row)} made it"
        if r.passes:
            return f"{start}, and backward() keeps .grad of leaves only. {RETAIN}"
        return f"{start}. Backward has not run yet; and of such a tensor it keeps .grad only after retain_grad(). Stepping shows it anyway."

    def rebound(self, row: int) -> int:
        """The leaf whose name was rebound to the op's result, as in `w = w - lr * w.grad`; -1 if there is none."""
        r, name = self.r, self.r.names.get(row, "")
        code = r.code[row]
        if not name.isidentifier() or code is None or name not in self.sources.targets(code, r.lasti[row]):
            return -1
        text = self.sources.site(code, r.lasti[row]).text
        if not re.search(rf"=.*\b{re.escape(name)}\b", text):
            return -1
        leaves = [s for s, _ in r.inputs(row) if r.kind[s] in ("leaf", "parameter")]
        return leaves[0] if leaves else -1

    def forgotten(self, row: int) -> str:
        """The line that set the gradient to None, if the source code shows it, as the end of a sentence."""
        codes = {code for code in self.r.code if code is not None}
        found = [place for code in codes for place in _forgetting(code)]
        if not found:
            return ", by zero_grad() or by `.grad = None`."
        file, line, text = max(found)
        cell = source.cell_of(file)
        how = " (zero_grad() sets gradients to None by default)" if "zero_grad" in text else ""
        return f": line {line}{f' of {cell}' if cell else ''} is `{text}`{how}."

    # -- words ------------------------------------------------------------------------------------------------------------------

    def called(self, row: int) -> str:
        return self.r.called(row)

    def at(self, row: int) -> str:
        """The position of a row as text, such as " at line 3 of In [2]"; "" if it is not known."""
        code = self.r.code[row]
        if code is None:
            return ""
        site = self.sources.site(code, self.r.lasti[row])
        return f" at line {site.line} of {site.cell or site.file}"


def _floating(dtype: Any) -> bool:
    if dtype is None or isinstance(dtype, str):
        return dtype in ("float", "complex")
    return dtype.name == "bfloat16" or dtype.name.startswith("float8") or numpy.issubdtype(dtype, numpy.inexact)


@lru_cache(maxsize=64)
def _tree(file: str, text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # a cell with IPython syntax
        return None


def _nodes(file: str) -> Iterator[ast.AST]:
    tree = _tree(file, source.text_of(file))
    return iter(()) if tree is None else ast.walk(tree)


_OFF = re.compile(r"\b(no_grad|inference_mode|set_grad_enabled\(False\))")


@lru_cache(maxsize=64)
def _off_in(file: str, text: str) -> list[tuple[int, int, str]]:
    """The first and the last line of each block with grad mode off, and what turns it off: a `with` or a decorator."""
    found = []
    for node in ast.walk(_tree(file, text) or ast.Module([], [])):
        if isinstance(node, ast.With):
            items = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef):
            items = node.decorator_list
        else:
            continue
        said = [ast.unparse(item) for item in items]
        found += [(node.lineno, node.end_lineno or node.lineno, one) for one in said if _OFF.search(one)]
    return found


def _no_grad_around(code: CodeType, line: int) -> tuple[str, int] | None:
    """The innermost `with` or decorator that turned grad mode off around a line, and its line; None if there is none."""
    blocks = _off_in(code.co_filename, source.text_of(code.co_filename))
    first, said = max([(first, said) for first, last, said in blocks if first <= line <= last], default=(0, ""))
    return (said, first) if said else None


def _detached(recording: Recording) -> dict[int, int]:
    """Map each input row that is the array of a tracked row, as detach() and .data make, to that row."""
    arrays: dict[int, int] = {}
    found = {}
    for row in range(recording.count):
        array = recording.value(row)
        if array is None or recording.kind[row] == "constant":
            continue
        if recording.grad[row]:
            arrays[id(array)] = row
        elif recording.kind[row] == "input" and id(array) in arrays:
            found[row] = arrays[id(array)]
    return found


def _lines(code: CodeType) -> range:
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return range(min(lines), max(lines) + 1) if lines else range(0)


def _detaches(code: CodeType) -> list[tuple[int, str]]:
    """The lines of the code that detach a tensor, each with the name that the result is assigned to, or ""."""
    lines = {line for _, _, line in code.co_lines()}  # without the lines of nested functions
    return [place for place in _detaches_in(code.co_filename, source.text_of(code.co_filename)) if place[0] in lines]


@lru_cache(maxsize=64)
def _detaches_in(file: str, text: str) -> tuple[tuple[int, str], ...]:
    """The same of a whole file; a program has many tensors without gradients, and they all ask."""
    found: dict[int, str] = {}
    for node in ast.walk(_tree(file, text) or ast.Module([], [])):
        if isinstance(node, ast.Attribute) and node.attr in ("detach", "detach_", "data"):
            found.setdefault(node.lineno, "")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if any(isinstance(part, ast.Attribute) and part.attr in ("detach", "data") for part in ast.walk(node.value)):
                found[node.lineno] = node.targets[0].id
    return tuple(found.items())


def _forgetting(code: CodeType) -> list[tuple[str, int, str]]:
    """The lines of the code that set gradients to None: calls of zero_grad, and `x.grad = None`."""
    found = []
    lines = _lines(code)
    for node in _nodes(code.co_filename):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "zero_grad":
            forgets = not any(k.arg == "set_to_none" and ast.unparse(k.value) == "False" for k in node.keywords)
        elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Attribute) and t.attr == "grad" for t in node.targets):
            forgets = ast.unparse(node.value) == "None"
        else:
            continue
        if forgets and node.lineno in lines:
            found.append((code.co_filename, node.lineno, ast.unparse(node)))
    return found
