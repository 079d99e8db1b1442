"""Types, helpers and doc strings that third-party optimizers import from `torch.optim.optimizer` and `torch.utils._foreach_utils`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ..autograd import is_grad_enabled, set_grad_enabled
from ..base import dtypes
from ..core import devices
from ..core.tensor import Tensor
from ..ops.strided import view_as_real

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
StateDict: TypeAlias = dict[str, Any]
DeviceDict: TypeAlias = dict[devices.device | None, Tensor]
DeviceDtypeDict: TypeAlias = dict[tuple[devices.device, dtypes.dtype] | None, Tensor]
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
GlobalOptimizerPreHook: TypeAlias = Callable[[Any, Args, Kwargs], tuple[Args, Kwargs] | None]
GlobalOptimizerPostHook: TypeAlias = Callable[[Any, Args, Kwargs], None]
TensorListList: TypeAlias = list[list[Tensor | None]]
Indices: TypeAlias = list[int]
_foreach_supported_types = [Tensor]

_params_doc = "params (iterable): the parameters, pairs of names and parameters, or dicts of parameter groups"
_foreach_doc = "foreach (bool, optional): accepted, without effect"
_fused_doc = "fused (bool, optional): whether steps are counted on the parameters' device (default: None)"
_capturable_doc = "capturable (bool, optional): whether the step can be captured in a CUDA graph (default: False)"
_differentiable_doc = "differentiable (bool, optional): whether gradients flow through the step (default: False)"
_maximize_doc = "maximize (bool, optional): maximize the objective with respect to the params, instead of minimizing (default: False)"


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone", *["xla"] * supports_xla]


def _device_has_foreach_support(device: devices.device) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Tensor], device: devices.device) -> bool:
    return _device_has_foreach_support(device) and all(t is None or type(t) in _foreach_supported_types for t in tensors)


def _group_tensors_by_device_and_dtype(tensorlistlist: TensorListList, with_indices: bool = False) -> dict:
    """Group lists of equal length by the device and dtype of the first list's tensors: `(device, dtype) -> (lists, indices)`."""
    found: dict = {}
    for i, row in enumerate(zip(*tensorlistlist, strict=True)):
        first = row[0]
        if first is None:
            raise RuntimeError("_group_tensors_by_device_and_dtype: the first list must hold tensors only")
        lists, indices = found.setdefault((first.device, first.dtype), ([[] for _ in row], []))
        for group, x in zip(lists, row, strict=True):
            group.append(x)
        if with_indices:
            indices.append(i)
    return found


def _default_to_fused_or_foreach(params: list[Tensor], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return PyTorch's choice of (fused, foreach) for these parameters: neither on a CPU, unless `use_fused`."""
    if differentiable:
        return False, False
    tensors = [p for p in params if p is not None]
    plain = all(type(p) in _foreach_supported_types for p in tensors)
    fusable = _get_fused_kernels_supported_devices()
    fused = use_fused and plain and all(p.device.type in fusable and p.is_floating_point() for p in tensors)
    return fused, not fused and plain and all(p.device.type in _get_foreach_kernels_supported_devices() for p in tensors)


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    fusable = [name for name in _get_fused_kernels_supported_devices() if not (cuda_unsupported and name == "cuda")]
    if not (p.device.type in fusable and p.is_floating_point()):
        raise RuntimeError(
            f"`fused=True` requires all the params to be floating point Tensors of supported devices: {fusable} but {p.dtype} and "
            f"{p.device.type}"
        )


def _use_grad_for_differentiable(step: Callable) -> Callable:
    """Wrap `step` so that it records its ops only if the optimizer has `differentiable=True`."""

    @functools.wraps(step)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = is_grad_enabled()
        try:
            set_grad_enabled(self.defaults["differentiable"])
            return step(self, *args, **kwargs)
        finally:
            set_grad_enabled(before)

    return call


def _disable_dynamo_if_unsupported(single_tensor_fn: Callable | None = None) -> Callable[[Callable], Callable]:
    return lambda function: function


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _to_scalar(x: Any) -> Any:
    return x.squeeze() if isinstance(x, Tensor) and x.ndim else x


def _get_scalar_dtype(is_fused: bool | None = None) -> dtypes.dtype:
    return dtypes.float64 if not is_fused and dtypes.default is dtypes.float64 else dtypes.float32


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace complex parameters and their state and gradients with real views, in place in the lists."""
    for i, p in enumerate(params):
        if p.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[i] = view_as_real(tensors[i])
