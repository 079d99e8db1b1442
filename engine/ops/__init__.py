"""One class, one op."""

from . import index, linalg, math, reduce, shape  # noqa: F401
