"""What is left when a group or a start of processes has ended, well or not: no descriptor, file in shared memory, folder, process, thread."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import timedelta

import pytest
from processes import together

import engine
import engine.distributed as dist
from engine import multiprocessing as mp

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc and /dev/shm"),
]


def held():
    """How many descriptors by what they are, files in shared memory, children and threads this process has."""
    found = Counter()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[os.readlink(f"/proc/self/fd/{fd}").partition(":")[0]] += 1
        except FileNotFoundError:
            continue  # that of the listing itself
    found["files in /dev/shm"] = sum(name.startswith("engine") for name in os.listdir("/dev/shm"))
    found["folders of jobs"] = sum(name.startswith(("engine-job-", "prte.")) for name in os.listdir(tempfile.gettempdir()))
    found["children"], found["threads"] = len(multiprocessing.active_children()), threading.active_count()
    return found


def assert_no_more_than(before):
    """Threads that read see the end of their links a moment later; those of other tests may have ended since `before`."""
    end = time.monotonic() + 60
    while more := held() - before:
        assert time.monotonic() < end, more
        gc.collect()
        time.sleep(0.02)


def again(rank, path, world):
    """Jobs after the first, which starts MPI until the process ends, leave what there was before."""
    for i in range(3):
        if i == 1:
            before = held()
        dist.init_process_group("gloo", f"file://{path}{i}", timedelta(seconds=20), world, rank)
        x = engine.ones(40_000)
        dist.all_reduce(x, async_op=True).wait()
        dist.all_reduce(x, group=dist.new_group(list(range(world))), async_op=True).wait()
        dist.destroy_process_group()
    assert_no_more_than(before)


def test_a_job_that_is_left_leaves_nothing(tmp_path):
    before = held()
    mp.start_processes(again, (str(tmp_path / "met"), 3), nprocs=3, start_method="fork")
    assert_no_more_than(before)


def fails_in_a_job(rank, world):
    dist.all_reduce(engine.ones(2))
    if rank == 1:
        raise KeyError("as expected")
    dist.all_reduce(engine.ones(2))


def test_a_job_in_which_one_fails_leaves_nothing(tmp_path):
    before = held()
    with pytest.raises(mp.ProcessRaisedException):
        together(fails_in_a_job, 2, tmp_path)
    assert_no_more_than(before)


def test_a_store_and_a_start_that_fail_leave_nothing():
    before = held()
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    store.set("a", "b")
    with pytest.raises(dist.DistNetworkError, match=r"no connection from rank\(s\) \[1\]"):
        dist.init_process_group("gloo", store=store, rank=0, world_size=2, timeout=timedelta(seconds=0.2))
    store.close()
    assert_no_more_than(before)


def test_an_address_that_is_taken_leaves_nothing():
    before = held()
    first = dist.TCPStore("127.0.0.1", 0, 1, True)
    with pytest.raises(dist.DistNetworkError, match="another process of this user has a store at port"):
        dist.TCPStore("127.0.0.1", first.port, 1, True)
    with pytest.raises(dist.DistStoreError, match="1 of 2 processes have come"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=0.1))
    first.close()
    assert_no_more_than(before)
