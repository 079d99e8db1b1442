"""NVIDIA's module `cudnn` without a GPU: graphs of convolutions and attention, computed by NumPy on memory of the stand-in for CuPy.

An execution uses the addresses and what the graph declares, nothing else. What cuDNN refuses is refused, and more: memory that is not
allocated, and a graph whose tensors differ in memory order. The plans differ as cuDNN's do: in precision, in time, in workspace, and in
whether two runs agree.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import host_cuda
import ml_dtypes
import numpy
from host_sdpa import Attention, diagonal_alignment  # noqa: F401  a name of the real module

from engine.backends import cudnn as switches

data_type = enum.Enum("data_type", "NOT_SET FLOAT HALF BFLOAT16 DOUBLE INT64")
heur_mode = enum.Enum("heur_mode", "A B FALLBACK")
numerical_note = enum.Enum("numerical_note", "TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION NONDETERMINISTIC")
DTYPES = {data_type.FLOAT: numpy.dtype("f"), data_type.HALF: numpy.dtype("e"), data_type.BFLOAT16: numpy.dtype(ml_dtypes.bfloat16)}
DTYPES |= {data_type.INT64: numpy.dtype("i8")}
PLANS = {  # name -> numerical notes, in the heuristics' order
    "rounds": {numerical_note.DOWN_CONVERT_INPUTS, numerical_note.TENSOR_CORE},
    "atomics": {numerical_note.NONDETERMINISTIC, numerical_note.TENSOR_CORE},
    "tensor": {numerical_note.TENSOR_CORE},
    "slow": set(),
    "fast": set(),
    "slower": set(),
}
WORKSPACE = 1000  # bytes of the first plan; each has so many more than the one before
delay = 0.0  # seconds that the slow plans take longer

graphs: list[pygraph] = []  # those that have a plan, in the order in which they were planned
_random = numpy.random.default_rng(0)


class cudnnGraphNotSupportedError(Exception):
    """No plan can compute a graph."""


def backend_version() -> int:
    return 92800


class Handle:
    """A handle, for one device and one thread."""

    def __init__(self) -> None:
        self.stream, self.owner = 0, (host_cuda.current_device(), threading.get_ident())


def create_handle() -> Handle:
    return Handle()


def set_stream(handle: Handle, stream: int) -> None:
    handle.stream = stream


# -- tensors -----------------------------------------------------------------------------------------------------------------


class Tensor:
    """A tensor of a graph; virtual if it is a result that is not written to memory."""

    def __init__(self, dim: Any, stride: Any, data_type: Any, uid: int | None, is_virtual: bool) -> None:
        self.dim, self.stride, self.data_type, self.uid, self.is_virtual = dim, stride, data_type, uid, is_virtual

    def set_output(self, value: bool) -> Tensor:
        self.is_virtual = not value
        return self

    def set_data_type(self, dtype: Any) -> Tensor:
        self.data_type = dtype
        return self

    def set_dim(self, dim: list[int]) -> Tensor:
        self.dim = dim
        return self

    def set_stride(self, stride: list[int]) -> Tensor:
        self.stride = stride
        return self

    def set_uid(self, uid: int) -> Tensor:
        self.uid = uid
        return self

    def lies_in(self, axes: list[int]) -> bool:
        """Whether its dimensions have this order in memory, without gaps."""
        step = 1
        for d in reversed(axes):
            if self.dim[d] != 1 and self.stride[d] != step:
                return False
            step *= self.dim[d]
        return True

    def at(self, pointer: int) -> numpy.ndarray:
        """Its elements at an address."""
        dtype = DTYPES[self.data_type]
        size = dtype.itemsize * (1 + sum(s * (n - 1) for n, s in zip(self.dim, self.stride, strict=True)))
        strides = [s * dtype.itemsize for s in self.stride]
        return numpy.lib.stride_tricks.as_strided(memory(pointer, size).view(dtype), self.dim, strides)


def memory(pointer: int, size: int) -> numpy.ndarray:
    """The bytes at an address; RuntimeError if they are not aligned, or not allocated."""
    if pointer % 16:
        raise RuntimeError(f"CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: {pointer:#x}")
    if not any(one.ptr <= pointer and pointer + size <= one.ptr + one.size for one in list(host_cuda.memories)):
        raise RuntimeError(f"an illegal memory access was encountered: {size} bytes at {pointer:#x}")
    return numpy.frombuffer((ctypes.c_uint8 * size).from_address(pointer), numpy.uint8)


# -- convolutions --------------------------------------------------------------------------------------------------------------


class Convolution:
    """A convolution of an image (N, C, *size) with a weight (O, C / groups, *kernel), or one of its transposes."""

    def __init__(self, before: Any, after: Any, stride: Any, dilation: Any) -> None:
        self.before, self.after, self.stride, self.dilation = before, after, stride, dilation

    def result(self, image: list[int], weight: list[int]) -> list[int]:
        """The dims of the result."""
        sizes = zip(image[2:], weight[2:], self.before, self.after, self.stride, self.dilation, strict=True)
        return [image[0], weight[0], *[(n + lo + hi - d * (k - 1) - 1) // s + 1 for n, k, lo, hi, s, d in sizes]]

    def compute(self, image: Any, weight: Any, loss: Any, dims: list[list[int]]) -> numpy.ndarray:
        """Compute the one of the three that is None, in float64; `dims` are their shapes."""
        (n, c, *size), (o, _, *kernel), (_, _, *out) = dims
        groups = c // dims[1][1]
        padded = numpy.zeros((n, groups, c // groups, *[m + lo + hi for m, lo, hi in zip(size, self.before, self.after, strict=True)]))
        inside = (..., *[slice(lo, lo + m) for m, lo in zip(size, self.before, strict=True)])
        filters = numpy.zeros((groups, o // groups, c // groups, *kernel))
        results = numpy.zeros((n, groups, o // groups, *out))
        for whole, given in ((padded[inside], image), (filters, weight), (results, loss)):
            whole[...] = 0 if given is None else given.reshape(whole.shape)
        for tap in itertools.product(*map(range, kernel)):
            places = zip(tap, self.dilation, self.stride, out, strict=True)
            window = (..., *[slice(t * d, t * d + s * (m - 1) + 1, s) for t, d, s, m in places])
            if loss is None:
                results += numpy.einsum("ngcp,goc->ngop", _flat(padded[window]), filters[(..., *tap)]).reshape(results.shape)
            elif weight is None:
                filters[(..., *tap)] = numpy.einsum("ngop,ngcp->goc", _flat(results), _flat(padded[window]))
            else:
                padded[window] += numpy.einsum("ngop,goc->ngcp", _flat(results), filters[(..., *tap)]).reshape(padded[window].shape)
        return results if loss is None else filters if weight is None else padded[inside]


def _flat(x: numpy.ndarray) -> numpy.ndarray:
    return x.reshape(*x.shape[:3], -1)


def _tf32(x: numpy.ndarray) -> numpy.ndarray:
    return ((x.view(numpy.uint32) + numpy.uint32(0x1000)) & numpy.uint32(0xFFFFE000)).view(numpy.float32)


# -- graphs ------------------------------------------------------------------------------------------------------------------


class pygraph:
    """A graph: a convolution or one of its gradients, and the addition of a bias; or attention, or its gradient."""

    def __init__(
        self, name: str = "test_graph", io_data_type: Any = None, intermediate_data_type: Any = None, compute_data_type: Any = None,
        handle: Any = None,
    ) -> None:  # fmt: skip
        if not intermediate_data_type is compute_data_type is data_type.FLOAT:
            raise NotImplementedError("the stand-in for cuDNN computes in FLOAT")
        self.io_data_type, self.handle = io_data_type, handle
        self.tensors: list[Tensor] = []
        self.convolution: tuple[str, Convolution, dict[str, Tensor]] | None = None
        self.added: Tensor | None = None
        self.attention: Attention | None = None
        self.done: list[str] = []  # the steps to an execution
        self.barred: set[Any] = set()
        self.plan = -1
        self.runs: list[tuple[str, int]] = []  # plan and stream of each execution

    # -- what it computes --

    def tensor(self, dim: list[int], stride: list[int] | None = None, data_type: Any = None, uid: int | None = None) -> Tensor:
        if uid in [t.uid for t in self.tensors if t.uid is not None]:
            raise ValueError(f"uid {uid} is already user-assigned to a tensor")
        self.tensors.append(Tensor(dim, stride, data_type or self.io_data_type, uid, False))
        return self.tensors[-1]

    def conv_fprop(self, *, image: Any, weight: Any, pre_padding: Any, post_padding: Any, stride: Any, dilation: Any) -> Tensor:
        return self._conv("loss", Convolution(pre_padding, post_padding, stride, dilation), image=image, weight=weight)

    def conv_dgrad(self, *, loss: Any, filter: Any, pre_padding: Any, post_padding: Any, stride: Any, dilation: Any) -> Tensor:
        return self._conv("image", Convolution(pre_padding, post_padding, stride, dilation), loss=loss, weight=filter)

    def conv_wgrad(self, *, image: Any, loss: Any, pre_padding: Any, post_padding: Any, stride: Any, dilation: Any) -> Tensor:
        return self._conv("weight", Convolution(pre_padding, post_padding, stride, dilation), image=image, loss=loss)

    def _conv(self, result: str, convolution: Convolution, **operands: Tensor) -> Tensor:
        self.out = Tensor(None, None, None, None, True)
        self.tensors.append(self.out)
        self.convolution = result, convolution, {**operands, result: self.out}
        return self.out

    def bias(self, *, input: Tensor, bias: Tensor) -> Tensor:
        self.added, self.out = bias, Tensor(None, None, None, None, True)
        self.tensors.append(self.out)
        return self.out

    def sdpa(self, **given: Any) -> list[Tensor]:
        assert given.pop("generate_stats") is True
        return self._attend("forward", given, "o", "stats")

    def sdpa_backward(self, *, use_deterministic_algorithm: bool, **given: Any) -> list[Tensor]:
        self.deterministic = use_deterministic_algorithm
        return self._attend("backward", given, "dQ", "dK", "dV")

    def _attend(self, name: str, given: dict[str, Any], *names: str) -> list[Tensor]:
        results = {name: Tensor(None, None, None, None, True) for name in names}
        self.tensors += results.values()
        self.attention = Attention(name, given, results)
        return [*results.values()]

    # -- the steps to an execution --

    def _step(self, name: str, after: str = "") -> None:
        if after and after not in self.done:
            raise RuntimeError(f"{name} before {after}")
        self.done.append(name)

    def validate(self) -> None:
        self._step("validate")
        for tensor in self.tensors:
            if not tensor.is_virtual and (not tensor.dim or not tensor.stride or len(tensor.dim) != len(tensor.stride)):
                raise RuntimeError(f"CUDNN_STATUS_BAD_PARAM: dims {tensor.dim}, strides {tensor.stride}")

    def build_operation_graph(self) -> None:
        self._step("build_operation_graph", "validate")
        if self.attention:
            self.attention.check()
            return
        result, convolution, tensors = self.convolution
        image, weight, loss = tensors["image"], tensors["weight"], tensors["loss"]
        if result == "loss" and loss.is_virtual:
            loss.dim = convolution.result(image.dim, weight.dim)
        if image.dim[1] % weight.dim[1] or weight.dim[0] % (image.dim[1] // weight.dim[1]):
            raise RuntimeError("CUDNN_STATUS_BAD_PARAM: (0 == wDimA[1]) || (0 == xDimA[1]) || (0 != xDimA[1] % wDimA[1])")
        if loss.dim != convolution.result(image.dim, weight.dim):
            raise RuntimeError(f"CUDNN_STATUS_BAD_PARAM: is_valid_spatial_dim: {loss.dim} of {image.dim} and {weight.dim}")
        if self.added and (self.out.dim != loss.dim or self.added.dim != [n if d == 1 else 1 for d, n in enumerate(loss.dim)]):
            raise RuntimeError(f"CUDNN_STATUS_BAD_PARAM: {loss.dim} + {self.added.dim} = {self.out.dim}")

    def create_execution_plans(self, heuristics: list | None = None) -> None:
        self._step("create_execution_plans", "build_operation_graph")

    def deselect_numeric_notes(self, notes: list) -> None:
        self._step("deselect_numeric_notes", "create_execution_plans")
        self.barred.update(notes)

    def check_support(self) -> None:
        self._step("check_support", "create_execution_plans")
        if self.attention:
            if why := self.attention.why_not():
                raise cudnnGraphNotSupportedError(why)
            return
        kept = [t for t in self.tensors if not t.is_virtual]
        n = len(self.out.dim)
        if not 4 <= n <= 5 or not any(all(t.lies_in(axes) for t in kept) for axes in ([*range(n)], [0, *range(2, n), 1])):
            raise cudnnGraphNotSupportedError("No valid engine configs: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT")

    def get_execution_plan_count(self) -> int:
        return len(PLANS)

    def build_plans(self) -> None:
        self._step("build_plans", "check_support")
        self.build_plan_at_index(next(i for i, notes in enumerate(PLANS.values()) if not notes & self.barred))
        graphs.append(self)

    def build_plan_at_index(self, index: int) -> None:
        if list(PLANS.values())[index] & self.barred:
            raise ValueError(f"plan {index} is excluded by a note filter")
        self.plan = index

    def get_workspace_size(self) -> int:
        return WORKSPACE * (self.plan + 1)

    def execute(self, tensor_dict: dict[int, int], workspace: Any = None, handle: Any = None) -> None:
        if handle.owner != (host_cuda.current_device(), threading.get_ident()):
            raise RuntimeError("CUDNN_STATUS_BAD_PARAM: the handle is of another device or thread")
        for tensor in self.tensors:
            if not tensor.is_virtual and tensor.uid not in tensor_dict:
                raise ValueError(f"the variant pack is missing a buffer for tensor uid {tensor.uid}")
        name = list(PLANS)[self.plan]
        self.runs.append((name, handle.stream))
        host_cuda.submit(lambda: self._compute(name, tensor_dict, workspace))

    def _compute(self, name: str, tensor_dict: dict[int, int], workspace: Any) -> None:
        """What the GPU does, when it comes to it."""
        memory(workspace, self.get_workspace_size())[...] = 0xFF
        if self.attention:
            self.attention.compute(lambda tensor: tensor.at(tensor_dict[tensor.uid]))
            return
        result, convolution, tensors = self.convolution
        operands = {key: self._read(name, t, tensor_dict[t.uid]) for key, t in tensors.items() if key != result}
        dims = [tensors[key].dim for key in ("image", "weight", "loss")]
        found = convolution.compute(*[operands.get(key) for key in ("image", "weight", "loss")], dims).reshape(tensors[result].dim)
        if self.added:
            found = found + self.added.at(tensor_dict[self.added.uid]).astype(numpy.float64)
        if name == "atomics":
            found *= 1 + _random.uniform(-1e-7, 1e-7, found.shape)
        if name.startswith("slow"):
            host_cuda.get_current_stream().until += 1e3 * delay
        self.out.at(tensor_dict[self.out.uid])[...] = found

    def _read(self, plan: str, tensor: Tensor, pointer: int) -> numpy.ndarray:
        x = tensor.at(pointer)
        if plan == "rounds":
            x = x.astype(ml_dtypes.bfloat16)
        elif numerical_note.TENSOR_CORE in PLANS[plan] and tensor.data_type is data_type.FLOAT:
            x = _tf32(x.copy())
        return x.astype(numpy.float64)


# -- in place of the real module -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """`import cudnn` finds this module, inside of `on_stand_in.installed()`."""
    before = sys.modules.pop("cudnn", None)
    sys.modules["cudnn"] = sys.modules[__name__]
    switches.library.cache_clear()
    graphs.clear()
    try:
        yield
    finally:
        switches.library.cache_clear()
        del sys.modules["cudnn"]
        if before is not None:
            sys.modules["cudnn"] = before
