"""`Odds`: a mixin for distributions parametrized by `probs` or `logits`."""

from __future__ import annotations

from typing import Any

from engine import Size, Tensor

from .utils import lazy_property, logits_to_probs, probs_to_logits


class Odds:
    """Holds the given one of `probs` and `logits`, also as `_param`; the other is computed lazily and differentiably."""

    _param: Tensor

    @staticmethod
    def _one_of(probs: Any, logits: Any) -> tuple[Any, str]:
        """Return the given parameter and its name. Raises ValueError unless exactly one is given."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return (probs, "probs") if probs is not None else (logits, "logits")

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        return self._param.size()
