"""Borders, patches and further indexing by simpler operators."""

from __future__ import annotations

import math

import corten
from corten import ops

from ._register import opmath, register_decomposition
from .shapes import _nearest

aten = ops.aten


def _border(places_of):
    def pad(self, padding):
        spatial = len(padding) // 2
        first = self.dim() - spatial
        made = self
        for place in range(spatial):
            before, after = padding[2 * (spatial - 1 - place)], padding[2 * (spatial - 1 - place) + 1]
            size = self.shape[first + place]
            index = [None] * (first + place) + [places_of(size, before, after, self.device)]
            made = aten.index.Tensor(made, index)
        return made

    return pad


def _reflected(size, before, after, device):
    places = corten.arange(-before, size + after, device=device)
    return size - 1 - (size - 1 - places.abs()).abs()


def _replicated(size, before, after, device):
    return aten.clamp.default(corten.arange(-before, size + after, device=device), 0, size - 1)


_reflection_pad, _replication_pad = _border(_reflected), _border(_replicated)


@register_decomposition([aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default])
def reflection_pad(self, padding):
    """A border that mirrors the inside."""
    return _reflection_pad(self, padding)


@register_decomposition([aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default])
def replication_pad(self, padding):
    """A border of the outermost elements."""
    return _replication_pad(self, padding)


@register_decomposition(aten.index_fill.int_Scalar)
def index_fill(self, dim, index, value):
    """One number at positions of a dimension."""
    number = aten.scalar_tensor.default(
        value, dtype=self.dtype, layout=corten.strided, device=self.device, pin_memory=False,
    )
    return index_fill_tensor(self, dim, index, number)


@register_decomposition(aten.index_fill.int_Tensor)
def index_fill_tensor(self, dim, index, value):
    """One element at positions of a dimension."""
    if self.dim() == 0:
        filled = index_fill_tensor(self.unsqueeze(0), 0, index, value)
        return aten.clone.default(aten.squeeze.dims(filled, [0]))
    dim %= self.dim()
    shape = list(self.shape)
    shape[dim] = index.numel()
    places = [None] * dim + [index.reshape([index.numel()])]
    return aten.index_put.default(self, places, value.to(self.dtype).expand(shape))


@register_decomposition(aten.isin.Tensor_Tensor)
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether elements are among others."""
    if test_elements.numel() >= 10.0 * max(elements.numel(), 1) ** 0.145 and elements.numel() * \
            test_elements.numel() > 1 << 20:
        return NotImplemented
    spread = elements.view([*elements.shape, *([1] * test_elements.dim())])
    dims = list(range(-1, -test_elements.dim() - 1, -1))
    same = spread == test_elements
    found = aten.any.dims(same, dims) if dims else same
    return corten.logical_not(found) if invert else found


@register_decomposition(aten.isin.Scalar_Tensor)
def isin_scalar_tensor(element, test_elements, *, assume_unique=False, invert=False):
    """Whether a number is among elements."""
    one = aten.scalar_tensor.default(element, device=test_elements.device, pin_memory=False)
    return isin(one, test_elements, assume_unique=assume_unique, invert=invert)


@register_decomposition(aten.isin.Tensor_Scalar)
def isin_tensor_scalar(elements, test_element, *, assume_unique=False, invert=False):
    """Whether elements are one number."""
    return elements != test_element if invert else elements == test_element


@register_decomposition(aten.fill.Tensor)
def fill_tensor(self, value):
    """One element everywhere."""
    return aten.copy.default(self, value)


@register_decomposition(aten.zero.default)
def zero(self):
    """0 everywhere."""
    return corten.zeros_like(self)


@register_decomposition(aten.linspace.default)
def linspace(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Evenly spaced numbers."""
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    dtype = dtype or corten.get_default_dtype()
    dtype = dtype.to_complex() if is_complex and not dtype.is_complex else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        start, end = int(start), int(end)
    if steps < 2:
        first = complex(start) if dtype.is_complex else start
        return aten.full.default(
            [steps], first, dtype=dtype, layout=layout or corten.strided, device=device, pin_memory=bool(pin_memory)
        )
    compute = computed_in(dtype)
    step = (end - start) / (steps - 1)
    places = corten.arange(0, steps, device=device)
    up, down = places.to(compute), (steps - 1 - places).to(compute)
    made = corten.where(places < steps / 2, up * step + start, end - down * step)
    return made if made.dtype == dtype else made.to(dtype)


def computed_in(dtype):
    """The dtype in which spaced numbers of another are computed: a wide one for integers, as kernels do."""
    if dtype.is_floating_point or dtype.is_complex:
        return corten.float32 if dtype in (corten.float16, corten.bfloat16) else dtype
    return corten.float64


@register_decomposition(aten.linalg_cross.default)
def linalg_cross(self, other, *, dim=-1):
    """The vector product."""
    left, right = corten.broadcast_tensors(self, other)
    places = corten.arange(3, device=self.device)
    first, second = (places + 1) % 3, (places + 2) % 3
    return left.index_select(dim, first) * right.index_select(dim, second) - left.index_select(
        dim, (places + 2) % 3
    ) * right.index_select(dim, (places + 1) % 3)


@register_decomposition(aten.renorm.default)
def renorm(self, p, dim, maxnorm):
    """Items whose norm is at most ``maxnorm``."""
    others = [place for place in range(self.dim()) if place != dim % self.dim()]
    wide = self.to(corten.float32) if self.dtype in (corten.float16, corten.bfloat16) else self
    norms = corten.linalg.vector_norm(wide, p, others, keepdim=True)
    factor = corten.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)
    return (self * factor.to(self.dtype)).contiguous()


@register_decomposition(aten.unfold_backward.default)
def unfold_backward(grad_in, input_sizes, dim, size, step):
    """The gradient of ``unfold``."""
    if not input_sizes:
        return aten.squeeze.dims(grad_in, [0])
    dim %= len(input_sizes)
    places = corten.arange(input_sizes[dim], device=grad_in.device, dtype=corten.int32).unfold(0, size, step).flatten()
    grad = grad_in.movedim(-1, dim + 1).flatten(dim, dim + 1)
    made = grad_in.new_zeros(input_sizes)
    return aten.index_put.default(made, [None] * dim + [places], grad, True)


@register_decomposition(aten._upsample_nearest_exact1d.default)
def upsample_nearest_exact1d(self, output_size, scales=None):
    """The nearest neighbours of the centres of finer positions."""
    return _nearest(self, output_size, [scales], 0.5)


@register_decomposition(aten._upsample_nearest_exact2d.default)
def upsample_nearest_exact2d(self, output_size, scales_h=None, scales_w=None):
    """The nearest neighbours of the centres of finer positions."""
    return _nearest(self, output_size, [scales_h, scales_w], 0.5)


@register_decomposition(aten._upsample_nearest_exact3d.default)
def upsample_nearest_exact3d(self, output_size, scales_d=None, scales_h=None, scales_w=None):
    """The nearest neighbours of the centres of finer positions."""
    return _nearest(self, output_size, [scales_d, scales_h, scales_w], 0.5)


def _patches(size, kernel, dilation, padding, stride, device):
    """The positions of every patch along one dimension: of patches, then of places in them."""
    last = size + padding * 2 - dilation * (kernel - 1)
    options = {"dtype": corten.int64, "device": device}
    starts = corten.arange(0, last, stride, **options).unsqueeze(0)
    return starts + corten.arange(0, kernel * dilation, dilation, **options).unsqueeze(-1)


@register_decomposition(aten.im2col.default)
def im2col(self, kernel_size, dilation, padding, stride):
    """The patches of images as columns."""
    batched = self.dim() == 4
    image = self if batched else self.unsqueeze(0)
    rows = _patches(image.shape[2], kernel_size[0], dilation[0], padding[0], stride[0], self.device)
    columns = _patches(image.shape[3], kernel_size[1], dilation[1], padding[1], stride[1], self.device)
    padded = aten.constant_pad_nd.default(image, [padding[1], padding[1], padding[0], padding[0]], 0.0)
    found = aten.index.Tensor(padded, [None, None, rows.unsqueeze(-1).unsqueeze(-1), columns])
    found = found.permute(0, 1, 2, 4, 3, 5)
    made = found.reshape(image.shape[0], image.shape[1] * math.prod(kernel_size), rows.shape[1] * columns.shape[1])
    return made if batched else made.squeeze(0)


@register_decomposition(aten.native_group_norm_backward.default)
@opmath
def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):  # noqa: N803
    """The gradients of group normalisation."""
    per_group = C // group
    product = aten.sum.dim_IntList((grad_out * input).view(N, C, HxW), [2])
    total = aten.sum.dim_IntList(grad_out.view(N, C, HxW), [2])
    made = [None, None, None]
    if output_mask[0]:
        share = 1.0 / (HxW * per_group)
        weighted = product if weight is None else product * weight.unsqueeze(0)
        summed = total if weight is None else total * weight.unsqueeze(0)
        weighted = aten.sum.dim_IntList(weighted.reshape(N, group, per_group), [2])
        summed = aten.sum.dim_IntList(summed.reshape(N, group, per_group), [2])
        scale = rstd.unsqueeze(-1)
        scale = scale.expand(N, group, per_group) if weight is None else scale * weight.reshape(1, group, per_group)
        second = (summed * mean - weighted) * rstd * rstd * rstd * share
        third = -second * mean - summed * rstd * share
        values = grad_out.reshape(N, group, per_group, HxW) * scale.unsqueeze(-1)
        values = values + input.reshape(N, group, per_group, HxW) * second.unsqueeze(-1).unsqueeze(-1)
        made[0] = (values + third.unsqueeze(-1).unsqueeze(-1)).reshape(input.shape)
    if output_mask[1]:
        shifted = product.view(N, group, per_group) - total.view(N, group, per_group) * mean.unsqueeze(-1)
        made[1] = aten.sum.dim_IntList(shifted * rstd.unsqueeze(-1), [0]).reshape(C)
    if output_mask[2]:
        made[2] = aten.sum.dim_IntList(total, [0])
    return tuple(made)
