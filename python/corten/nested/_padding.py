"""Rows of items: where they belong, and dense tensors of them."""

from __future__ import annotations

import corten

from ._jagged import like


def places(x):
    """For each row that belongs to an item: its place in the values, its item, its place there."""
    spans = x._spans()
    device = x._values.device
    counts = corten.tensor([end - start for start, end in spans], device=device)
    item = corten.arange(len(spans), device=device).repeat_interleave(counts)
    starts = corten.tensor([start for start, _ in spans], dtype=corten.int64, device=device)
    before = counts.cumsum(0) - counts
    within = corten.arange(len(item), device=device) - before[item]
    return starts[item] + within, item, within


def rows(x, values=None):
    """The values with the rows of items first."""
    values = x._values if values is None else values
    return values.movedim(x._ragged_idx - 1, 0)


def padded(x, padding, rows_of=None):
    """A dense tensor of the items, of which ``padding`` fills up the shorter ones."""
    if x._lengths is not None:
        raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
    source = rows(x) if rows_of is None else rows_of
    row, item, within = places(x)
    dense = source.new_full((len(x), x._max_seqlen, *source.shape[1:]), padding)
    dense = dense.index_put((item, within), source[row])
    return dense.movedim(1, x._ragged_idx)


def unpadded(x, dense):
    """A nested tensor with the items of ``x``, of rows of a dense tensor."""
    row, item, within = places(x)
    source = dense.movedim(x._ragged_idx, 1)[item, within]
    # Rows between the items keep their places; nothing reads them.
    if x._lengths is not None:
        shape = (x._values.size(x._ragged_idx - 1), *source.shape[1:])
        source = source.new_zeros(shape).index_put((row,), source)
    return like(x, source.movedim(0, x._ragged_idx - 1))


def of_items(x, dense):
    """For each row of the values of ``x``, the entry of its item: ``dense`` has one per item."""
    ends = x._offsets[1:-1]
    total = x._values.size(x._ragged_idx - 1)
    item = corten.searchsorted(
        ends.contiguous(), corten.arange(total, device=ends.device, dtype=ends.dtype), right=True
    )
    return dense[item]
