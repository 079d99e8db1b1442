"""The values of a PyTorch tensor as a NumPy array, sharing its memory if possible, else copied on demand."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy

from ..inspector.text import NO_NUMBERS
from .loaded import torch

DENSE = 64 << 20  # dense bytes up to which a sparse tensor is shown with its zeros

_NUMPY = {name: numpy.dtype(name) for name in ("float16", "float32", "float64", "complex64", "complex128", "bool")}
_NUMPY |= {f"{sign}int{bits}": numpy.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
_OWN = {
    name: numpy.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
}
_TRACED = frozenset(("FakeTensor", "FunctionalTensor", "ProxyTensor"))
_BITS = {1: "uint8", 2: "int16"}


def dtype_of(of: Any) -> Any:
    """The NumPy dtype with the name of `of.dtype`; the name itself if NumPy has no such dtype."""
    return _dtype_of(of.dtype)


@cache
def _dtype_of(dtype: Any) -> Any:
    name = str(dtype).removeprefix("torch.")
    return _NUMPY.get(name) or _OWN.get(name) or name


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape; for a nested tensor, only the number of its tensors."""
    if tensor.is_nested:
        return (int(tensor.size(0)),)
    return tuple(map(int, tensor.shape))


def bytes_of(tensor: Any) -> int:
    """Bytes of the elements: only stored ones for a sparse tensor, 0 for a meta tensor."""
    if ordinary(tensor):
        return tensor.nbytes
    if tensor.is_nested:
        return sum(bytes_of(part) for part in tensor.unbind())
    if tensor.layout is not _strided():
        return _stored(tensor).numel() * tensor.element_size()
    return 0 if tensor.is_meta else tensor.nbytes


def wrapped(tensor: Any) -> bool:
    """Whether it is a wrapper without own values, as in torch.func's transforms or while torch traces a program."""
    return type(tensor).__name__ in _TRACED or _transformed()(tensor)


@cache
def _transformed() -> Any:
    """The test for wrapper tensors of torch.func, for which PyTorch has no public name."""
    functorch = getattr(torch()._C, "_functorch", None)
    return getattr(functorch, "is_functorch_wrapped_tensor", lambda tensor: False)


def strided(tensor: Any) -> bool:
    """Whether the tensor has the strided layout."""
    return not (wrapped(tensor) or tensor.is_nested) and tensor.layout is _strided()


@cache
def _strided() -> Any:
    return torch().strided


def ordinary(tensor: Any) -> bool:
    """Whether `unusual` would return "". It is called for every op, so it is a single expression."""
    return (
        not (_transformed()(tensor) or tensor.is_nested or tensor.is_meta or tensor.is_quantized)
        and tensor.layout is _strided()
        and _dtype_of(tensor.dtype).__class__ is not str
        and type(tensor).__name__ not in _TRACED
    )


def unusual(tensor: Any) -> str:
    """A note for readers of the tensor's values; "" for an ordinary tensor."""
    if wrapped(tensor):
        return "Inside a transform of torch.func, or while torch traces, a tensor is a placeholder and has no values."
    if tensor.is_nested:
        return f"A nested tensor of {tensor.size(0)} tensors: shown are their elements, one tensor after the other."
    if tensor.is_meta:
        return NO_NUMBERS
    if tensor.is_quantized:
        return f"Quantized ({str(tensor.dtype).removeprefix('torch.')}): the values shown are those of dequantize()."
    if tensor.layout is not torch().strided:
        layout = str(tensor.layout).removeprefix("torch.")
        if _dense_bytes(tensor) <= DENSE:
            return f"Sparse ({layout}, {_stored(tensor).numel():,} stored elements): shown with its zeros."
        return f"Sparse ({layout}): too large to be written out, so shown are its {_stored(tensor).numel():,} stored elements."
    if isinstance(dtype_of(tensor), str):
        return f"NumPy has no dtype {dtype_of(tensor)}, so its values cannot be shown."
    return ""


def numpy_of(tensor: Any) -> numpy.ndarray | None:
    """The elements, or None if there are none to show (see `unusual`). A GPU tensor is copied to the host."""
    if wrapped(tensor) or tensor.is_meta:
        return None
    t = tensor.detach()  # not no_grad(): an interrupt could leave PyTorch's grad mode off
    if t.is_nested:
        parts = [part for one in t.unbind() if (part := numpy_of(one)) is not None]
        return numpy.concatenate([part.reshape(-1) for part in parts]) if parts else None
    if t.is_quantized:
        t = t.dequantize()
    if t.layout is not torch().strided:
        t = t.to_dense() if _dense_bytes(t) <= DENSE else _stored(t)
    kind = dtype_of(t)
    if isinstance(kind, str):
        return None
    t = t.cpu().resolve_conj().resolve_neg()
    if kind in _OWN.values():
        return t.view(getattr(torch(), _BITS[kind.itemsize])).numpy().view(kind)
    return t.numpy()


def _stored(tensor: Any) -> Any:
    return tensor._values() if tensor.layout is torch().sparse_coo else tensor.values()


def _dense_bytes(tensor: Any) -> int:
    return math.prod(tensor.shape) * tensor.element_size()


class Seen:
    """A PyTorch tensor with the attributes that the back end uses on the engine's tensors."""

    __slots__ = ("of",)

    def __init__(self, tensor: Any) -> None:
        self.of = tensor

    @property
    def array(self) -> Any:
        """The values; None if there are none to show."""
        return numpy_of(self.of)

    @property
    def is_meta(self) -> bool:
        return self.of.is_meta

    @property
    def requires_grad(self) -> bool:
        return self.of.requires_grad

    @property
    def is_leaf(self) -> bool:
        return self.of.is_leaf

    @property
    def retains_grad(self) -> bool:
        return self.of.retains_grad

    @property
    def grad_fn(self) -> Any:
        return self.of.grad_fn

    @property
    def _grad(self) -> Seen | None:
        if not (self.of.is_leaf or self.of.retains_grad):  # reading .grad of any other tensor warns
            return None
        grad = self.of.grad
        return None if grad is None or numpy_of(grad) is None else Seen(grad)

    @property
    def _base(self) -> Seen | None:
        return Seen(self.of._base) if self.of._is_view() else None
