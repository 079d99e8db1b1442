"""PyTorch's names for `WorkerInfo` and `get_worker_info`."""

from ....data.worker import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
