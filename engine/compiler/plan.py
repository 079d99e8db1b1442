"""One compiled form of a step: which tensors go in, which come out changed, and XLA's program between."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy

from ..backends import onednn
from ..backends.xla import Traced, TraceError, lowering_here, raw
from ..base import errors, observe, tree
from ..core import casting, devices, random, tape, versions
from ..core.tensor import Tensor
from .backward import Backward
from .discovery import Discovery, Draws
from .effects import Snapshot, Stored
from .memory import ALONE, blocks, seen
from .origins import Origins


class _Tracing(threading.local):
    """The plan whose step this thread traces."""

    plan: Any = None


tracing = _Tracing()


def _spec(array: Any) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


class Plan:
    """A step's program for arguments of these shapes, in this state of its modules and optimizers.

    `blocks` hold the state, and `owned` are its tensors that have a gradient before the step. A changed block, and an old gradient for
    which there is a new one, are donated: XLA writes the new values over them.
    """

    def __init__(self, fn: Callable, args: list, structure: Any, found: Discovery, before: Snapshot) -> None:
        self.fn, self.draws, self._before = fn, found.draws, before
        self.stored: list[Stored] = []  # what the step stores in objects; the values are their structure
        self.structure = tree.mapped(lambda x: 0, structure)  # without the arguments themselves, which would stay alive
        self.optimizers, self.modules = list(found.optimizers.values()), list(found.modules.values())
        self.inputs = [i for i, a in enumerate(args) if isinstance(a, Tensor) and not any(a is b for b in args[:i])]
        given = {id(args[i]) for i in self.inputs}
        state: dict[int, Tensor] = {}
        for t in self._state(found):
            if isinstance(t, Tensor) and id(t) not in given:
                if t.array.__class__ is not numpy.ndarray:
                    raise TraceError(f"compile: the step uses a tensor on {t.device}; only steps on the CPU have a compiled form")
                state.setdefault(id(t), t)
        self.leaves = list(state.values())
        self.blocks = blocks(self.leaves)
        self.owned = [t for t in self.leaves if t._grad is not None]
        self.rates = [g for o in self.optimizers for g in o.param_groups if isinstance(g.get("lr"), float)]
        self._bare = [args[i]._grad is None for i in self.inputs]
        self.traces, self.seconds, self.trace_seconds = 0, 0.0, 0.0  # `trace_seconds` include lowering
        self.because = ""  # what changed, if the step had another program for the same arguments
        self.times: tuple[float, dict[str, float]] | None = None  # measured by `explain`: of a run, and of each part

    def _state(self, found: Discovery) -> Any:
        yield from found.tensors()
        for m in found.modules.values():
            yield from m._parameters.values()
            yield from m._buffers.values()
        for o in self.optimizers:
            for group in o.param_groups:
                yield from tree.leaves({k: v for k, v in group.items() if k != "params"})
                for p in group["params"]:
                    yield p
                    yield from tree.leaves(o.state.get(p, {}))

    # -- tracing ---------------------------------------------------------------------------------------------------------------

    def compile(self, args: list) -> None:
        """Trace the step and compile it; raises TraceError for what has no compiled form."""
        devices.tracing()
        start = time.perf_counter()
        with jax.enable_x64(True), jax.default_matmul_precision("float32"):
            self._args = args
            self.changing, self.still = list(range(len(self.blocks))), []
            self.donated, self.kept = list(range(len(self.owned))), []
            state = [jax.ShapeDtypeStruct(b.shape, b.dtype) for b in self.blocks]
            grads = [_spec(t._grad.array) for t in self.owned]  # type: ignore[union-attr]
            rest = [_spec(args[i].array) for i in self.inputs], [0.1] * len(self.rates), [_spec(d) for d in self._drawn_again()]
            jax.eval_shape(self._body, state, grads, [], [], *rest)
            changed, replaced = set(self.changed), {i for i in self.replaced if _spec(self.owned[i].array) == grads[i]}
            self.uses_grads = bool(self.fresh or self.gone or self.written)
            if not self.uses_grads:  # those that there are do not matter
                self.owned, grads, replaced = [], [], set()
            self.changing = sorted(changed)
            self.still = [i for i in range(len(self.blocks)) if i not in changed]
            self.donated = sorted(replaced)
            self.kept = [i for i in range(len(self.owned)) if i not in replaced]
            jitted = jax.jit(self._body, donate_argnums=(0, 1), keep_unused=True)
            self.traced = jitted.trace(
                [state[i] for i in self.changing], [grads[i] for i in self.donated], [state[i] for i in self.still],
                [grads[i] for i in self.kept], *rest,
            )  # fmt: skip
            with lowering_here() as lowering:
                lowered = self.traced.lower()
                self.borrows = lowering.calls
            self.trace_seconds = time.perf_counter() - start
            self.program = lowered.compile()
            del self._args, self._before
        self.seconds = time.perf_counter() - start

    def _body(self, changing: list, donated: list, still: list, kept: list, given: list, rates: list, drawn: list) -> Any:
        """Run the step on traced arrays. Everything that it changes is put back, and returned instead."""
        self.traces += 1
        state, old = _merged((self.changing, changing), (self.still, still)), _merged((self.donated, donated), (self.kept, kept))
        roots, olds = [Traced(value) for value in state], [Traced(value) for value in old]
        arguments = list(self._args)
        inputs = [arguments[i] for i in self.inputs]
        leaves = [*self.leaves, *inputs]
        groups = [g for o in self.optimizers for g in o.param_groups]
        before = [(t, t.array, t._grad, t.node) for t in leaves]
        old_grads: list[tuple[Any, Any]] = [(t._grad, t._grad.array) for t in self.owned]  # type: ignore[union-attr]
        options, steps, mode = [dict(g) for g in groups], [o._steps for o in self.optimizers], tape.mode.grad
        caches = casting.is_autocast_cache_enabled()
        states = [(o, p, dict(s)) for o in self.optimizers for p, s in o.state.items()]
        numbers, wanted = iter(drawn), iter(self.draws)

        def draw(fn: Callable, source: Any, args: tuple, kwargs: dict) -> Any:
            noted = next(wanted, None)
            if noted is None or noted[:2] != (fn, source) or not _same(noted[2:], (args, kwargs)):
                raise TraceError(f"compile: the step does not draw the same random numbers each time{errors.at_user_line()}")
            return Traced(next(numbers))

        watching = Origins()
        tracing.plan, random.drawing.by = self, Draws(draw)
        casting.set_autocast_cache_enabled(False)  # it would keep traced casts, and use older ones
        try:
            views = [
                (t, view) for b, root in zip(self.blocks, roots, strict=True) for t, view in zip(b.tensors, b.views(root), strict=True)
            ]
            for t, view in views:
                t.array = view
            for (grad, _), box in zip(old_grads, olds, strict=True):
                grad.array = box
            for t, value in zip(inputs, given, strict=True):
                t.array = Traced(value)
            for t in leaves:  # the graph of the step ends at its inputs
                if t.node is not None and t.node.op is not None:
                    t.node = tape.Leaf(t)
            for g, value in zip(self.rates, rates, strict=True):
                g["lr"] = Traced(
                    jax.lax.convert_element_type_p.bind(value, new_dtype=numpy.dtype("float64"), weak_type=True, sharding=None)
                )
            marks, stands = [dict(g) for g in groups], [_stand_in(one.holder.get(one.key)) for one in self.stored]
            for one, stand in zip(self.stored, stands, strict=True):
                one.holder[one.key] = stand
            with observe.observing(watching):
                result = self.fn(*self._before.args, **self._before.kwargs)
            self._refuse_changes(groups, marks, states)
            stored = self._before.stored()
            results = result, [one.value for one in stored]
            used = {id(t) for t in (*watching.found.tensors(), *tree.leaves(results)) if isinstance(t, Tensor)}
            for one, stand in zip(self.stored, stands, strict=True):
                if not used.isdisjoint(map(id, tree.leaves(stand))):
                    raise TraceError(f"compile: the function reads {one.words}, and replaces it; write into it instead, as copy_() does")
            self.stored = [one._replace(value=tree.mapped(lambda x: None, one.value)) for one in stored]
            self.shape = tree.mapped(lambda x: None, result)
            self.changed = [i for i, (root, value) in enumerate(zip(roots, state, strict=True)) if root.value is not value]
            outs = [roots[i].value for i in self.changed]
            self.altered = [i for i, (t, value) in enumerate(zip(inputs, given, strict=True)) if t.array.value is not value]
            if self.altered and len({id(versions.storage(a)) for t, a, _, _ in before[len(self.leaves) :]}) < len(inputs):
                raise TraceError("compile: the function writes into an argument, and two arguments share memory")
            outs += [inputs[i].array.value for i in self.altered]
            self._note_grads(leaves, before)
            grads = [raw(leaves[i]._grad.array) for i in self.fresh]  # type: ignore[union-attr]
            changed = [box.value is not value for box, value in zip(olds, old, strict=True)]
            self.written = [i for i, some in enumerate(changed) if some and i not in self.ended]
            rewritten = [raw(old_grads[i][0].array) for i in self.written]
            values = self._note_results(results, leaves), self._note_backward(results, leaves, watching.forward)
            self.advance = [o._steps - n for o, n in zip(self.optimizers, steps, strict=True)]
            del result, results, stored
        finally:
            watching.close()
            self._before.restore()
            self.origins = watching.table
            tracing.plan = random.drawing.by = None
            tape.mode.grad = mode
            casting.set_autocast_cache_enabled(caches)
            for t, array, grad, node in before:
                t.array, t._grad, t.node = array, grad, node
            for grad, array in old_grads:
                grad.array = array
            for g, saved in zip(groups, options, strict=True):
                g.clear()
                g.update(saved)
            for o, p, saved in states:
                o.state[p].clear()
                o.state[p].update(saved)
            for o, n in zip(self.optimizers, steps, strict=True):
                o._steps = n
        if watching.kept():
            gc.collect()
            if alive := watching.kept():
                raise TraceError(f"compile: a tensor that the step computed ({alive}) is kept outside of it; return it from the step")
        return outs, grads, rewritten, values

    def _refuse_changes(self, groups: list[dict], marks: list[dict], states: list) -> None:
        """Raise TraceError if the step has changed something of an optimizer that is not the contents of a tensor."""
        for group, mark in zip(groups, marks, strict=True):
            if group["lr"] is not mark["lr"]:
                raise TraceError("compile: the step sets a learning rate; call scheduler.step() outside of the compiled step")
            if any(value is not mark.get(key) for key, value in group.items()):
                raise TraceError("compile: the step changes an option of an optimizer")
        if sum(len(o.state) for o in self.optimizers) != len(states):
            raise TraceError("compile: the optimizer meets a parameter without a state in every step")
        for o, p, saved in states:
            now = o.state[p]
            if now.keys() != saved.keys() or any(now[key] is not value for key, value in saved.items()):
                raise TraceError(f"compile: {type(o).__name__} keeps some of its state in other objects than tensors that it writes into")

    def _note_grads(self, leaves: list, before: list) -> None:
        """Note which leaves have a new gradient tensor, which have none any more, and which old gradients have ended so."""
        self.fresh, self.gone = [], []
        for i, (t, (_, _, old, _)) in enumerate(zip(leaves, before, strict=True)):
            if t._grad is not None and t._grad is not old:
                self.fresh.append(i)
            elif t._grad is None and old is not None:
                self.gone.append(i)
        new, ended = {id(leaves[i]) for i in self.fresh}, {id(leaves[i]) for i in (*self.fresh, *self.gone)}
        self.replaced = [i for i, t in enumerate(self.owned) if id(t) in new]
        self.ended = {i for i, t in enumerate(self.owned) if id(t) in ended}

    def _note_results(self, result: Any, leaves: list) -> list:
        """Note the structure of what the step returns, and return the values of the tensors in it."""
        known = {id(t): i for i, t in enumerate(leaves)}
        self.results, values = [], []
        for x in tree.leaves(result):
            if isinstance(x, Tensor) and id(x) in known:
                self.results.append(("known", known[id(x)]))
            elif isinstance(x, Tensor) and x.array.__class__ is Traced:
                self.results.append(("value", _graph_of(x.node)))
                values.append(x.array.value)
            elif isinstance(x, Tensor):
                self.results.append(("constant", x))
            else:
                self.results.append(("plain", x))
        return values

    def _note_backward(self, result: Any, leaves: list, forward: dict) -> list:
        """Prepare the backward pass of results that require grad, and return the values that it needs."""
        roots = [x.node for x, (_, what) in zip(tree.leaves(result), self.results, strict=True) if what == "live"]
        for node in tape.plan(roots):
            if node.op is not None and node.hooks is not None and (node.hooks.before or node.hooks.pre or node.hooks.post):
                where = f" ({forward[node.time].where})" if node.time in forward else ""
                raise TraceError(
                    f"compile: a hook{where} would run only while the backward pass is traced; compile the whole step, with backward()"
                )
        self.sources = [i for i, t in enumerate(leaves) if t.node is not None]
        changed = {id(t) for i in self.changed for t in self.blocks[i].tensors}
        given = {id(t.array._value): i for i, t in enumerate(leaves) if id(t) not in changed and t.array.base is None}
        self.backward = Backward(roots, [leaves[i].node for i in self.sources], given, forward) if roots else None
        return [] if self.backward is None else self.backward.values

    def fits(self, args: list) -> bool:
        """Whether the arguments that require grad have a gradient, or none, as when the step was traced."""
        return not self.uses_grads or all((args[i]._grad is None) == none for i, none in zip(self.inputs, self._bare, strict=True))

    def _drawn_again(self) -> list:
        """Draw what the step draws, and put the generators back: for the shapes."""
        sources = {id(source): source for _, source, _, _ in self.draws}
        saved = [(source, source.get_state()) for source in sources.values()]
        try:
            return self._draw()
        finally:
            for source, state in saved:
                source.set_state(state)

    def _draw(self) -> list:
        return [numpy.asarray(fn(source, *args, **kwargs)) for fn, source, args, kwargs in self.draws]

    # -- running ---------------------------------------------------------------------------------------------------------------

    def run(self, args: list) -> Any:
        """Run the program on these arguments: the same effects and results as those of the step."""
        with jax.enable_x64(True):
            return self._run(args)

    def operands(self, args: list, drawn: list) -> list[list]:
        """What the program takes: the changing state, the gradients that it writes over, the other state and gradients, and the rest."""
        changing = [self.blocks[i].buffer() for i in self.changing]
        donated = [self._grad_buffer(self.owned[i]) for i in self.donated]
        still = [self.blocks[i].buffer() for i in self.still]
        kept = [self._grad_buffer(self.owned[i]) for i in self.kept]
        return [changing, donated, still, kept, [args[i].array for i in self.inputs], [g["lr"] for g in self.rates], drawn]

    def _run(self, args: list) -> Any:
        state, inputs = self.blocks, [args[i] for i in self.inputs]
        operands = self.operands(args, self._draw())
        if self.borrows:
            onednn.lend()
        outs, grads, rewritten, results = self.program(*operands)
        for i, out in zip(self.changing, outs, strict=False):
            state[i].adopt(out)
            versions.note_write(state[i].tensors[0].array, "compile")
        for i, out in zip(self.altered, outs[len(self.changing) :], strict=True):
            inputs[i].array[...] = numpy.asarray(out)
            versions.note_write(inputs[i].array, "compile")
        leaves = [*self.leaves, *inputs]
        for i, out in zip(self.fresh, grads, strict=True):
            leaves[i]._grad = Tensor._wrap(seen(out))
        for i in self.gone:
            leaves[i]._grad = None
        for i, out in zip(self.written, rewritten, strict=True):
            self.owned[i]._grad.array[...] = numpy.asarray(out)  # type: ignore[union-attr]
        for o, n in zip(self.optimizers, self.advance, strict=True):
            o._steps += n
        returned = iter(self._returned(leaves, iter(results[0]), results[1]))
        result = tree.filled(self.shape, returned)
        for one in self.stored:
            one.holder[one.key] = tree.filled(one.value, returned)
        return result

    def _returned(self, leaves: list, values: Any, saved: list) -> list:
        """The leaves of what the step returns, with their graph."""
        found = []
        for kind, what in self.results:
            if kind == "value":
                tensor = Tensor._wrap(seen(next(values)))
                tensor.node = _ENDED if what == "freed" else None
                found.append(tensor)
            else:
                found.append(leaves[what] if kind == "known" else what)
        if self.backward is not None:
            live = [t for t, (_, what) in zip(found, self.results, strict=True) if what == "live"]
            buffers = iter(saved)
            arrays = tuple(seen(next(buffers)) if i is None else leaves[i].array for i in self.backward.saved)
            nodes = self.backward.nodes([t.array for t in live], arrays, [leaves[i].node for i in self.sources])
            for t, node in zip(live, nodes, strict=True):
                t.node = node
        return found

    def _grad_buffer(self, leaf: Tensor) -> Any:
        """The memory of an old gradient; a copy if anything else looks at it, since the program may write over it."""
        grad = leaf._grad
        array = grad.array  # type: ignore[union-attr]
        memory = array.base
        owned = hasattr(memory, "buffer") and sys.getrefcount(array) <= ALONE + 1 and sys.getrefcount(grad) <= ALONE + 1
        return memory.buffer if owned else jax.numpy.array(array, copy=True)


def _merged(*parts: tuple[list, list]) -> list:
    """Put the items of lists at their places: `_merged(([2, 0], [a, b]), ([1], [c]))` is `[b, c, a]`."""
    found: list[Any] = [None] * sum(len(places) for places, _ in parts)
    for places, items in parts:
        for place, item in zip(places, items, strict=True):
            found[place] = item
    return found


def _stand_in(value: Any) -> Any:
    """Traced tensors in place of those that the step replaces: if it reads them, the trace shows it."""

    def stand_in(x: Any) -> Any:
        return Tensor._wrap(Traced(jax.numpy.zeros(x.array.shape, x.array.dtype))) if isinstance(x, Tensor) else x

    return tree.mapped(stand_in, value)


def _graph_of(node: Any) -> str:
    """What is left of a result's graph: "none", "freed" by a backward pass, or "live"."""
    if node is None:
        return "none"
    return "freed" if any(n.op is not None and n.saved is tape.FREED for n in tape.plan([node])) else "live"


_ENDED = tape.Node(Backward([], [], {}), (), {}, tape.FREED, (), numpy.dtype(numpy.float32))


def _same(a: Any, b: Any) -> bool:
    """Whether two calls draw with the same arguments."""
    if isinstance(a, (tuple, list, dict)):
        return a.__class__ is b.__class__ and len(a) == len(b) and all(map(_same, tree.leaves(a), tree.leaves(b)))
    return a is b or a.__class__ is b.__class__ and (numpy.array_equal(a, b) if isinstance(a, numpy.ndarray) else a == b)
