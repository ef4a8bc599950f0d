"""Tensors in buckets, which are sent together."""

from __future__ import annotations

import corten

from ._options import BroadcastOptions


def _compute_bucket_assignment_by_size(
    tensors, bucket_size_limits, expect_sparse_gradient=(), tensor_indices=(), logger=None,
):
    """Which tensors go together, by dtype and device, up to so many bytes.

    Args:
        tensors: The tensors.
        bucket_size_limits: The most bytes of the first bucket, of the second, ...; the last counts for the rest.
        expect_sparse_gradient: Which tensors are buckets of their own.
        tensor_indices: The numbers of the tensors, in place of their places.

    Returns:
        The numbers by bucket, in the order of the smallest where numbers are places, and the limit of each.
    """
    if expect_sparse_gradient and len(expect_sparse_gradient) != len(tensors):
        raise RuntimeError("expect_sparse_gradient must have as many entries as tensors")
    if not tensors:
        raise RuntimeError("_compute_bucket_assignment_by_size needs at least one tensor")
    finished, open_buckets, limits = [], {}, {}
    for place, tensor in enumerate(tensors):
        if tensor.is_sparse:
            raise RuntimeError("No support for sparse tensors.")
        number = tensor_indices[place] if tensor_indices else place
        if expect_sparse_gradient and expect_sparse_gradient[number]:
            finished.append(([number], 0))
            continue
        key = (tensor.dtype, tensor.device)
        bucket, size = open_buckets.get(key, ([], 0))
        bucket.append(number)
        size += tensor.numel() * tensor.element_size()
        position = limits.setdefault(key, 0)
        limit = bucket_size_limits[position]
        if size >= limit:
            finished.append((bucket, limit))
            open_buckets.pop(key, None)
            limits[key] = min(position + 1, len(bucket_size_limits) - 1)
        else:
            open_buckets[key] = (bucket, size)
    for key, (bucket, _) in open_buckets.items():
        finished.append((bucket, bucket_size_limits[limits[key]]))
    if not tensor_indices:
        finished.sort(key=lambda each: min(each[0]))
    return [bucket for bucket, _ in finished], [limit for _, limit in finished]


def _broadcast_coalesced(process_group, tensors, buffer_size, src=0):
    """All ranks get the tensors of one, in buckets of so many bytes."""
    tensors = [tensor.detach() for tensor in tensors]
    if not tensors:
        return
    buckets, _ = _compute_bucket_assignment_by_size(tensors, [buffer_size])
    started = []
    with corten.no_grad():
        for bucket in buckets:
            members = [tensors[index] for index in bucket]
            flat = corten.cat([tensor.reshape(-1) for tensor in members])
            opts = BroadcastOptions()
            opts.rootRank = src
            started.append((members, flat, process_group.broadcast([flat], opts)))
        for members, flat, work in started:
            work.wait()
            parts = flat.split([tensor.numel() for tensor in members])
            for tensor, part in zip(members, parts):
                tensor.copy_(part.view(tensor.shape))
