"""PyTorch's names for the internals of a loader; libraries import this package although it is private."""

from . import collate, fetch, worker
