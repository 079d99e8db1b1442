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

from .. import onednn


class _Lowering(threading.local):
    """Whether this thread lowers a program that runs in this process, and whether that calls an eager function."""

    here = calls = False


_lowering = _Lowering()


@contextmanager
def lowering_here() -> Iterator[_Lowering]:
    """Lower what follows for this process: its large operations become calls of the eager functions, if there are any.

    Call `onednn.lend` before such a program runs.
    """
    _lowering.here, _lowering.calls = True, False
    try:
        yield _lowering
    finally:
        _lowering.here = False


def either(by_xla: Callable, eager: Callable) -> Callable:
    """Return a function `(*arrays, args, large)`, which is `by_xla(*arrays, *args)`.

    With `large` it is a primitive of JAX, which is lowered to a call of `eager`, with the same arguments, in a program of this process.
    """
    primitive = Primitive(eager.__name__)

    def plain(*arrays: Any, args: tuple) -> Any:
        return by_xla(*arrays, *args)

    @primitive.def_abstract_eval
    def result(*arrays: Any, args: tuple) -> Any:
        out = jax.eval_shape(partial(plain, args=args), *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays))
        return jax.core.ShapedArray(out.shape, out.dtype)

    def execute(args: tuple, _: Any, out: Any, *arrays: Any) -> None:
        numpy.copyto(numpy.asarray(out), onednn.borrowed(eager, *map(numpy.asarray, arrays), *args))

    def call(*arrays: Any, args: tuple) -> Any:
        return buffer_callback(partial(execute, args), result(*arrays, args=args))(*arrays)

    def lowered(context: Any, *arrays: Any, args: tuple) -> Any:
        _lowering.calls = _lowering.calls or _lowering.here
        return mlir.lower_fun(call if _lowering.here else plain, multiple_results=False)(context, *arrays, args=args)

    def over_batch(arrays: Any, axes: Any, args: tuple) -> tuple:
        return jax.vmap(partial(plain, args=args), axes)(*arrays), 0

    primitive.def_impl(plain)
    mlir.register_lowering(primitive, lowered)
    batching.primitive_batchers[primitive] = over_batch
    return lambda *arrays, args, large: (primitive.bind if large else plain)(*arrays, args=args)
