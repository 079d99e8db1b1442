"""Where the engine and PyTorch's own samples part ways on purpose, each with the reason."""

from __future__ import annotations

from typing import Any

_UNSET = "Its elements are whatever the memory held."
_DRAWN = "Its results are drawn at random, from another generator than PyTorch's; tests/engine/test_random.py tests the distributions."
RANDOM: dict[str, str] = {
    **dict.fromkeys(("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"), _UNSET),
    **dict.fromkeys(
        (
            "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like", "randint", "randint_like", "randn",
            "randn_like", "uniform", "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
            "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
        ), _DRAWN,
    ),
}  # fmt: skip

DEVIATIONS: list[tuple[str, Any, str]] = []
ABSENT: dict[str, str] = {}
