"""Views, factories, indexing and products by simpler operators."""

from __future__ import annotations

import math

import corten
from corten import ops

from ._register import opmath, register_decomposition

aten = ops.aten


@register_decomposition(aten._unsafe_view.default)
def _unsafe_view(self, size):
    """``view``."""
    return aten.view.default(self, size)


@register_decomposition(aten._reshape_alias.default)
def _reshape_alias(self, size, stride):
    """``view``."""
    return aten.view.default(self, size)


@register_decomposition(aten.detach.default)
def nop_decomposition(self):
    """``alias``."""
    return aten.alias.default(self)


@register_decomposition(aten.t.default)
def t(self):
    """The transpose of a matrix."""
    return aten.permute.default(self, [1, 0] if self.dim() == 2 else list(range(self.dim())))


@register_decomposition(aten.transpose.int)
def transpose(self, dim0, dim1):
    """Two dimensions exchanged."""
    if self.dim() <= 1:
        return aten.alias.default(self)
    order = list(range(self.dim()))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return aten.permute.default(self, order)


@register_decomposition(aten.squeeze.default)
def squeeze(self):
    """Without dimensions of size 1."""
    return aten.squeeze.dims(self, list(range(self.dim())))


@register_decomposition(aten.squeeze.dim)
def squeeze_dim(self, dim):
    """Without one dimension, if its size is 1."""
    return aten.squeeze.dims(self, [dim])


@register_decomposition([aten.split.Tensor, aten.unsafe_split.Tensor])
def split(self, split_size, dim=0):
    """Parts of one size."""
    size = self.shape[dim]
    if split_size == 0:
        return [aten.alias.default(self)]
    count = max(1, -(-size // split_size))
    sizes = [split_size] * (count - 1) + [size - split_size * (count - 1)]
    return aten.split_with_sizes.default(self, sizes, dim)


@register_decomposition(aten.unsafe_split_with_sizes.default)
def unsafe_split_with_sizes(self, split_sizes, dim=0):
    """Parts of some sizes."""
    return aten.split_with_sizes.default(self, split_sizes, dim)


@register_decomposition(aten.unbind.int)
def unbind(self, dim=0):
    """The items along a dimension."""
    dim %= max(self.dim(), 1)
    parts = [aten.slice.Tensor(self, dim, place, place + 1) for place in range(self.shape[dim])]
    return [aten.squeeze.dims(part, [dim]) for part in parts]


@register_decomposition(aten.stack.default)
def stack(tensors, dim=0):
    """Tensors along a new dimension."""
    rank = tensors[0].dim()
    dim %= rank + 1
    if dim == rank:
        return aten.cat.default([one.unsqueeze(dim) for one in tensors], dim)
    if len({one.dtype for one in tensors}) > 1:
        return NotImplemented
    shape = list(tensors[0].shape)
    shape.insert(dim, len(tensors))
    return aten.cat.default(list(tensors), dim).view(shape)


@register_decomposition(aten.roll.default)
def roll(self, shifts, dims=()):
    """Elements moved along dimensions, the last ones to the front."""
    if self.numel() == 0 or self.dim() == 0:
        return aten.clone.default(self)
    if not dims:
        return roll(self.flatten(), shifts, [0]).view(self.shape)
    made = self
    for shift, dim in zip(shifts, dims):
        size = made.shape[dim]
        places = aten.fmod.Scalar(corten.arange(size, device=self.device) + ((size - shift) % size), size)
        made = aten.index_select.default(made, dim, places)
    return made


@register_decomposition(aten.rot90.default)
def rot90(self, k=1, dims=(0, 1)):
    """Quarter turns."""
    first, second = dims
    k %= 4
    if k == 1:
        return corten.transpose(corten.flip(self, (second,)), first, second)
    if k == 2:
        return corten.flip(self, dims)
    if k == 3:
        return corten.transpose(corten.flip(self, (first,)), first, second)
    return aten.clone.default(self, memory_format=corten.contiguous_format)


def _where_above(self, diagonal, keep):
    height, width = self.shape[-2:]
    columns = corten.arange(width, device=self.device).unsqueeze(-2)
    place = columns - corten.arange(height, device=self.device).unsqueeze(-1)
    kept = keep(place, diagonal)
    return corten.logical_and(kept, self) if self.dtype == corten.bool else corten.where(kept, self, 0)


@register_decomposition(aten.tril.default)
def tril(self, diagonal=0):
    """The lower triangle."""
    return _where_above(self, diagonal, lambda place, diagonal: place <= diagonal)


@register_decomposition(aten.triu.default)
def triu(self, diagonal=0):
    """The upper triangle."""
    return _where_above(self, diagonal, lambda place, diagonal: place >= diagonal)


@register_decomposition(aten.trace.default)
def trace(self):
    """The sum of the diagonal."""
    return corten.sum(aten.clone.default(corten.diagonal(self), memory_format=corten.contiguous_format))


@register_decomposition(aten.glu.default)
@opmath
def glu(self, dim=-1):
    """One half times the sigmoid of the other."""
    dim %= self.dim()
    half = self.shape[dim] // 2
    left, right = self.narrow(dim, 0, half), self.narrow(dim, half, half)
    return left * corten.sigmoid(right)


@register_decomposition(aten.diag_embed.default)
def diag_embed(self, offset=0, dim1=-2, dim2=-1):
    """Vectors as diagonals of matrices."""
    rank = self.dim() + 1
    dim1, dim2 = dim1 % rank, dim2 % rank
    if dim1 > dim2:
        dim1, dim2, offset = dim2, dim1, -offset
    last = self.shape[-1]
    pad = aten.full.default(
        [*self.shape[:-1], abs(offset)], 0, dtype=self.dtype, layout=corten.strided, device=self.device,
        pin_memory=False,
    ) if offset else None
    size = last + abs(offset)
    if pad is not None:
        self = aten.cat.default([pad, self] if offset > 0 else [self, pad], -1)
    made = self.unsqueeze(dim1).movedim(-1, dim2)
    options = {"device": self.device, "dtype": corten.int64}
    first, second = corten.arange(size, **options), corten.arange(size, **options)
    if offset:
        second = second + offset
    same = first == second.unsqueeze(-1)
    shape = [size if place in (dim1, dim2) else 1 for place in range(rank)]
    if made.dtype == corten.bool:
        return corten.logical_and(same.view(shape), made).clone(memory_format=corten.contiguous_format)
    return corten.where(same.view(shape), made, 0).contiguous()


# Factories

def _options(like=None, dtype=None, layout=None, device=None, pin_memory=None):
    return {
        "dtype": dtype or (corten.get_default_dtype() if like is None else like.dtype),
        "layout": layout or corten.strided,
        "device": device or (corten.device("cpu") if like is None else like.device),
        "pin_memory": bool(pin_memory),
    }


def _full(size, value, options):
    return aten.full.default(size, value, **options)


@register_decomposition(aten.zeros.default)
def zeros(size, **options):
    """0 everywhere."""
    return _full(size, 0, _options(None, **options))


@register_decomposition(aten.ones.default)
def ones(size, **options):
    """1 everywhere."""
    return _full(size, 1, _options(None, **options))


@register_decomposition(aten.new_zeros.default)
def new_zeros(self, size, **options):
    """0 everywhere."""
    return _full(size, 0, _options(self, **options))


@register_decomposition(aten.new_ones.default)
def new_ones(self, size, **options):
    """1 everywhere."""
    return _full(size, 1, _options(self, **options))


@register_decomposition(aten.new_full.default)
def new_full(self, size, fill_value, **options):
    """One number everywhere."""
    return _full(size, fill_value, _options(self, **options))


@register_decomposition(aten.new_empty.default)
def new_empty(self, size, **options):
    """Memory as it is."""
    return aten.empty.memory_format(size, **_options(self, **options))


def _like(self, value, options):
    given = {key: option for key, option in options.items() if option is not None}
    given["pin_memory"] = bool(given.get("pin_memory"))
    given.setdefault("memory_format", corten.preserve_format)
    return aten.full_like.default(self, value, **given)


@register_decomposition(aten.zeros_like.default)
def zeros_like(self, **options):
    """0 everywhere."""
    return _like(self, 0, options)


@register_decomposition(aten.ones_like.default)
def ones_like(self, **options):
    """1 everywhere."""
    return _like(self, 1, options)


@register_decomposition([aten.arange.default])
def arange(end, *, dtype=None, layout=None, device=None, pin_memory=None):
    """0 to ``end``."""
    return arange_start(0, end, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@register_decomposition([aten.arange.start])
def arange_start(start, end, *, dtype=None, layout=None, device=None, pin_memory=None):
    """``start`` to ``end``."""
    return aten.arange.start_step(
        start, end, dtype=dtype, layout=layout or corten.strided, device=device, pin_memory=bool(pin_memory)
    )


@register_decomposition([aten.eye.default])
def eye(n, **options):
    """A unit matrix."""
    return eye_m(n, n, **options)


@register_decomposition([aten.eye.m])
def eye_m(n, m, *, dtype=None, layout=None, device=None, pin_memory=None):
    """The upper left of a unit matrix."""
    small = corten.uint8 if max(n, m) <= 256 else corten.int64
    options = {"device": device, "dtype": small}
    rows, columns = corten.arange(n, **options), corten.arange(m, **options)
    return (rows.unsqueeze(-1) == columns).to(dtype or corten.get_default_dtype())


# Indexing

@register_decomposition(aten.index_add.default)
def index_add(self, dim, index, source, *, alpha=1):
    """Adds items at positions of a dimension."""
    if self.dim() == 0:
        return aten.squeeze.dims(index_add(self.unsqueeze(0), 0, index, source, alpha=alpha), [0])
    source = source if alpha == 1 else source * alpha
    return aten.index_put.default(self, _at(self, dim, index), source, True)


@register_decomposition(aten.index_copy.default)
def index_copy(self, dim, index, source):
    """Replaces items at positions of a dimension."""
    if self.dim() == 0:
        return aten.squeeze.dims(aten.index_put.default(self.unsqueeze(0), [index], source), [0])
    return aten.index_put.default(self, _at(self, dim, index), source)


def _at(self, dim, index):
    return [None] * (dim % self.dim()) + [index]


@register_decomposition(aten.take.default)
def take(self, index):
    """Elements at positions of the flattened tensor."""
    return aten.index.Tensor(self.reshape(-1), [index])


@register_decomposition(aten.select_backward.default)
def select_backward(grad_output, input_sizes, dim, index):
    """The gradient of ``select``."""
    return aten.select_scatter.default(grad_output.new_zeros(input_sizes), grad_output, dim, index)


@register_decomposition(aten.select_scatter.default)
def select_scatter(self, src, dim, index):
    """One item along a dimension replaced."""
    dim %= self.dim()
    shape = [1] * self.dim()
    shape[dim] = -1
    place = corten.arange(self.shape[dim], device=self.device).view(shape) == index % self.shape[dim]
    return corten.where(place, src.unsqueeze(dim).expand(self.shape), self)


@register_decomposition(aten.slice_backward.default)
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    """The gradient of ``slice``."""
    return aten.slice_scatter.default(grad_output.new_zeros(input_sizes), grad_output, dim, start, end, step)


@register_decomposition(aten.diagonal_backward.default)
def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    """The gradient of ``diagonal``."""
    return aten.diagonal_scatter.default(grad_output.new_zeros(input_sizes), grad_output, offset, dim1, dim2)


@register_decomposition(aten.embedding_dense_backward.default)
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    """The gradient of ``embedding``."""
    if scale_grad_by_freq:
        return NotImplemented
    grad = grad_output.to(corten.float32) if grad_output.dtype in (corten.float16, corten.bfloat16) else grad_output
    padding = (indices == padding_idx).unsqueeze(-1)
    made = grad.new_zeros((num_weights, grad.shape[-1]))
    made = aten.index_put.default(made, [indices.to(corten.int64)], corten.where(padding, 0.0, grad), True)
    return made if made.dtype == grad_output.dtype else made.to(grad_output.dtype)


# Products

@register_decomposition(aten.addmm.default)
@opmath
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """``beta * self + alpha * mat1 @ mat2``."""
    beta, alpha = _factors(self, beta, alpha)
    product = aten.mm.default(mat1, mat2) * alpha
    if beta == 0:
        return product
    return product + self.expand(product.shape) * beta


def _factors(self, *factors):
    """Factors as kernels for integers take them."""
    real = self.is_floating_point() or self.is_complex()
    return factors if real else tuple(int(one) if isinstance(one, float) else one for one in factors)


@register_decomposition(aten.baddbmm.default)
@opmath
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    """``beta * self + alpha * batch1 @ batch2``."""
    beta, alpha = _factors(self, beta, alpha)
    product = aten.bmm.default(batch1, batch2)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (self if beta == 1 else self * beta) + product


@register_decomposition(aten.addr.default)
@opmath
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    """``beta * self`` and ``alpha`` times an outer product."""
    if self.dtype == vec1.dtype == vec2.dtype == corten.bool:
        outer = vec1.view([vec1.shape[0], 1]) * vec2
        if not alpha:
            outer = corten.full_like(outer, False)
        return corten.logical_or(self.expand(vec1.shape[0], vec2.shape[0]), outer) if beta else outer
    if beta == 0:
        return alpha * (vec1.view([vec1.shape[0], 1]) * vec2)
    base = beta * self.expand(vec1.shape[0], vec2.shape[0])
    return base + alpha * (vec1.view([vec1.shape[0], 1]) * vec2)


# Images

def _places(size, output, scale, offset, device):
    """The positions that nearest neighbours are taken from."""
    step = size / output if scale is None else 1.0 / scale
    steps = corten.arange(output, dtype=corten.float32, device=device)
    return aten._to_copy.default((steps + offset) * step, dtype=corten.int64)


def _nearest(self, output_size, scales, offset=0.0):
    spatial = len(output_size)
    index = [None, None]
    for place, (output, scale) in enumerate(zip(output_size, scales)):
        found = _places(self.shape[2 + place], output, scale, offset, self.device)
        for _ in range(spatial - 1 - place):
            found = found.unsqueeze(-1)
        index.append(found)
    return aten.index.Tensor(self, index)


@register_decomposition(aten.upsample_nearest1d.default)
def upsample_nearest1d(self, output_size, scales=None):
    """The nearest neighbours of finer positions."""
    return _nearest(self, output_size, [scales])


@register_decomposition(aten.upsample_nearest2d.default)
def upsample_nearest2d(self, output_size, scales_h=None, scales_w=None):
    """The nearest neighbours of finer positions."""
    return _nearest(self, output_size, [scales_h, scales_w])


@register_decomposition(aten.upsample_nearest3d.default)
def upsample_nearest3d(self, output_size, scales_d=None, scales_h=None, scales_w=None):
    """The nearest neighbours of finer positions."""
    return _nearest(self, output_size, [scales_d, scales_h, scales_w])


@register_decomposition(aten._scaled_dot_product_flash_attention_for_cpu.default)
def scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None,
                                               scale=None):
    """Attention written out; the second result is not computed."""
    if dropout_p != 0.0:
        return NotImplemented
    if is_causal:
        # Written out, as the composite operator writes to its mask.
        kept = corten.ones(query.shape[-2], key.shape[-2], dtype=corten.bool, device=query.device).tril()
        attn_mask, is_causal = corten.where(kept, 0.0, -math.inf).to(query.dtype), False
    made = aten._scaled_dot_product_attention_math.default(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale
    )[0]
    lengths = query.new_empty((query.shape[0], query.shape[2], query.shape[1]), dtype=corten.float32)
    order = made.permute(2, 0, 1, 3).contiguous(memory_format=corten.contiguous_format)
    return order.permute(1, 2, 0, 3), lengths


