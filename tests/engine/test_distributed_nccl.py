"""What the NCCL group does around NCCL, with a stand-in for CuPy: which GPU and stream, and what goes over the links."""

from __future__ import annotations

import sys
import threading
import types

import numpy
import pytest
from engine.distributed.links import Links

import engine.distributed as dist
from engine.distributed import nccl


class Place(threading.local):
    """What is current in a thread."""

    found = ("gpu 0", "default stream")


class Current:
    """A GPU (`at` 0) or a stream (1), which is current in a `with` block, in its thread."""

    def __init__(self, place, at):
        self.place, self.at, self.name = place, at, place.found[at]

    def __enter__(self):
        self.before = self.place.found
        self.place.found = tuple(self.name if i == self.at else v for i, v in enumerate(self.before))

    def __exit__(self, *error):
        self.place.found = self.before


@pytest.fixture
def place(monkeypatch):
    place = Place()
    cuda = types.SimpleNamespace(Device=lambda: Current(place, 0), get_current_stream=lambda: Current(place, 1))
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    return place


def test_a_collective_of_its_own_runs_where_it_was_called(place):
    group = nccl.NcclGroup(Links(0, 1, dist.HashStore(), 1.0, "127.0.0.1"), 0, [0], 1.0, "nccl")
    place.found = ("gpu 3", "side stream")
    seen = []
    group.start(lambda: seen.append((place.found, threading.current_thread().name)), []).wait()
    group.close()
    assert seen == [(("gpu 3", "side stream"), "collectives")] and place.found == ("gpu 3", "side stream")


def test_what_nccl_does_not_carry_goes_over_the_links_from_the_host(monkeypatch):
    class OnGpu:
        """An array that refuses to become NumPy's by itself, as CuPy's does."""

        def __init__(self, host):
            self.host = host

        def __array__(self, *args, **kwargs):
            raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    monkeypatch.setattr(nccl, "_host", lambda x: x.host)
    group = nccl.NcclGroup(Links(0, 1, dist.HashStore(), 1.0, "127.0.0.1"), 0, [0], 1.0, "nccl")
    monkeypatch.setattr(group, "_ready", lambda flat, tag: None)
    flags = numpy.array([True, False])
    assert group.broadcast(OnGpu(flags), 0, 2).tolist() == [True, False]
    assert [part.tolist() for part in group.all_gather(OnGpu(flags), 4)] == [[True, False]]
