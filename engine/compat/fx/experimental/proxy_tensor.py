"""Whether a program is being traced: never."""


def get_proxy_mode() -> None:
    """The mode that is tracing: there is none."""
