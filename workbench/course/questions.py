"""Which questions a lesson asks, and which cells they depend on, read from its code without running it."""

from __future__ import annotations

import ast
from typing import Any

from .editions import Notebook

_ASKING = {"quiz", "quiz.gradient", "quiz.shape", "quiz.next_node"}
_SEEDING = {"sabotage", "sabotage.random"}


def points(notebook: Notebook) -> dict[str, float]:
    """The points of each question, by its id, in the order of the lesson.

    Raises ValueError for a question without an id, and for points or an id that are not written out.
    """
    found: dict[str, float] = {}
    seeded: dict[str, str] = {}  # the variable of a seeded bug -> the id of its question
    for cell in notebook["cells"]:
        for node in ast.walk(_parsed(cell) or ast.Module([], [])):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) in _SEEDING:
                seeded |= {one.id: _option(node.value, "id", str) or "" for one in node.targets if isinstance(one, ast.Name)}
            elif isinstance(node, ast.Attribute) and node.attr == "question" and isinstance(node.value, ast.Name):
                if node.value.id in seeded:
                    found[seeded[node.value.id]] = 1.0
            elif isinstance(node, ast.Call) and _called(node) in _ASKING:
                named, worth = _option(node, "id", str), _option(node, "points", (int, float))
                found[named or ""] = 1.0 if worth is None else float(worth)
    if "" in found:
        raise ValueError("every question of a lesson has an id=")
    return found


def locked(notebook: Notebook) -> set[str]:
    """The ids of the code cells that a student must not change: the questions, the grade, and what makes the tensors they are about.

    A cell makes something if it assigns the name or its elements, defines it or imports it; a cell that only calls methods or sets
    attributes stays open.
    """
    found: set[str] = set()
    needed: set[str] = set()
    for cell in reversed(notebook["cells"]):
        tree = _parsed(cell)
        if tree is None:
            if cell["cell_type"] == "code":  # a magic that is no Python
                found.add(cell["id"])
            continue
        if needed & _made(tree) or any(isinstance(node, ast.Call) and _about_questions(node) for node in ast.walk(tree)) or _asks(tree):
            found.add(cell["id"])
            needed |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return found


def _parsed(cell: Notebook) -> ast.Module | None:
    """The code of a cell without its magics; None if it is no code."""
    if cell["cell_type"] != "code":
        return None
    lines = "".join(cell["source"]).splitlines()
    try:
        return ast.parse("\n".join("" if line.startswith(("%", "!")) else line for line in lines))
    except SyntaxError:
        return None


def _called(call: ast.Call) -> str:
    """What a call calls, without the package: "quiz.gradient" for `wb.teach.quiz.gradient(w)`."""
    return ast.unparse(call.func).split("teach.")[-1]


def _about_questions(call: ast.Call) -> bool:
    return _called(call) in _ASKING | _SEEDING | {"grade", "quiz.save"}


def _asks(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "question" for node in ast.walk(tree))


def _option(call: ast.Call, name: str, kind: Any) -> Any:
    """The value of a keyword of a call, which must be written out; None if it is not given."""
    given = next((one.value for one in call.keywords if one.arg == name), None)
    if given is None:
        return None
    if not isinstance(given, ast.Constant) or not isinstance(given.value, kind):
        raise ValueError(f"`{name}` of a question is written out, not computed: `{ast.unparse(given)}`")
    return given.value


def _made(tree: ast.Module) -> set[str]:
    """The names that a cell assigns, defines or imports at top level; those inside functions and comprehensions are their own."""
    found: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                found.add(child.name)
            elif isinstance(child, (ast.Import, ast.ImportFrom)):
                found |= {(alias.asname or alias.name).split(".")[0] for alias in child.names}
            elif not isinstance(child, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                target = child
                while isinstance(target, ast.Subscript) and isinstance(child.ctx, ast.Store):  # type: ignore[attr-defined]
                    target = target.value
                if isinstance(target, ast.Name) and isinstance(child.ctx, ast.Store):  # type: ignore[attr-defined]
                    found.add(target.id)
                todo.append(child)
    return found
