"""Long columns travel beside the JSON, and the message is the same when they are put back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.protocol import pack as room
from workbench.protocol.pack import pack

KINDS = {"int32": "<i4", "table": "<i4", "float64": "<f8", "bool": "<u1"}


def unpacked(value, buffers):
    """What the view does: read by the description in pack.py alone."""
    if not isinstance(value, dict):
        return value
    kind = value.get("$packed")
    if kind == "rows":
        columns = {key: unpacked(inner, buffers) for key, inner in value["columns"].items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind is None:
        return {key: unpacked(inner, buffers) for key, inner in value.items()}
    numbers = np.frombuffer(buffers[value["at"]], KINDS[kind]).tolist()
    if kind == "table":
        return [value["table"][place] for place in numbers]
    return list(map(bool, numbers)) if kind == "bool" else [int(x) for x in numbers]


columns = st.one_of(
    st.lists(st.integers(-(1 << 60), 1 << 60)),
    st.lists(st.integers(-5, 5)),
    st.lists(st.booleans()),
    st.lists(st.sampled_from(["", "mul", "add", "<b>", "名"])),
    st.lists(st.lists(st.integers(0, 3), max_size=3)),
    st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "name": st.text(max_size=3)})),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=2))),
)


@given(st.dictionaries(st.sampled_from("abc"), st.one_of(columns, st.dictionaries(st.sampled_from("xyz"), columns))))
def test_what_was_packed_can_be_put_back(message):
    before, room.LONG = room.LONG, 2
    try:
        packed, buffers = pack(message, [b"mine"])
    finally:
        room.LONG = before
    assert buffers[0] == b"mine"
    assert unpacked(packed, buffers) == message


def test_a_long_graph_leaves_little_json():
    import json

    message = {
        "nodes": {"op": ["mul", "add"] * 5000, "shape": [[2, 3], [3]] * 5000, "bytes": [24, 12] * 5000, "grad": [True, False] * 5000}
    }
    packed, buffers = pack(message, [])
    assert len(json.dumps(packed)) < 400 and sum(map(len, buffers)) == 10_000 * (4 + 4 + 4 + 1)


def test_short_lists_and_what_is_none_of_these_stay():
    message = {"few": [1, 2, 3], "mixed": [1, "a"] * 600, "many": [str(i) for i in range(2000)], "deep": [[1.5]] * 2000, "text": "x" * 5000}
    assert pack(message, []) == (message, [])
