"""`torch.utils.data.distributed`: the sampler for several processes."""

from ...data import DistributedSampler

__all__ = ["DistributedSampler"]
