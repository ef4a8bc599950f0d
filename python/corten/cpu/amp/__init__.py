"""Deprecated names of :mod:`corten.amp` for the CPU."""

from __future__ import annotations

import corten
from corten.amp._deprecated import DeprecatedAutocast, DeprecatedGradScaler

__all__ = ["GradScaler", "autocast"]


class autocast(DeprecatedAutocast):
    """Deprecated: ``torch.amp.autocast('cpu', ...)``."""

    _deprecated_device = "cpu"
    _deprecated_dtype = corten.bfloat16


class GradScaler(DeprecatedGradScaler):
    """Deprecated: ``torch.amp.GradScaler('cpu', ...)``."""

    _deprecated_device = "cpu"
