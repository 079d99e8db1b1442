"""Distributions of trials that succeed or fail: told by probabilities or by log odds, each of which gives the other."""

from __future__ import annotations

from typing import Any

from engine import Size, Tensor

from .utils import lazy_property, logits_to_probs, probs_to_logits


class Odds:
    """`probs` or `logits` as it was given, in `_param` too; the other is computed when it is first asked for, with gradients."""

    _param: Tensor

    @staticmethod
    def _one_of(probs: Any, logits: Any) -> tuple[Any, str]:
        """What was given and its name. ValueError unless it is one of the two."""
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
