"""`torch.distributed.elastic.multiprocessing`: `errors.record`."""

from . import errors

__all__ = ["errors"]
