"""The state of a training: tensors, optimizers, schedulers, random generators. It can be copied at the beginning of a step and put back."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy

from engine.core.tensor import Tensor
from engine.data import DataLoader
from engine.nn import Module
from engine.nn.parameter import is_lazy

from ..base import generators
from ..torch_models.loaded import is_loader, is_module, is_tensor, torch
from . import values
from .values import Copy, Unknown
from .variables import is_small

SMALL = 1 << 16  # bytes of a scheduler's, a scaler's or an object's state up to which it is copied at every step
_FILLED = (list, dict, set, deque)
_RANDOM = (random.Random, numpy.random.Generator)


class Mismatch(RuntimeError):
    """A state does not belong to this program: a model, an optimizer or a variable is another one, or missing."""


class Subjects:
    """What a training changes, by key: "0", "1", ... for what `wb.flight` was given, and the names of variables that it found.

    Modules and optimizers are of the engine or of PyTorch. Raises TypeError for a subject without a state that could be put back.
    """

    def __init__(self, given: Sequence[Any], variables: Mapping[str, Any]) -> None:
        self.modules: dict[str, Any] = {}
        self.optimizers: dict[str, Any] = {}
        self.others: dict[str, Any] = {}  # with state_dict() and load_state_dict()
        self.loose: dict[str, Any] = {}  # tensors of no module
        self.values: dict[str, Any] = {}  # arrays, containers, random generators
        self.objects: dict[str, Any] = {}  # of the user's classes: their attributes
        self.left_out: dict[str, str] = {}  # what has no plain form, and its type
        seen: set[int] = set()
        found = sorted((name, x) for name, x in variables.items() if not name.startswith("_") and _has_state(x))
        for key, subject in [*(pair for i, x in enumerate(given) for pair in _each(str(i), x)), *found]:
            subject = _unwrapped(subject)
            if id(subject) not in seen:
                seen.add(id(subject))
                self._table(subject)[key] = subject
        if not (self.modules or self.optimizers or any(x.requires_grad for x in self.loose.values())):
            raise TypeError("wb.flight takes the model and the optimizer of a training: wb.flight(model, optimizer); it got neither.")

    def _table(self, subject: Any) -> dict[str, Any]:
        if isinstance(subject, Module) or is_module(subject):
            return self.modules
        if hasattr(subject, "param_groups") and hasattr(subject, "state"):
            return self.optimizers
        if hasattr(subject, "state_dict") and hasattr(subject, "load_state_dict"):
            return self.others
        if isinstance(subject, Tensor) or is_tensor(subject):
            return self.loose
        if isinstance(subject, (*_FILLED, numpy.ndarray, *_RANDOM)) or values.is_generator(subject):
            return self.values
        if isinstance(subject, type) or not hasattr(subject, "__dict__"):
            raise TypeError(
                "wb.flight keeps modules, optimizers, what else has state_dict() and load_state_dict(), tensors, arrays, containers, "
                f"random generators and objects with attributes; it got {_told(subject)}."
            )
        return self.objects

    # -- tensors ---------------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Any]:
        """All parameters and buffers, and the tensors that only an optimizer knows, each once."""
        found: dict[str, Any] = {}
        seen: set[int] = set()
        for name, tensor in self._named():
            if id(tensor) not in seen and not _is_lazy(tensor):
                seen.add(id(tensor))
                found[name] = tensor
        return found

    def _named(self) -> Iterator[tuple[str, Any]]:
        for key, module in self.modules.items():
            for table in (module.named_parameters, module.named_buffers):
                for name, tensor in table():
                    yield f"{key}.{name}", tensor
        yield from self.loose.items()
        for key, optimizer in self.optimizers.items():
            for i, p in enumerate(parameters(optimizer)):
                yield f"{key}.{i}", p

    def versions(self) -> tuple[int, ...]:
        """How often each tensor has been written."""
        return tuple(t._version for t in self.tensors().values())

    def mark(self) -> str:
        """Changes when the state does. Of tensors, samples are looked at as well, as writes to `.data` do not count as versions."""
        tensors = self.tensors().values()
        kept = [list(o.state.get(p, {}).values()) for o in self.optimizers.values() for p in parameters(o)]
        kinds = lambda path, x: type(x).__name__  # noqa: E731  of what has no plain form
        own = [[id(x), x._version] if hasattr(x, "_version") else x for x in [*tensors, *(x for state in kept for x in state)]]
        others = [values.copied(x.state_dict(), kinds) for x in self.others.values()]
        large = [copy for copy in others if values.bytes_in(copy) > SMALL]  # the others are in `small`
        samples = [values.sample(x) for x in tensors]
        groups = [self._groups(o) for o in self.optimizers.values()]
        return values.digest([values.copied([own, samples], kinds), self._plain(kinds), large, groups])

    # -- copies ----------------------------------------------------------------------------------------------------------------

    def whole(self, lost: Callable[[str, Any], Any] | None = None) -> dict[str, Any]:
        """Everything that steps change, sharing the memory of tensors where possible; the caller copies them before the step begins.

        `lost` is as in `values.copied`.
        """
        return {
            "tensors": self._copied(self.tensors(), shared=True),
            "groups": {key: self._groups(optimizer) for key, optimizer in self.optimizers.items()},
            "optimizers": {
                key: {i: self._copied(state, f"{key}.state", True) for i, p in enumerate(parameters(o)) if (state := o.state.get(p))}
                for key, o in self.optimizers.items()
            },
            "others": {key: self._copied(x.state_dict(), key) for key, x in self.others.items()},
            **self._plain(self.lost if lost is None else lost),
        }

    def _plain(self, lost: Callable[[str, Any], Any]) -> dict[str, Any]:
        """Values, objects and the attributes of modules, in which parameters and other subjects are referred to by their keys."""
        known = {id(x): name for name, x in self._known_values().items()}
        small = {
            key: [{name: x for name, x in vars(m).items() if name[0] != "_" and is_small(x, known)} for m in module.modules()]
            for key, module in self.modules.items()
        }
        return {
            "values": {key: values.copied(x, lost, key, known=known) for key, x in self.values.items()},
            "objects": {key: values.copied(dict(vars(x)), lost, key, known=known) for key, x in self.objects.items()},
            "attributes": values.copied(small, lost, known=known),
        }

    def _known_values(self) -> dict[str, Any]:
        return {**self.tensors(), **self.modules, **self.optimizers, **self.others}

    def small(self) -> dict[str, Any]:
        """What is cheap to copy: modes, learning rates, schedulers, scalers."""
        found = {key: self._copied(x.state_dict(), key) for key, x in self.others.items()}
        return {
            "modes": {key: [m.training for m in x.modules()] for key, x in self.modules.items()},
            "frozen": {key: [not p.requires_grad for p in x.parameters()] for key, x in self.modules.items()},
            "groups": {
                key: [self._copied({k: v for k, v in group.items() if k != "params"}, f"{key}.group") for group in o.param_groups]
                for key, o in self.optimizers.items()
            },
            "others": {key: copy for key, copy in found.items() if values.bytes_in(copy) <= SMALL},
        }

    def gradients(self) -> dict[str, Any]:
        """The gradients that are there, copied."""
        return self._copied({name: t.grad for name, t in self.tensors().items() if t.is_leaf and t.grad is not None}, "grad")

    def _groups(self, optimizer: Any) -> list[list[str]]:
        """The names of the parameters of each group."""
        names = {id(t): name for name, t in self.tensors().items()}
        return [[names.get(id(p), "") for p in group["params"]] for group in optimizer.param_groups]

    def _copied(self, value: Any, path: str = "", shared: bool = False) -> Any:
        return values.copied(value, self.lost, path, shared)

    def lost(self, path: str, value: Any) -> dict[str, Any]:
        """What stands for a value without a plain form."""
        self.left_out[path] = type(value).__name__
        return {"@": "lost", "type": type(value).__name__}

    # -- putting back ----------------------------------------------------------------------------------------------------------

    def put_whole(self, copy: Mapping[str, Any]) -> None:
        """Put back what `whole` returned. Raises Mismatch."""
        for name, tensor in self._named():
            if _is_lazy(tensor) and name in copy["tensors"]:
                tensor.materialize(copy["tensors"][name]["value"].shape)
        here = self.tensors()
        _agree("tensor", copy["tensors"], here)
        for name, one in copy["tensors"].items():
            self._put(name, lambda one=one, name=name: values.put(one, here[name]))
        for kind in ("optimizers", "others", "values", "objects"):
            _agree(kind[:-1], copy[kind], getattr(self, kind))
        for key, states in copy["optimizers"].items():
            optimizer = self.optimizers[key]
            for group in copy["groups"][key][len(optimizer.param_groups) :]:  # added while the training ran
                optimizer.add_param_group({"params": [here[name] for name in group]})
            del optimizer.param_groups[len(copy["groups"][key]) :]
            if self._groups(optimizer) != copy["groups"][key]:
                raise Mismatch(f"{called(key)} cannot be put back: it has other parameters here than in the record.")
            for i, p in enumerate(parameters(optimizer)):
                optimizer.state.pop(p, None)
                if i in states or str(i) in states:
                    optimizer.state[p] = values.made(states.get(i, states.get(str(i))))
        self._put_others(copy["others"])
        for one in (*self.values.values(), *map(vars, self.objects.values())):
            values.learn(one)
        known = self._known_values()
        for key, one in copy["values"].items():
            self._put(key, lambda one=one, key=key: values.put(one, self.values[key], known))
        for key, one in copy["objects"].items():
            _put_attributes(self.objects[key], one, known)
        for key, attributes in copy["attributes"].items():
            for module, one in zip(self.modules[key].modules(), attributes, strict=False):
                _put_attributes(module, one, known)

    def put_small(self, copy: Mapping[str, Any]) -> None:
        """Put back what `small` returned."""
        for key, modes in copy["modes"].items():
            for module, mode in zip(self._known(self.modules, key).modules(), modes, strict=False):
                module.training = mode
        for key, frozen in copy["frozen"].items():
            for p, still in zip(self.modules[key].parameters(), frozen, strict=False):
                if p.requires_grad == still:
                    p.requires_grad_(not still)
        for key, groups in copy["groups"].items():
            for group, given in zip(self._known(self.optimizers, key).param_groups, groups, strict=False):
                for name, one in given.items():
                    if isinstance(one, dict) and isinstance(one.get("value"), Copy) and hasattr(group.get(name), "copy_"):
                        values.put(one, group[name])
                    elif not _is_lost(one):
                        group[name] = values.made(one)
        self._put_others(copy["others"])

    def put_gradients(self, copy: Mapping[str, Any]) -> None:
        """Set each `.grad` as it was, None where there was none."""
        for name, tensor in self.tensors().items():
            if tensor.is_leaf:
                tensor.grad = values.made(copy[name]) if name in copy else None

    def _put_others(self, copy: Mapping[str, Any]) -> None:
        for key, one in copy.items():
            here = self._known(self.others, key)
            if values.unknown(one):
                values.learn(here.state_dict())
            own = {k for k, x in one.items() if _is_lost(x)} if isinstance(one, dict) else set()  # functions: the program has its own
            state = here.state_dict() if own else {}
            found = values.made({k: x for k, x in one.items() if k not in own} if own else one)
            here.load_state_dict(found | {k: state[k] for k in own if k in state} if own else found)

    def _put(self, name: str, write: Callable[[], None]) -> None:
        try:
            write()
        except (ValueError, TypeError, RuntimeError) as error:
            raise Mismatch(f"{name} cannot be put back: {error}.") from None

    @staticmethod
    def _known(table: Mapping[str, Any], key: str) -> Any:
        if key not in table:
            raise Mismatch(f"The record knows {called(key)}, and this program has none.")
        return table[key]


class Moment:
    """Everything that belongs to a training, at one moment."""

    def __init__(self, whole: Mapping[str, Any], small: Mapping[str, Any], gradients: Mapping[str, Any], chance: Mapping[str, Any]) -> None:
        self._whole, self._small, self._gradients, self._random = whole, small, gradients, chance

    @classmethod
    def of(cls, subjects: Subjects, same: bool = False) -> Moment:
        """Copy the state of subjects now. `same`: what cannot be copied is referred to, to be put back into the same subjects."""
        whole = subjects.whole((lambda path, value: {"@": "same", "value": value}) if same else None)
        for one in values.copies(whole):
            one.data = one.data.copy()
        return cls(whole, subjects.small(), subjects.gradients(), random_state())

    def put(self, subjects: Subjects) -> None:
        """Put everything back into subjects, bit for bit. Raises Mismatch if they are not like those it was taken from."""
        subjects.put_whole(self._whole)
        subjects.put_small(self._small)
        subjects.put_gradients(self._gradients)
        put_random_state(self._random)


def parameters(optimizer: Any) -> list[Any]:
    """All parameters of an optimizer, in the order of its groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def _agree(what: str, known: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    missing, more = [k for k in known if k not in here], [k for k in here if k not in known]
    if missing or more:
        words = [f"it has no {called(missing[0])}"] if missing else []
        words += [f"it has {called(more[0])}, which the record does not know"] if more else []
        raise Mismatch(f"This is another program than the one that was recorded ({what}): {'; '.join(words)}.")


def called(key: str) -> str:
    """The key of a subject or a tensor, for a message."""
    number, _, rest = key.partition(".")
    if not number.isdecimal():
        return key
    argument = f"argument {int(number) + 1}"
    return f"{argument} of wb.flight" if not rest else rest if number == "0" else f"{rest} of {argument}"


def _put_attributes(target: Any, copy: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Set attributes as they were. Those without a plain form stay: the program has its own."""
    own = vars(target)
    for name, one in copy.items():
        try:
            found = values.made(one, known)
        except Unknown:
            continue
        if type(found) in _FILLED and type(own.get(name)) is type(found):
            values.fill(own[name], found)  # others may know it
        else:
            own[name] = found


def _is_lost(copy: Any) -> bool:
    return isinstance(copy, dict) and copy.get("@") == "lost" or values.unknown(copy)


def _is_lazy(tensor: Any) -> bool:
    return torch().nn.parameter.is_lazy(tensor) if is_tensor(tensor) else is_lazy(tensor)


class Accumulation:
    """Where an `accelerate.Accelerator` is in its gradient accumulation, as a state."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator

    def state_dict(self) -> dict[str, Any]:
        scaler = self._accelerator.scaler
        return {
            "step": self._accelerator.step,
            "sync": self._accelerator.sync_gradients,
            "scaler": None if scaler is None else scaler.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._accelerator.step = state["step"]
        self._accelerator.gradient_state._set_sync_gradients(state["sync"])
        if self._accelerator.scaler is not None and state["scaler"] is not None:
            self._accelerator.scaler.load_state_dict(state["scaler"])

    def is_enabled(self) -> bool:
        return self._accelerator.scaler is not None and self._accelerator.scaler.is_enabled()

    def get_scale(self) -> float:
        return self._accelerator.scaler.get_scale()


def _unwrapped(subject: Any) -> Any:
    """The optimizer within that of accelerate or Lightning, and the state of an accelerator."""
    while hasattr(subject, "param_groups") and hasattr(inner := getattr(subject, "optimizer", None), "param_groups"):
        subject = inner
    return Accumulation(subject) if _is_accelerator(subject) else subject


def _is_accelerator(x: Any) -> bool:
    lib = sys.modules.get("accelerate")
    return lib is not None and isinstance(x, lib.Accelerator)


def _has_state(x: Any) -> bool:
    """Whether a variable is kept although `wb.flight` was not given it."""
    if _is_accelerator(x):
        return True
    if isinstance(x, (type, Module, DataLoader)) or is_module(x) or is_loader(x):
        return False
    return isinstance(x, _RANDOM) or values.is_generator(x) or (hasattr(x, "state_dict") and hasattr(x, "load_state_dict"))


def _each(key: str, subject: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a list or dict of modules, optimizers and tensors, as parameters are often kept in one."""
    if type(subject) in (list, tuple, dict) and subject:
        parts = [(f"{key}.{k}", x) for k, x in (subject.items() if isinstance(subject, dict) else enumerate(subject))]
        if all(isinstance(x, (Tensor, Module)) or is_tensor(x) or is_module(x) or hasattr(x, "param_groups") for _, x in parts):
            yield from parts
            return
    yield key, subject


def _told(x: Any) -> str:
    return f"{type(x).__name__} {x!r:.60}"


# -- random generators ---------------------------------------------------------------------------------------------------------


def random_state() -> dict[str, Any]:
    """The states of the generators that all code shares: Python's, NumPy's, the engine's, PyTorch's and its GPUs'."""
    version, numbers, gauss = random.getstate()
    found = {
        "python": [version, {"@": "numpy", "value": Copy.of(numpy.array(numbers, numpy.uint32))}, gauss],
        "numpy": values.copied(numpy.random.get_state(legacy=False), _refuse),
        "engine": [Copy.of(state) for state in generators.state()],
    }
    if (lib := torch()) is not None:
        found["torch"] = Copy.of(lib.get_rng_state())
        if lib.cuda.is_available() and lib.cuda.is_initialized():
            found["cuda"] = [Copy.of(state) for state in lib.cuda.get_rng_state_all()]
    return found


def put_random_state(copy: Mapping[str, Any]) -> None:
    """Put back what `random_state` returned. What belongs to a library or a device that is not here is left out."""
    version, numbers, gauss = copy["python"]
    random.setstate((version, tuple(map(int, values.made(numbers))), gauss))
    numpy.random.set_state(values.made(copy["numpy"]))
    generators.restore([state.tensor() for state in copy["engine"]][: len(generators.state())])
    lib = torch()
    if lib is not None and "torch" in copy:
        lib.set_rng_state(copy["torch"].torch())
        if "cuda" in copy and lib.cuda.is_available():
            lib.cuda.set_rng_state_all([state.torch() for state in copy["cuda"]][: lib.cuda.device_count()])


def _refuse(path: str, value: Any) -> Any:
    raise Unknown(f"{path} is {_told(value)}")
