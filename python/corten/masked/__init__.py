"""Reductions and normalisations that leave out the elements where a mask is false."""

from __future__ import annotations

from corten.masked import _ops
from corten.masked._ops import *  # noqa: F403

__all__ = sorted(_ops.__all__)
