"""The backward pass of a compiled call: a second program, which computes the gradients from arrays that the first one returned.

While a step is traced, the engine's tape records it as always. The arrays that its nodes saved become further results of the program. The
program of the backward pass is traced when it is first needed: it puts new values into those arrays, and runs the pass over these nodes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy

from ..autograd.function_context import FunctionCtx
from ..backends import onednn
from ..backends.xla import Traced, TraceError, lowering_here
from ..base import observe
from ..core import tape
from ..core.tensor import Tensor
from .memory import as_buffer, seen
from .origins import Origins


class Backward:
    """The op of a compiled call's node on the tape; `roots` are the traced nodes of its results, `targets` those of its inputs.

    `given` maps the id of a value that an input brought to the number of the input's tensor: it need not be returned. `forward` says which
    op made which node.
    """

    picks = variadic = view = False
    ruled, rules, aux, params, defaults = True, (), (), (), {}
    name, __doc__ = "compiled", "A compiled call."

    def __init__(self, roots: list, targets: list, given: dict[int, int], forward: dict | None = None) -> None:
        self.multi = len(roots) > 1
        self._roots, self._targets = roots, targets
        self._boxes: list[tuple[Traced, int]] = []  # each saved array, and the number of its value
        self.values: list = []  # what the program returns for the pass
        self.saved: list[int | None] = []  # for each distinct saved value the number of the tensor that holds it, or None
        numbers: dict[int, int] = {}
        for node in tape.plan(roots):
            if node.op is not None:
                if node.saved.__class__ is not tuple:
                    raise TraceError(
                        "compile: saved tensors with hooks (checkpoint, save_on_cpu) have no compiled form across the step's end"
                    )
                for box in _within((node.saved, node.attrs)):
                    value = box.value
                    number = numbers.setdefault(id(value), len(self.saved))
                    if number == len(self.saved):
                        self.saved.append(given.get(id(value)))
                        if self.saved[-1] is None:
                            self.values.append(value)
                    self._boxes.append((box, number))
        self.inputs = tuple(f"input{i}" for i in range(len(targets)))
        self.outputs = tuple(f"out{i}" for i in range(len(roots)))
        self.slots = tuple(f"saved{i}" for i in range(len(self.saved)))
        self.program: Any = None
        self.borrows = False  # the program calls eager functions, with OpenMP's threads
        self.traced, self.compiled = 0.0, 0.0  # seconds
        self._forward, self.origins = forward, []

    def __repr__(self) -> str:
        return "<op compiled>"

    def nodes(self, arrays: list, saved: tuple, inputs: list) -> list:
        """Return the nodes of results with these arrays; `saved` are the arrays for the pass, `inputs` the nodes of the inputs."""
        first = arrays[0]
        node = tape.Node(self, tuple(inputs), {}, saved, None if self.multi else first.shape, first.dtype)
        if not self.multi:
            return [node]
        node.attrs = {"__outputs__": len(arrays), "__results__": tuple((a.shape, a.dtype) for a in arrays)}
        return [tape.picked(node, i, a) for i, a in enumerate(arrays)]

    def pull(self, node: Any, grad: Any) -> list:
        grads = list(grad) if self.multi else [grad]
        grads = [numpy.zeros(r.shape, r.dtype) if g is None else g for g, r in zip(grads, self._roots, strict=True)]
        with jax.enable_x64(True), jax.default_matmul_precision("float32"):
            given = [as_buffer(a) for a in node.saved], [as_buffer(g) for g in grads]
            if self.program is None:
                start = time.perf_counter()
                with lowering_here() as lowering:
                    lowered = jax.jit(self._body, keep_unused=True).lower(*given)
                    self.borrows = lowering.calls
                self.traced = time.perf_counter() - start
                self.program = lowered.compile()
                self.compiled = time.perf_counter() - start - self.traced
            if self.borrows:
                onednn.lend()
            found = iter(self.program(*given))
        return [seen(next(found)) if some else None for some in self.reached]

    def pull_recorded(self, node: Any, grad: Any, xp: Any) -> list:
        raise NotImplementedError("compile: a compiled call has no second derivative; call the function itself, without compile")

    def push(self, node: Any, tangents: list, xp: Any, recorded: bool) -> Any:
        raise NotImplementedError("compile: a compiled call has no forward-mode derivative; call the function itself, without compile")

    def _body(self, saved: list, grads: list) -> list:
        for box, number in self._boxes:
            box.set_root(saved[number])
        captured: dict = dict.fromkeys(self._targets)
        roots = [(r, Traced(g)) for r, g in zip(self._roots, grads, strict=True)]
        mode, tape.mode.grad = tape.mode.grad, False
        hooks = [t.hooks for t in self._targets]  # of the inputs: they run in the pass that this call is a node of
        watching = Origins(self._forward)
        try:
            for t in self._targets:
                t.hooks = None
            with observe.observing(watching):
                tape.backward(roots, numpy, True, captured, False)
        finally:
            tape.mode.grad = mode
            for t, own in zip(self._targets, hooks, strict=True):
                t.hooks = own
            watching.close()
            self.origins = watching.table
        self.reached = [captured[t] is not None for t in self._targets]
        return [captured[t].value for t in self._targets if captured[t] is not None]


def _within(x: Any) -> Iterator[Traced]:
    """Yield the traced arrays in nested tuples, lists, dicts, tensors, and what a custom Function kept."""
    if x.__class__ is Traced:
        yield x
    elif isinstance(x, Tensor):
        yield from _within(x.array)
    elif isinstance(x, FunctionCtx):
        yield from _within(vars(x))
    elif isinstance(x, dict):
        yield from _within(tuple(x.values()))
    elif isinstance(x, (tuple, list)):
        for one in x:
            yield from _within(one)
