"""The declared array interface: ops call only what it lists, as it lists it, and each namespace has what the table says."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

import engine
from engine.backends import cpu
from engine.backends.batch.namespace import _rules
from engine.backends.meta.namespace import RULES
from engine.backends.primitives import PRIMITIVES, of_kind
from engine.core import xp as recorded
from grouping import grouped

ENGINE = Path(engine.__file__).parent
# What code asks of a namespace besides functions: constants, and whether it records or is one of vmap's.
QUESTIONS = {"pi", "inf", "nan", "records", "refusing", "__class__", "run", "marked"}
# Optimizers update parameters with the array library itself, NumPy or CuPy, whose functions write into `out=`.
ELSEWHERE = ("backends", "array_api", "optim")


def is_namespace(node: ast.expr) -> bool:
    """Whether an expression is `xp`, or asks `devices` for it. Only a call is made into text: that is slow."""
    if isinstance(node, ast.Call):
        return re.fullmatch(r"devices\.(namespace|common)\([^()]*\)", ast.unparse(node)) is not None
    return isinstance(node, ast.Name) and node.id == "xp"


def calls() -> Iterator[tuple[str, str, ast.Call | None]]:
    """Every use of a name of `xp` outside the backends: the file, the name and, if it is called, the call."""
    for path in sorted(ENGINE.rglob("*.py")):
        if path.relative_to(ENGINE).parts[0] in ELSEWHERE:
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        called = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
        for node in nodes:
            if isinstance(node, ast.Attribute) and is_namespace(node.value):
                yield f"{path.relative_to(ENGINE)}:{node.lineno}", node.attr, called.get(id(node))


def misuse(name: str, call: ast.Call | None) -> str | None:
    """What is wrong with the arguments of a call of an array function, as far as they can be read off."""
    if name in QUESTIONS:
        return None
    one = PRIMITIVES.get(name)
    if one is None:
        return f"{name} is not declared"
    if call is None or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    given = {keyword.arg for keyword in call.keywords} - {None}
    if len(call.args) > len(one.parameters) or not given <= set(one.parameters):
        return f"{name} takes {', '.join(one.parameters)}, not {ast.unparse(call)}"
    required = {parameter for parameter, default in one.parameters.items() if not default}
    if len(given) == len(call.keywords) and not required <= {*list(one.parameters)[: len(call.args)], *given}:
        return f"{name} needs {', '.join(required)}, in {ast.unparse(call)}"
    return None


def test_ops_use_the_declared_functions_with_their_arguments():
    found = list(calls())
    assert len(found) > 1000
    assert [f"{where}: {told}" for where, name, call in found if (told := misuse(name, call))] == []


@grouped("name", sorted(PRIMITIVES))
def test_numpy_takes_the_declared_arguments(name):
    declared, function = PRIMITIVES[name].parameters, getattr(cpu, name)
    if isinstance(function, numpy.ufunc):
        assert len(declared) == function.nin
        return
    try:
        real = inspect.signature(function).parameters
    except ValueError:
        pytest.fail(f"{name}: its signature is not known")
    kinds = {parameter.kind for parameter in real.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return
    places = list(real)
    for at, (parameter, default) in enumerate(declared.items()):
        by_name = parameter in real
        assert by_name or at < len(places), f"{name} has no {parameter}"
        own = real[parameter if by_name else places[at]]
        assert bool(default) == (own.default is not own.empty), f"{name}: {parameter}"


@grouped("name", sorted(PRIMITIVES))
def test_marks_say_what_the_namespaces_do(name):
    marks = PRIMITIVES[name].marks
    assert ("sample" in marks) == (name not in _rules()), "whether vmap calls it for each sample"
    assert ("zeros" in marks) == (name not in RULES), "whether meta computes with zeros"
    assert ("plain" in marks) == (not hasattr(recorded, name)), "whether the engine has an op for it"


def test_kinds():
    assert set(of_kind("elementwise")) >= {"add", "exp", "where"}
    kinds = {one.kind for one in PRIMITIVES.values()}
    assert kinds == {"make", "elementwise", "reduce", "scan", "move", "product", "factor", "index", "sort", "layer"}
