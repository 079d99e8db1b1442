"""Devices: the `device` class, the array namespace (`xp`) of an array's device, and moving arrays between devices."""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy

from ..backends import cpu, meta
from ..backends.batch import Batched, space
from ..backends.meta import Meta
from ..base.errors import Refused

gpu: Any = None  # the CUDA backend, loaded at the first use of a GPU
gpu_array: Any = None  # the class of its arrays
traced_array: Any = None  # the class of the arrays of a step that is traced for XLA, once one has been
several = False  # whether there are several GPUs
mixed = False  # whether there are arrays other than NumPy's: on a GPU, on the meta device, or batched by vmap


_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy", "vulkan", "mps", "meta",
    "hpu", "mtia", "privateuseone",
)  # fmt: skip


_BESIDE = frozenset((float, int, type(None)))  # what may be an operand on any device


class device:
    """The device of a tensor: `device("cpu")`, `device("cuda")`, `device("cuda:1")`, `device("cuda", 1)`.

    Tensors on `device("meta")` have no memory. PyTorch's other device types can be named, but no tensor can be moved there. Raises
    RuntimeError for an unknown type or an invalid index.

    As a context manager or a decorator, it makes the device the default for new tensors.
    """

    __slots__ = ("_type", "_index")
    __module__ = "torch"  # the module in its repr

    def __init__(self, type: Any, index: int | None = None):
        if isinstance(type, device) and index is None:
            self._type, self._index = type._type, type._index
            return
        if index is not None and not isinstance(index, int):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}")
        if isinstance(type, int) and index is None:
            type, index = "cuda", type
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' (position 1) must be str, not {type.__class__.__name__}")
        found = re.fullmatch(r"(\w+)(?::(0|[1-9]\d*))?", type)
        if found is None or found[1] not in _TYPES:
            if type.partition(":")[0] in _TYPES:
                raise RuntimeError(f"Invalid device string: {type!r}; the index is a whole number from 0 on, as in 'cuda:1'")
            raise RuntimeError(f"Expected one of {', '.join(_TYPES)} device type at start of device string: {type}")
        if found[2] is not None and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative, got {index}")
        self._type: str = found[1]
        self._index: int | None = int(found[2]) if found[2] is not None else index

    @property
    def type(self) -> str:
        return self._type

    @property
    def index(self) -> int | None:
        return self._index

    def __repr__(self) -> str:
        return f"device(type={self.type!r}{f', index={self.index}' if self.index is not None else ''})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __enter__(self) -> device:
        """Make this the default device for new tensors until the end of the block."""
        global default
        _outer.append(default)
        default = self
        return self

    def __exit__(self, *error: object) -> None:
        global default
        default = _outer.pop()

    def __call__(self, function: Callable) -> Callable:
        """Wrap a function so that it runs inside `with` this device: `@device("cuda")`."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return call

    def __reduce__(self) -> Any:
        return _device, (str(self),)


def _device(text: str) -> device:
    return device(text)


CPU, META = device("cpu"), device("meta")
default: device | None = None  # the device of new tensors unless one is given; None: the CPU
_outer: list[device | None] = []  # the value of `default` outside each open `with device(...)`


def set_default_device(device_: Any) -> None:
    """Set the default device for new tensors; None resets it to the CPU."""
    global default
    default = None if device_ is None else device(device_)


def get_default_device() -> device:
    """Return the default device for new tensors."""
    return CPU if default is None else default


def cuda() -> Any:
    """Return the CUDA backend, loaded at the first use. Raises RuntimeError, saying what to install, without CuPy or a GPU."""
    global gpu, gpu_array, mixed, several
    if gpu is None:
        try:
            backend = importlib.import_module("engine.backends.gpu.namespace")
        except ImportError as error:
            raise RuntimeError(
                f"No CUDA device can be used: CuPy is not installed ({error}). "
                "Install gradient-workbench[cuda12] or gradient-workbench[cuda13]."
            ) from error
        backend.require_device()
        gpu, gpu_array, mixed, several = backend, backend.cupy.ndarray, True, backend.device_count() > 1
    return gpu


def tracing() -> Any:
    """Return the class of traced arrays, imported with JAX at the first use. Raises ImportError without JAX."""
    global traced_array, mixed
    if traced_array is None:
        traced_array, mixed = importlib.import_module("engine.backends.xla").Traced, True
    return traced_array


def is_traced(array: Any) -> bool:
    """Whether an array belongs to a step that is being traced for XLA, so that its values are unknown."""
    return traced_array is not None and array.__class__ is traced_array


def list_kernels(arrays: list) -> Any:
    """Return the GPU's kernels for lists of arrays, `backends.gpu.optim`, if all of these arrays are for them; else None."""
    kernels = importlib.import_module("engine.backends.gpu.optim") if gpu is not None and arrays else None
    return kernels if kernels is not None and all(map(kernels.alike, arrays)) else None


def cuda_available() -> bool:
    """Whether a GPU can be used."""
    try:
        return cuda().device_count() > 0
    except RuntimeError:
        return False


def making(place: Any) -> Any:
    """The namespace that makes new arrays for a device: that of the meta device, or the CPU's, whose arrays `move` then copies."""
    place = default if place is None else place
    return cpu if place is None or device(place).type != "meta" else _memoryless()


def known(condition: Any) -> bool:
    """Whether a condition is known to be true: False on the meta device and in a traced step, so that data checks are skipped there."""
    array = getattr(condition, "array", condition)
    return array.__class__ is not Meta and not known_later(array) and bool(array)


def known_later(array: Any) -> bool:
    """Whether an array's values are known only when a compiled step runs."""
    return traced_array is not None and array.__class__ is traced_array


def require(condition: Any, kind: type[Exception], text: str) -> None:
    """Raise an error unless an array of bools is True everywhere: on a GPU when the host next waits, on meta, or traced, never."""
    if gpu is not None and namespace(condition) is gpu:
        gpu.faults.require(condition, RuntimeError if kind is Refused else kind, text)
    elif condition.__class__ is not Meta and not known_later(condition) and not bool(condition.all()):
        raise kind(text)


def look(array: Any, index: tuple, op: str = "indexing") -> None:
    """On a GPU, note an index outside of an array, which is raised when the host next waits. NumPy refuses it by itself."""
    if gpu is not None and namespace(array) is gpu:
        gpu.faults.look(array.shape, index, op)


def pattern(array: Any, place: Any) -> Any:
    """An array of the same shape and strides, in the namespace that makes new arrays for a device."""
    if device(place).type == "meta":
        return move(array, META)
    return array.view(numpy.ndarray) if array.__class__ is Meta else array


def _memoryless() -> Any:
    global mixed
    mixed = True
    return meta.space


def namespace(array: Any) -> Any:
    """The array namespace (`xp`) of an array: the CPU's for NumPy arrays and numbers, else that of the GPU, a vmap level or meta."""
    if array.__class__ is Batched:
        return array.level.xp
    if array.__class__ is Meta:
        return meta.space
    if array.__class__ is traced_array:
        return array.library
    if gpu is None or isinstance(array, (numpy.ndarray, numpy.generic)) or not hasattr(array, "dtype"):
        return cpu
    return gpu


def of(array: Any) -> device:
    """Return the device of an array."""
    while array.__class__ is Batched:
        array = array.inner
    if array.__class__ is Meta:
        return META
    if array.__class__ is traced_array:
        return CPU
    return CPU if isinstance(array, (numpy.ndarray, numpy.generic)) else _of_gpu(array.data.device_id)


@functools.cache
def _of_gpu(index: int) -> device:
    return device("cuda", index)


def elsewhere(values: Iterable[Any]) -> Any:
    """The GPU of the first tensor or array there, as a context that makes it the current one; None if it is, and without one there."""
    for x in values:
        array = getattr(x, "array", x)
        if isinstance(array, gpu_array):
            index = array.data.device_id
            return None if index == gpu.current_device() else gpu.device(index)
    return None


def away(values: Iterable[Any]) -> bool:
    """Whether one of the arrays is on a GPU other than the current one."""
    here = gpu.current_device()
    return any(getattr(getattr(x, "data", None), "device_id", here) != here for x in values)


def beside(*values: Any) -> Any:
    """A context in which the GPU of the first tensor or array there is the current one."""
    return several and elsewhere(values) or contextlib.nullcontext()


def address(array: Any) -> int:
    """The address of the first element; of a traced array, of what stands for it."""
    array = array.layout if known_later(array) else array
    return array.__array_interface__["data"][0] if isinstance(array, numpy.ndarray) else array.data.ptr


def common(arrays: list, name: str) -> Any:
    """The namespace for an op on these arrays. A 0-d CPU array may be combined with any device, as in PyTorch.

    Raises Refused for arrays on different devices. 0-d CPU arrays are converted in place in the list `arrays`.
    """
    if not mixed:
        return cpu
    if gpu_array is not None and not several:
        kinds = {a.__class__ for a in arrays}
        if gpu_array in kinds and kinds <= _BESIDE | {gpu_array}:
            return gpu
    if any(a.__class__ is Batched for a in arrays):
        return space(arrays)
    if traced_array is not None and any(a.__class__ is traced_array for a in arrays):
        return traced_array.library
    placed = [a for a in arrays if hasattr(a, "dtype") and not isinstance(a, numpy.generic)]
    kinds = {a.__class__ for a in placed}
    if kinds == {numpy.ndarray}:
        return cpu
    if len(kinds) == 1 and not issubclass(*kinds, numpy.ndarray) and len({a.data.device_id for a in placed}) == 1:
        return namespace(placed[0])
    devices = {of(a) for a in placed}
    if len(devices) < 2:
        return namespace(placed[0]) if placed else cpu
    main = {of(a) for a in placed if a.ndim or a.__class__ is not numpy.ndarray}
    if len(main) > 1:
        raise Refused(
            f"Expected all tensors to be on the same device, but found at least two devices, {' and '.join(sorted(map(str, main)))}!"
        )
    xp = namespace(next(a for a in placed if a.__class__ is not numpy.ndarray))
    for i, a in enumerate(arrays):
        if a.__class__ is numpy.ndarray and a.ndim == 0:
            arrays[i] = a.item() if a.dtype.kind in "bif" else xp.asarray(a)
    return xp


def move(array: Any, to: device, non_blocking: bool = False) -> Any:
    """Return the array on another device: itself if it is there already, else a copy. Raises NotImplementedError for a copy from meta.

    With `non_blocking`, a copy from pinned memory or to the CPU is only begun: see `backends/gpu/memory.py`.
    """
    if to.type == "meta":
        return array if array.__class__ is Meta else _memoryless().empty_like(array)
    here = of(array)
    if here is META:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if here.type == to.type and (here.type == "cpu" or to.index is None or to.index == here.index):  # "cpu:1" is the one CPU too
        return array
    if to.type == "cpu":
        return cuda().memory.copy_to_pinned(array) if non_blocking else cuda().to_host(array)
    if to.type != "cuda":
        raise NotImplementedError(f"the device {str(to)!r} is not supported; the engine computes on cpu and cuda")
    begun = cuda().memory.copy_from_pinned(array, to.index) if non_blocking and here.type == "cpu" else None
    return cuda().to_device(array, to.index) if begun is None else begun


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers of the device types."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17
