"""Deprecated names of :mod:`corten.amp` for the CPU."""

from __future__ import annotations

import warnings

import corten

__all__ = ["GradScaler", "autocast"]


def _warn(name):
    warnings.warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cpu', "
        "args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(corten.amp.autocast):
    """Deprecated: ``torch.amp.autocast('cpu', ...)``."""

    def __init__(self, enabled=True, dtype=corten.bfloat16, cache_enabled=True):
        _warn("autocast")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(corten.amp.GradScaler):
    """Deprecated: ``torch.amp.GradScaler('cpu', ...)``."""

    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
        enabled=True,
    ):
        _warn("GradScaler")
        super().__init__(
            "cpu", init_scale=init_scale, growth_factor=growth_factor,
            backoff_factor=backoff_factor, growth_interval=growth_interval, enabled=enabled,
        )
