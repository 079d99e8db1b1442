"""Exceptions of `torch.distributed`."""

from __future__ import annotations


class DistError(RuntimeError):
    """Base class of the exceptions in communication between processes."""


class DistBackendError(DistError):
    """A collective failed: a process ended, timed out or called another collective."""

    calls = ""  # of all processes, in words, if they have called different collectives


class DistNetworkError(DistError):
    """A connection failed or was lost."""


class DistStoreError(DistError):
    """A store did not receive the awaited keys in time."""


class TimedOut(DistBackendError):
    """Raised when a collective has not finished in time."""
