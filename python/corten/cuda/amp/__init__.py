"""Deprecated names of :mod:`corten.amp` for GPUs."""

from __future__ import annotations

import functools
import warnings

import corten

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _warn(name):
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cuda', "
        "args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(corten.amp.autocast):
    """Deprecated: ``torch.amp.autocast('cuda', ...)``."""

    def __init__(self, enabled=True, dtype=corten.float16, cache_enabled=True):
        _warn("autocast")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(corten.amp.GradScaler):
    """Deprecated: ``torch.amp.GradScaler('cuda', ...)``."""

    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
        enabled=True,
    ):
        _warn("GradScaler")
        super().__init__(
            "cuda", init_scale=init_scale, growth_factor=growth_factor,
            backoff_factor=backoff_factor, growth_interval=growth_interval, enabled=enabled,
        )


def custom_fwd(fwd=None, *, cast_inputs=None):
    """Deprecated: ``torch.amp.custom_fwd(device_type='cuda')``."""
    _warn("custom_fwd")
    return functools.partial(corten.amp.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """Deprecated: ``torch.amp.custom_bwd(device_type='cuda')``."""
    _warn("custom_bwd")
    return functools.partial(corten.amp.custom_bwd, device_type="cuda")(bwd)
