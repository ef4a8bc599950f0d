"""Where boxes of tensors overlap."""

from __future__ import annotations

__all__: list[str] = []


def _check_shard_metadata_pair_overlap(shard1, shard2):
    """Whether two boxes have an element in common."""
    return all(
        max(a, b) < min(a + length_a, b + length_b)
        for a, length_a, b, length_b in zip(
            shard1.offsets, shard1.sizes, shard2.offsets, shard2.sizes
        )
    )


def _shards_get_overlap_region_wrt_saved_tensor(saved_shard, current_shard):
    """For each dimension: its number, where the overlap begins in the saved box and in the current one, and
    how long it is."""
    region = []
    boxes = zip(saved_shard.offsets, saved_shard.sizes, current_shard.offsets, current_shard.sizes)
    for dim, (saved, saved_size, current, current_size) in enumerate(boxes):
        begin = max(saved, current)
        end = min(saved + saved_size, current + current_size)
        region.append((dim, begin - saved, begin - current, end - begin))
    return region
