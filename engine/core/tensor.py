"""The Tensor class: an array, the node of the op that made it, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy

from ..backends.meta import Meta
from ..base import dtypes
from ..base.dtypes import FROM_NUMPY
from ..base.layout import contiguous_format, lies_in, memory_format, preserve_format, told_strides
from . import devices, hooks, inplace, tape, versions


class Size(tuple):
    """The shape of a tensor: a tuple of integers with `numel()`."""

    __slots__ = ()
    __module__ = "torch"  # the module in its repr

    def __new__(cls, sizes: Any = ()) -> Size:
        try:
            return tuple.__new__(cls, [n if n.__class__ is int else n.__index__() for n in sizes])
        except AttributeError:
            wrong = next((i, n) for i, n in enumerate(sizes) if not hasattr(n, "__index__"))
            raise TypeError(f"torch.Size() takes an iterable of 'int' (item {wrong[0]} is '{type(wrong[1]).__name__}')") from None

    def numel(self) -> int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, i: Any) -> Any:
        found = tuple.__getitem__(self, i)
        return Size(found) if isinstance(i, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Size:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return _size, (tuple(self),)


_tuple = tuple.__new__  # makes a `Size` of integers without checking them


def _size(sizes: tuple) -> Size:
    return Size(sizes)


class Tensor:
    """An n-dimensional array that records how it was computed, so that gradients can be propagated back through it.

    `array` is the NumPy or CuPy array. `node` is the tensor's node on the tape (see `engine.core.tape`): None if it does not require
    grad, a `Leaf` if the user set `requires_grad`, else the `Node` of the op that made it.

    A view shares its memory with its base: `_view` refers to the base and lists the view ops that lead to it, and the base keeps weak
    references to its views in `_views`. See `engine.core.inplace` for what a write does to them.

    Most methods are ops, which `define` installs: see `engine.ops`.
    """

    __slots__ = ("array", "node", "__dict__", "__weakref__")
    __module__ = "torch"  # the module in its repr
    array: Any
    node: Any
    # rarely used attributes live in __dict__ and cost nothing until they are set
    # (base, link), on views only. A link is (previous link, (op, attrs)), and for a view that must not be written (name, reason) as well
    _view: tuple | None = None
    _grad: Tensor | None = None
    _resting: Any = None  # the node of a leaf while `requires_grad` is False
    _apart: bool = False  # made by `.data`: writes through it change no version
    _views: list | None = None  # weak references to the views of this tensor; shared with detached tensors of the same memory
    __array_priority__ = 1000

    if TYPE_CHECKING:  # the ops install these, and every other method

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __iadd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __isub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __imul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __itruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __ifloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __imod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __ipow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __imatmul__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __lshift__(self, other: Any) -> Tensor: ...
        def __rshift__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]

    _defined_by_a_program = False  # whether the class is a subclass from outside the engine: see `engine.core.subclasses`

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        out = object.__new__(cls)
        if cls is Tensor or cls._defined_by_a_program:
            out._construct(*args, **kwargs)
        return out

    @staticmethod
    def _wrap(array: Any) -> Tensor:
        out = object.__new__(Tensor)
        out.array = array if hasattr(array, "base") and not isinstance(array, numpy.generic) else numpy.asarray(array)
        out.node = None
        return out

    def _like(self, array: Any, node: Any = None) -> Tensor:
        out = Tensor._wrap(array)
        out.node = node
        return out

    # -- what it is ------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return _tuple(Size, self.array.shape)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension. Raises IndexError if there is no dimension `dim`."""
        return self.shape if dim is None else self.array.shape[self._axis(dim)]

    def _axis(self, dim: int) -> int:
        n = self.array.ndim
        if not -n <= dim < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {dim})")
        return dim

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def dim(self) -> int:
        return self.array.ndim

    def numel(self) -> int:
        return self.array.size

    nelement = numel

    @property
    def dtype(self) -> dtypes.dtype:
        return FROM_NUMPY[self.array.dtype]

    @property
    def device(self) -> devices.device:
        return devices.of(self.array)

    @property
    def is_cuda(self) -> bool:
        return not isinstance(self.array, numpy.ndarray) and self.array.__class__ is not devices.traced_array

    @property
    def is_meta(self) -> bool:
        """Whether the tensor is on the device "meta", where tensors have no memory."""
        return self.array.__class__ is Meta

    @property
    def itemsize(self) -> int:
        return self.array.dtype.itemsize

    def element_size(self) -> int:
        return self.array.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.array.size * self.array.dtype.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Return the step in elements from one index to the next along each dimension, or along `dim`."""
        strides = told_strides(self.array)
        return strides if dim is None else strides[self._axis(dim)]

    def is_contiguous(self, *, memory_format: memory_format = contiguous_format) -> bool:
        """Whether the elements are contiguous in memory in row-major order, or in the given memory format."""
        if memory_format is contiguous_format:
            return bool(self.array.flags.c_contiguous)
        return memory_format is not preserve_format and lies_in(self.array, memory_format)

    def storage_offset(self) -> int:
        """The offset of the first element in the storage, in elements."""
        return (devices.address(self.array) - devices.address(versions.storage(self.array))) // self.array.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element. On the meta device it is the offset in bytes, as if the storage began at address 0."""
        return devices.address(self.array) - (devices.address(versions.storage(self.array)) if self.is_meta else 0)

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    # -- its place in the graph ---------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value.__class__ is not bool:
            raise RuntimeError("requires_grad must be a bool")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set in place whether this tensor requires grad, and return it.

        Raises RuntimeError for a dtype that is neither floating-point nor complex, and for False on a tensor that an op made.
        """
        if requires_grad:
            if self.node is None:
                if self.dtype.rank < dtypes.FLOAT:
                    raise RuntimeError(
                        f"only Tensors of floating point and complex dtype can require gradients, this one is {self.dtype.name}"
                    )
                self.node, before = tape.Leaf(self), self._resting
                if before is not None:
                    self.node.hooks, self._resting = before.hooks, None
                    if (before.shape, before.dtype) == (self.node.shape, self.node.dtype):
                        self.node = before  # earlier results still refer to this leaf
        elif self.node is not None:
            if self.node.op is not None:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph "
                    "that doesn't require differentiation use var_no_grad = var.detach()."
                )
            self._end_as_leaf()
        return self

    @property
    def is_leaf(self) -> bool:
        return self.node is None or self.node.op is None

    @property
    def grad_fn(self) -> Any:
        """The node of the op that made this tensor; None for a leaf."""
        return None if self.node is None or self.node.op is None else tape.typed(self.node)

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by `backward()`: a tensor of the same shape, or None. Setting it checks shape and dtype."""
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            hooks.tell_of_no_leaf()
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
            if value.array.shape != self.array.shape:
                raise RuntimeError(f"assigned grad has data of a different size: expected {tuple(self.shape)}, got {tuple(value.shape)}")
            if value.array.dtype != self.array.dtype:
                raise RuntimeError(f"assigned grad has data of a different type: expected {self.dtype.name}, got {value.dtype.name}")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def detach(self) -> Tensor:
        """Return a tensor that shares this one's memory but not its graph: in-place writes show in both, gradients do not flow back."""
        out = self._like(self.array)
        if self.node is not None or self._view is not None or self._views is not None or self._apart:
            inplace.seen_together(out, self)
        return out

    def detach_(self) -> Tensor:
        """Detach this tensor from the graph in place. Raises RuntimeError for a view."""
        if tape.mode.inference:  # a no-op in inference mode, as in PyTorch
            return self
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._end_as_leaf()
        return self

    def _end_as_leaf(self) -> None:
        """Drop the node. A leaf's node is kept with its hooks, for when the leaf requires grad again."""
        if self.node is not None and self.node.op is None:
            self._resting = self.node
        self.node = None

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph. Writes through it change no version: a gradient that needs old values is silently wrong."""
        out = self._like(self.array)
        out._apart = True
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data expected to be set to a Tensor, got {type(value).__name__}")
        if self.node is not None and value.dtype.rank < dtypes.FLOAT:
            raise RuntimeError(
                f"data set to a tensor that requires gradients must be floating point or complex dtype, got {value.dtype.name}"
            )
        self.array = value.array
        if isinstance(self.node, tape.Leaf):
            self.node.shape, self.node.dtype = value.array.shape, value.array.dtype

    def register_hook(self, hook: Callable) -> tape.Handle:
        """Call `hook(grad)` whenever this tensor's gradient is computed; a return value other than None replaces the gradient."""
        if self.node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return tape.hooks_of(self.node).add("before", hook)

    def register_post_accumulate_grad_hook(self, hook: Callable) -> tape.Handle:
        """Call `hook(tensor)` after a backward pass has accumulated this leaf's gradient into `.grad`."""
        if not isinstance(self.node, tape.Leaf):
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return tape.hooks_of(self.node).add("accumulated", hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf tensor in `.grad`; on a leaf it does nothing. Raises RuntimeError without requires_grad."""
        if self.node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.node.op is not None:
            tape.hooks_of(self.node).retain = ref(self)

    @property
    def retains_grad(self) -> bool:
        return self.node is not None and self.node.op is not None and self.node.hooks is not None and self.node.hooks.retain is not None

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view[0]

    @property
    def _path(self) -> tuple:
        steps, link = [], None if self._view is None else self._view[1]
        while link is not None:
            link, step, *_ = link
            steps.append(step)
        return tuple(reversed(steps))

    @property
    def _version(self) -> int:
        return versions.version(self.array)

    def _is_view(self) -> bool:
        return self._base is not None

    def item(self) -> Any:
        """Return the value of a one-element tensor as a Python number. Raises RuntimeError for any other number of elements."""
        if self.array.size != 1:
            raise RuntimeError(f"a Tensor with {self.array.size} elements cannot be converted to Scalar")
        value = self._readable().reshape(()).item()
        return float(value) if self.dtype is dtypes.bfloat16 else value

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        host = self._host()
        return (host.astype(numpy.float32) if self.dtype is dtypes.bfloat16 else host).tolist()

    def _host(self) -> numpy.ndarray:
        if devices.is_traced(self.array):
            return self.array.__array__()  # raises: its values are not known
        return self.array if self.array.__class__ is numpy.ndarray else devices.move(self.array, devices.CPU)

    def _readable(self) -> Any:
        """The array from which Python numbers are read: the host's for one on a GPU."""
        return self._host() if devices.namespace(self.array) is devices.gpu else self.array

    def _steering(self) -> numpy.ndarray:
        """The values on the host, for code that only needs them to choose what to compute; zeros on the meta device."""
        return self.array.view(numpy.ndarray) if self.is_meta else self._host()

    def numpy(self, *, force: bool = False) -> numpy.ndarray:
        """Return a NumPy array that shares this tensor's memory.

        Raises RuntimeError if the tensor requires grad and TypeError if it is on a GPU, unless `force` is set; TypeError for bfloat16.
        """
        if self.node is not None and not force and tape.mode.grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.device.type != "cpu" and not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        if self.array.dtype.kind == "V":
            raise TypeError(f"Got unsupported ScalarType {self.dtype.name}: NumPy has no such dtype; cast with float() first")
        return self._host().view()

    def __array_wrap__(self, array: numpy.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
        """Wrap the result of a NumPy function called on tensors; bools become uint8, as in PyTorch."""
        return Tensor._wrap(array.astype(numpy.uint8) if array.dtype == numpy.bool_ else array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("the dtype cannot change without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(
        self,
        *,
        stream: Any = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the memory as a DLPack capsule. With `stream` -1 no stream is synchronized; on the CPU it must be -1 or None."""
        if self.node is not None:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.is_meta:
            raise BufferError("Cannot pack tensors on meta")
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        if not self.is_cuda:
            if stream not in (None, -1):
                raise AssertionError("stream should be None on cpu.")
            stream = None
        array = self.array
        if any(s < 0 for s in array.strides):
            array = array.copy()  # negative strides make some consumers abort the process
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[devices.DLDeviceType, int]:
        kind, number = self.array.__dlpack_device__()
        return devices.DLDeviceType(kind), number

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """Return the tensor on another device: the array API's spelling of `to`. Raises ValueError if a stream is given."""
        if stream is not None:
            raise ValueError(f"to_device: no stream can be chosen, got {stream!r}")
        return self.to(device)

    def __bool__(self) -> bool:
        if self.array.size != 1:
            kind = "no values" if self.array.size == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
        return bool(self._readable().reshape(()))

    def _scalar(self) -> Any:
        if self.array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.item()

    def _real(self, kind: str) -> Any:
        value = self._scalar()
        if isinstance(value, complex):
            if value.imag:
                raise RuntimeError(f"value cannot be converted to type {kind} without overflow: {value} is not real")
            return value.real
        return value

    def __int__(self) -> int:
        return int(self._real("int64_t"))

    def __float__(self) -> float:
        return float(self._real("double"))

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def __index__(self) -> int:
        if self.array.size != 1 or self.dtype.rank > dtypes.INT:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if self.array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.array.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self.array.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(inplace.together([self[i] for i in range(self.array.shape[0])], self, "Unbind"))

    def __reversed__(self) -> Tensor:
        return self.flip(0) if self.array.ndim else self

    def __delitem__(self, index: Any) -> None:
        raise TypeError("Tensor does not support deleting items")

    @property
    def __cuda_array_interface__(self) -> dict:
        if not self.is_cuda:
            raise AttributeError(
                f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} "
                "If CUDA data is required use tensor.cuda() to copy tensor to device memory."
            )
        if self.node is not None:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad. Use var.detach() first.")
        return self.array.__cuda_array_interface__

    def __contains__(self, x: Any) -> bool:
        if not isinstance(x, (Tensor, bool, int, float, complex, numpy.generic)):
            raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(x)}.")
        return bool((self == x).any().item())

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.")
        if id(self) in memo:
            return memo[id(self)]
        out = object.__new__(type(self))
        memo[id(self)] = out
        out.array, out.node = self.array.copy(order="K"), None
        if self.node is not None:
            out.requires_grad_()
        for name, value in self.__dict__.items():
            if name not in ("_view", "_views", "_apart", "_resting"):  # the copy has its own memory
                setattr(out, name, deepcopy(value, memo))
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        place = () if self.device.type == "cpu" else (self.device,)
        array = self.array if self.is_meta else self._host()
        made = _rebuild, (None if type(self) is Tensor else type(self), array, self.requires_grad, *place)
        own = {name: value for name, value in self.__dict__.items() if name not in NOT_KEPT}
        return (*made, own) if own else made

    def __format__(self, spec: str) -> str:
        return (
            format(self.item(), spec)
            if self.array.ndim == 0 and type(self) is Tensor and not self.is_meta
            else object.__format__(self, spec)
        )


def define(name: str, method: Any) -> None:
    """Add a method, operator or property to Tensor: everything that the class body does not define."""
    setattr(Tensor, name, method)


hooks.wrap = Tensor._wrap
NOT_KEPT = ("_view", "_views", "_apart", "_grad", "_resting")  # attributes that are not pickled or copied


def _rebuild(cls: type | None, array: numpy.ndarray, requires_grad: bool, place: devices.device = devices.CPU) -> Tensor:
    out = object.__new__(cls or Tensor)
    own = FROM_NUMPY[array.dtype].numpy
    array = array if array.dtype is own else array.view(own)  # unpickling makes a new dtype object, and dtypes are compared by identity
    out.array, out.node = devices.move(array, place), None
    return out.requires_grad_(requires_grad)
