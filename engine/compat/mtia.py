"""`engine.mtia`: what programs ask about Meta's accelerators, which are not used here: there is none."""

from .xpu import device_count, empty_cache, is_available, is_initialized, manual_seed, manual_seed_all  # noqa: F401
