"""`Join`: processes with unequal numbers of batches go on together until the last one is done."""

from __future__ import annotations

import pytest
from processes import together

import engine
import engine.distributed as dist
from engine.distributed.algorithms.join import Join, Joinable, JoinHook


class Counter(Joinable):
    """Counts, over all processes, the batches of each iteration."""

    join_device, join_process_group = engine.device("cpu"), None

    def __init__(self):
        self.seen, self.last = [], None

    def step(self):
        Join.notify_join_context(self)
        self.seen.append(self.total(1))

    def total(self, mine):
        found = engine.tensor([float(mine)])
        dist.all_reduce(found)
        return int(found.item())

    def join_hook(self, **kwargs):
        counter = self

        class Hook(JoinHook):
            def main_hook(self):
                counter.total(0)

            def post_hook(self, is_last_joiner):
                counter.last = is_last_joiner

        return Hook()


def unequal(rank, world):
    counter = Counter()
    with Join([counter]):
        for _ in range(2 + 2 * rank):
            counter.step()
    assert counter.seen == [2, 2, 1, 1][: 2 + 2 * rank] and counter.last is (rank == 1)
    strict = Counter()
    with pytest.raises(RuntimeError, match="exhausted inputs"), Join([strict], throw_on_early_termination=True):
        for _ in range(2 + 2 * rank):
            strict.step()
    assert strict.seen == [2, 2]


def test_processes_with_unequal_batches(tmp_path):
    together(unequal, 2, tmp_path)


def test_what_join_refuses():
    with pytest.raises(ValueError, match="at least one"):
        Join([])
    with pytest.raises(TypeError, match="Joinable"):
        Join([engine.nn.Linear(1, 1)])
    counter = Counter()
    with Join([counter], enable=False):
        pass
    assert counter.last is None
