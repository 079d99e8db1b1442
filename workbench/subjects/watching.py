"""The implementation of `wb.watch`: models of the engine and of PyTorch, watched and shown in the same way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from engine.base import observe
from engine.core.tensor import Tensor
from engine.nn import Module

from .. import torch_models
from ..graph.graph import Graph
from ..recording.recorder import Recorder
from ..recording.recording import KEEP, Recording, recent
from ..session.passes import PassWatcher
from ..session.surface import ShownSession, opened
from ..torch_models import stepping
from ..torch_models.naming import TorchGraph
from ..torch_models.recording import TorchRecording
from ..torch_models.watch import TensorWatch, TorchWatch, room_of

Shown = Callable[[Any], Any]  # a session as the page shows it
Displayed = Callable[[Any], Callable[[], None]]  # displays a session now; returns a function that updates the display

_attached: WeakKeyDictionary[Any, ModuleWatch] = WeakKeyDictionary()  # module -> the watch that waits for its calls


class Watch:
    """The result of `wb.watch`: a view in a notebook, a table in a terminal, and a `with` block that records what runs inside.

    Attributes:
        session: the recording, its graph and its backward passes.
    """

    def __init__(self, session: ShownSession, frame: Any, shown: Shown, displayed: Displayed) -> None:
        self.session = session
        self._globals = frame.f_globals
        self._frame = frame  # of the user's code; released when it ends, as a frame keeps its variables alive
        self._inside = False  # whether the block is running
        self._shown, self._displayed = shown, displayed
        self._refresh: Callable[[], None] = lambda: None

    def names(self) -> Mapping[str, Any]:
        """The user's variables; those of a function only after its block ends, as reading `f_locals` makes the frame keep the values."""
        return self._globals if self._frame is None or self._inside else {**self._globals, **self._frame.f_locals}

    def __enter__(self) -> Watch:
        self.begin(sys._getframe(1))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.end(kind, error, trace)

    def begin(self, frame: Any) -> None:
        """Begin to record what runs, with the variables of that frame."""
        self._frame = frame
        self._refresh = self._displayed(self.session)
        self._begin()
        self._inside = True

    def end(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """End the recording; the arguments are those of `__exit__`."""
        self._inside = False
        try:
            self._end(kind, error, trace)
            self._refresh()
        finally:
            self.forget()

    def forget(self) -> None:
        """Release the frame of the user's code."""
        self._frame = None

    def _begin(self) -> None: ...

    def _end(self, *error: Any) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop watching and remove every trace from the model and its graph. The recording remains available."""

    def __repr__(self) -> str:
        return repr(self.session)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        shown = self._shown(self.session)
        return {"text/plain": repr(self)} if shown is self.session else shown._repr_mimebundle_(**kwargs)


class TensorOfTorch(Watch):
    """A watch over the graph behind a PyTorch tensor: the graph now, and each later backward pass through it."""

    def __init__(self, tensor: Any, keep: int, *page: Any) -> None:
        super().__init__(ShownSession(empty()), *page)
        name = next((n for n, value in self.names().items() if value is tensor and not n.startswith("_")), "")
        self.session.kept = self._watch = TensorWatch(self.session, tensor, self.names, name, keep)

    def stop(self) -> None:
        self._watch.close()


class ModuleWatch(Watch):
    """A watch over a model, of PyTorch or the engine, or over whatever runs in the block.

    With a block: everything that runs inside, and every backward pass as a record. Without one: each call of the module until `stop()`; for
    a PyTorch model also the backward passes through that call.
    """

    def __init__(self, module: Any, keep: int, *page: Any) -> None:
        super().__init__(ShownSession(empty()), *page)
        self._keep = keep
        self._torch = torch_models.is_module(module)
        self._title = "" if module is None else type(module).__name__
        self._module: ReferenceType | None = None
        self._hooks: list[Any] = []
        self._running: ExitStack | None = None
        self._depth = 0  # depth of recursive calls of the module
        self._call: TorchWatch | None = None  # of the latest call
        if module is not None:
            self._module = ref(module, lambda _: self.stop())
            if (before := _attached.pop(module, None)) is not None:
                before.stop()
            _attached[module] = self
            self._attach(module)

    # -- a block ---------------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.stop()
        self._running = ExitStack()
        if not self._torch:
            self._engine(self._running)
        if torch_models.loaded.torch() is not None:
            self._running.enter_context(TorchWatch(self.session, self.names, self._title, self._keep, ours=self._torch))

    def _end(self, *error: Any) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(*error)

    def _engine(self, stack: ExitStack) -> PassWatcher:
        recorder = Recorder(self._title, self._keep)
        self.session.show(recorder.recording, Graph(recorder.recording))
        recorder.listener = self.session.update
        watcher = PassWatcher(self.session, recorder, None, lambda: dict(self.names()))

        def ended(kind: Any, error: BaseException | None, trace: Any) -> None:
            watcher.close(error)
            recorder.stop()
            if self.session.recording is recorder.recording:
                self.session.finish(self.names())

        stack.push(ended)
        stack.enter_context(observe.observing(watcher))
        return watcher

    # -- calls of the module ---------------------------------------------------------------------------------------------------

    def _attach(self, module: Any) -> None:
        if self._torch:  # not the module's own hooks, with which PyTorch would not use its fused kernels
            every = torch_models.loaded.torch().nn.modules.module
            before, after = every.register_module_forward_pre_hook, every.register_module_forward_hook
        else:
            before, after = module.register_forward_pre_hook, module.register_forward_hook
        me = ref(self)

        def called(of: Any, args: tuple) -> None:
            if (watch := me()) is not None:
                watch._called(of, args)

        def returned(of: Any, args: tuple, output: Any) -> None:
            if (watch := me()) is not None:
                watch._returned(of, args, output)

        self._hooks += [before(called), after(returned, always_call=True)]

    def _called(self, module: Any, args: tuple) -> None:
        if self._module is None or module is not self._module():
            return
        self._depth += 1
        if self._depth > 1:
            return
        self._running = ExitStack()
        if self._torch:
            if self._call is not None:
                self._call.passes.remove()
            self._call = TorchWatch(self.session, self.names, self._title, self._keep)
            self._running.enter_context(self._call.calls())
            self._call.recorder.enter(module, args)
        else:
            watcher = self._engine(self._running)
            watcher.enter("module", self._title, module)
            self._running.callback(watcher.leave)

    def _returned(self, module: Any, args: tuple, output: Any) -> None:
        if self._module is None or module is not self._module() or not self._depth:
            return
        self._depth -= 1
        if self._depth:
            return
        if self._call is not None:
            self._call.recorder.leave(module, args, output)
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def stop(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self._call is not None:
            self._call.passes.remove()


def empty() -> Recording:
    """What a session shows before anything has run; not a recording of a program."""
    recording = Recording(keep=0)
    recent.forget(recording)
    return recording


def shown(tensor: Any, names: Mapping[str, Any]) -> ShownSession | None:
    """Open a session on the newest recording that knows a PyTorch tensor; None if there is none."""
    known = [r for r in recent if isinstance(r, TorchRecording) and r.row_of(tensor) >= 0]
    if not known:
        return None
    recording = known[-1]
    recording.root = recording.row_of(tensor)
    session = ShownSession(recording, TorchGraph(recording))
    session.graph.finish(names)
    return session


def stepped(tensor: Any, gradient: Any, names: Mapping[str, Any]) -> ShownSession:
    """Run one backward pass from a PyTorch tensor without changing `.grad`, and open a session on its record.

    The graph is the one behind the tensor's `grad_fn`, in the newest recording with a part of it, along with the modules recorded there.
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "This tensor does not require grad, so it has no graph to step through: it was made under no_grad(), after detach(), or from "
            "tensors none of which requires grad."
        )
    if tensor.grad_fn is None:
        raise RuntimeError("This tensor is a leaf: no op made it, so its backward pass has no step. Its .grad comes with the loss's.")
    ops = [node for node in stepping.behind(tensor.grad_fn) if stepping.variable(node) is None]
    recording = next((r for r in reversed(recent) if isinstance(r, TorchRecording) and not r.live and any(map(r.marked, ops))), None)
    if recording is None:
        session = ShownSession(empty())
        name = next((n for n, value in names.items() if value is tensor and not n.startswith("_")), "")
        with closing(TensorWatch(session, tensor, lambda: names, name)) as watch:
            record = stepping.run(watch.passes, tensor, gradient)
    else:
        session = ShownSession(recording, TorchGraph(recording))
        room = lambda: room_of(session, recording.keep)  # noqa: E731
        with stepping.recorder_of(recording, session.graph, tensor, room) as passes:
            recording.root = recording.row_of(tensor.grad_fn)
            session.graph.finish(names)
            record = stepping.run(passes, tensor, gradient)
    with session.lock:
        session.passes, session.stepper = [record], record
    return session


def watched(subject: Any, keep: int | None, frame: Any, shown: Shown, displayed: Displayed) -> Any:
    """The watch over a tensor, a module, or (for None) over whatever runs in a `with` block. Raises TypeError for anything else."""
    keep = KEEP if keep is None else keep
    if isinstance(subject, Tensor):
        return shown(opened(subject, {**frame.f_globals, **frame.f_locals}))
    kind = TensorOfTorch if torch_models.is_tensor(subject) else None
    if subject is None or isinstance(subject, Module) or torch_models.is_module(subject):
        kind = ModuleWatch
    if kind is not None:
        watch = kind(subject, keep, frame, shown, displayed)
        watch.forget()
        return watch
    got = f"{type(subject).__module__.partition('.')[0]}.{type(subject).__name__}"
    hint = ""
    if got.startswith("torch."):
        hint = " Of torch, tensors and modules can be watched; what an optimizer or a function does is seen in `with wb.watch(): ...`."
    raise TypeError(f"wb.watch takes a tensor or a module, of the engine or of PyTorch, or nothing for a with block; got {got}.{hint}")
