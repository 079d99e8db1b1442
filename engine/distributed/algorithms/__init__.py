"""`torch.distributed.algorithms`: `Join`, for training with uneven inputs, and DDP communication hooks."""

from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
