"""Recording of PyTorch ops: a TorchFunctionMode intercepts every torch function, and module hooks record which module called it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from math import nan
from threading import get_ident, local
from time import perf_counter
from types import CodeType, FunctionType
from typing import Any
from weakref import ref

from ..base.frames import HIDDEN
from ..recording.recorder import MAX_ROWS, PERIOD
from ..recording.recording import Scope
from ..recording.witness import has_mode
from . import names, nodes
from .loaded import folder, torch
from .passes import PassRecorder
from .recording import TorchRecording, writes_to

# functions that only query a tensor, or only change settings
SILENT = frozenset({
    "__get__", "__set__", "__delete__", "size", "dim", "stride", "numel", "item", "tolist", "is_floating_point", "is_complex",
    "is_contiguous", "is_pinned", "is_inference", "data_ptr", "storage_offset", "element_size", "nelement", "ndimension", "get_device",
    "type", "is_shared", "is_same_size", "is_signed", "__bool__", "__len__", "__repr__", "__format__", "__int__", "__float__",
    "__index__", "__hash__", "__reduce_ex__", "__deepcopy__", "numpy", "__array__", "requires_grad_", "retain_grad", "register_hook",
    "register_post_accumulate_grad_hook", "untyped_storage", "storage", "_set_grad_enabled", "set_grad_enabled", "manual_seed",
    "result_type", "promote_types", "can_cast", "is_tensor", "equal", "allclose", "_version", "is_set_to", "share_memory_",
    "pin_memory", "refine_names", "rename_"
})  # fmt: skip
_FILLS = frozenset({
    "uniform", "normal", "zero", "fill", "random", "bernoulli", "exponential", "copy", "trunc_normal", "kaiming_uniform",
    "kaiming_normal", "constant"
})  # fmt: skip
_WRITES = frozenset(("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__", "__ipow__", "__imatmul__"))
_OPENED = "multi_head_attention_forward"  # a whole layer in one function: its nodes are shown separately, in a box
_COMPOSITE = 4  # nodes above which the same applies to any other function written in Python
_MOVES = frozenset({
    "view", "reshape", "transpose", "permute", "t", "expand", "squeeze", "unsqueeze", "clone", "to", "select", "slice", "alias",
    "split", "unbind", "chunk"
})  # fmt: skip
# torch's code for data loading, gradient clipping, AMP and optimizers, of which the ops are not part of a model's graph
_AROUND = (("utils", "data", ""), ("nn", "utils", "clip_grad.py"), ("amp", ""), ("optim", ""))
_FAST = ("TransformerEncoder", "TransformerEncoderLayer", "MultiheadAttention")  # modules that may run as one fused kernel


class _Own(local):
    depth = 0


_own = _Own()


class bookkeeping:
    """Within the block, torch ops are the workbench's own, and no watch of this thread records them, not even an outer one."""

    __slots__ = ()

    def __enter__(self) -> None:
        _own.depth += 1

    def __exit__(self, *error: Any) -> None:
        _own.depth -= 1


def is_own() -> bool:
    """Whether the ops that run now are the workbench's own."""
    return _own.depth > 0


class TorchRecorder:
    """Records the PyTorch ops of the thread that created it, up to `limit` rows; further ops are only counted.

    `listener` is called periodically from the recorded thread, like that of the engine's Recorder. `first` is called at the first row.
    """

    def __init__(self, recording: TorchRecording, passes: PassRecorder, limit: int = MAX_ROWS) -> None:
        self.recording, self.passes, self.limit = recording, passes, limit
        recording.live = True
        self.listener: Callable[[], None] | None = None
        self.first: Callable[[], None] | None = None
        self._due = perf_counter() + PERIOD
        self._thread = get_ident()
        self.quiet = 0  # > 0 while the ops that run are internal, or part of one step for the user
        self._step: CodeType | None = None  # code of the optimizer step that runs, or that raised
        self._closure: CodeType | None = None  # code of the closure that this step calls
        self._scope = -1
        self._stack: list[int] = []
        self._whole: list[tuple[Any, str, tuple, CodeType | None, int, float]] = []  # modules that run as one op, with their start time
        self._time = (nan, nan)  # start and duration of the last op
        self._paths: dict[int, str] = {}
        self._hidden = (folder(), *HIDDEN)
        self._around = tuple(os.path.join(folder(), *place) for place in _AROUND)
        self._idle = False  # whether the last call came from such code
        self._inside: dict[int, tuple[bool, bool]] = {}  # identity of a code object -> (not the user's, matches `_around`)
        self._codes: list[CodeType] = []
        self._data = torch().Tensor.data  # the property, which returns a detached tensor
        self._exit = ExitStack()
        self._mode = _mode(self)

    # -- on and off ----------------------------------------------------------------------------------------------------------

    def __enter__(self) -> TorchRecorder:
        modules, optimizers = torch().nn.modules.module, sys.modules["torch.optim.optimizer"]
        with ExitStack() as stack:
            stack.enter_context(self._mode)
            for handle in (
                modules.register_module_forward_pre_hook(_unless_compiling(self.enter)),
                modules.register_module_forward_hook(_unless_compiling(self.leave), always_call=True),
                optimizers.register_optimizer_step_pre_hook(self._optimizer_begins),
                optimizers.register_optimizer_step_post_hook(self._optimizer_ends),
            ):
                stack.callback(handle.remove)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, kind: Any = None, error: BaseException | None = None, trace: Any = None) -> None:
        self._exit.close()
        self.listener = None
        if self.recording.count:  # otherwise the code did not use PyTorch
            self.recording.witness.ends(self.recording, error, -1, self._hidden)
        self.recording.live = False

    # -- functions -----------------------------------------------------------------------------------------------------------

    def call(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Run a torch function for the user and record it. Results and exceptions are passed through unchanged."""
        name = getattr(func, "__name__", "")
        if name in SILENT or get_ident() != self._thread:
            result = func(*args, **kwargs)
            if name == "__get__" and func.__self__ is self._data:
                with bookkeeping():
                    self.recording.cut_off(result, args[0])
            return result
        if name in ("backward", "grad") and isinstance(func, FunctionType):
            if name == "backward":
                with bookkeeping():
                    roots = names.tensors_in(args[:1] or kwargs.get("tensors"))
                    self.recording.witness.runs(self.recording, roots, self._site())
            with self._backward(kwargs):
                self.quiet += 1
                try:
                    return func(*args, **kwargs)
                finally:
                    self.quiet -= 1
        r = self.recording
        if r.count >= self.limit:
            r.dropped += 1
            return func(*args, **kwargs)
        in_place = names.asks_in_place(func, args, kwargs)
        writes = in_place or name in _WRITES or name.endswith("_") and not name.endswith("__")
        written = args[0] if args and writes else kwargs.get("out")
        written = written if isinstance(written, torch().Tensor) else None
        if written is not None and self._unknown_fill(name, written, args[1:]):
            return func(*args, **kwargs)
        before, version = None, 0
        if written is not None:  # read the operands before the write
            with bookkeeping():
                self._site()
                if self._idle:
                    return func(*args, **kwargs)
                before, version = self._operands(func, args, kwargs), writes_to(written)
        begun = perf_counter()
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            with bookkeeping():
                self._failed(func, args, kwargs, before, error)
            raise
        self._time = begun, perf_counter() - begun
        with bookkeeping():
            if written is not None and in_place and version == writes_to(written):
                pass  # nothing was written, as by dropout in eval mode
            elif written is not None:
                self._wrote(before, written)
            else:
                self._made(func, args, kwargs, result)
        if self.listener is not None and perf_counter() > self._due:
            self._report()
        return result

    def _backward(self, kwargs: dict) -> Any:
        create = bool(kwargs.get("create_graph"))
        return self.passes.during(create if kwargs.get("retain_graph") is None else bool(kwargs["retain_graph"]))

    def _unknown_fill(self, name: str, written: Any, more: tuple) -> bool:
        """Whether the call only initializes a tensor that has not been used yet, which is not an op of the model."""
        if self.recording.find(written) >= 0 or written.grad_fn is not None or names.tensors_in(more):
            return False
        return name.strip("_") in _FILLS or not (written.is_floating_point() or written.is_complex())  # such as BatchNorm's counter

    def _operands(self, func: Any, args: tuple, kwargs: dict) -> tuple[Any, list[int], dict]:
        op, operands, settings = names.of_call(func, args, kwargs)
        return op, [self._source(x) for x in operands], settings

    def _source(self, x: Any) -> int:
        if x is None:
            return -1
        if not isinstance(x, torch().Tensor):
            return self.recording.constant(x, self._scope)
        return self._row(x)

    def _row(self, tensor: Any) -> int:
        """The row of a tensor. Adds rows for unrecorded nodes, such as those of a gradient's graph."""
        r, node = self.recording, tensor.grad_fn
        row = r.find(tensor)
        if node is None:
            return r.leaf(tensor, self._scope) if row < 0 else row
        mark = r.marked(node)
        if mark is not None:
            return mark.row if row < 0 else row
        nodes.extend(r, [node], self.passes.hang, scope=self._elsewhere())
        row = r.row_of(node)
        r.stands(tensor, row)
        return row

    def _elsewhere(self) -> int:
        """The scope of ops that ran before the recording, or in a backward pass with create_graph."""
        r = self.recording
        known = next((i for i, s in enumerate(r.scopes) if s.kind == "function" and s.subject == -1), -1)
        if known < 0:
            label = "backward" if r.passes else "before"
            r.scopes.append(Scope(-1, "function", label, label, -1, None, 0))
            known = len(r.scopes) - 1
        return known

    def _made(self, func: Any, args: tuple, kwargs: dict, result: Any) -> None:
        made = names.tensors_in(result)
        given = names.tensors_in(args, 2) + (names.tensors_in(kwargs, 2) if kwargs else [])
        known = set(map(id, given))
        made = [x for x in made if id(x) not in known]
        if not made or not given:
            return
        code, lasti = self._site()
        if self._idle:
            return
        r = self.recording
        op, sources, settings = self._operands(func, args, kwargs)
        roots = [x.grad_fn for x in made]
        new = nodes.unmarked(r, roots)
        if isinstance(func, FunctionType) and _composite(op.name, new):
            r.scopes.append(Scope(self._scope, "function", op.name, op.name, 0, code, lasti))
            nodes.extend(r, roots, self.passes.hang, scope=len(r.scopes) - 1, code=code, lasti=lasti)
            for x in made:
                if x.grad_fn is not None and r.row_of(x.grad_fn) >= 0:
                    r.stands(x, r.row_of(x.grad_fn))
            self._begun()
            return
        self._row_of_result(op, sources, settings, made, new, code, lasti)

    def _row_of_result(
        self, op: Any, sources: list[int], settings: dict, made: list, new: list, code: CodeType | None, lasti: int, note: str = ""
    ) -> None:
        """Add a row for the op that made these tensors and nodes."""
        r, first = self.recording, made[0]
        if not note and first._is_view() and (base := r.find(first._base)) >= 0:
            note = f"view of #{base}"
        begun, took = self._time
        row = r.tensor_row(op, "op", first, scope=self._scope, code=code, lasti=lasti, note=note, attrs=settings, sources=sources,
                           begun=begun, took=took)  # fmt: skip
        for x in made:
            r.stands(x, row)
        if new:  # after the results are registered: other saved tensors are then internal to the nodes
            r.saved[row] = nodes.mark_all(r, new, row, self.passes.hang, self._scope)
        if self.first is not None:
            self._begun()

    def _wrote(self, before: Any, written: Any) -> None:
        """Add a row for the tensor after an in-place write, and one for its base if it is a view."""
        op, sources, settings = before
        r = self.recording
        code, lasti = self._site()
        base = written._base if written._is_view() else None
        old = -1 if base is None else r.find(base)
        begun, took = self._time
        row = r.tensor_row(op, "op", written, scope=self._scope, code=code, lasti=lasti, note="in place", attrs=settings, sources=sources,
                           begun=begun, took=took)  # fmt: skip
        if base is not None and old >= 0:
            note = f"written through its view #{row}"
            behind = r.tensor_row(names.torch_op("copy_slices"), "op", base, scope=self._scope, code=code, lasti=lasti, note=note,
                                  sources=[old, row])  # fmt: skip
            new = nodes.unmarked(r, [base.grad_fn])
            r.stands(base, behind)
            r.saved[behind] = nodes.mark_all(r, new, behind, self.passes.hang, self._scope)
        r.stands(written, row)
        r.saved[row] = nodes.mark_all(r, nodes.unmarked(r, [written.grad_fn]), row, self.passes.hang, self._scope)
        self._begun()

    def _failed(self, func: Any, args: tuple, kwargs: dict, before: Any, error: Exception) -> None:
        r = self.recording
        op, sources, settings = before or self._operands(func, args, kwargs)
        if not any(source >= 0 for source in sources):
            return
        code, lasti = self._site()
        r.failure = r.append(op, "op", (), None, 0, False, scope=self._scope, code=code, lasti=lasti, note=str(error), attrs=settings,
                             sources=sources)  # fmt: skip
        self._begun()

    # -- modules and optimizers ----------------------------------------------------------------------------------------------

    def enter(self, module: Any, args: tuple) -> None:
        """A module is called."""
        if get_ident() != self._thread or not self._whole and self.resting():
            return
        code, lasti = self._site()
        if self._whole:
            self._whole.append((module, "", (), None, 0, nan))
            return
        label = type(module).__name__
        if id(module) not in self._paths or not self._stack:
            self.recording.modules.append(ref(module))
            self._paths.update({id(m): path for path, m in module.named_modules()})
        why = _as_one(module)
        if why:
            self._whole.append((module, why, args, code, lasti, perf_counter()))
            self.quiet += 1
            self._mode.__exit__(None, None, None)  # an active mode would disable torch's fast path
            return
        name = self._paths.get(id(module)) or label
        if has_mode(type(module)):
            self.recording.witness.entered(len(self.recording.scopes), module)
        self.recording.scopes.append(Scope(self._scope, "module", name, label, id(module), code, lasti))
        self._scope = len(self.recording.scopes) - 1
        self._stack.append(self._scope)

    def leave(self, module: Any, args: tuple, output: Any) -> None:
        """The module has returned or raised."""
        if get_ident() != self._thread:
            return
        if self._whole:
            inner, why, given, code, lasti, begun = self._whole.pop()
            if why:
                self._time = begun, perf_counter() - begun
                self._mode.__enter__()
                self._whole_made(inner, why, given, output, code, lasti)
                self.quiet -= 1
            return
        if self._stack and not self.resting():
            self._scope = self.recording.scopes[self._stack.pop()].parent

    def _whole_made(self, module: Any, why: str, args: tuple, output: Any, code: CodeType | None, lasti: int) -> None:
        given = names.tensors_in(args)
        made = [x for x in names.tensors_in(output) if all(x is not y for y in given)]
        if made and self.recording.count < self.limit:
            op = names.torch_op(self._paths.get(id(module)) or type(module).__name__, tuple(f"input{i}" for i in range(len(given))))
            sources = [self._row(x) for x in given]
            new = nodes.unmarked(self.recording, [x.grad_fn for x in made])
            self._row_of_result(op, sources, {}, made, new, code, lasti, why)

    def _optimizer_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if get_ident() == self._thread:
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            self._step, self._closure = sys._getframe(1).f_code, _code_of(closure)

    def _optimizer_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if get_ident() == self._thread and not self.quiet:
            with bookkeeping():
                self.recording.witness.updated(self.recording, optimizer, self._site())

    def resting(self) -> bool:
        """Whether recording is suspended, as in an optimizer's step. Checked on the stack, since no hook is called if a step raises."""
        if self.quiet or self._step is None:
            return self.quiet > 0
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code is not self._step:
            if frame.f_code is self._closure:
                return False
            frame = frame.f_back
        if frame is None:
            self._step = self._closure = None
        return frame is not None

    # -- where ---------------------------------------------------------------------------------------------------------------

    def _site(self) -> tuple[CodeType | None, int]:
        """The user's code and instruction. Sets `_idle` if the frames between it and the op include code in `_around`."""
        self._idle = False
        frame: Any = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            hidden = self._inside.get(id(code))
            if hidden is None:
                file = code.co_filename
                hidden = self._inside[id(code)] = (file.startswith(self._hidden), file.startswith(self._around))
                self._codes.append(code)
            if not hidden[0]:
                return code, frame.f_lasti
            self._idle = self._idle or hidden[1]
            frame = frame.f_back
        return None, 0

    def _begun(self) -> None:
        first, self.first = self.first, None
        if first is not None:
            first()

    def _report(self) -> None:
        begun = perf_counter()
        assert self.listener is not None
        with bookkeeping():
            self.listener()
        ended = perf_counter()
        self._due = ended + max(PERIOD, 20 * (ended - begun))


def _composite(name: str, new: list) -> bool:
    """Whether a function made so many nodes that a single box would hide the relevant ops."""
    return new != [] and name == _OPENED or sum(names.node_name(type(node).__name__) not in _MOVES for node in new) > _COMPOSITE


def _as_one(module: Any) -> str:
    """Why a module is recorded as one op; "" if its ops are recorded."""
    module_of, jit = torch(), torch().jit
    if isinstance(module, jit.ScriptModule):
        return "A TorchScript module runs outside Python: it is one op here."
    if type(module).__name__ == "OptimizedModule":
        return "Compiled by torch.compile: its ops run as one piece of code, and are one op here. Watch the module before it is compiled."
    quick = not module.training and not module_of.is_grad_enabled()
    if quick and any(isinstance(module, getattr(module_of.nn, name)) for name in _FAST):
        return "Without gradients and in eval mode PyTorch may run this module as one fused kernel, so it is one op here."
    return ""


def _code_of(called: Any) -> CodeType | None:
    """The code of a function, method, partial or callable object; None if it has none."""
    while isinstance(called, partial):
        called = called.func
    return getattr(called, "__code__", None) or getattr(type(called).__call__ if callable(called) else None, "__code__", None)


def _unless_compiling(hook: Callable[..., None]) -> Callable[..., None]:
    """Wrap a hook so that it does nothing while torch.compile traces it."""
    compiling = torch().compiler.is_compiling

    def called(*told: Any) -> None:
        if not compiling():
            with bookkeeping():
                hook(*told)

    return called


def _mode(recorder: TorchRecorder) -> Any:
    """A TorchFunctionMode that passes every call to the recorder. The class is made here because it needs torch."""
    told, compiling = ref(recorder), torch().compiler.is_compiling

    class Watching(torch().overrides.TorchFunctionMode):
        """Passes every torch function to the recorder."""

        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            recorder = None if compiling() else told()  # torch.compile traces this code too
            if recorder is None or _own.depth or recorder.resting():  # an optimizer's step is hundreds of calls
                return func(*args, **(kwargs or {}))
            return recorder.call(func, args, kwargs or {})

    return Watching()
