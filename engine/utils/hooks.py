"""`engine.utils.hooks`: what every `register_..._hook` gives back."""

from ..core.tape import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
