"""`engine.install_as_torch()`: make `import torch` import the engine, in this process and those that it spawns."""

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
    """Finds `engine.nn.functional` for `torch.nn.functional` and so on, with an informative ModuleNotFoundError."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        __tracebackhide__ = True
        if fullname.partition(".")[0] not in addresses.TOPS:
            return None
        name = addresses.ours(fullname)
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # a missing dependency of the module itself
            raise missing.module(fullname) from None
        addresses.watch()
        _alias()
        sys.modules.pop(fullname, None)  # for an existing entry, the import system would use the module's own spec and run its file again
        return addresses.found(fullname, found)

    def find_distributions(self, context: metadata.DistributionFinder.Context | None = None) -> Iterator[metadata.Distribution]:
        """Yield the `torch` and `torchvision` packages for `importlib.metadata`, unless a custom path is searched."""
        if context is not None and context.path is not sys.path:
            return
        for name in ("torch", "torchvision"):
            if context is None or context.name is None or re.sub(r"[-_.]+", "-", context.name).lower() == name:
                yield _Package(name)


class _Package(metadata.Distribution):
    """Metadata of a package replaced by the engine: name, version and top-level module."""

    def __init__(self, name: str) -> None:
        number = importlib.import_module(addresses.TOPS[name]).__version__
        self._texts = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n", "top_level.txt": f"{name}\n"}

    def read_text(self, filename: str) -> str | None:
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Path:
        return Path(engine.__file__).parent / path


class _Absent:
    """A method of PyTorch's tensors that is missing here. (`Tensor.__getattr__` would slow down every op.)"""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Any, owner: type) -> Any:
        here = frozenset(n for n in dir(owner) if not n.startswith("_") and not isinstance(owner.__dict__.get(n), _Absent))
        raise AttributeError(missing.sentence("'Tensor' object", "engine.Tensor", self.name, here), name=self.name)


class Installation:
    """Handle of `install_as_torch`; `uninstall()`, or the end of a `with` block, reverts it."""

    def __init__(self, owned: bool) -> None:
        self._owned = owned

    def uninstall(self) -> None:
        """Make `import torch` find PyTorch again, if installed. Modules that imported the engine as torch keep it."""
        if self._owned:
            self._owned = False
            _uninstall()

    def __enter__(self) -> ModuleType:
        return engine

    def __exit__(self, *error: object) -> None:
        self.uninstall()


_NOT_PYTORCHS = ("__array_namespace__", "to_device")  # libraries that find them do not treat the object as a PyTorch tensor
_finder = _Finder()
_renamed: set[str] = set()  # modules with classes that report PyTorch's names
_before: list[tuple[Any, str, Any]] = []  # changes to revert: object, name, old value


def installed() -> bool:
    """Return whether `import torch` imports the engine."""
    return _finder in sys.meta_path


def install_as_torch() -> Installation:
    """Install the engine as PyTorch, so that `import torch`, `torch.nn.functional`, `torchvision` etc. import the engine.

    `torch.__version__` is the PyTorch version that the engine follows with a local part, "2.13.0+engine", and compares with strings and
    tuples as PyTorch's does. Spawned processes import the engine, too. Raises RuntimeError if PyTorch has already been imported. Further
    calls have no effect.
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
    _set(engine, "__name__", "torch")  # libraries compare it; the import system uses `__spec__` and `__package__`
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
    importlib.import_module("engine.nn.modules")  # the home of the layers
    addresses.arrivals.append(_rename)
    addresses.watch()
    _alias()
    return Installation(True)


def _set(where: Any, name: str, value: Any) -> None:
    _before.append((where, name, vars(where).get(name) if name != "__module__" else where.__module__))
    setattr(where, name, value)


def _alias() -> None:
    """Register every loaded engine module in `sys.modules` under PyTorch's name, bypassing the finder.

    (The import system would bind a found module as an attribute of its parent, where a function may have the same name.)
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "engine" and isinstance(module, ModuleType):
            sys.modules.setdefault(addresses.named(name), module)
    for name, place in addresses.PATHS.items():
        if place in sys.modules:
            sys.modules.setdefault(addresses.named(name), sys.modules[place])


@functools.cache
def _homes() -> dict[str, dict[str, str]]:
    """Map engine modules to {name: PyTorch module that it should report as its own}."""
    found: dict[str, dict[str, str]] = {}
    for line in (Path(__file__).parent / "torch_homes.txt").read_text(encoding="utf-8").splitlines()[1:]:
        theirs, ours, *names = line.split()
        found.setdefault(ours, {}).update(dict.fromkeys(names, theirs))
    return found


def _rename() -> None:
    """Set `__module__` of classes and functions to PyTorch's, which libraries check and pickle uses."""
    for ours, names in _homes().items():
        module = sys.modules.get(ours)
        if module is None or ours in _renamed:
            continue
        _renamed.add(ours)
        for name, theirs in names.items():
            found = vars(module).get(name)
            if found is not None and getattr(found, "__module__", None) == ours:
                if isinstance(found, type) and "__annotations__" in vars(found):  # resolved here, not in the new module
                    _set(found, "__annotations__", inspect.get_annotations(found, eval_str=True))
                line = vars(found).get("__firstlineno__")  # from Python 3.13 on `inspect.getsource` needs it, and a new module removes it
                if line is not None:
                    _set(found, "__firstlineno__", line)
                _set(found, "__module__", theirs)
                if line is not None:
                    found.__firstlineno__ = line


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
    """Wrap multiprocessing's preparation data so that a spawned process installs the engine first."""

    def get_preparation_data(name: str) -> dict:
        return {"engine_as_torch": _Arrival(), **get(name)}

    return get_preparation_data


class _Arrival:
    """Installs the engine when unpickled."""

    def __reduce__(self) -> Any:
        return install_as_torch, ()
