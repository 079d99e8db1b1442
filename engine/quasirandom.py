"""`engine.quasirandom`: Sobol sequences, low-discrepancy points in the unit cube, under PyTorch's name.

A point is the exclusive or of the direction numbers selected by the bits of its index's Gray code, so that consecutive points differ by
one direction number.
"""

from __future__ import annotations

from typing import Any

import numpy

from .base import dtypes
from .core.from_data import tensor
from .core.op import functions as _f
from .core.random import Generator
from .core.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol points in [0, 1)^dimension, optionally scrambled by a random matrix and shift from `seed` or the global generator.

    The direction numbers are those of Joe and Kuo (criterion D(6)), from SciPy. Raises ValueError unless 1 <= dimension <= 21201.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        from scipy.stats import qmc

        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        directions = qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT)._sv.astype(numpy.int64)
        shift = numpy.zeros(dimension, numpy.int64)
        if scramble:
            directions, shift = self._scrambled(directions)
        self.sobolstate, self.shift = tensor(directions), tensor(shift)
        self.quasi = self.shift.clone()
        self._first_point = (self.shift / 2**self.MAXBIT).reshape(1, -1)  # in the default dtype at construction, whatever draw() gets
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: dtypes.dtype | None = None) -> Tensor:
        """Return the next `n` points, of shape (n, dimension), in `dtype` or the default dtype; also written to `out` if given."""
        if n < 0 or n == self.num_generated == 0:
            raise RuntimeError(f"SobolEngine.draw takes a positive number of points, got {n}")
        dtype = dtype or dtypes.default
        begins = self.num_generated == 0  # the first point is the start itself; each further one is a step
        index = self._steps_done() + numpy.arange(n - begins)
        lowest_zero = numpy.log2(~index & (index + 1)).astype(numpy.int64)
        walk = numpy.bitwise_xor.accumulate(numpy.concatenate([self.quasi.array[None], self.sobolstate.array.T[lowest_zero]]))
        self.quasi.copy_(tensor(walk[-1]))
        self.num_generated += n
        result = tensor(walk[1:]).to(dtype) * 2.0**-self.MAXBIT
        if begins:
            result = _f["cat"]((self._first_point.to(dtype), result))
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: dtypes.dtype | None = None) -> Tensor:
        """Return the next 2^m points. Raises ValueError unless the total is then a power of two, which keeps the points balanced."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been previously "
                f"generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do this, please use 'SobolEngine.draw()'."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip the next `n` points."""
        before = self._steps_done()
        self.num_generated += n
        after = self._steps_done()
        changed = (before ^ before >> 1) ^ (after ^ after >> 1)
        bits = [k for k in range(self.MAXBIT) if changed >> k & 1]
        self.quasi.copy_(tensor(self.quasi.array ^ numpy.bitwise_xor.reduce(self.sobolstate.array[:, bits], axis=1)))
        return self

    def _steps_done(self) -> int:
        return max(self.num_generated - 1, 0)

    def _scrambled(self, directions: Any) -> tuple[Any, Any]:
        """Return the direction numbers, each multiplied by its dimension's lower triangular bit matrix, and the shift."""
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        bits = self.MAXBIT
        shift = _f["randint"](2, (self.dimension, bits), generator=generator).array @ (1 << numpy.arange(bits))
        matrix = numpy.tril(_f["randint"](2, (self.dimension, bits, bits), generator=generator).array)
        matrix[:, numpy.arange(bits), numpy.arange(bits)] = 1
        high_first = 1 << numpy.arange(bits)[::-1]
        columns = (directions[:, None, :] & high_first[:, None] != 0).astype(numpy.int64)  # (dimension, bit, number)
        return numpy.einsum("dbn,b->dn", matrix @ columns & 1, high_first), shift

    def __repr__(self) -> str:
        told = [f"dimension={self.dimension}"]
        if self.scramble:
            told.append("scramble=True")
        if self.seed is not None:
            told.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(told)})"
