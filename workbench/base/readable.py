"""Make users' texts safe to write anywhere: into XML, into UTF-8, on a terminal. Control characters are replaced."""

from __future__ import annotations

from typing import Any

MOST = 300  # characters of a name

# Control characters, bidirectional controls, surrogates and noncharacters.
_UNREADABLE = dict.fromkeys(
    [n for n in range(32) if chr(n) not in "\n\t"]
    + [*range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000), 0xFEFF, 0xFFFE, 0xFFFF],
    0xFFFD,
)


def readable(text: str, most: int = MOST) -> str:
    """The text with unsafe characters replaced; if it is longer than `most`, only its beginning and its end."""
    if len(text) > most:
        text = f"{text[: most - most // 4]}…{text[-(most // 4) :]}"
    return text if text.isprintable() else text.translate(_UNREADABLE)


def amid(name: str) -> str:
    """A name inside a sentence: one that contains a comma, as "add, line 3", is followed by a comma."""
    return f"{name}," if ", " in name else name


def encodable(value: Any) -> Any:
    """A JSON value without lone surrogates, which UTF-8 cannot encode: a single one would keep the whole message from being sent."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: encodable(one) for name, one in value.items()}
    if not isinstance(value, list) or not value or _of_numbers(value) or (isinstance(value[0], list) and _of_numbers(value[0])):
        return value
    if isinstance(value[0], str) and all(isinstance(one, str) and one.isascii() for one in value):
        return value
    return [encodable(one) for one in value]


def _of_numbers(value: list) -> bool:
    """Whether the column holds numbers. Columns are homogeneous, so the first value decides."""
    return not value or isinstance(value[0], (int, float))
