"""`engine.profiler`: measure the time and memory use of ops, under PyTorch's names."""

from __future__ import annotations

from .events import DeviceType
from .profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """Return True: `profile` is always available, though it is not built on Kineto."""
    return True
