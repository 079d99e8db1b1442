"""One class, one op."""

from . import cast, conv, index, join, linalg, math, pool, reduce, shape  # noqa: F401
