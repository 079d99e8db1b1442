"""engine.distributed: the stores through which processes find each other."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta

import pytest

import engine.distributed as dist

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]


@pytest.mark.parametrize("kind", ["hash", "file", "tcp", "prefix"])
def test_stores(kind, tmp_path):
    made = {
        "hash": dist.HashStore,
        "file": lambda: dist.FileStore(str(tmp_path / "store"), 1),
        "tcp": lambda: dist.TCPStore("127.0.0.1", 0, 1, True),
        "prefix": lambda: dist.PrefixStore("p", dist.HashStore()),
    }
    s = made[kind]()
    s.set("a", "b")
    s.set("bytes", b"\0\xff")
    assert s.get("a") == b"b" and s.get("bytes") == b"\0\xff"
    assert s.add("n", 3) == 3 and s.add("n", 4) == 7 and s.get("n") == b"7"
    assert s.check(["a", "n"]) and not s.check(["a", "q"])
    assert s.delete_key("a") is True and s.delete_key("a") is False and not s.check(["a"])
    assert s.compare_set("q", "", "x") == b"x" and s.compare_set("q", "wrong", "y") == b"x" and s.compare_set("q", "x", "y") == b"y"
    s.append("q", "z")
    assert s.multi_get(["q", "n"]) == [b"yz", b"7"]
    s.set_timeout(timedelta(seconds=0.05))
    assert s.timeout == timedelta(seconds=0.05)
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: nobody"):
        s.get("nobody")
    with pytest.raises(dist.DistStoreError, match="wait timeout after 10ms, keys: a, b"):
        s.wait(["a", "b"], timedelta(seconds=0.01))
    threading.Timer(0.05, lambda: s.set("late", "now")).start()
    s.wait(["late"], timedelta(seconds=5))
    if kind == "tcp":
        other = dist.TCPStore("127.0.0.1", s.port, 1, False, wait_for_workers=False)
        assert other.get("late") == b"now"
        other.close(), s.close()
    with pytest.raises(dist.DistNetworkError, match="no store answers"):
        dist.TCPStore("127.0.0.1", 1, timeout=timedelta(seconds=0.1))


def test_a_thread_that_waits_lets_the_others_ask():
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    waiting = threading.Thread(target=lambda: store.wait(["end"], timedelta(seconds=30)))
    waiting.start()
    for i in range(3):
        start = time.monotonic()
        store.set("end" if i == 2 else f"n{i}", "now")
        assert time.monotonic() - start < 20  # one short wait of the other thread, not all of its waiting
    waiting.join(10)
    assert not waiting.is_alive()
    store.close()
