"""The deprecated class of :mod:`corten.cuda.amp`."""

from corten.cuda.amp import autocast

__all__ = ["autocast"]
