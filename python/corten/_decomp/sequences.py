"""Tensors of evenly spaced numbers and of samples by simpler operators."""

from __future__ import annotations

import math

import corten
from corten import ops

from .images import computed_in
from ._register import is_dense, register_decomposition

aten = ops.aten


def _is_tensor(value):
    return isinstance(value, corten.Tensor)


def _line(start, end, steps, compute, device):
    """Numbers from ``start`` to ``end``, each counted from the nearer one."""
    places = corten.arange(steps, device=device, layout=corten.strided)
    step = (end - start) / (steps - 1)
    up, down = places.to(compute), (steps - 1 - places).to(compute)
    low = start + step * up if _is_tensor(start) else step * up + start
    return corten.where(places < steps / 2, low, end - step * down)


def _spread(start, end, steps, compute, device):
    start, end = (_wide(one) if _is_tensor(one) else one for one in (start, end))
    device = device or next((one.device for one in (start, end) if _is_tensor(one)), None)
    if steps < 2:
        if _is_tensor(start):
            return start.to(compute).reshape([1]).expand([steps]).clone()
        return corten.full([steps], start, dtype=compute, device=device)
    return _line(start, end, steps, compute, device)


def _wide(tensor):
    return tensor.to(corten.complex128 if tensor.is_complex() else corten.float64)


def _as_held(number, dtype):
    """A number as an integer where the result has integers."""
    if dtype.is_floating_point or dtype.is_complex:
        return number
    return number.to(dtype) if _is_tensor(number) else int(number)


def _has_complex(*numbers):
    return any(one.is_complex() if _is_tensor(one) else isinstance(one, complex) for one in numbers)


@register_decomposition([aten.linspace.Tensor_Tensor, aten.linspace.Tensor_Scalar, aten.linspace.Scalar_Tensor])
def linspace_of_tensors(start, end, steps, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Evenly spaced numbers."""
    dtype = dtype or corten.get_default_dtype()
    if _has_complex(start, end) and not dtype.is_complex:
        dtype = dtype.to_complex()
    start, end = _as_held(start, dtype), _as_held(end, dtype)
    made = _spread(start, end, steps, computed_in(dtype), device)
    return made if made.dtype == dtype else made.to(dtype)


@register_decomposition([
    aten.logspace.default, aten.logspace.Tensor_Tensor, aten.logspace.Tensor_Scalar, aten.logspace.Scalar_Tensor,
])
def logspace(start, end, steps, base=10.0, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Powers of a number, evenly spaced."""
    dtype = dtype or corten.get_default_dtype()
    if _has_complex(start, end) and not dtype.is_complex:
        dtype = dtype.to_complex()
    compute = corten.complex128 if dtype.is_complex else corten.float64
    start, end = _as_held(start, dtype), _as_held(end, dtype)
    return aten.pow.Scalar(base, _spread(start, end, steps, compute, device)).to(dtype)


@register_decomposition(aten.hann_window.default)
def hann_window(window_length, *, dtype=None, layout=None, device=None, pin_memory=None):
    """The window of Hann for a periodic signal."""
    return hann_window_periodic(
        window_length, True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory
    )


@register_decomposition(aten.hann_window.periodic)
def hann_window_periodic(window_length, periodic, *, dtype=None, layout=None, device=None, pin_memory=None):
    """The window of Hann."""
    dtype = dtype or corten.get_default_dtype()
    if window_length < 2 or dtype.itemsize < 4 or not dtype.is_floating_point:
        return NotImplemented
    count = window_length + 1 if periodic else window_length
    places = aten.arange.start_step(
        0, count, dtype=dtype, layout=layout or corten.strided, device=device, pin_memory=bool(pin_memory)
    )
    made = corten.cos(places * (math.pi * 2 / (count - 1))) * -0.5 + 0.5
    return aten.slice.Tensor(made, 0, 0, window_length) if periodic else made


@register_decomposition(aten.empty_like.default)
def empty_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    """Memory as it is."""
    kind = memory_format or corten.preserve_format
    order = list(range(self.dim()))
    if kind == corten.preserve_format and not self.is_contiguous():
        if not is_dense(self):
            return NotImplemented
        order.sort(key=lambda dim: -self.stride(dim))
    elif kind in (corten.channels_last, corten.channels_last_3d):
        order = [0, *range(2, self.dim()), 1]
    return aten.empty_permuted.default(
        self.shape, order, dtype=dtype or self.dtype, layout=layout or self.layout, device=device or self.device,
        pin_memory=bool(pin_memory),
    )


@register_decomposition(aten.bernoulli.default)
def bernoulli(self, *, generator=None):
    """1 with the probabilities that elements give."""
    if generator is not None:
        return NotImplemented
    made = aten.rand.default(list(self.shape), dtype=corten.float32, device=self.device, pin_memory=False) < self
    return made.to(self.dtype)


def _axis(size, align_corners, like):
    if size < 2:
        return aten.full.default([size], 0, dtype=like.dtype, layout=corten.strided, device=like.device, pin_memory=False)
    end = 1 if align_corners else (size - 1) / size
    return corten.linspace(-end, end, size, dtype=like.dtype, device=like.device)


@register_decomposition(aten.affine_grid_generator.default)
def affine_grid_generator(theta, size, align_corners):
    """The positions that affine maps give to the points of a grid."""
    count, _, *spatial = size
    rank, grid = len(spatial), None
    for place in reversed(range(rank)):
        shape = [1] * (rank + 1)
        shape[place] = spatial[place]
        axis = _axis(spatial[place], align_corners, theta).view(shape)
        column = rank - 1 - place
        axis = aten.constant_pad_nd.default(axis, [column, rank - column], 0.0)
        grid = axis if grid is None else grid + axis
    one = aten.full.default(
        [1] * (rank + 1), 1, dtype=theta.dtype, layout=corten.strided, device=theta.device, pin_memory=False
    )
    grid = grid + aten.constant_pad_nd.default(one, [rank, 0], 0.0)
    product = grid.view([-1, rank + 1, 1]) * theta.mT.unsqueeze(1)
    return product.sum(-2).view([count, *spatial, rank])


@register_decomposition(aten.upsample_linear1d.default)
def upsample_linear1d(self, output_size, align_corners, scales=None):
    """Elements between those of a sequence, by straight lines."""
    if self.dtype.itemsize < 4 or not self.dtype.is_floating_point:
        return NotImplemented
    size, count = self.shape[-1], output_size[0]
    places = corten.arange(count, device=self.device).to(self.dtype)
    if align_corners:
        found = places * ((size - 1) / (count - 1) if count > 1 else 0)
    else:
        found = (places + 0.5) * (1.0 / scales if scales else size / count) - 0.5
    found = found.clamp(0.0)
    left = aten._to_copy.default(found, dtype=corten.int64)
    right = (left + 1).clamp(None, size - 1)
    low, high = (aten.index.Tensor(self, [None, None, one]) for one in (left, right))
    return low + (high - low) * (found - left).clamp(0.0, 1.0)
