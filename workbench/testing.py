"""Fingerprints of a graph's structure: ops, shapes, dtypes, attributes and modules, without names, lines, values or times."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from engine.core import tape
from engine.core.tensor import Tensor

from . import inspector
from .recording.activations import module_of
from .recording.recorder import is_parameter
from .recording.recording import Recording, recent

UPDATE = "WB_UPDATE"  # the environment variable that makes files be rewritten
FORMAT = 1


def structure(loss: Tensor) -> list[dict[str, Any]]:
    """List the nodes that a loss depends on, in execution order. Modules are known only for recorded nodes.

    Args:
        loss: a tensor with a graph.

    Returns:
        For each node its op, dtype, shape, attributes, module, and the numbers of its inputs.

    Raises:
        TypeError: it is not a tensor of the engine.
        RuntimeError: it has no graph.

    Example::

        >>> w = engine.ones(2, requires_grad=True)
        >>> [node["op"] for node in wb.testing.structure((w * w).sum())]
        ['leaf', 'mul', 'sum']
    """
    if not isinstance(loss, Tensor):
        raise TypeError(f"A fingerprint is of a tensor of the engine, got {type(loss).__name__}.")
    if loss.node is None:
        raise RuntimeError("This tensor has no graph: it does not require grad.")
    nodes = sorted(tape.plan([loss.node]), key=lambda node: node.time)
    number = {node: at for at, node in enumerate(nodes)}
    recording = next((r for r in reversed(recent) if loss.node.time in r.times), None)
    return [_node(node, number, recording) for node in nodes]


def fingerprint(loss: Tensor) -> str:
    """Compute 16 hexadecimal digits that depend only on the graph: ops, shapes, dtypes, attributes, modules and edges.

    Args:
        loss: a tensor with a graph.

    Returns:
        The digits.

    Raises:
        TypeError: it is not a tensor of the engine.
        RuntimeError: it has no graph.

    Example::

        >>> w = engine.ones(2, requires_grad=True)
        >>> wb.testing.fingerprint(w.exp().sum()) == wb.testing.fingerprint((w + 1).exp().sum())
        False
    """
    return _digest(structure(loss))


def assert_unchanged(loss: Tensor, file: str | os.PathLike[str], update: bool | None = None) -> None:
    """Check that the graph of a loss is the one in a file. For tests: an unintended change of a model fails.

    The file is written instead with `update=True`, with `--update` on the command line, or with WB_UPDATE=1 in the environment.

    Args:
        loss: a tensor with a graph.
        file: the path of the file (JSON), to be committed with the tests.
        update: True writes the file, False compares; by default, the command line and the environment decide.

    Raises:
        AssertionError: the graphs differ, with the lines that do; or there is no file.
        TypeError: `loss` is not a tensor of the engine.
        RuntimeError: it has no graph.

    Example::

        >>> w = engine.ones(2, requires_grad=True)
        >>> wb.testing.assert_unchanged(w.exp().sum(), "exp.json", update=True)
        >>> wb.testing.assert_unchanged((w * 2).exp().sum(), "exp.json", update=False)
        Traceback (most recent call last):
            ...
        AssertionError: The graph is not the one in exp.json any more:
        @@ -1,3 +1,4 @@
         leaf float32 2
        -exp float32 2 ← leaf 2
        +mul float32 2 ← leaf 2, –
        +exp float32 2 ← mul 2
         sum float32 scalar (dim=None, dtype=None, keepdim=False) ← exp 2
        If that is meant: Write it with WB_UPDATE=1, --update or update=True, review it, and commit it.
    """
    path, nodes = Path(file), structure(loss)
    if update if update is not None else "--update" in sys.argv[1:] or os.environ.get(UPDATE, "") not in ("", "0"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(nodes), encoding="utf-8")
        return
    how = f"Write it with {UPDATE}=1, --update or update=True, review it, and commit it."
    if not path.exists():
        raise AssertionError(f"{path} does not exist: there is nothing to compare the graph with. {how}")
    held = json.loads(path.read_text(encoding="utf-8"))
    if held.get("format") != FORMAT:
        raise AssertionError(f"{path} has the format {held.get('format')!r}, and this version reads {FORMAT}. {how}")
    before = held["nodes"]
    if any("module" in one for one in before) != any("module" in one for one in nodes):  # one of the two was not recorded
        before, nodes = ([{k: v for k, v in one.items() if k != "module"} for one in some] for some in (before, nodes))
    if _digest(before) == _digest(nodes):
        return
    raise AssertionError(f"The graph is not the one in {path} any more:\n{difference(before, nodes)}\nIf that is meant: {how}")


def difference(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> str:
    """A unified diff with two lines of context; nodes are numbered only if nothing else differs."""
    for numbered in (False, True):
        old, new = ([line(nodes, at, numbered) for at in range(len(nodes))] for nodes in (before, after))
        told = [text for text in difflib.unified_diff(old, new, lineterm="", n=2) if not text.startswith(("---", "+++"))]
        if told:
            break
    return "\n".join(told[:60] + ([f"… {len(told) - 60} more lines"] if len(told) > 60 else []))


def line(nodes: list[dict[str, Any]], at: int, numbered: bool = False) -> str:
    """Format one node: module, op, dtype, shape, attributes and inputs."""
    one = nodes[at]

    def called(source: int | None) -> str:
        if source is None:
            return "–"
        taken = nodes[source]
        return f"#{source}" if numbered else f"{taken['op']} {_shape(taken)}"

    attrs = ", ".join(f"{k}={v}" for k, v in one.get("attrs", {}).items())
    takes = f" ← {', '.join(called(s) for s in one['inputs'])}" if one["inputs"] else ""
    head = f"#{at} " if numbered else ""
    module = f"{one['module']}: " if one.get("module") else ""
    return f"{head}{module}{one['op']} {one['dtype']} {_shape(one)}{f' ({attrs})' if attrs else ''}{takes}"


def _shape(one: dict[str, Any]) -> str:
    return "several" if one["shape"] is None else inspector.shape_text(one["shape"])


def _node(node: Any, number: dict[Any, int], recording: Recording | None) -> dict[str, Any]:
    if node.op is None:
        tensor = node.tensor()
        kind = "parameter" if tensor is not None and is_parameter(type(tensor)) else "leaf"
        return {"op": kind, "dtype": node.dtype.name, "shape": list(node.shape), "inputs": []}
    shape = None if node.shape is None else list(node.shape)
    found: dict[str, Any] = {"op": node.op.name, "dtype": node.dtype.name, "shape": shape}
    found["inputs"] = [None if source is None else number[source] for source in node.inputs]
    attrs = {k: _plain(v) for k, v in sorted(node.attrs.items()) if not k.startswith("__")}
    if attrs:
        found["attrs"] = attrs
    row = -1 if recording is None else recording.times.get(node.time, -1)
    if recording is not None and row >= 0 and (module := module_of(recording, row)):
        found["module"] = module
    return found


def _plain(value: Any) -> str:
    """An attribute as text that is identical in every process."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_plain, value))})"
    if value is None or isinstance(value, (bool, int, float, str, complex, slice, type(Ellipsis))):
        return repr(value)
    return getattr(value, "__name__", None) or str(getattr(value, "name", type(value).__name__))


def _digest(nodes: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(nodes, sort_keys=True).encode()).hexdigest()[:16]


def _text(nodes: list[dict[str, Any]]) -> str:
    """One node on each line, so that version control shows what changed."""
    rows = ",\n".join("  " + json.dumps(one) for one in nodes)
    return f'{{"format": {FORMAT}, "fingerprint": "{_digest(nodes)}", "nodes": [\n{rows}\n]}}\n'
