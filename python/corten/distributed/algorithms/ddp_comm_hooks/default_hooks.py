"""The average of gradients, as they are or in 16 bits."""

from __future__ import annotations

import corten
import corten.distributed as dist

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _group_or_world(process_group):
    return process_group if process_group is not None else dist.group.WORLD


def _allreduce_fut(process_group, tensor):
    """A future of the average over the processes, in place."""
    group = _group_or_world(process_group)
    tensor.div_(group.size())
    work = dist.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group, bucket):
    """The average, as without a hook."""
    return _allreduce_fut(process_group, bucket.buffer())


def _compress_hook(dtype, process_group, bucket):
    group = _group_or_world(process_group)
    buffer = bucket[0] if isinstance(bucket, tuple) else bucket.buffer()
    compressed = buffer.to(dtype).div_(group.size())
    work = dist.all_reduce(compressed, group=group, async_op=True)
    return work.get_future().then(lambda future: buffer.copy_(future.value()[0]))


def fp16_compress_hook(process_group, bucket):
    """The average in ``float16``: half of the bytes."""
    return _compress_hook(corten.float16, process_group, bucket)


def bf16_compress_hook(process_group, bucket):
    """The average in ``bfloat16``: half of the bytes."""
    return _compress_hook(corten.bfloat16, process_group, bucket)


def _compressing(dtype, hook, name):
    """``hook`` on buckets in another dtype."""

    def compressed_hook(hook_state, bucket):
        bucket.set_buffer(bucket.buffer().to(dtype))
        future = hook(hook_state, bucket)
        return future.then(lambda future: bucket.buffer().copy_(future.value()))

    compressed_hook.__name__ = compressed_hook.__qualname__ = name
    return compressed_hook


def fp16_compress_wrapper(hook):
    """A hook that hands ``hook`` the gradients in ``float16``."""
    return _compressing(corten.float16, hook, "fp16_compress_wrapper_hook")


def bf16_compress_wrapper(hook):
    """A hook that hands ``hook`` the gradients in ``bfloat16``."""
    return _compressing(corten.bfloat16, hook, "bf16_compress_wrapper_hook")
