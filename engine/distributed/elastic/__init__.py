"""`ElasticJob`, and of `torch.distributed.elastic` what programs for torchrun import."""

from .job import ElasticJob

__all__ = ["ElasticJob"]
