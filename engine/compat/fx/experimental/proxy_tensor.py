"""The mode of symbolic tracing, which is never active."""


def get_proxy_mode() -> None:
    """Return None: no tracing mode is ever active."""
