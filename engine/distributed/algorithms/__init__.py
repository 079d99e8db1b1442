"""What several processes do together beside collectives, under the names of `torch.distributed.algorithms`."""

from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
