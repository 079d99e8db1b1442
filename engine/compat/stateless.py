"""`functional_call` under its older, deprecated name."""

from __future__ import annotations

import warnings
from typing import Any

from ..func import functional_call as _functional_call


def functional_call(
    module: Any, parameters_and_buffers: dict, args: Any = None, kwargs: dict | None = None, *, tie_weights: bool = True,
    strict: bool = False,
) -> Any:  # fmt: skip
    """Like `engine.func.functional_call`, with PyTorch's deprecation warning."""
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use "
        "torch.func.functional_call instead which is a drop-in replacement for this API.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
