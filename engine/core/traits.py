"""Properties and predicates of tensors: layout, device, memory order, shared memory, and those that are constant here."""

from __future__ import annotations

from typing import Any

import numpy

from ..base import dtypes
from ..base.layout import strided
from . import devices, versions
from .tensor import Tensor, define

__all__ = ["get_device", "is_distributed", "is_inference", "is_neg", "is_nonzero", "is_same_size", "is_signed", "is_storage"]

# plain tensors are dense, not quantized, and on a CPU, CUDA or meta device
_NEVER = (
    "is_sparse", "is_sparse_csr", "is_quantized", "is_mkldnn", "is_nested",
    "is_mps", "is_mtia", "is_maia", "is_vulkan", "is_xla", "is_xpu", "is_ipu",
)  # fmt: skip
for _name in _NEVER:
    define(_name, property(lambda self: False, doc=f"{_name}: False for every tensor of the engine."))
define("is_cpu", property(lambda self: self.device.type == "cpu", doc="Whether the tensor is in the CPU's memory."))
define("layout", property(lambda self: strided, doc="`torch.strided`: one block of memory, read with strides."))
define("name", property(lambda self: None, doc="None: tensors have no name."))
define("grad_dtype", property(lambda self: self.dtype, doc="The dtype of the gradient: that of the tensor."))


def _other(other: Any, name: str) -> Tensor:
    if not isinstance(other, Tensor):
        raise TypeError(f"{name}(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    return other


def get_device(input: Tensor) -> int:
    """Return the index of the tensor's GPU; -1 on the CPU."""
    return input.device.index if input.is_cuda and input.device.index is not None else -1


def is_signed(input: Tensor) -> bool:
    """Whether the dtype is signed."""
    return input.dtype.is_signed


def is_nonzero(input: Tensor) -> bool:
    """Whether the element of a one-element tensor is not 0. Raises RuntimeError for any other number of elements."""
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input.shape == _other(other, "is_same_size").shape


def is_neg(input: Tensor) -> bool:
    """Whether the negative bit is set: always False here, where negation is never lazy."""
    return False


def is_inference(input: Tensor) -> bool:
    """Whether the tensor is an inference tensor: always False; in `inference_mode` ops are not recorded and return ordinary tensors."""
    return False


def is_distributed(input: Tensor) -> bool:
    """Whether the tensor is distributed over processes: always False."""
    return False


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage."""
    from .storage import TypedStorage, UntypedStorage

    return isinstance(obj, (TypedStorage, UntypedStorage))


for _ask in (get_device, is_signed, is_nonzero, is_same_size, is_neg, is_inference, is_distributed):
    define(_ask.__name__, _ask)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors share a storage and have the same address, shape, strides and dtype."""
    a, b = self.array, _other(tensor, "is_set_to").array
    same = versions.storage(a) is versions.storage(b) and self.data_ptr() == tensor.data_ptr()
    return same and self.shape == tensor.shape and self.stride() == tensor.stride() and a.dtype == b.dtype


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Return the dimensions from the outermost in memory to the innermost.

    With `ambiguity_check`, raises RuntimeError if equal strides make the order ambiguous.
    """
    strides = self.stride()
    if ambiguity_check and len({s for s, n in zip(strides, self.shape, strict=True) if n != 1}) < sum(n != 1 for n in self.shape):
        raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.")
    if self.is_contiguous():
        return tuple(range(self.ndim))
    return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))


def output_nr(self: Tensor) -> int:
    """The index of the tensor among the results of its op; 0 for a leaf."""
    return self.node.attrs.get("index", 0) if self.node is not None and self.node.op is not None and self.node.op.picks else 0


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned, so that a GPU can read it while the program continues. False before a GPU has been used."""
    return devices.gpu is not None and isinstance(self.array, numpy.ndarray) and devices.gpu.memory.is_pinned(self.array)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return a copy in pinned memory; itself if it is there. Raises RuntimeError unless it is dense and on the CPU, and without a GPU."""
    if self.is_meta or not isinstance(self.array, numpy.ndarray):
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    if not devices.cuda_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return self if is_pinned(self) else self._like(devices.cuda().memory.pinned(self.array), None)


def record_stream(self: Tensor, stream: Any) -> None:
    """Declare that a stream uses the memory too: once freed, it is not reused before that stream has done its work.

    Raises RuntimeError for a CPU tensor.
    """
    if not self.is_cuda:
        raise RuntimeError("record_stream is for tensors on a GPU")
    devices.gpu.memory.share(versions.storage(self.array).data.mem, stream.cupy)


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the tensor itself, which is dense, cast to `dtype` if given."""
    return self if dtype is None else self.to(dtypes.as_dtype(dtype))


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return the tensor for a module that loads a state: this one with the values of `other` copied, or `other` with `assign`; detached."""
    return other.detach() if assign else self.copy_(other).detach()


def _refused(name: str, told: str, kind: type[Exception] = RuntimeError) -> Any:
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise kind(told)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Refused: {told}."
    return call


_COO, _SPARSE = "sparse coordinate tensor layout", "sparse tensor layout"
_LAYOUTS = {"coalesce": _COO, "is_coalesced": _COO, "indices": _COO, "values": _SPARSE} | {
    name: f"sparse {'row' if name[0] == 'c' and name[1] == 'r' or name == 'col_indices' else 'column'} compressed tensor layout"
    for name in ("crow_indices", "col_indices", "ccol_indices", "row_indices")
}
for _name, _wanted in _LAYOUTS.items():
    define(_name, _refused(_name, f"{_name} expected {_wanted} but got Strided"))
for _name in ("q_scale", "q_zero_point", "q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis", "qscheme", "int_repr"):
    define(_name, _refused(_name, f"{_name} is for quantized tensors, and this one is dense", NotImplementedError))
for _name, _now in {"solve": "linalg.solve", "lstsq": "linalg.lstsq", "eig": "linalg.eig", "symeig": "linalg.eigh"}.items():
    define(_name, _refused(_name, f"This function was deprecated since version 1.9 and is now removed. Use torch.{_now} instead."))
define("sparse_dim", lambda self: 0)
define("dense_dim", lambda self: self.ndim)
define("ndimension", Tensor.dim)
define("const_data_ptr", Tensor.data_ptr)
define("output_nr", property(output_nr, doc=output_nr.__doc__))
for _fn in (is_set_to, dim_order, is_pinned, pin_memory, record_stream, to_dense, module_load):
    define(_fn.__name__, _fn)
