"""In which order results lie in memory. Strides are PyTorch 2.13's; `tests/parity/test_memory_order_parity.py` has more of them."""

from __future__ import annotations

import engine
from engine.nn import functional as F


def test_what_joins_images_lies_as_they_do():
    x = engine.randn(2, 3, 4, 5).to(memory_format=engine.channels_last)
    one, rows = x[:, :1], x.contiguous()
    assert engine.cat([x, x]).stride() == (60, 1, 15, 3) and engine.cat([x, x], 1).stride() == (120, 1, 30, 6)
    assert engine.cat([x, one], 1).stride() == (80, 1, 20, 4)
    assert engine.cat([x, rows], 1).stride() == engine.cat([rows, x], 1).stride() == (120, 20, 5, 1)
    assert engine.cat([x, one.contiguous()], 1).stride() == (80, 20, 5, 1)  # of one channel, and in rows
    assert engine.equal(engine.cat([x, x], 1), engine.cat([rows, rows], 1))


def test_part_of_the_channels_still_lies_with_them_last():
    x = engine.randn(2, 4, 6, 6).to(memory_format=engine.channels_last)
    assert F.conv2d(x[:, :2], engine.ones(3, 2, 3, 3)).stride() == (48, 1, 12, 3)
    assert F.max_pool2d(x[:, 1:3], 2).stride() == (18, 1, 6, 2)


def test_the_mask_of_a_dropout_is_drawn_in_the_order_of_memory():
    """A decoder that joins images and drops channels of them: the elements that are kept are those of PyTorch."""
    x = engine.ones(1, 2, 2, 2).to(memory_format=engine.channels_last)
    engine.manual_seed(0)
    dropped = F.dropout(engine.cat([x, x], 1), 0.5)
    engine.manual_seed(0)
    assert engine.equal(dropped.permute(0, 2, 3, 1), F.dropout(engine.ones(1, 2, 2, 4), 0.5))
