"""PyTorch's helper functions for optimizers that update whole lists of tensors."""

from ..optim.for_libraries import (  # noqa: F401
    Indices,
    TensorListList,
    _device_has_foreach_support,
    _foreach_supported_types,
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
    _group_tensors_by_device_and_dtype,
    _has_foreach_support,
)
