"""Export of the graph as JSON: every node with its inputs, its group and its line of code. docs/export.md documents the format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from .. import protocol
from .privacy import without_paths

FORMAT, VERSION = "gradient-workbench graph", 1
Stats = Callable[[int], Mapping[str, Any] | None]


def graph(message: protocol.Graph, stats: Stats | None = None, paths: bool = False) -> dict[str, Any]:
    """Return the graph as plain data. `stats(row)` returns statistics of a node's value, or None if the value is not known."""
    nodes, edges = message.nodes, message.edges
    inputs: dict[int, list[dict[str, int]]] = {}
    for source, target, slot in zip(edges.source, edges.target, edges.slot, strict=True):
        inputs.setdefault(target, []).append({"node": source, "slot": slot})
    table = [
        {
            "id": row,
            "kind": nodes.kind[row],
            "op": nodes.op[row],
            "name": nodes.name[row],
            "shape": nodes.shape[row],
            "dtype": nodes.dtype[row],
            "bytes": nodes.bytes[row],
            "saved_bytes": nodes.saved[row],
            "requires_grad": nodes.grad[row],
            "group": None if nodes.group[row] < 0 else nodes.group[row],
            "site": None if nodes.site[row] < 0 else nodes.site[row],
            "note": nodes.note[row],
            "inputs": sorted(inputs.get(row, []), key=lambda one: one["slot"]),
            **({} if stats is None else {"stats": stats(row)}),
        }
        for row in range(len(nodes.op))
    ]
    groups = [{**asdict(one), "parent": None if one.parent < 0 else one.parent} for one in message.groups]
    sites = [asdict(site) for site in message.sites]
    for site in sites:
        del site["cell_id"]  # meaningless outside the notebook
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "title": message.title,
        "root": None if message.root < 0 else message.root,
        "dropped_ops": message.dropped,
        "nodes": table,
        "groups": groups,
        "sites": sites,
    }
    return whole if paths else without_paths(whole)


def text(message: protocol.Graph, stats: Stats | None = None, paths: bool = False) -> str:
    """Return the graph as JSON text with one node per line."""
    whole = graph(message, stats, paths)
    lines = []
    for name, value in whole.items():
        if isinstance(value, list):
            inner = ",\n".join("    " + _json(one) for one in value)
            lines.append(f'  "{name}": [\n{inner}\n  ]' if value else f'  "{name}": []')
        else:
            lines.append(f'  "{name}": {_json(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
