"""The deprecated class of :mod:`corten.cpu.amp`."""

from corten.cpu.amp import autocast

__all__ = ["autocast"]
