"""`LazyModuleMixin`: base of layers that infer their input size from the first input."""

from __future__ import annotations

from typing import Any

from .module import Module
from .parameter import is_lazy


class LazyModuleMixin(Module):
    """Mixin for lazy layers: the first forward calls `initialize_parameters(*inputs)` and changes the class to `cls_to_become`.

    A state dict may be loaded before the first forward; it also sets the shapes.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(_initialize, with_kwargs=True)

    def reset_parameters(self) -> None:
        """Reinitialize as the final class does; no effect while shapes are unknown or, as before they are, empty."""
        if not self.has_uninitialized_params() and all(p.numel() for p in self.parameters()):
            super().reset_parameters()  # type: ignore[misc]

    def _give_shapes(self, **shapes: tuple) -> None:
        """Set the shapes and initial values of the named tensors, unless a state dict has set them."""
        if self.has_uninitialized_params():
            for name, shape in shapes.items():
                if (tensor := getattr(self, name)) is not None:
                    tensor.materialize(shape)
            self.reset_parameters()

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Set the shapes of the uninitialized parameters from the arguments of the first forward."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether any parameter or buffer has no shape yet."""
        return any(is_lazy(t) for table in (self._parameters, self._buffers) for t in table.values())


def _initialize(module: Any, args: tuple, kwargs: dict) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    module._initialize_hook.remove()
    del module._initialize_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become
