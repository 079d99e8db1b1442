"""Remote procedure calls are not built in: as PyTorch without them, this module can be asked, and has nothing else."""


def is_available() -> bool:
    """Whether there are remote procedure calls: no."""
    return False
