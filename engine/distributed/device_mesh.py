"""The names of `torch.distributed.device_mesh`; meshes are not supported, use `new_group` or `new_subgroups`."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Raises NotImplementedError. `isinstance(x, DeviceMesh)` is always False."""

    def __init__(self, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None, **kwargs: Any) -> None:
        _refuse("DeviceMesh")


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None
) -> NoReturn:
    """Raise NotImplementedError: there are no device meshes."""
    _refuse("init_device_mesh")


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: this engine spreads batches over processes (DistributedDataParallel), not single tensors over a mesh of devices"
    )
