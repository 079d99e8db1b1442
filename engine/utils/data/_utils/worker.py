"""PyTorch's address of what a worker knows of itself."""

from ....data.worker import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
