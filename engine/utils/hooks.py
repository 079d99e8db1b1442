"""`engine.utils.hooks`: the handle that every `register_..._hook` returns."""

from ..core.tape import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
