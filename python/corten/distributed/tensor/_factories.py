"""Distributed tensors that are made from sizes."""

from __future__ import annotations

import contextlib

import corten
from corten.distributed.tensor._api import DTensor, _checked, _current_mesh
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride
from corten.distributed.tensor._random import own_part, region
from corten.distributed.tensor._utils import compute_local_shape_and_global_offset, normalize_to_torch_size
from corten.distributed.tensor.placement_types import Partial, Replicate

__all__ = ["empty", "full", "linspace", "logspace", "ones", "rand", "randn", "zeros"]


def _made(fill, size, dtype, layout, requires_grad, device_mesh, placements, random=False, whole=False):
    whole = whole or random
    mesh = device_mesh or _current_mesh()
    placements = [Replicate()] * mesh.ndim if placements is None else list(placements)
    if len(placements) != mesh.ndim:
        raise AssertionError("mesh dimension does not match the length of placements")
    if layout != corten.strided:
        raise AssertionError("layout value not supported!")
    placements = _checked(placements, mesh, len(size))
    dtype = corten.get_default_dtype() if dtype is None else dtype
    options = {"dtype": dtype, "device": mesh.device_type}
    if whole and any(isinstance(one, Partial) for one in placements):
        raise AssertionError("elements that differ are no terms of a reduction: Partial is not supported")
    if mesh.get_coordinate() is None:
        local = corten.empty((0,), **options)
    elif whole:
        with region(mesh) if random else contextlib.nullcontext():
            local = own_part(fill(size, **options), mesh, placements)
    else:
        shape, _ = compute_local_shape_and_global_offset(size, mesh, placements)
        local = fill(shape, **options)
        for i, one in enumerate(placements):
            if isinstance(one, Partial):
                local = one._partition_value(local, mesh, i)
    meta = TensorMeta(corten.Size(size), contiguous_stride(size), dtype)
    return DTensor(local, DTensorSpec(mesh, placements, meta), requires_grad=requires_grad)


def ones(*size, dtype=None, layout=corten.strided, requires_grad=False, device_mesh=None, placements=None):
    """A distributed tensor of ones."""
    size = normalize_to_torch_size(size)
    return _made(corten.ones, size, dtype, layout, requires_grad, device_mesh, placements)


def empty(*size, dtype=None, layout=corten.strided, requires_grad=False, device_mesh=None, placements=None):
    """A distributed tensor whose elements have no values yet."""
    size = normalize_to_torch_size(size)
    return _made(corten.empty, size, dtype, layout, requires_grad, device_mesh, placements)


def zeros(*size, requires_grad=False, dtype=None, layout=corten.strided, device_mesh=None, placements=None):
    """A distributed tensor of zeros."""
    size = normalize_to_torch_size(size)
    return _made(corten.zeros, size, dtype, layout, requires_grad, device_mesh, placements)


def full(size, fill_value, *, dtype=None, layout=corten.strided, requires_grad=False, device_mesh=None,
         placements=None):
    """A distributed tensor of one value. The dtype is that of the value where it is not given."""
    size = normalize_to_torch_size((size,))
    dtype = corten.full((), fill_value).dtype if dtype is None else dtype

    def fill(shape, **options):
        return corten.full(shape, fill_value, **options)

    return _made(fill, size, dtype, layout, requires_grad, device_mesh, placements)


def rand(*size, requires_grad=False, dtype=None, layout=corten.strided, device_mesh=None, placements=None):
    """Random numbers from [0, 1): those that one process draws from the same seed."""
    size = normalize_to_torch_size(size)
    return _made(corten.rand, size, dtype, layout, requires_grad, device_mesh, placements, random=True)


def randn(*size, dtype=None, layout=corten.strided, requires_grad=False, device_mesh=None, placements=None):
    """Normally distributed random numbers: those that one process draws from the same seed."""
    size = normalize_to_torch_size(size)
    return _made(corten.randn, size, dtype, layout, requires_grad, device_mesh, placements, random=True)


def linspace(start, end, steps, *, dtype=None, layout=corten.strided, requires_grad=False, device_mesh=None,
             placements=None):
    """`steps` numbers from `start` to `end` at equal distances."""

    def fill(shape, **options):
        return corten.linspace(start, end, steps, **options)

    return _made(fill, corten.Size([steps]), dtype, layout, requires_grad, device_mesh, placements, whole=True)


def logspace(start, end, steps, base=10.0, *, dtype=None, layout=corten.strided, requires_grad=False,
             device_mesh=None, placements=None):
    """Powers of `base` from ``base ** start`` to ``base ** end`` at equal ratios."""

    def fill(shape, **options):
        return corten.logspace(start, end, steps, base, **options)

    return _made(fill, corten.Size([steps]), dtype, layout, requires_grad, device_mesh, placements, whole=True)
