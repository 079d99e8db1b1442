"""Numbers of whole arrays that a recording computes during a training, against double precision."""

from __future__ import annotations

import numpy
import pytest

from workbench.recording import late

NORMAL = numpy.random.default_rng(0).standard_normal((50, 40)).astype(numpy.float32)


@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e-19, 1e25], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_sizes_are_those_in_double_precision(scale, dtype):
    factor = scale if dtype != "float16" else 1.0
    array = (NORMAL * numpy.float64(factor)).astype(dtype)
    for view in (array, array[::2, 1::3], array.T):
        exact = view.astype("complex128")
        assert late.squares([view]).get() == pytest.approx([(abs(exact) ** 2).sum()], rel=1e-5)
        assert late.largest([view]).get() == pytest.approx([abs(exact).max()], rel=1e-6)


@pytest.mark.parametrize("bad", [numpy.nan, numpy.inf, -numpy.inf])
def test_a_value_that_is_not_finite_is_in_the_number(bad):
    array = NORMAL.copy()
    array[3, 4] = bad
    expected = abs(bad)
    numpy.testing.assert_equal([*late.squares([array]).get(), *late.largest([array]).get()], [expected, expected])
