"""Functions of arrays that a program of this process computes as an eager step does, where XLA's code for the CPU is slower.

An exported program has XLA's form, and so has one for another kind of device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.core
import numpy
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

_one = threading.Lock()  # each of them uses all threads: two at a time would share them


class _Lowering(threading.local):
    """Whether this thread lowers a program that runs in this process."""

    here = False


_lowering = _Lowering()


@contextmanager
def lowering_here() -> Iterator[None]:
    """Lower what follows for this process: its large operations become calls of the eager functions."""
    _lowering.here = True
    try:
        yield
    finally:
        _lowering.here = False


def either(by_xla: Callable, eager: Callable) -> Callable:
    """Return a function `(*arrays, args, large)`, which is `by_xla(*arrays, *args)`.

    With `large` it is a primitive of JAX, which is lowered to a call of `eager`, with the same arguments, in a program of this process.
    """
    primitive = Primitive(eager.__name__)
    primitive.multiple_results = True

    def plain(*arrays: Any, args: tuple) -> list:
        return jax.tree.leaves(by_xla(*arrays, *args))

    def shapes(*arrays: Any, args: tuple) -> list:
        return jax.eval_shape(partial(plain, args=args), *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays))

    def execute(args: tuple, _: Any, outs: list, *arrays: Any) -> None:
        with _one:
            results = eager(*map(numpy.asarray, arrays), *args)
            for out, value in zip(outs, results if isinstance(results, tuple) else (results,), strict=True):
                numpy.copyto(numpy.asarray(out), value)

    def call(*arrays: Any, args: tuple) -> list:
        return buffer_callback(partial(execute, args), shapes(*arrays, args=args))(*arrays)

    def lowered(context: Any, *arrays: Any, args: tuple) -> Any:
        return mlir.lower_fun(call if _lowering.here else plain)(context, *arrays, args=args)

    def over_batch(arrays: Any, axes: Any, args: tuple) -> tuple:
        results = jax.vmap(partial(plain, args=args), axes)(*arrays)
        return results, [0] * len(results)

    @primitive.def_abstract_eval
    def _(*arrays: Any, args: tuple) -> list:
        return [jax.core.ShapedArray(s.shape, s.dtype) for s in shapes(*arrays, args=args)]

    primitive.def_impl(plain)
    mlir.register_lowering(primitive, lowered)
    batching.primitive_batchers[primitive] = over_batch

    def compute(*arrays: Any, args: tuple, large: bool) -> Any:
        results = (primitive.bind if large else plain)(*arrays, args=args)
        return results[0] if len(results) == 1 else tuple(results)

    return compute
