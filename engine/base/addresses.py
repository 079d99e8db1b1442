"""PyTorch's module paths: the module that each path imports where the engine has it elsewhere, and `__getattr__` for missing names."""

from __future__ import annotations

import dis
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType
from typing import Any

# PyTorch's path of a module -> the engine's module. The paths of the layers are in `engine.nn.modules`.
PATHS = {
    "engine._C": "engine.compat._C",
    "engine._VF": "engine.compat._VF",
    "engine.__config__": "engine.compat.__config__",
    "engine.__future__": "engine.compat.__future__",
    "engine._dynamo": "engine.compat._dynamo",
    "engine._dynamo._trace_wrapped_higher_order_op": "engine.compat._dynamo",
    "engine._dynamo.eval_frame": "engine.compat._dynamo",
    "engine._higher_order_ops": "engine.compat._higher_order_ops",
    "engine._higher_order_ops.associative_scan": "engine.compat._higher_order_ops",
    "engine._higher_order_ops.cond": "engine.compat._higher_order_ops",
    "engine._higher_order_ops.scan": "engine.compat._higher_order_ops",
    "engine._higher_order_ops.while_loop": "engine.compat._higher_order_ops",
    "engine._jit_internal": "engine.compat._jit_internal",
    "engine._subclasses": "engine.compat._subclasses",
    "engine._subclasses.fake_tensor": "engine.compat._subclasses",
    "engine._tensor": "engine.core.tensor",
    "engine._tensor_str": "engine.compat._tensor_str",
    "engine._utils": "engine.compat._utils",
    "engine._vmap_internals": "engine.compat._vmap_internals",
    "engine.accelerator": "engine.compat.accelerator",
    "engine.ao": "engine.compat.ao",
    "engine.ao.quantization": "engine.compat.ao.quantization",
    "engine.ao.quantization.fake_quantize": "engine.compat.ao.quantization",
    "engine.ao.quantization.observer": "engine.compat.ao.quantization",
    "engine.autograd.profiler": "engine.profiler.autograd",
    "engine.cpu": "engine.compat.cpu",
    "engine.cpu.amp": "engine.compat.cpu.amp",
    "engine.cpu.amp.autocast_mode": "engine.compat.cpu.amp",
    "engine.cpu.amp.grad_scaler": "engine.compat.cpu.amp",
    "engine.cuda.amp.autocast_mode": "engine.cuda.amp",
    "engine.cuda.amp.common": "engine.cuda.amp",
    "engine.cuda.amp.grad_scaler": "engine.cuda.amp",
    "engine.distributed._composable": "engine.distributed",
    "engine.distributed._composable.fsdp": "engine.distributed.fsdp",
    "engine.distributed._tensor": "engine.distributed.tensor",
    "engine.distributed._tensor.experimental": "engine.distributed.tensor",
    "engine.distributed.checkpoint.hf_storage": "engine.distributed.checkpoint",
    "engine.distributed.constants": "engine.distributed.world",
    "engine.distributed.distributed_c10d": "engine.distributed",
    "engine.distributed.fsdp.api": "engine.distributed.fsdp",
    "engine.distributed.fsdp.fully_sharded_data_parallel": "engine.distributed.fsdp",
    "engine.distributed.fsdp.wrap": "engine.distributed.wrapping",
    "engine.distributed.nn.functional": "engine.distributed.nn",
    "engine.distributed.tensor._utils": "engine.distributed.tensor",
    "engine.distributed.tensor.experimental": "engine.distributed.tensor",
    "engine.distributed.tensor.placement_types": "engine.distributed.tensor",
    "engine.functional": "engine.compat.functional",
    "engine.fx": "engine.compat.fx",
    "engine.fx._symbolic_trace": "engine.compat.fx",
    "engine.fx.experimental": "engine.compat.fx.experimental",
    "engine.fx.experimental.proxy_tensor": "engine.compat.fx.experimental.proxy_tensor",
    "engine.fx.graph": "engine.compat.fx",
    "engine.fx.graph_module": "engine.compat.fx",
    "engine.fx.interpreter": "engine.compat.fx",
    "engine.fx.node": "engine.compat.fx",
    "engine.fx.proxy": "engine.compat.fx",
    "engine.jit": "engine.compat.jit",
    "engine.jit.annotations": "engine.compat.jit_annotations",
    "engine.library": "engine.compat.library",
    "engine.mps": "engine.compat.mps",
    "engine.mtia": "engine.compat.mtia",
    "engine.nn.parallel.data_parallel": "engine.nn.data_parallel",
    "engine.nn.parallel.distributed": "engine.distributed.data_parallel",
    "engine.nn.utils.stateless": "engine.compat.stateless",
    "engine.optim.adadelta": "engine.optim.adaptive",
    "engine.optim.adagrad": "engine.optim.adaptive",
    "engine.optim.adamax": "engine.optim.adam",
    "engine.optim.adamw": "engine.optim.adam",
    "engine.optim.asgd": "engine.optim.sgd",
    "engine.optim.nadam": "engine.optim.adam",
    "engine.optim.radam": "engine.optim.adam",
    "engine.optim.rmsprop": "engine.optim.adaptive",
    "engine.optim.rprop": "engine.optim.sgd",
    "engine.overrides": "engine.compat.overrides",
    "engine.random": "engine.core.random",
    "engine.return_types": "engine.base.return_types",
    "engine.serialization": "engine.compat.serialization",
    "engine.signal.windows.windows": "engine.signal.windows",
    "engine.storage": "engine.core.storage",
    "engine.torch_version": "engine.compat.torch_version",
    "engine.types": "engine.compat.types",
    "engine.utils.collect_env": "engine.compat.collect_env",
    "engine.utils.data.dataset": "engine.data.dataset",
    "engine.utils.data.distributed": "engine.data.distributed",
    "engine.utils.data.sampler": "engine.data.sampler",
    "engine.utils.tensorboard.writer": "engine.utils.tensorboard",
    "engine.version": "engine.compat.version",
    "engine.vision.models._utils": "engine.vision.models._init",
    "engine.vision.models.mobilenet": "engine.vision.models",
    "engine.vision.ops.focal_loss": "engine.vision.ops.losses",
    "engine.vision.transforms.transforms": "engine.vision.transforms",
    "engine.xpu": "engine.compat.xpu",
}
_OF_PACKAGE = {
    "Future": "futures",
    "OutOfMemoryError": "cuda",
    "PyTorchFileReader": "serialize.reader",
    "ScriptFunction": "compat.jit",
    "ScriptModule": "compat.jit",
    "_standard_gamma": "distributions.gamma",
    **dict.fromkeys(("GradScaler", "autocast"), "amp"),
    **dict.fromkeys(
        (
            *(f"{verb}_autocast_{kind}_dtype" for verb in ("get", "set") for kind in ("cpu", "ipu", "xla", "gpu")),
            *(f"{verb}_autocast_{kind}_enabled" for verb in ("is", "set") for kind in ("cpu", "ipu", "xla")),
        ),
        "amp.older",
    ),
    "compile": "compiler",
    **dict.fromkeys(
        (f"{kind}{cell}" for kind in ("gru", "lstm", "rnn_relu", "rnn_tanh") for cell in ("", "_cell")),
        "nn.recurrence",
    ),
    **dict.fromkeys((f"{name}_window" for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")), "signal.windows"),
    **dict.fromkeys(("Event", "Stream", "get_device_module"), "compat.accelerator"),
    **dict.fromkeys(("cond", "while_loop"), "compat._higher_order_ops"),
    **dict.fromkeys(
        (
            "_assert",
            "_assert_async",
            "_check",
            "_check_index",
            "_check_is_size",
            "_check_not_implemented",
            "_check_tensor_all",
            "_check_tensor_all_with",
            "_check_type",
            "_check_value",
            "_check_with",
        ),
        "compat.conditions",
    ),
    **dict.fromkeys(
        (
            "AnyType",
            "AwaitType",
            "BoolType",
            "ComplexType",
            "DeviceObjType",
            "DictType",
            "FloatType",
            "FutureType",
            "IntType",
            "ListType",
            "NoneType",
            "NumberType",
            "OptionalType",
            "PyObjectType",
            "RRefType",
            "StreamObjType",
            "StringType",
            "SymBoolType",
            "SymIntType",
            "TensorType",
            "TupleType",
            "Type",
            "UnionType",
        ),
        "compat.jit_types",
    ),
    **dict.fromkeys(("SymBool", "SymFloat", "SymInt"), "compat.symbolic"),
    **dict.fromkeys(("chalf", "complex32", "float4_e2m1fn_x2"), "compat.rare_dtypes"),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), "compat.rare_dtypes"),
}  # fmt: skip
# Names that are imported lazily -> the module that defines them.
NAMES = {f"engine.{name}": f"engine.{module}" for name, module in _OF_PACKAGE.items()}
NAMES["engine.nn.parallel.DistributedDataParallel"] = "engine.distributed.data_parallel"
TOPS = {"torchvision": "engine.vision", "functorch": "engine.compat.functorch", "torch": "engine"}  # package -> the engine's package
_PUBLIC = {place: path for path, place in reversed(PATHS.items()) if place.startswith(("engine.compat.", "engine.core."))}


def ours(name: str) -> str:
    """Return the engine's name for a module of torch, torchvision or functorch."""
    top, dot, rest = name.partition(".")
    name = TOPS[top] + dot + rest
    return PATHS.get(name, name)


def theirs(name: str) -> str:
    """Return PyTorch's name for a module of the engine."""
    name = public(name)
    return named(name.replace("engine.data", "engine.utils.data", 1) if name.startswith("engine.data") else name)


def public(name: str) -> str:
    """Return the path by which users import a module of the engine."""
    return _PUBLIC.get(name, name)


def named(name: str) -> str:
    """Return a module's name with only the top package replaced: `torch.data` for `engine.data`, even if PyTorch has no such module."""
    return next((top + name[len(home) :] for top, home in TOPS.items() if f"{name}.".startswith(f"{home}.")), name)


class Loader(importlib.abc.Loader):
    """A loader that returns a loaded module unchanged: nothing is executed, and it keeps its name and spec."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = self.module  # the import system returns the module that it finds here

    def get_code(self, fullname: str) -> Any:
        """Return the code of the module's file, for `python -m torch.distributed.run`."""
        spec = self.module.__spec__
        return spec.loader.get_code(spec.name) if spec is not None and isinstance(spec.loader, importlib.abc.InspectLoader) else None


class Finder(importlib.abc.MetaPathFinder):
    """A finder that imports `engine.jit`, for example, from the module that `PATHS` lists for it."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        place = PATHS.get(fullname)
        return None if place is None else found(fullname, importlib.import_module(place))


def found(fullname: str, module: ModuleType) -> importlib.machinery.ModuleSpec:
    """Return the spec with which an import of `fullname` returns a loaded module."""
    place = getattr(module, "__file__", None)
    return importlib.machinery.ModuleSpec(fullname, Loader(module), origin=place, is_package=hasattr(module, "__path__"))


_FROM = dis.opmap["IMPORT_FROM"]
# Modules of the inner layers get no `__getattr__`: CPython does not cache attribute lookups in a module that has one, and each
# `observe.current` or `xp.tanh` would take 30 ns instead of 4. These are exceptions, because PyTorch has modules of these names.
_ASKED = ("engine.core.random", "engine.core.storage", "engine.base.return_types")


def plainly(what: str, home: str, name: str, here: frozenset[str]) -> str:
    """The default error message for a missing name; the package replaces it by one with PyTorch's names."""
    return f"{what} has no attribute {name!r}"


sentence = plainly


def attribute(home: str, name: str, deep: int = 1) -> Any:
    """`__getattr__` of a module: import a lazily imported name or submodule (`NAMES`, `PATHS`, the module's `_LATER`).

    Raises AttributeError for any other name; ImportError in `from home import name`. `deep`: how many frames above this one the lookup is.
    """
    __tracebackhide__ = True  # so that a notebook's traceback ends at the user's own line
    if name.startswith("__"):
        raise AttributeError(f"module {home!r} has no attribute {name!r}")
    asked, home = sys.modules[home], public(home)
    path = f"{home}.{name}"
    if path in NAMES:
        return getattr(importlib.import_module(NAMES[path]), name)
    if path in PATHS or name in vars(asked).get("_LATER", ()) and importlib.util.find_spec(path) is not None:
        try:
            found = importlib.import_module(PATHS.get(path, path))
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "engine":
                raise  # a missing third-party library
            raise AttributeError(f"module {home!r} has no attribute {name!r}: {error}", name=name) from error
        setattr(asked, name, found)  # the import system does so only for a module at its own path
        watch()
        return found
    listed = (*vars(asked).get("__all__", ()), *vars(asked).get("_LATER", ()))
    told = sentence(f"module {home!r}", home, name, frozenset(n for n in (*vars(asked), *listed) if n != name and not n.startswith("_")))
    if path not in sys.modules and _imports(sys._getframe(deep)):
        raise ImportError(told.replace(" has no attribute ", ": cannot import name ", 1), name=home)
    raise AttributeError(told, name=name)  # without `obj`, or Python would append its own suggestion


def _imports(frame: FrameType) -> bool:
    """Whether the frame is at `from module import name`, which would replace the message of an AttributeError."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _FROM


arrivals: list[Callable[[], None]] = []  # called whenever modules may have been loaded


def watch() -> None:
    """Give every loaded module of the engine a `__getattr__`, unless it defines one or is in the inner layers."""
    for name, loaded in list(sys.modules.items()):
        if name.startswith("engine.") and isinstance(loaded, ModuleType) and "__getattr__" not in vars(loaded) and not _walked(name):
            vars(loaded)["__getattr__"] = functools.partial(attribute, loaded.__name__)
    for told in arrivals:
        told()


def _walked(name: str) -> bool:
    """Whether the module is in the inner layers. PyTorch's switches in `engine.backends` are not."""
    _, top, *rest = name.split(".")
    if top == "backends":
        return bool(rest) and rest[0] not in sys.modules["engine.backends"]._LATER
    return top in ("base", "core", "ops") and bool(rest) and name not in _ASKED


sys.meta_path.insert(0, Finder())  # before the file finder, which would load a module of a moved package twice
