"""CUDA graphs: record the work of a block once, and replay it with one call. Capture is CuPy's; a graph has memory of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from ..autograd.function import Function, once_differentiable
from ..autograd.reverse import grad
from ..base import tree
from ..core import casting, devices, random
from ..core.create import empty_like
from ..core.op import OpType
from ..core.tensor import Tensor
from .device import backend, index_of, synchronize
from .memory import empty_cache
from .streams import Stream, StreamContext, stream

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

_ENGINE = tuple([f"{Path(__file__).parents[1] / folder}/" for folder in ("core", "cuda", "nn", "ops", "optim")])


def is_current_stream_capturing() -> bool:
    """Return whether a graph is being captured on the current stream; False without a GPU."""
    return devices.gpu is not None and backend("capture").is_capturing()


def graph_pool_handle() -> tuple[int, int]:
    """Return the id of a new memory pool, which several graphs can share. Raises RuntimeError without a GPU."""
    return backend("memory").new_id()


class CUDAGraph:
    """The recorded work of a stream. It keeps its memory pool as long as it lives.

    The tensors made in the capture are its outputs; each replay writes new values to them, computed from what is then in the memory of
    the tensors that were there before. Keep those alive, and copy new inputs into them. Random numbers differ in each replay.
    Without `keep_graph`, `raw_cuda_graph` is not available.
    """

    def __init__(self, keep_graph: bool = False):
        backend()
        self._keep_graph, self._generators = keep_graph, []
        self.reset()

    def register_generator_state(self, generator: random.Generator) -> None:
        """Let a GPU's generator draw in the capture; the default generator of the current GPU always can."""
        if not isinstance(generator, random.Philox):
            raise RuntimeError(f"register_generator_state: expected a generator of a GPU, got {generator}")
        self._generators.append(generator)

    def capture_begin(
        self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global", check_input_liveness: bool = False
    ) -> None:
        """Begin to record the current stream's work, which must not be the default stream.

        `capture_error_mode` is checked only: in every mode, this thread's synchronizations and allocations outside of the pool are
        errors, and other threads are not affected.
        """
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError(f'Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got "{capture_error_mode}"')
        if check_input_liveness:
            raise NotImplementedError("CUDAGraph: check_input_liveness is not supported")
        if self._capture is not None or self._graph is not None:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.")
        capture, memory = backend("capture"), backend("memory")
        if memory.capturing():
            raise RuntimeError("a graph is being captured in this thread already")
        self._pool = memory.pool_of(pool)
        generators = dict.fromkeys((random.generator_of(devices.device("cuda", index_of())), *self._generators))
        try:
            with memory.using(self._pool):
                self._random = [capture.Randomness(generator) for generator in generators]
            self._capture = capture.Capture(self._pool)
        except BaseException:
            self.reset()
            raise
        for state in self._random:
            state.generator.graph = state

    def capture_end(self) -> None:
        """End the recording. Raises RuntimeError, saying why, if the work cannot be captured."""
        capture = self._ended()
        try:
            self._graph = capture.end()
        except RuntimeError as error:
            self.reset()
            why = backend("capture").reason(error)
            raise RuntimeError(f"the capture of the CUDA graph has failed: {why or error}") from error
        self._held = capture.held
        self._random = [state for state in self._random if state.drawn]

    def _ended(self) -> Any:
        capture, self._capture = self._capture, None
        if capture is None:
            raise RuntimeError("capture_end: no capture is underway")
        for state in self._random:
            state.generator.graph = None
        return capture

    def _abandon(self) -> None:
        """End the recording without a graph; the stream and its memory can be used as before."""
        backend("capture").abandon(self._ended())
        self.reset()

    def instantiate(self) -> None:
        """Do nothing: the graph can be launched from `capture_end` on."""
        self._captured("instantiate")

    def replay(self) -> None:
        """Do the recorded work again, on the current stream."""
        self._captured("replay")
        for state in self._random:
            state.set()
        self._graph.launch()

    def _captured(self, what: str) -> None:
        if self._graph is None:
            raise RuntimeError(f"Called CUDAGraph::{what} without a preceding successful capture.")

    def reset(self) -> None:
        """Delete the recorded work, and free its memory unless tensors or other graphs use it."""
        self._graph: Any = None
        self._capture: Any = None
        self._pool: Any = None
        self._random: list[Any] = []
        self._held: list[Any] = []

    def pool(self) -> tuple[int, int]:
        """Return the id of the graph's memory pool, for a graph that is replayed after this one. Raises RuntimeError if it has none."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool.id

    def enable_debug_mode(self) -> None:
        """Do nothing: `debug_dump` needs no preparation."""

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph's nodes to a file, in the DOT language."""
        self._captured("debug_dump")
        Path(debug_path).write_text(self._graph.debug_dot_str(), encoding="utf-8")

    def raw_cuda_graph(self) -> int:
        """Return the address of the `cudaGraph_t`. Raises RuntimeError without `keep_graph`."""
        if not self._keep_graph:
            raise RuntimeError("You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=True")
        self._captured("raw_cuda_graph")
        return int(self._graph.graph)

    def raw_cuda_graph_exec(self) -> int:
        """Return the address of the `cudaGraphExec_t`."""
        self._captured("raw_cuda_graph_exec")
        return int(self._graph.graphExec)


class graph:
    """Record the work of a `with` block in a `CUDAGraph`, on a stream of its own or on `stream`. Nothing is computed until a replay.

    `pool` is the id of a pool that the graph shares: `graph_pool_handle()`, `other_graph.pool()` or `MemPool().id`. Raises RuntimeError,
    naming the op, for work that cannot be captured: if the host waits for the GPU, copies its own values there, or allocates elsewhere.
    After an error the graph is empty, and the stream and the pools can be used as before. `enable_annotations` has no effect.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self, cuda_graph: CUDAGraph, pool: tuple[int, int] | None = None, stream: Stream | None = None, capture_error_mode: str = "global",
        enable_annotations: bool = False, check_input_liveness: bool = False,
    ):  # fmt: skip
        kept = graph.default_capture_stream
        if stream is None and (kept is None or kept.device_index != index_of()):
            kept = graph.default_capture_stream = Stream()
        self.capture_stream = kept if stream is None else stream
        self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
        self.check_input_liveness, self.stream_ctx = check_input_liveness, StreamContext(self.capture_stream)

    def __enter__(self) -> None:
        synchronize()
        gc.collect()  # memory of reference cycles can otherwise not be used for the graph
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode, self.check_input_liveness)
        except BaseException:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph._abandon()
        finally:
            self.stream_ctx.__exit__()
        if error is not None and (why := backend("capture").reason(error)):
            raise RuntimeError(f"{_culprit(trace)} cannot be captured in a CUDA graph: {why}") from error


def _culprit(trace: TracebackType | None) -> str:
    """The op that was running when an error was raised; if there was none, the function of the engine that the program called."""
    called = ""
    for frame in _frames(trace):
        op: Any = frame.f_locals.get("op")
        if isinstance(op, OpType):
            return op.name  # type: ignore[attr-defined]
        code = frame.f_code
        if not called and code.co_filename.startswith(_ENGINE) and "<locals>" not in code.co_qualname:
            called = code.co_qualname
    return called or "this work"


def _frames(trace: TracebackType | None) -> Iterator[Any]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


# -- functions and modules as graphs -----------------------------------------------------------------------------------------


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: tuple[int, int] | None = None
) -> Any:
    """Return functions or modules that run as CUDA graphs, forward and backward, on arguments shaped like `sample_args`.

    A module is changed in place and returned: its forward is a graph in the mode, train or eval, that it has now. Several callables, in
    a tuple with a tuple of arguments for each, share a memory pool and have to be called in this order. `num_warmup_iters` runs come
    before the capture. Only tensors are arguments, and what they and the parameters require of gradients must stay as it is. The
    gradients of graphed callables cannot be differentiated. Raises RuntimeError for autocast with a cache, and for modules with hooks.
    """
    if casting.is_autocast_enabled() and casting.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`.")
    several = isinstance(callables, tuple)
    parts = [_Part(*one) for one in (zip(callables, sample_args, strict=True) if several else [(callables, sample_args)])]
    synchronize()
    with stream(Stream()):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.run()
                if part.differentiable:
                    part.seed()
                    part.pull(allow_unused_input)
    synchronize()
    shared = graph_pool_handle() if pool is None else pool
    for part in parts:  # in the order of the replays, since later captures reuse the memory of earlier ones
        with graph(part.forward, pool=shared):
            part.run()
    for part in reversed(parts):
        if part.differentiable:
            part.seed()
            with graph(part.backward, pool=shared):
                part.pull(allow_unused_input)
    made = tuple([part.graphed() for part in parts])
    return made if several else made[0]


class _Part:
    """A callable with the tensors that its graphs read and write, which are the same in each replay."""

    def __init__(self, function: Any, args: tuple) -> None:
        self.function, self.args, self.is_module = function, args, hasattr(function, "parameters")
        leaves = tree.leaves(args)
        if not all(isinstance(x, Tensor) for x in leaves):
            raise RuntimeError("make_graphed_callables: sample_args for each callable must contain only Tensors")
        if self.is_module and (function._backward_hooks or function._forward_hooks or function._forward_pre_hooks):
            raise RuntimeError(
                "Modules must not have hooks registered at the time they are passed. However, registering hooks on modules after passing "
                "them through make_graphed_callables is allowed."
            )
        if self.is_module and any(b.requires_grad for b in function.buffers()):
            raise RuntimeError("make_graphed_callables: only the parameters of a module may require grad, not its buffers")
        self.n, self.parameters = len(leaves), tuple(function.parameters()) if self.is_module else ()
        self.inputs = (*leaves, *self.parameters)
        self.forward, self.backward = CUDAGraph(), CUDAGraph()

    def run(self) -> None:
        """Compute the outputs."""
        self.result = self.function(*self.args)
        self.outputs = tree.leaves(self.result)
        self.differentiable = [y for y in self.outputs if y.requires_grad]

    def seed(self) -> None:
        """Make the tensors for the gradients of the outputs."""
        self.output_grads = [empty_like(y.detach()) for y in self.differentiable]

    def pull(self, allow_unused: bool) -> None:
        """Compute the gradients of the inputs, from those of the outputs."""
        wanted = [x for x in self.inputs if x.requires_grad]
        found = iter(grad(self.differentiable, wanted, self.output_grads, allow_unused=allow_unused))
        self.input_grads = [next(found) if x.requires_grad else None for x in self.inputs]

    def graphed(self) -> Any:
        """Return the callable that replays the graphs."""
        part = self

        class Graphed(Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Tensor) -> tuple:
                for static, given in zip(part.inputs[: part.n], inputs, strict=False):
                    if static.data_ptr() != given.data_ptr():
                        static.detach().copy_(given)
                part.forward.replay()
                found = tuple([y.detach() for y in part.outputs])
                ctx.mark_non_differentiable(*[y for y, static in zip(found, part.outputs, strict=True) if not static.requires_grad])
                return found

            @staticmethod
            @once_differentiable
            def backward(ctx: Any, *grads: Tensor) -> tuple:
                given = [g for g, y in zip(grads, part.outputs, strict=True) if y.requires_grad]
                for static, g in zip(part.output_grads, given, strict=True):
                    if static.data_ptr() != g.data_ptr():
                        static.copy_(g)
                part.backward.replay()
                return tuple([None if g is None else g.detach() for g in part.input_grads])

        def call(*args: Any) -> Any:
            found = Graphed.apply(*tree.leaves(args), *part.parameters)
            return tree.filled(part.result, iter(found if isinstance(found, tuple) else (found,)))

        return self._as_module(call) if self.is_module else call

    def _as_module(self, call: Callable) -> Any:
        module, training, eager = self.function, self.function.training, self.function.forward
        module.forward = lambda *args: (call if module.training == training else eager)(*args)
        return module
