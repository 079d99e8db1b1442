"""Token ids shown as text through a vocabulary, and the detection of attention weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy

from ..protocol import Tokens
from .numbers import computable, host

MOST = 512  # tokens per answer at most
LABELS = 128  # labels along an axis at most
LONG = 24  # characters per token at most


class Vocabulary:
    """A mapping from ids to tokens, made from a list of tokens, a dict in either direction, or a tokenizer with `get_vocab()`."""

    def __init__(self, source: Any) -> None:
        if isinstance(source, Vocabulary):
            self.texts: dict[int, str] = source.texts
            return
        if callable(getattr(source, "get_vocab", None)):
            source = source.get_vocab()
        if isinstance(source, Mapping):
            pairs: Iterable = source.items()
        elif isinstance(source, Iterable):
            pairs = enumerate(source)
        else:
            raise TypeError(
                "A vocabulary is a list of tokens, a dict from ids to tokens or from tokens to ids, or a tokenizer with get_vocab(); "
                f"got {type(source).__name__}."
            )
        found = {}
        for a, b in pairs:
            number, token = (b, a) if isinstance(b, int) and not isinstance(a, int) else (a, b)
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError(f"A vocabulary maps integers to tokens; it has {a!r}: {b!r}.")
            found[number] = (
                token if isinstance(token, str) else token.decode("utf-8", "replace") if isinstance(token, bytes) else str(token)
            )
        self.texts = found

    def text(self, number: int) -> str:
        """The token of an id, cut to 24 characters; "" if there is none."""
        found = self.texts.get(number, "")
        return found if len(found) <= LONG else found[: LONG - 1] + "…"

    def __len__(self) -> int:
        return len(self.texts)


current: Vocabulary | None = None  # set by wb.vocabulary


def use(source: Any) -> Vocabulary | None:
    """Set the vocabulary with which ids are shown; None shows plain ids again."""
    global current
    current = None if source is None else Vocabulary(source)
    return current


def tokens(array: Any, vocabulary: Vocabulary | None) -> Tokens | None:
    """The tokens of the first elements of a 1-D or 2-D integer tensor; None for any other tensor or without a vocabulary."""
    if vocabulary is None or array.ndim not in (1, 2) or array.dtype.kind not in "iu" or not array.size:
        return None
    rows = 1 if array.ndim == 1 else array.shape[0]
    cols = array.shape[-1]
    wide = min(cols, MOST)
    ids = host(array.reshape(rows, cols)[: max(1, MOST // wide), :wide])
    texts = [[vocabulary.text(number) for number in row] for row in ids.tolist()]
    return Tokens(rows, cols, ids.tolist(), texts, sum(number not in vocabulary.texts for row in ids.tolist() for number in row))


def is_attention(array: Any) -> bool:
    """Whether the last two axes are square, no element is negative, and every row sums to 1."""
    shape = array.shape
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 2 or array.dtype.kind in "biuc" or not array.size or array.size > 1 << 24:
        return False
    data, rounding = computable(array), 1e-3 if array.dtype.itemsize > 2 else 1e-2  # bfloat16 has 8 bits
    sums = host(data.sum(axis=-1))
    return bool((numpy.abs(sums - 1) <= rounding).all()) and float(data.min()) >= 0
