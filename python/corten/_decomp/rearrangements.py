"""Copies of views, blocks, channels and patches by simpler operators."""

from __future__ import annotations

import math

import corten
from corten import ops

from ._register import memory_format_of, register_decomposition
from .images import _patches, _reflected

aten = ops.aten

#: Operators that copy what a view shows, with the view.
_VIEWS = {
    "alias": "alias.default", "diagonal": "diagonal.default", "expand": "expand.default", "t": "t.default",
    "unfold": "unfold.default", "unsqueeze": "unsqueeze.default", "squeeze": "squeeze.default",
    "squeeze.dim": "squeeze.dim", "squeeze.dims": "squeeze.dims", "transpose.int": "transpose.int",
    "split_with_sizes": "split_with_sizes.default",
}


def _copied(one):
    return aten.clone.default(one, memory_format=corten.contiguous_format)


def _register_copy(full_name, view):
    packet, _, name = full_name.partition(".")
    packet_of_view, _, name_of_view = view.partition(".")
    make = getattr(getattr(aten, packet_of_view), name_of_view)

    @register_decomposition(getattr(getattr(aten, f"{packet}_copy"), name or "default"))
    def copy(*args, **kwargs):
        made = make(*args, **kwargs)
        return [_copied(one) for one in made] if isinstance(made, (list, tuple)) else _copied(made)

    copy.__name__ = f"{packet}_copy"


for _name, _view in _VIEWS.items():
    _register_copy(_name, _view)


def _zeros(like, size):
    return aten.full.default(
        size, 0, dtype=like.dtype, layout=corten.strided, device=like.device, pin_memory=False
    )


@register_decomposition(aten.block_diag.default)
def block_diag(tensors):
    """Matrices along a diagonal, 0 beside them."""
    blocks = [one.view(1, -1) if one.dim() < 2 else one for one in tensors]
    dtype = blocks[0].dtype
    for one in blocks:
        dtype = corten.promote_types(dtype, one.dtype)
    blocks = [one if one.dtype == dtype else one.to(dtype) for one in blocks]
    total, before, rows = sum(one.shape[1] for one in blocks), 0, []
    for one in blocks:
        height, width = one.shape
        sides = _zeros(one, [height, before]), _zeros(one, [height, total - before - width])
        rows.append(aten.cat.default([sides[0], one, sides[1]], 1))
        before += width
    return aten.cat.default(rows)


@register_decomposition(aten._chunk_cat.default)
def _chunk_cat(tensors, dim, num_chunks):
    """Every tensor in chunks, and the chunks of all of them side by side."""
    first = tensors[0]
    if num_chunks < 1 or any(one.dim() <= dim or one.shape[dim] < 1 for one in tensors):
        return NotImplemented
    dim %= first.dim()
    if any(one.shape[:dim] != first.shape[:dim] for one in tensors):
        return NotImplemented
    made = []
    for one in tensors:
        missing = -one.shape[dim] % num_chunks
        if missing:
            one = aten.constant_pad_nd.default(one, [0] * (2 * (one.dim() - dim - 1)) + [0, missing])
        one = one if one.is_contiguous() else one.contiguous()
        made.append(one.view([*one.shape[:dim], num_chunks, -1]))
    return aten.cat.default(made, dim + 1)


@register_decomposition(aten.channel_shuffle.default)
def channel_shuffle(self, groups):
    """The channels of groups in turn."""
    if self.numel() == 0:
        return NotImplemented
    count, channels, *spatial = self.shape
    split = self.reshape([count, groups, channels // groups, *spatial])
    order = [0, 2, 1, *range(3, split.dim())]
    return _copied(split.permute(order)).view(self.shape)


@register_decomposition(aten.pixel_shuffle.default)
def pixel_shuffle(self, upscale_factor):
    """Channels as finer pixels."""
    *batch, channels, height, width = self.shape
    factor, rank = upscale_factor, self.dim() - 3
    channels //= factor * factor
    split = self.reshape([*batch, channels, factor, factor, height, width])
    order = [*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2]
    made = split.permute(order).reshape([*batch, channels, height * factor, width * factor])
    return aten.clone.default(made, memory_format=memory_format_of(self))


@register_decomposition(aten.pixel_unshuffle.default)
def pixel_unshuffle(self, downscale_factor):
    """Finer pixels as channels."""
    *batch, channels, height, width = self.shape
    factor, rank = downscale_factor, self.dim() - 3
    height, width = height // factor, width // factor
    split = self.reshape([*batch, channels, height, factor, width, factor])
    order = [*range(rank + 1), rank + 2, rank + 4, rank + 1, rank + 3]
    made = split.permute(order).reshape([*batch, channels * factor * factor, height, width])
    return aten.clone.default(made, memory_format=memory_format_of(self))


@register_decomposition(aten.col2im.default)
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    """Images of patches that are added where they overlap."""
    batched = self.dim() == 3
    columns = self if batched else self.unsqueeze(0)
    if columns.numel() == 0:
        return NotImplemented
    size = [one + 2 * pad for one, pad in zip(output_size, padding)]
    places = [
        _patches(one, kernel, gap, 0, step, self.device)
        for one, kernel, gap, step in zip(size, kernel_size, dilation, stride)
    ]
    channels = columns.shape[1] // math.prod(kernel_size)
    counts = [one.shape[1] for one in places]
    columns = columns.reshape([columns.shape[0], channels, *kernel_size, *counts]).permute(0, 1, 2, 4, 3, 5)
    index = [None, None, places[0].unsqueeze(-1).unsqueeze(-1), places[1]]
    made = aten.index_put.default(_zeros(self, [columns.shape[0], channels, *size]), index, columns, True)
    crop = [-padding[1], -padding[1], -padding[0], -padding[0]]
    made = aten.constant_pad_nd.default(made, crop, 0.0)
    return made if batched else made.squeeze(0)


def _max_unpool(self, indices, output_size):
    spatial = len(output_size)
    lead = list(self.shape[:-spatial])
    count = math.prod(output_size)
    if self.numel() == 0:
        return NotImplemented
    shape = [*lead, *([1] * spatial)]
    before = corten.arange(math.prod(lead), device=self.device).view(shape) * count
    places = (indices + before).reshape(-1)
    flat = _zeros(self, [*lead, *output_size]).view(-1)
    made = aten.index_put.default(flat, [places], self.reshape(-1)).view([*lead, *output_size])
    return made.contiguous(memory_format=memory_format_of(self))


@register_decomposition(aten.max_unpool2d.default)
def max_unpool2d(self, indices, output_size):
    """Elements at the positions that they were the greatest ones at, 0 elsewhere."""
    return _max_unpool(self, indices, output_size)


@register_decomposition(aten.max_unpool3d.default)
def max_unpool3d(self, indices, output_size, stride, padding):
    """Elements at the positions that they were the greatest ones at, 0 elsewhere."""
    return _max_unpool(self, indices, output_size)


@register_decomposition([
    aten.reflection_pad1d_backward.default, aten.reflection_pad2d_backward.default,
    aten.reflection_pad3d_backward.default,
])
def reflection_pad_backward(grad_output, self, padding):
    """The gradient of a border that mirrors the inside: every element of the border adds to what it mirrors."""
    spatial = len(padding) // 2
    first = self.dim() - spatial
    index = [None] * first
    for place in range(spatial):
        before, after = padding[2 * (spatial - 1 - place)], padding[2 * (spatial - 1 - place) + 1]
        found = _reflected(self.shape[first + place], before, after, self.device)
        index.append(found.view([-1, *([1] * (spatial - 1 - place))]))
    return aten.index_put.default(_zeros(grad_output, list(self.shape)), index, grad_output, True)


# Indexing without checks of positions

def _clamped(self, indices, both):
    return [
        None if index is None else index.clamp(-size if both else 0, size - 1)
        for index, size in zip(indices, self.shape)
    ]


@register_decomposition(aten._unsafe_masked_index.default)
def _unsafe_masked_index(self, mask, indices, fill):
    """Elements at positions where a mask is true, a number elsewhere."""
    if self.numel() == 0:
        return NotImplemented
    made = aten.index.Tensor(self, _clamped(self, indices, False))
    return aten.masked_fill.Scalar(made, corten.bitwise_not(mask), fill)


@register_decomposition(aten._unsafe_masked_index_put_accumulate.default)
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """Adds elements at positions where a mask is true."""
    if self.numel() == 0:
        return aten.clone.default(self)
    values = aten.masked_fill.Scalar(values, corten.bitwise_not(mask), 0)
    return aten.index_put.default(self, _clamped(self, indices, True), values, True)
