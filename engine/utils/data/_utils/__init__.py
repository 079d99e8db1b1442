"""PyTorch's address of what a loader is made of; libraries import it although it is called private."""

from . import collate, fetch, worker
