"""Collectives on Python objects, which are sent as pickles and unpickled without restrictions.

They only come from processes of the same MPI job, which are trusted like this program.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy

from .collectives import _outside, _peer, _place
from .group import OBJECTS, ProcessGroup, Steps
from .world import resolve


def _packed(x: Any) -> numpy.ndarray:
    return numpy.frombuffer(bytearray(pickle.dumps(x, protocol=5)), numpy.uint8)


def _unpacked(data: Any) -> Any:
    return pickle.loads(data)


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    """Gather objects from all processes into `object_list`, ordered by rank."""
    if _outside(group):
        return
    g = resolve(group)
    _long_enough(object_list, g.size(), "object_list")
    object_list[: g.size()] = [_unpacked(p) for p in _found(g, "all_gather_object", g.all_gather_bytes(_packed(obj)))]


def _found(g: ProcessGroup, name: str, steps: Steps) -> Any:
    """Run a collective, and return what its steps return."""
    found: list = []
    g.start(name, steps, [], put=lambda values, _: found.append(values)).wait()
    return found[0]


def _long_enough(xs: Any, n: int, name: str) -> None:
    if not isinstance(xs, list) or len(xs) < n:
        raise ValueError(f"{name} must be a list with a place for each of the {n} processes")


def gather_object(
    obj: Any, object_gather_list: list | None = None, dst: int | None = None, group: Any = None, group_dst: int | None = None
) -> None:
    """Gather objects from all processes into `object_gather_list` on process `dst` (default 0), ordered by rank."""
    if _outside(group):
        return
    g = resolve(group)
    to = _place(g, dst, group_dst, "dst", default=0)
    if g.rank() == to:
        _long_enough(object_gather_list, g.size(), "object_gather_list")
    elif object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    found = _found(g, "gather_object", g.gather_bytes(_packed(obj), to))
    if found is not None and object_gather_list is not None:
        object_gather_list[: g.size()] = [_unpacked(p) for p in found]


def broadcast_object_list(
    object_list: list, src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Copy the objects in the list of process `src` (default 0) to all processes."""
    if _outside(group):
        return
    g = resolve(group)
    source = _place(g, src, group_src, "src", default=0)
    data = _packed(object_list if g.rank() == source else None)
    found = _unpacked(_found(g, "broadcast_object_list", g.broadcast_bytes(data, source)))
    if len(found) != len(object_list):
        raise ValueError(f"broadcast_object_list: rank {source} has {len(found)} objects, rank {g.rank()} a list of {len(object_list)}")
    if g.rank() != source:
        object_list[:] = found


def scatter_object_list(
    scatter_object_output_list: list, scatter_object_input_list: list | None = None, src: int | None = None, group: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Send object i of process `src`'s list (default 0) to the first element of process i's output list."""
    if _outside(group):
        return
    g = resolve(group)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    source, parts = _place(g, src, group_src, "src", default=0), None
    if g.rank() == source:
        _long_enough(scatter_object_input_list, g.size(), "scatter_object_input_list")
        parts = [_packed(x) for x in scatter_object_input_list or ()]
    scatter_object_output_list[0] = _unpacked(_found(g, "scatter_object_list", g.scatter_bytes(parts, source)))


def send_object_list(
    object_list: list, dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None
) -> None:
    """Send objects to one process."""
    if _outside(group):
        return
    g: ProcessGroup = resolve(group)
    g.send(_packed(object_list), _peer(g, dst, group_dst, "dst", "destination"), OBJECTS, []).wait()


def recv_object_list(object_list: list, src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None) -> int:
    """Receive objects from a process, or from any if `src` is None. Returns the sender's rank, or -1 outside of the group."""
    if _outside(group):
        return -1
    g: ProcessGroup = resolve(group)
    source = None if src is None and group_src is None else _peer(g, src, group_src, "src", "source")
    data: list = []
    work = g.recv(source, OBJECTS, lambda _, array: data.append(array), [])
    work.wait()
    objects = _unpacked(data[0])
    if len(objects) != len(object_list):
        raise ValueError(f"recv_object_list: {len(objects)} objects came for a list of {len(object_list)}")
    object_list[:] = objects
    return work.source
