"""Communication hooks that average gradients, optionally compressed to half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base import dtypes
from ....futures import Future
from ... import collectives
from ...grad_bucket import GradBucket
from ...group import Work
from ...world import resolve

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper"]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients, as without a hook. A `process_group` of None means the default group."""
    row, group = bucket.buffer(), resolve(process_group)
    work = collectives.all_reduce(row.div_(group.size()), group=group, async_op=True)
    assert isinstance(work, Work)
    return work.get_future().then(lambda done: done.value()[0])


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients in float16."""
    return fp16_compress_wrapper(allreduce_hook)(process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients in bfloat16."""
    return bf16_compress_wrapper(allreduce_hook)(process_group, bucket)


def fp16_compress_wrapper(hook: Callable[[Any, GradBucket], Future]) -> Callable[[Any, GradBucket], Future]:
    """Wrap a hook to run on gradients cast to float16; the result is cast back to their dtype."""
    return _compressed(hook, dtypes.float16)


def bf16_compress_wrapper(hook: Callable[[Any, GradBucket], Future]) -> Callable[[Any, GradBucket], Future]:
    """Wrap a hook to run on gradients cast to bfloat16; the result is cast back to their dtype."""
    return _compressed(hook, dtypes.bfloat16)


def _compressed(hook: Callable[[Any, GradBucket], Future], dtype: Any) -> Callable[[Any, GradBucket], Future]:
    def compress(hook_state: Any, bucket: GradBucket) -> Future:
        row = bucket.buffer()
        bucket.set_buffer(row.to(dtype))
        return hook(hook_state, bucket).then(lambda done: row.copy_(done.value()))

    return compress
