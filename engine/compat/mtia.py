"""`engine.mtia`: the interface of `torch.mtia`; Meta's accelerators are not supported, so none is available."""

from .xpu import device_count, empty_cache, is_available, is_initialized, manual_seed, manual_seed_all  # noqa: F401
