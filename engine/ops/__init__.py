"""One class, one op."""

from . import activation, attention, cast, compare, conv, decompose, index, join, linalg, loss, math, norm, order, pool, random, reduce, rounding, scan, select, shape, special, trig  # noqa: F401
