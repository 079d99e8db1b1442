"""`torch.utils.data.dataloader`: the loader and its default functions."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from ...data import DataLoader, default_collate, default_convert, get_worker_info
from ...data.fetch import _DatasetKind  # noqa: F401
from ...data.passes import Here as _SingleProcessDataLoaderIter  # noqa: F401
from ...data.passes import Pass as _BaseDataLoaderIter  # noqa: F401
from ...data.passes import Workers as _MultiProcessingDataLoaderIter  # noqa: F401

_T = TypeVar("_T")
_collate_fn_t: TypeAlias = Callable[[list[_T]], Any]
_worker_init_fn_t: TypeAlias = Callable[[int], None]
__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
