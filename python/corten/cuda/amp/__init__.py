"""Deprecated names of :mod:`corten.amp` for GPUs."""

from __future__ import annotations

import functools

import corten
from corten.amp._deprecated import DeprecatedAutocast, DeprecatedGradScaler, warn

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(DeprecatedAutocast):
    """Deprecated: ``torch.amp.autocast('cuda', ...)``."""

    _deprecated_device = "cuda"
    _deprecated_dtype = corten.float16


class GradScaler(DeprecatedGradScaler):
    """Deprecated: ``torch.amp.GradScaler('cuda', ...)``."""

    _deprecated_device = "cuda"


def custom_fwd(fwd=None, *, cast_inputs=None):
    """Deprecated: ``torch.amp.custom_fwd(device_type='cuda')``."""
    warn("cuda", "custom_fwd")
    return functools.partial(corten.amp.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """Deprecated: ``torch.amp.custom_bwd(device_type='cuda')``."""
    warn("cuda", "custom_bwd")
    return functools.partial(corten.amp.custom_bwd, device_type="cuda")(bwd)
