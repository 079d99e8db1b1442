"""What goes wrong between processes, under PyTorch's names."""

from __future__ import annotations


class DistError(RuntimeError):
    """Something went wrong between processes."""


class DistBackendError(DistError):
    """A collective failed: a process has gone, has not answered in time, or called something else."""


class DistNetworkError(DistError):
    """A connection could not be made, or was lost."""


class DistStoreError(DistError):
    """A store has not got the keys that were waited for."""
