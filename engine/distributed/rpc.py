"""`torch.distributed.rpc`: remote procedure calls are not available."""


def is_available() -> bool:
    """Return False."""
    return False
