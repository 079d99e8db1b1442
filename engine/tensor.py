"""Tensor: an array, the node that made it, and the gradient that came back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy

from . import devices, dtypes, inplace, tape
from .dtypes import FROM_NUMPY


class Size(tuple):
    """A tensor's shape. It is a tuple that can count its elements."""

    def numel(self) -> int:
        n = 1
        for size in self:
            n *= size
        return n

    def __repr__(self) -> str:
        return f"engine.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, i: Any) -> Any:
        found = tuple.__getitem__(self, i)
        return Size(found) if isinstance(i, slice) else found

    def __add__(self, other: tuple) -> Size:
        return Size(tuple.__add__(self, tuple(other)))


class Tensor:
    """An n-dimensional array that remembers how it was made, so that gradients can flow back through it.

    `array` is the NumPy or CuPy array, `node` its place on the tape: None when it does not require grad, a `Leaf` when the user asked
    for its gradient, else the op that made it. Most methods are ops: see `engine.ops`.
    """

    __slots__ = ("array", "node", "__dict__", "__weakref__")
    array: Any
    node: Any
    # rare things live in __dict__ and cost nothing until they exist
    _view: tuple | None = None  # (base, link), set on views only: whose memory, and (the link before, (op, attrs))
    _grad: Tensor | None = None
    _views: list | None = None  # weak references to the tensors that see this one's memory
    __array_priority__ = 1000

    if TYPE_CHECKING:  # the ops install these, and every other method

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Tensor: ...
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

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, data: Any = (), dtype: Any = None, device: Any = None, requires_grad: bool = False):
        shared = isinstance(data, Tensor) and dtype is None and device is None
        self.array, self.node = data.array if shared else to_array(data, dtype, device), None
        if requires_grad:
            self.requires_grad_()

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
        return Size(self.array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length along one dimension."""
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
        return not isinstance(self.array, numpy.ndarray)

    @property
    def itemsize(self) -> int:
        return self.array.dtype.itemsize

    def element_size(self) -> int:
        return self.array.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def stride(self, dim: int | None = None) -> Any:
        """How many elements lie between neighbours along each dimension."""
        strides = tuple(s // self.array.dtype.itemsize for s in self.array.strides)
        return strides if dim is None else strides[self._axis(dim)]

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def storage_offset(self) -> int:
        """How many elements into its storage the tensor starts."""
        return (_address(self.array) - _address(inplace.storage(self.array))) // self.array.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return _address(self.array)

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
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for (or stop asking for) the gradient of this tensor, in place. Only floating-point and complex leaves can have one."""
        if requires_grad:
            if self.node is None:
                if self.dtype.rank < dtypes.FLOAT:
                    raise RuntimeError(
                        f"only Tensors of floating point and complex dtype can require gradients, this one is {self.dtype.name}"
                    )
                self.node = tape.Leaf(self)
        elif self.node is not None:
            if self.node.op is not None:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph "
                    "that doesn't require differentiation use var_no_grad = var.detach()."
                )
            self.node = None
        return self

    @property
    def is_leaf(self) -> bool:
        return self.node is None or self.node.op is None

    @property
    def grad_fn(self) -> Any:
        """The node of the op that made it; None for a leaf."""
        return None if self.node is None or self.node.op is None else self.node

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward()` has summed here: a tensor of the same shape, or None."""
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

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Sum the gradient of this tensor into `.grad` of every leaf it depends on (or of `inputs` only).

        `gradient` is needed unless the tensor has one element. `retain_graph` keeps the graph for another pass; `create_graph` records
        the pass itself, for higher derivatives.
        """
        from .autograd import backward

        backward(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """The same memory, cut from the graph: writes to either are seen by both, gradients do not pass."""
        return self._like(self.array)

    def detach_(self) -> Tensor:
        """Cut this very tensor from the graph."""
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self.node = None
        return self

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data expected to be set to a Tensor, got {type(value).__name__}")
        self.array = value.array
        if isinstance(self.node, tape.Leaf):
            self.node.shape, self.node.dtype = value.array.shape, value.array.dtype

    def register_hook(self, hook: Callable) -> tape.Handle:
        """Call `hook(grad)` whenever this tensor's gradient is computed; what it returns, unless None, replaces the gradient."""
        if self.node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return tape.hooks_of(self.node).add("before", hook)

    def register_post_accumulate_grad_hook(self, hook: Callable) -> tape.Handle:
        """Call `hook(tensor)` after a backward pass has put this leaf's gradient into `.grad`."""
        if not isinstance(self.node, tape.Leaf):
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return tape.hooks_of(self.node).add("accumulated", hook)

    def retain_grad(self) -> None:
        """Keep this non-leaf's gradient in `.grad` too."""
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
            link, step = link
            steps.append(step)
        return tuple(reversed(steps))

    @property
    def _version(self) -> int:
        return inplace.version(self.array)

    def _is_view(self) -> bool:
        return self._base is not None

    # -- to and from Python ---------------------------------------------------------------------------------------------------

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        if self.array.size != 1:
            raise RuntimeError(f"a Tensor with {self.array.size} elements cannot be converted to Scalar")
        value = self.array.reshape(()).item()
        return float(value) if self.dtype is dtypes.bfloat16 else value

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        host = self._host()
        return (host.astype(numpy.float32) if self.dtype is dtypes.bfloat16 else host).tolist()

    def _host(self) -> numpy.ndarray:
        return self.array if isinstance(self.array, numpy.ndarray) else devices.cuda().to_host(self.array)

    def numpy(self, *, force: bool = False) -> numpy.ndarray:
        """The NumPy array that shares this tensor's memory. TypeError for a GPU tensor, RuntimeError when it requires grad."""
        if self.node is not None and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.is_cuda and not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return self._host()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("the dtype cannot change without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self.node is not None:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        array = self.array
        if any(s < 0 for s in array.strides):
            array = array.copy()  # negative strides abort the whole process in some consumers
        return array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __bool__(self) -> bool:
        if self.array.size != 1:
            kind = "no values" if self.array.size == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
        return bool(self.array.reshape(()).item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

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
        return iter([self[i] for i in range(self.array.shape[0])])

    def __contains__(self, x: Any) -> bool:
        return bool((self == x).any().item())

    __hash__ = object.__hash__

    def __setitem__(self, index: Any, value: Any) -> None:
        from .ops.index import assign

        assign(self, index, value)

    def __deepcopy__(self, memo: dict) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.")
        if id(self) in memo:
            return memo[id(self)]
        out = object.__new__(type(self))
        memo[id(self)] = out
        out.array, out.node = self.array.copy(), None
        if self.node is not None:
            out.requires_grad_()
        for name, value in self.__dict__.items():
            if name not in ("_view", "_views"):  # the copy has memory of its own
                setattr(out, name, deepcopy(value, memo))
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (type(self), self._host(), self.requires_grad and self.is_leaf)

    def __repr__(self) -> str:
        from .printing import tensor_text

        return tensor_text(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.array.ndim == 0 and type(self) is Tensor else object.__format__(self, spec)


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0] if isinstance(array, numpy.ndarray) else array.data.ptr


def _rebuild(cls: type, array: numpy.ndarray, requires_grad: bool) -> Tensor:
    out = object.__new__(cls)
    out.array, out.node = array, None
    return out.requires_grad_(requires_grad)


def to_array(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A fresh array from what a user may write as data: numbers, nested lists (tensors among them), arrays. No memory is shared.

    Python floats become the default dtype, ints int64. ValueError for ragged lists.
    """
    d = None if dtype is None else dtypes.as_numpy(dtype)
    if isinstance(data, Tensor):
        array = data.array.copy()
    elif isinstance(data, numpy.ndarray):
        array = data.copy()
    elif hasattr(data, "__dlpack__") and not isinstance(data, numpy.generic) and hasattr(data, "shape"):
        array = data.copy() if type(data).__module__.startswith("cupy") else numpy.array(data)
    else:
        array = _from_nested(data, d is None)
        if d is not None and d.kind in "iu" and array.dtype.kind in "iu" and array.size:
            limits = numpy.iinfo(d)
            if array.min() < limits.min or array.max() > limits.max:
                raise RuntimeError(f"value cannot be converted to type {d.name} without overflow")
    if d is not None and array.dtype != d:
        array = devices.namespace(array).astype(array, d)
    if array.dtype not in FROM_NUMPY:
        native = array.dtype.newbyteorder("=") if array.dtype.kind in "iufc" else array.dtype
        if native not in FROM_NUMPY:
            raise TypeError(f"can't make a tensor of {array.dtype} data; the supported dtypes are {', '.join(x.name for x in dtypes.ALL)}")
        array = array.astype(native)
    elif array.dtype is not FROM_NUMPY[array.dtype].numpy:
        array = array.astype(FROM_NUMPY[array.dtype].numpy)  # one dtype object per type: the call path compares by identity
    return array if device is None else devices.move(array, devices.device(device))


def _from_nested(data: Any, by_default: bool) -> numpy.ndarray:
    seen: dict[Any, Any] = {}  # of each type of number and each dtype of an array in the data, one example

    def plain(x: Any) -> Any:
        if isinstance(x, (list, tuple, range)):
            return [plain(v) for v in x]
        if hasattr(x, "dtype"):
            x = x._host() if isinstance(x, Tensor) else numpy.asarray(x)
            seen.setdefault(x.dtype, x)
        else:
            seen.setdefault(x.__class__, x)
        return x

    nested = plain(data)
    try:
        array = numpy.array(nested)
    except ValueError as error:
        raise ValueError(f"expected a nested list with rows of equal length: {error}") from None
    if by_default and int in seen and array.dtype != dtypes.I64 and seen.keys() <= {bool, int}:
        raise ValueError("Overflow when unpacking long long")
    if array.dtype.kind in "OUSM":
        raise TypeError(f"can't make a tensor of {', '.join(sorted(getattr(t, '__name__', str(t)) for t in seen))} data")
    found = [FROM_NUMPY.get(x.dtype) if hasattr(x, "dtype") else dtypes.of_scalar(x) for x in seen.values()] or [dtypes.default]
    if not by_default or None in found:
        return array
    return array.astype(functools.reduce(dtypes.promote, found).numpy, copy=False)
