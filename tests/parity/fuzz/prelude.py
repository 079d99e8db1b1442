"""What the lines of a program may name: the library as `T`, and a few helpers that are written with it alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def names(library: Any) -> dict[str, Any]:
    """A fresh namespace for one run of a program on `library`: PyTorch or the engine."""

    class Cube(library.autograd.Function):
        """One input, kept; differentiable twice."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    class Product(library.autograd.Function):
        """Two inputs, one of them perhaps without a gradient; two outputs."""

        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y, x - y

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            x, y = ctx.saved_tensors
            return (g * y + h).sum_to_size(x.shape), (g * x - h).sum_to_size(y.shape)

    class Double(library.autograd.Function):
        """Writes into its input."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return g * 2

    return {
        "T": library,
        "nan": float("nan"),
        "inf": float("inf"),
        "together": together,
        "first": first,
        "seeded": lambda make: (library.manual_seed(7), make())[1],
        "Cube": Cube,
        "Product": Product,
        "Double": Double,
    }


def first(results: Any) -> Any:
    """The first of several results."""
    return results[0] if isinstance(results, tuple) else results


def together(*calls: Callable[[], Any]) -> list:
    """The results of calls that run in threads of their own; the first error is raised."""
    results: list = [None] * len(calls)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            results[i] = calls[i]()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
