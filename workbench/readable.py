"""Texts of users as they can be written anywhere: into XML, into UTF-8, on a terminal. Nothing in them commands a reader."""

from __future__ import annotations

from typing import Any

MOST = 300  # characters of a name

# Control characters, what turns the direction of a line, halves of characters, and what is no character.
_UNREADABLE = dict.fromkeys(
    [n for n in range(32) if chr(n) not in "\n\t"]
    + [*range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000), 0xFEFF, 0xFFFE, 0xFFFF],
    0xFFFD,
)


def readable(text: str, most: int = MOST) -> str:
    """The text; where it is longer than `most`, its beginning and its end."""
    if len(text) > most:
        text = f"{text[: most - most // 4]}…{text[-(most // 4) :]}"
    return text if text.isprintable() else text.translate(_UNREADABLE)


def amid(name: str) -> str:
    """A name in the midst of a sentence: what a comma begins, as in "add, line 3", a comma ends."""
    return f"{name}," if ", " in name else name


def encodable(value: Any) -> Any:
    """A JSON value whose texts have no halves of characters, which UTF-8 cannot have: one, and the whole message cannot be sent."""
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
    """Such a column has nothing but numbers in it, and a column of shapes nothing but those."""
    return not value or isinstance(value[0], (int, float))
