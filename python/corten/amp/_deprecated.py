"""What the deprecated names of ``corten.cpu.amp`` and ``corten.cuda.amp`` share."""

from __future__ import annotations

import warnings

from corten.amp import GradScaler, autocast


def warn(device, name):
    """Say which name of :mod:`corten.amp` replaces the one that was called."""
    warnings.warn(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. "
        f"Please use `torch.amp.{name}('{device}', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class DeprecatedGradScaler(GradScaler):
    """A scaler for the device that the class names."""

    _deprecated_device: str

    def __init__(
        self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
        enabled=True,
    ):
        warn(self._deprecated_device, "GradScaler")
        super().__init__(
            self._deprecated_device, init_scale=init_scale, growth_factor=growth_factor,
            backoff_factor=backoff_factor, growth_interval=growth_interval, enabled=enabled,
        )


class DeprecatedAutocast(autocast):
    """Autocasting for the device that the class names."""

    _deprecated_device: str
    _deprecated_dtype: object

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        warn(self._deprecated_device, "autocast")
        super().__init__(
            self._deprecated_device, enabled=enabled,
            dtype=self._deprecated_dtype if dtype is None else dtype, cache_enabled=cache_enabled,
        )
