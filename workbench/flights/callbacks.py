"""Record the training of Lightning's and transformers' Trainer: callbacks that stand for the block `with wb.flight(...)`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import FrameType, TracebackType
from typing import Any

from engine.data import DataLoader
from engine.nn import Module

from ..torch_models.loaded import is_loader, is_module
from . import variables
from .recorder import Flight

_LIGHTNING = "lightning.pytorch", "pytorch_lightning"


def callback(framework: str, options: Mapping[str, Any]) -> Any:
    """A callback for the Trainer of "lightning" or "transformers". `options` are those of `Flight`."""
    if framework == "lightning":
        name = next(filter(sys.modules.get, _LIGHTNING), None) or next(filter(_is_installed, _LIGHTNING), _LIGHTNING[0])
        return _lightning(import_module(f"{name}.callbacks").Callback)(options)
    if framework == "transformers":
        return _transformers(import_module("transformers").TrainerCallback)(options)
    raise ValueError(f'wb.flight_callback is for "lightning" or "transformers", got {framework!r}.')


def _is_installed(name: str) -> bool:
    return find_spec(name.partition(".")[0]) is not None


class _Recording:
    """What the callbacks have in common.

    Attributes:
        flight: the recorder of the last training; None before the first one.
    """

    flight: Flight | None = None

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._options = dict(options)

    def begin(self, subjects: list[Any], call: str, chooses: Callable[[Any], str]) -> Flight:
        """Begin to record, at the user's line that calls `call`."""
        self.end(None)
        frame = variables.users(sys._getframe())
        assert frame is not None
        self.flight = Flight(subjects, frame, call=call, chooses=chooses, **self._options).__enter__()
        return self.flight

    def end(self, error: BaseException | None) -> None:
        """End, with the exception that the training raised."""
        if self.flight is not None and self.flight.is_open:
            self.flight.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.flight or 'nothing has been recorded'}"


# -- Lightning -----------------------------------------------------------------------------------------------------------------


class Loops:
    """Where Lightning's loops are: the numbers of the epoch, the batch, the optimizer's step."""

    def __init__(self, trainer: Any) -> None:
        self._loop = trainer.fit_loop

    def state_dict(self) -> dict[str, Any]:
        return self._loop.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loop.load_state_dict(state)
        self._loop.restarting = False  # it goes on in the middle of an epoch, not after a checkpoint


def _lightning(base: type) -> type:
    class FlightCallback(_Recording, base):
        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            scaler = getattr(trainer.precision_plugin, "scaler", None)
            parts = [x for one in trainer.callbacks for x in vars(one).values()]
            averages = [x for x in parts if isinstance(x, Module) or is_module(x)]  # of the weights
            schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
            loops = Loops(trainer)
            flight = self.begin(
                [pl_module, *trainer.optimizers, loops, *schedulers, *averages, *([scaler] if scaler is not None else [])],
                "fit",
                lambda loader: _role(trainer, loader),
            )
            if (before := flight.first_state("others", loops)) is not None:  # a Trainer that has ended would not begin again
                loops.load_state_dict(before)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.end(exception)

        def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
            if stage == "fit":
                self.end(None)

    return FlightCallback


def _role(trainer: Any, loader: Any) -> str:
    """Whether the batches of a loader are steps, or parts of them, as with a dict of loaders."""
    if not trainer.training:
        return ""
    known = [one for one in _leaves(trainer.train_dataloader) if isinstance(one, DataLoader) or is_loader(one)]
    if loader is next(iter(known), None):
        return "step"
    return "part" if any(one is loader for one in known) else ""


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    return [x for one in tree for x in _leaves(one)] if isinstance(tree, list | tuple) else [tree]


# -- transformers --------------------------------------------------------------------------------------------------------------


class Progress:
    """The step and the epoch that transformers' Trainer is at."""

    _NAMES = "global_step", "epoch", "num_input_tokens_seen"

    def __init__(self, state: Any) -> None:
        self._state = state

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self._state, name) for name in self._NAMES}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self._state, name, value)


def _transformers(base: type) -> type:
    class FlightCallback(_Recording, base):
        _begins = False  # whether an epoch has begun whose loader is still to be asked
        _batches = 0  # of the epoch

        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, lr_scheduler: Any = None, **kwargs: Any
        ) -> None:
            scaler = getattr(optimizer, "scaler", None)
            subjects = [model, optimizer, Progress(state), *(x for x in (lr_scheduler, scaler) if x is not None)]
            flight = self.begin(subjects, "train", self._role)
            if flight.repeats and (trainer := _trainer(sys._getframe())) is not None:
                self._align(flight, trainer)
            else:
                _tell_of_exceptions(self, flight)

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._begins, self._batches = True, 0

        def _align(self, flight: Flight, trainer: Any) -> None:
            """Let each update end with its recorded batches: the last one of an epoch has fewer, and is repeated in the middle of one."""
            args, fetch = trainer.args, trainer.get_batch_samples
            usual = args.gradient_accumulation_steps

            def get_batch_samples(epoch_iterator: Any, num_batches: int, device: Any) -> Any:
                found = fetch(epoch_iterator, usual, device)
                self._batches += len(found[0])
                args.gradient_accumulation_steps = max(1, self._batches)  # Trainer updates after a multiple of this
                return found

            trainer.get_batch_samples = get_batch_samples
            flight.at_end(lambda: setattr(args, "gradient_accumulation_steps", usual))
            flight.at_end(lambda: delattr(trainer, "get_batch_samples"))

        def _role(self, loader: Any) -> str:
            role, self._begins = "step" if self._begins else "", False
            return role

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.end(None)

    return FlightCallback


def _trainer(frame: FrameType | None) -> Any:
    """The Trainer that calls."""
    while frame is not None:
        if hasattr(found := frame.f_locals.get("self"), "get_batch_samples"):
            return found
        frame = frame.f_back
    return None


def _tell_of_exceptions(recording: _Recording, flight: Flight) -> None:
    """End the recording with the exception that ends the program or the cell: Trainer tells its callbacks of none."""
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is not None:

        def after_cell(result: Any) -> None:
            recording.end(result.error_in_exec or result.error_before_exec)

        shell.events.register("post_run_cell", after_cell)
        flight.at_end(lambda: shell.events.unregister("post_run_cell", after_cell))
        return
    shown = sys.excepthook

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        recording.end(error)
        shown(kind, error, trace)

    def restore() -> None:
        if sys.excepthook is ended:  # the program may have set its own since then
            sys.excepthook = shown

    sys.excepthook = ended
    flight.at_end(restore)
