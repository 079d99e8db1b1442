"""Which function answers which request of a view. Folders register their own handlers, so that a session need not know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Handler = Callable[..., list[tuple[dict[str, Any], list[bytes]]]]

# A handler takes the session, the request and the requesting view, and returns the messages for that view. It is called with the session's
# lock held. A `protocol.Refused` with a sentence is shown as a Problem.
HANDLERS: dict[type, Handler] = {}
STATE: list[Handler] = []  # take the session, and return what a view must know of it besides the graph and the pass
GREETING: list[Handler] = []  # the same, for a view that has just been opened


def answers(request: type) -> Callable[[Handler], Handler]:
    """Register the decorated function as the handler of a class of requests."""

    def register(handler: Handler) -> Handler:
        assert request not in HANDLERS, f"{request.__name__} has a handler already"
        HANDLERS[request] = handler
        return handler

    return register


def state(function: Handler) -> Handler:
    """Register a function whose messages are sent along with the graph."""
    STATE.append(function)
    return function


def greeting(function: Handler) -> Handler:
    """Register a function whose messages are sent to each newly opened view."""
    GREETING.append(function)
    return function
