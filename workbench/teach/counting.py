"""Arrays that count the arithmetic done with them: the cost of a rule is counted while it runs, not looked up in a table.

The rules follow Golub and Van Loan, Matrix Computations (4th ed., section 1.1.15): each element of a product, a sum or a difference is one
operation; a matrix product of m×k and k×n is m·n·k multiplications and m·n·(k−1) additions; a sum of n numbers is n−1 additions. Anything
else (a quotient, exp, a comparison, a choice) counts under `others`, one for each element of its result. Reshaping, transposing and
indexing are free. Bytes are those of the operands and the result of each of these operations, as without a cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..protocol import Cost

_FREE = {"positive", "conjugate"}
_ADD = {"add", "subtract", "negative"}
_TIMES = {"multiply", "square"}


class Tally:
    """The operations counted so far."""

    def __init__(self) -> None:
        self.multiplications = self.additions = self.others = self.bytes = 0

    def cost(self) -> Cost:
        return Cost(self.multiplications, self.additions, self.others, self.bytes)


class Counted(numpy.ndarray):
    """An array whose arithmetic, and that of everything computed from it, is added to a tally."""

    tally: Tally | None

    def __array_finalize__(self, source: Any) -> None:
        self.tally = getattr(source, "tally", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        tally = _tally_of([*inputs, *(out or ())])
        options = {key: _plain(value) for key, value in options.items()}
        if out is not None:
            options["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        _count(tally, ufunc.__name__, method, [numpy.asarray(_plain(x)) for x in inputs], result)
        return _counted(result, tally)

    def dot(self, other: Any, out: Any = None) -> Any:  # the method bypasses __array_function__
        return numpy.dot(self, other) if out is None else numpy.dot(self, other, out)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        product = func.__name__ in ("dot", "inner", "vdot", "einsum")
        if not product and func.__name__ not in ("where", "concatenate", "copyto"):
            return super().__array_function__(func, types, args, kwargs)  # its own arithmetic comes back here
        tally = _tally_of([*args, *kwargs.values()])
        plain = [_plain(x) for x in args]
        result = func(*plain, **{key: _plain(value) for key, value in kwargs.items()})
        arrays = [x for x in plain if isinstance(x, numpy.ndarray)]
        if tally is not None and func.__name__ == "einsum":
            sizes: dict[str, int] = {}
            for letters, x in zip(str(plain[0]).partition("->")[0].replace(" ", "").split(","), arrays, strict=False):
                sizes.update(zip(letters, x.shape, strict=False))
            _add_product(tally, max(1, len(arrays) - 1) * math.prod(sizes.values()), result)
        elif tally is not None and product:
            _add_product(tally, numpy.size(result) * (arrays[0].shape[-1] if arrays[0].ndim else 1), result)
        elif tally is not None and func.__name__ == "where":
            tally.others += numpy.size(result)
        if tally is not None and result is not None:
            tally.bytes += sum(x.nbytes for x in arrays) + numpy.asarray(result).nbytes
        return _counted(result, tally)


def counted(array: Any, tally: Tally) -> Counted:
    """A view of the array that counts."""
    found = numpy.asarray(array).view(Counted)
    found.tally = tally
    return found


def _tally_of(values: list[Any]) -> Tally | None:
    for value in values:
        if isinstance(value, (list, tuple)):
            found = _tally_of(list(value))
        else:
            found = value.tally if isinstance(value, Counted) else None
        if found is not None:
            return found
    return None


def _plain(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(_plain, x))
    return x.view(numpy.ndarray) if isinstance(x, Counted) else x


def _counted(result: Any, tally: Tally | None) -> Any:
    if isinstance(result, tuple):
        return tuple(_counted(one, tally) for one in result)
    if tally is None or not isinstance(result, (numpy.ndarray, numpy.generic)):
        return result
    return counted(result, tally)


def _count(tally: Tally | None, name: str, method: str, inputs: list[numpy.ndarray], result: Any) -> None:
    if tally is None or name in _FREE:
        return
    size = sum(numpy.size(one) for one in result) if isinstance(result, tuple) else numpy.size(result)
    if name == "matmul":
        _add_product(tally, size * inputs[0].shape[-1], result)
    else:
        if method == "reduce":
            size = inputs[0].size - size
        elif method == "at":
            size = inputs[-1].size
        if name in _TIMES:
            tally.multiplications += size
        elif name in _ADD:
            tally.additions += size
        else:
            tally.others += size
    tally.bytes += sum(x.nbytes for x in inputs) + sum(numpy.asarray(one).nbytes for one in _all(result))


def _all(result: Any) -> tuple:
    return () if result is None else result if isinstance(result, tuple) else (result,)


def _add_product(tally: Tally, multiplications: int, result: Any) -> None:
    tally.multiplications += multiplications
    tally.additions += multiplications - numpy.size(result)
