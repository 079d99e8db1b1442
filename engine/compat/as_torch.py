"""`engine.install_as_torch()`: from then on `import torch` gives the engine, in this process and in those that it spawns."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from multiprocessing import spawn
from pathlib import Path
from types import ModuleType
from typing import Any

import engine

from ..base import addresses
from ..core.tensor import Tensor
from . import missing
from .version import __version__ as version


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `torch.nn.functional` where `engine.nn.functional` is. ModuleNotFoundError says what PyTorch has and the engine lacks."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        __tracebackhide__ = True
        if fullname.partition(".")[0] not in addresses.TOPS:
            return None
        name = addresses.ours(fullname)
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # a library that the module itself needs
            raise missing.module(fullname) from None
        addresses.watch()
        _alias()
        sys.modules.pop(fullname, None)  # where it stands already the import system takes its own spec, and runs its file a second time
        return addresses.found(fullname, found)

    def find_distributions(self, context: metadata.DistributionFinder.Context | None = None) -> Iterator[metadata.Distribution]:
        """PyTorch's and torchvision's packages, for `importlib.metadata`; of a path that a program names only what lies there counts."""
        if context is not None and context.path is not sys.path:
            return
        for name in ("torch", "torchvision"):
            if context is None or context.name is None or re.sub(r"[-_.]+", "-", context.name).lower() == name:
                yield _Package(name)


class _Package(metadata.Distribution):
    """The metadata of a package in whose place the engine is: its name, its version, and the module that it brings."""

    def __init__(self, name: str) -> None:
        number = importlib.import_module(addresses.TOPS[name]).__version__
        self._texts = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n", "top_level.txt": f"{name}\n"}

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Path:
        return Path(engine.__file__).parent / path


class _Absent:
    """A method of PyTorch's tensors that the engine's lack. (`Tensor.__getattr__` would make every op slower.)"""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Any, owner: type) -> Any:
        here = frozenset(n for n in dir(owner) if not n.startswith("_") and not isinstance(owner.__dict__.get(n), _Absent))
        raise AttributeError(missing.sentence("'Tensor' object", "engine.Tensor", self.name, here), name=self.name)


class Installation:
    """The engine in PyTorch's place; `uninstall()`, or the end of a `with` block, takes it away again."""

    def __init__(self, owned: bool) -> None:
        self._owned = owned

    def uninstall(self) -> None:
        """`import torch` finds PyTorch again, if it is there. Modules that have imported the engine as torch keep it."""
        if self._owned:
            self._owned = False
            _uninstall()

    def __enter__(self) -> ModuleType:
        return engine

    def __exit__(self, *error: object) -> None:
        self.uninstall()


_NOT_PYTORCHS = ("__array_namespace__", "to_device")  # libraries that ask for them take another way than with PyTorch's tensors
_finder = _Finder()
_renamed: set[str] = set()  # modules whose classes say PyTorch's names
_before: list[tuple[Any, str, Any]] = []  # what was changed: where, the name, the value to put back


def installed() -> bool:
    """Whether `import torch` gives the engine."""
    return _finder in sys.meta_path


def install_as_torch() -> Installation:
    """Put the engine in PyTorch's place: `import torch`, `torch.nn.functional`, `torchvision` ... give the engine's own.

    `torch.__version__` is the version whose names and behaviour the engine follows, with a local part that says who answers:
    "2.13.0+engine"; it compares with strings and tuples as PyTorch's does. Processes that are spawned find the engine too.
    RuntimeError when PyTorch itself has been imported already. Calling it again changes nothing.
    """
    if installed():
        return Installation(False)
    for name in addresses.TOPS:
        if name in sys.modules:
            raise RuntimeError(
                f"install_as_torch: {name} itself has been imported in this process already, and two cannot share one name. "
                "Restart Python (the kernel), and install the engine before anything imports torch."
            )
    sys.meta_path.insert(0, _finder)
    _set(engine, "__version__", version)
    _set(engine, "__name__", "torch")  # libraries compare it; the import system goes by `__spec__` and `__package__`
    _set(spawn, "get_preparation_data", _telling(spawn.get_preparation_data))
    for name in sorted(missing.known()["engine.Tensor"]):
        if not hasattr(Tensor, name):
            absent = _Absent()
            absent.__set_name__(Tensor, name)
            setattr(Tensor, name, absent)
    for name in _NOT_PYTORCHS:
        _before.append((Tensor, name, vars(Tensor)[name]))
        delattr(Tensor, name)
    _set(Tensor, "__dir__", lambda self: [n for n in object.__dir__(self) if not isinstance(vars(Tensor).get(n), _Absent)])
    importlib.import_module("engine.nn.modules")  # where the layers are at home
    addresses.arrivals.append(_rename)
    addresses.watch()
    _alias()
    return Installation(True)


def _set(where: Any, name: str, value: Any) -> None:
    _before.append((where, name, vars(where).get(name) if name != "__module__" else where.__module__))
    setattr(where, name, value)


def _alias() -> None:
    """Every module of the engine's that is loaded can be imported under PyTorch's name, without a look for it.

    (The import system binds what it has found in the package above, where a function may have the same name.)
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "engine" and isinstance(module, ModuleType):
            sys.modules.setdefault(addresses.named(name), module)
    for name, place in addresses.PATHS.items():
        if place in sys.modules:
            sys.modules.setdefault(addresses.named(name), sys.modules[place])


@functools.cache
def _homes() -> dict[str, dict[str, str]]:
    """What is PyTorch's of a module of the engine's: name -> the module that it says it is from there."""
    found: dict[str, dict[str, str]] = {}
    for line in (Path(__file__).parent / "torch_homes.txt").read_text(encoding="utf-8").splitlines()[1:]:
        theirs, ours, *names = line.split()
        found.setdefault(ours, {}).update(dict.fromkeys(names, theirs))
    return found


def _rename() -> None:
    """Classes and functions say that they are from where PyTorch has them: libraries ask, and pickles find them there."""
    for ours, names in _homes().items():
        module = sys.modules.get(ours)
        if module is None or ours in _renamed:
            continue
        _renamed.add(ours)
        for name, theirs in names.items():
            found = vars(module).get(name)
            if found is not None and getattr(found, "__module__", None) == ours:
                if isinstance(found, type) and "__annotations__" in vars(found):  # as types: their text is read with the names around it
                    _set(found, "__annotations__", inspect.get_annotations(found, eval_str=True))
                _set(found, "__module__", theirs)


def _uninstall() -> None:
    addresses.arrivals.remove(_rename)
    _renamed.clear()
    sys.meta_path.remove(_finder)
    for name in list(sys.modules):
        if name.partition(".")[0] in addresses.TOPS:
            del sys.modules[name]
    for name, value in list(vars(Tensor).items()):
        if isinstance(value, _Absent):
            delattr(Tensor, name)
    while _before:
        where, name, value = _before.pop()
        if value is None:
            delattr(where, name)
        else:
            setattr(where, name, value)


def _telling(get: Callable) -> Callable:
    """What a spawned process is told before it imports the main module, with the installation in front."""

    def get_preparation_data(name: str) -> dict:
        return {"engine_as_torch": _Arrival(), **get(name)}

    return get_preparation_data


class _Arrival:
    """Installs the engine where it is unpickled."""

    def __reduce__(self) -> Any:
        return install_as_torch, ()
