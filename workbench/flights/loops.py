"""Training loops of programs that say nothing of the recorder: they are found in the source, and each of their turns becomes a step.

A loop trains if its own body calls `backward()` and `step()`, or names functions that do. With gradient accumulation, an inner loop calls
`backward()` and the outer one `step()`: the outer one trains. In a program without any `step()`, the loop with `backward()` does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import NamedTuple

TURNS = "__flight_turns__"  # the function through which such a loop goes, a global of the program

_Loop = ast.For | ast.While
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Calls(NamedTuple):
    """What a piece of code calls, itself or through functions that it names."""

    backward: bool = False
    step: bool = False

    def __or__(self, other: _Calls) -> _Calls:  # type: ignore[override]
        return _Calls(self.backward or other.backward, self.step or other.step)


_KNOWN = {"backward": _Calls(backward=True), "manual_backward": _Calls(backward=True), "step": _Calls(step=True)}


def compiled(text: str | bytes, path: str) -> CodeType:
    """Compile a program so that its training loops go through `TURNS`. Lines stay where they are. Raises SyntaxError."""
    tree = ast.parse(text, path)
    functions = [one for one in ast.walk(tree) if isinstance(one, _Function)]
    known: dict[str, _Calls] = {}
    for _ in functions:  # each turn finds those that name the ones found before
        found = {one.name: _calls(one, known, inside=True) for one in functions if not _chosen(one, known)}
        if (now := {name: calls for name, calls in found.items() if any(calls)}) == known:
            break
        known = now
    loops = [loop for scope in (tree, *functions) for loop in _chosen(scope, known)]
    if not _calls(tree, known, inside=True).step:  # the program changes its parameters by hand
        loops = [loop for scope in (tree, *functions) for loop in _with_backward(scope, known)]
    return compile(ast.fix_missing_locations(_Marked(set(map(id, loops))).visit(tree)), path, "exec", dont_inherit=True)


def _chosen(scope: ast.AST, known: Mapping[str, _Calls]) -> list[_Loop]:
    """The loops of a module, a function or a loop that train."""
    found: list[_Loop] = []
    for loop in _loops(scope):
        own = _calls(loop, known)
        inner = [loop] if all(own) else _chosen(loop, known)
        found += inner or ([loop] if own.step and _calls(loop, known, inside=True).backward else [])
    return found


def _with_backward(scope: ast.AST, known: Mapping[str, _Calls]) -> list[_Loop]:
    """The innermost loops that call `backward`."""
    return [one for loop in _loops(scope) for one in ([loop] if _calls(loop, known).backward else _with_backward(loop, known))]


def _loops(node: ast.AST) -> Iterator[_Loop]:
    """The outermost loops below a node, but not those of functions in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Loop):
            yield child
        elif not isinstance(child, _Function | ast.Lambda):
            yield from _loops(child)


def _calls(node: ast.AST, known: Mapping[str, _Calls], inside: bool = False) -> _Calls:
    """What a node calls. Functions in it count, such as closures, loops in it only with `inside`."""
    found = _Calls()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            found |= _KNOWN.get(child.func.attr, _Calls()) | known.get(child.func.attr, _Calls())
        elif isinstance(child, ast.Name):
            found |= known.get(child.id, _Calls())
        if inside or not isinstance(child, _Loop):
            found |= _calls(child, known, inside)
    return found


class _Marked(ast.NodeTransformer):
    """Sends the chosen loops through `TURNS`: `for x in TURNS(data)`; `while` becomes an endless loop that leaves when it is false."""

    def __init__(self, chosen: set[int]) -> None:
        self._chosen = chosen

    def visit_For(self, node: ast.For) -> ast.AST:
        chosen = id(node) in self._chosen
        self.generic_visit(node)
        if chosen:
            node.iter = _turns(node.iter, [node.iter])
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        chosen = id(node) in self._chosen
        self.generic_visit(node)
        if not chosen or node.orelse:
            return node
        leave = ast.copy_location(ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], []), node.test)
        endless = ast.For(ast.Name("__flight_turn__", ast.Store()), _turns(node.test, []), [leave, *node.body], [])
        return ast.copy_location(endless, node)


def _turns(at: ast.expr, arguments: list[ast.expr]) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name(TURNS, ast.Load()), arguments, []), at)
