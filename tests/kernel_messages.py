"""What a kernel publishes: the messages of a view, and what a cell printed."""

from __future__ import annotations

from typing import Any


def is_custom(message: dict[str, Any], comm: str) -> bool:
    content = message["content"]
    return message["msg_type"] == "comm_msg" and content["comm_id"] == comm and content["data"].get("method") == "custom"


def custom(message: dict[str, Any]) -> dict[str, Any]:
    return message["content"]["data"]["content"]


def printed(messages: list[dict[str, Any]]) -> str:
    """What a cell wrote and returned."""
    parts = [m["content"]["text"] for m in messages if m["msg_type"] == "stream"]
    parts += [m["content"]["data"]["text/plain"] for m in messages if m["msg_type"] == "execute_result"]
    return "".join(parts)
