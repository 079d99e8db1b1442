"""`engine.utils.data`: PyTorch's name for `engine.data`."""

from ...data import *  # noqa: F403
from ...data import __all__
from . import _utils, dataloader, dataset, distributed, sampler
