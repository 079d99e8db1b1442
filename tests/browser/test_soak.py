"""Half a minute of training with the panel open: neither the kernel nor the page grows. benchmarks/soak.py does it for longer."""

from __future__ import annotations

import pytest

from benchmarks import soak


@pytest.mark.long
@pytest.mark.own_page
def test_memory_stays_flat_while_a_training_is_watched(lab):
    found = soak.measured(lab, 30)
    kernel, heap, nodes = found["kernel_bytes"], found["page_heap_bytes"], found["page_dom_nodes"]
    # A graph kept in each of a thousand turns would be gigabytes.
    assert kernel["end"] - kernel["after_first_minute"] < 150e6, kernel
    assert heap["last_third"] - heap["first_third"] < 30e6, heap
    assert nodes["last_third"] < nodes["first_third"] + 1000, nodes
