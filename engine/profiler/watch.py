"""The profiler's observer: record the start and end of each op, scope, module and backward step in one thread."""

from __future__ import annotations

import sys
import threading
import weakref
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy

from ..base import observe
from ..core import devices
from ..core.tensor import Tensor
from ..optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from . import names

FUNCTION, BACKWARD, USER, MODULE = 0, 1, 7, 8  # PyTorch's scope numbers; MODULE is the engine's own
_HERE = str(Path(__file__).resolve().parent.parent)


class Entry:
    """One timed interval, in nanoseconds of `time.perf_counter_ns`."""

    __slots__ = ("name", "start", "end", "parent", "scope", "shapes", "dtypes", "flops", "memory", "stack", "sequence", "marks",
                 "hidden", "entered", "origin")  # fmt: skip

    def __init__(self, name: str, start: int, parent: Entry | None, scope: int) -> None:
        self.name, self.start, self.end, self.parent, self.scope = name, start, start, parent, scope
        self.shapes: list = []
        self.dtypes: list[str] = []
        self.flops = 0
        self.memory = [0, 0]  # net bytes allocated on the CPU and the GPU, excluding nested entries
        self.stack: list[str] = []
        self.sequence = -1  # the tape time of the node that was created, or that is being evaluated
        self.marks: list[tuple] = []  # (start, end) marks of its own GPU work
        self.hidden = False  # nested entries are not recorded
        self.entered = False  # `leave` will end it
        self.origin: Entry | None = None  # for a product's backward step, the product


class Watch(observe.Observer):
    """Record entries between `start()` and `stop()`, and forward all events to the observer that was active before."""

    def __init__(
        self,
        cuda: bool = False,
        shapes: bool = False,
        memory: bool = False,
        stack: bool = False,
        flops: bool = False,
        modules: bool = False,
    ) -> None:
        self.entries: list[Entry] = []
        self._cuda, self._shapes, self._memory, self._stack, self._flops, self._modules = cuda, shapes, memory, stack, flops, modules
        self._open: list[Entry] = []
        self._begun, self._mark = 0, None
        self._blocks: dict[int, Any] = {}  # id of an array that owns memory -> its finalizer
        self._products: dict[int, Entry] = {}  # tape time of a node -> its product, for the backward step
        self._counts: dict[Any, dict[int, int]] = {}  # module class -> id -> number
        self._inner: observe.Observer | None = None
        self._thread = 0

    def start(self) -> None:
        """Start observing the current thread."""
        self._thread, self._inner = threading.get_ident(), observe.current
        self._observing = observe.observing(self)
        self._observing.__enter__()
        self._hooks = [register_optimizer_step_pre_hook(self._step_begins), register_optimizer_step_post_hook(self._step_ends)]

    def stop(self) -> None:
        """Restore the previous observer and close all open entries."""
        self._observing.__exit__(None, None, None)
        for hook in self._hooks:
            hook.remove()
        while self._open:
            self._close()
        for block in list(self._blocks.values()):
            block.detach()
        self._blocks.clear()
        self._inner = None

    # -- entries ---------------------------------------------------------------------------------------------------------------

    def opens(self, name: str, scope: int) -> Entry:
        """Open an entry, nested in the current one."""
        entry = Entry(name, perf_counter_ns(), self._open[-1] if self._open else None, scope)
        self._open.append(entry)
        self.entries.append(entry)
        return entry

    def closes(self, name: str) -> None:
        """Close the entry of this name and all entries nested in it."""
        if any(entry.name == name for entry in self._open):
            while self._close().name != name:
                pass

    def _close(self) -> Entry:
        entry = self._open.pop()
        entry.end = perf_counter_ns()
        return entry

    def _own(self) -> bool:
        return threading.get_ident() == self._thread

    # -- observer events ----------------------------------------------------------------------------------------------------------

    def begins(self) -> None:
        if self._inner is not None:
            self._inner.begins()
        if self._own():
            self._mark = devices.gpu.mark() if self._cuda and devices.gpu is not None else None
            self._begun = perf_counter_ns()

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        ended = perf_counter_ns()
        if self._own():
            out = next((x for x in output if isinstance(x, Tensor)), None) if isinstance(output, tuple) else output
            self._ran(names.of(op, out), op, inputs, attrs, output, out, ended)
        if self._inner is not None:
            self._inner.op(op, inputs, attrs, output)

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        ended = perf_counter_ns()
        if self._own():
            self._ran(f"{names.of(op, target)}_", op, inputs, attrs, (), target, ended)
        if self._inner is not None:
            self._inner.wrote(op, target, inputs, attrs)

    def _ran(self, name: str, op: Any, inputs: tuple, attrs: dict, results: Any, out: Any, ended: int) -> None:
        around = self._open[-1] if self._open else None
        if around is not None and (around.hidden or around.name == name):  # part of a kernel, or its only part, with the same name
            if not around.shapes:
                self._describe(around, inputs)
            if self._flops and not around.flops:
                around.flops = names.products(op, inputs, attrs, out)
                if out is not None and out.node is not None:
                    self._products[out.node.time] = around
            self._took(results, around)
            if self._mark is not None and out is not None and out.is_cuda:
                around.marks.append((self._mark, devices.gpu.mark()))
            return
        entry = Entry(name, self._begun, around, FUNCTION)
        entry.end = ended
        if out is not None and out.node is not None:
            entry.sequence = out.node.time
        if self._stack:
            entry.stack = _frames(sys._getframe(3))
        self._describe(entry, inputs)
        self.entries.append(entry)
        kernel = names.inside(op, inputs) if out is not None else None
        if kernel is not None:
            inner = Entry(kernel, self._begun, entry, FUNCTION)
            inner.end, inner.shapes, inner.dtypes, inner.stack = ended, entry.shapes, entry.dtypes, entry.stack
            self.entries.append(inner)
        worker = entry if kernel is None else inner
        if self._mark is not None and out is not None and out.is_cuda:
            worker.marks.append((self._mark, devices.gpu.mark()))
        if self._flops and out is not None:
            worker.flops = names.flops(op, inputs, attrs, out)
            if entry.sequence >= 0 and names.products(op, inputs, attrs, out):
                self._products[entry.sequence] = worker
        self._took(results, worker)

    def _describe(self, entry: Entry, inputs: tuple) -> None:
        if self._shapes:
            entry.shapes = [list(x.shape) if isinstance(x, Tensor) else [] for x in inputs]
            entry.dtypes = [x.dtype.name if isinstance(x, Tensor) else "" for x in inputs]

    def failed(self, op: Any, inputs: tuple, attrs: dict, error: Exception) -> None:
        if self._inner is not None:
            self._inner.failed(op, inputs, attrs, error)

    def enter(self, kind: str, name: str, subject: Any) -> None:
        if self._inner is not None:
            self._inner.enter(kind, name, subject)
        if self._own():
            if kind == "module":
                numbers = self._counts.setdefault(type(subject), {})
                entry = self.opens(f"nn.Module: {name}_{numbers.setdefault(id(subject), len(numbers))}", MODULE)
            elif kind == "loading":
                entry = self.opens("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", USER)
            elif kind == "function":
                around = self._open[-1] if self._open else None
                entry = self.opens(names.of_function(name), FUNCTION)
                entry.hidden = name in names.KERNELS or around is not None and around.hidden
                if self._stack:
                    entry.stack = _frames(sys._getframe(2))
                if name in names.PYTHON or around is not None and around.hidden:
                    self.entries.pop()
            else:
                entry = self.opens(name, USER)
            if kind == "module" and not self._modules:
                self.entries.pop()
            entry.entered = True

    def leave(self) -> None:
        if self._own() and self._open and self._open[-1].entered:  # otherwise it began before this profiler
            entry = self._close()
            around = self._open[-1] if self._open else None
            if entry.hidden and around is not None and around.hidden:  # a kernel nested in a kernel
                around.flops, around.memory = around.flops or entry.flops, [a + b for a, b in zip(around.memory, entry.memory, strict=True)]
                around.shapes, around.dtypes = around.shapes or entry.shapes, around.dtypes or entry.dtypes
        if self._inner is not None:
            self._inner.leave()

    def backward_begins(self, roots: tuple, plan: list) -> None:
        if self._inner is not None:
            self._inner.backward_begins(roots, plan)

    def step_begins(self, node: Any) -> None:
        if self._inner is not None:
            self._inner.step_begins(node)
        if self._own():
            name = "torch::autograd::AccumulateGrad" if node.op is None else node.name()
            self.opens(f"autograd::engine::evaluate_function: {name}", BACKWARD)
            entry = self.opens(name, BACKWARD)
            entry.sequence = node.time
            if self._cuda and devices.gpu is not None:
                entry.marks = [(devices.gpu.mark(), None)]

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        if self._own() and len(self._open) > 1:
            inner = self._close()
            self._close()
            if inner.marks:
                on_gpu = getattr(grad, "is_cuda", None) or devices.namespace(getattr(grad, "array", grad)) is devices.gpu
                inner.marks = [(inner.marks[0][0], devices.gpu.mark())] if on_gpu else []
            if self._shapes and getattr(grad, "shape", None) is not None:
                inner.shapes = [list(grad.shape)]
            if node.op is not None:
                inner.origin = self._products.get(node.time)
                if inner.origin is not None:
                    inner.flops = inner.origin.flops * sum(g is not None for g in input_grads[:2])  # one product per operand
                self._took(input_grads, inner)
        if self._inner is not None:
            self._inner.backward(node, grad, input_grads)

    def updated(self, optimizer: Any) -> None:
        if self._inner is not None:
            self._inner.updated(optimizer)

    def _step_begins(self, optimizer: Any, args: tuple, kwargs: dict) -> None:
        if self._own():
            self.opens(f"Optimizer.step#{type(optimizer).__name__}.step", USER)

    def _step_ends(self, optimizer: Any, args: tuple, kwargs: dict) -> None:
        if self._own() and self._open and self._open[-1].name.startswith("Optimizer.step#"):
            self._close()

    # -- memory ------------------------------------------------------------------------------------------------------------------

    def _took(self, results: Any, entry: Entry) -> None:
        """Count the memory of each new array once, and record when it is freed."""
        if not self._memory:
            return
        for x in results if isinstance(results, (tuple, list)) else (results,):
            array = getattr(x, "array", x)
            array = array if getattr(array, "base", None) is None else array.base
            if hasattr(array, "nbytes") and id(array) not in self._blocks:
                place = 0 if isinstance(array, numpy.ndarray) else 1
                block = self._blocks[id(array)] = weakref.finalize(array, self._gave, id(array), array.nbytes, place)
                block.atexit = False
                entry.memory[place] += array.nbytes

    def _gave(self, key: int, nbytes: int, place: int) -> None:
        if self._blocks.pop(key, None) is None:
            return
        if self._open and self._own():
            self._open[-1].memory[place] -= nbytes
            return
        entry = Entry("[memory]", perf_counter_ns(), None, FUNCTION)
        entry.memory[place] = -nbytes
        self.entries.append(entry)


def _frames(frame: Any) -> list[str]:
    """Return the user's stack frames, innermost first, as in "train.py(12): step"."""
    found = []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_HERE) and not code.co_filename.startswith("<frozen"):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found
